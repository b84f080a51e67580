/* What every test program begins with: cmocka, the library, and assertions about statuses and messages. */
#ifndef KZ_TESTS_TEST_H
#define KZ_TESTS_TEST_H

#include <kazahana.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Shows the status by its name. */
#define assert_status(call, expected)                                                                                  \
    do {                                                                                                               \
        kz_status got_ = (call);                                                                                       \
        if (got_ != (expected))                                                                                        \
            fail_msg("%s gave %s, not %s", #call, kz_status_name(got_), #expected);                                    \
    } while (0)

#define assert_ok(call) assert_status(call, KZ_OK)

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("'%s' is not in '%s'", part, text);                                                               \
    } while (0)

#endif
