/* Values as people write them: numbers, durations, choices, names. Numbers and durations with a unit are public:
 * kz_number_parse, kz_duration_parse. */
#ifndef KZ_CORE_VALUES_H
#define KZ_CORE_VALUES_H

#include <kazahana.h>

/* Milliseconds, with or without a unit; "forever" and whatever is negative give -1. */
kz_status kz__ms_parse(const char *text, int64_t max_ms, int64_t *ms, kz_error *err);

/* One of "never|fenced|any": 0, 1, 2. */
kz_status kz__choice_parse(const char *text, const char *choices, int *choice, kz_error *err);

/* 1 to 63 characters of a-z A-Z 0-9 . _ - */
kz_status kz__service_name_check(const char *name, kz_error *err);

#endif
