/* Filling a caller's kz_error. */
#ifndef KZ_CORE_ERROR_H
#define KZ_CORE_ERROR_H

#include <kazahana.h>

/* Writes status and message (err may be NULL) and returns the status, so that a failure is one statement. */
kz_status kz__fail(kz_error *err, kz_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
