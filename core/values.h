/* Values as people write them: durations, and names of services. */
#ifndef KZ_CORE_VALUES_H
#define KZ_CORE_VALUES_H

#include <kazahana.h>

/* "10min", "2s", "1h", "500ms", "7d". */
kz_status kz__duration_parse(const char *text, int64_t *ms, kz_error *err);

/* 1 to 63 characters of a-z A-Z 0-9 . _ - */
kz_status kz__service_name_check(const char *name, kz_error *err);

#endif
