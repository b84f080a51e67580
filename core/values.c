/* Values as people write them: durations, and names of services. */
#include "core/values.h"
#include "core/error.h"

#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

kz_status kz__duration_parse(const char *text, int64_t *ms, kz_error *err)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value < INT64_C(1000000000000); p++)
        value = value * 10 + (*p - '0');
    if (p > text)
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (strcmp(p, units[i].name) == 0 && value <= INT64_MAX / units[i].ms) {
                *ms = value * units[i].ms;
                return KZ_OK;
            }
    return kz__fail(err, KZ_INVALID, "\"%s\" is not a duration: write a number and ms, s, min, h or d, as in 10min",
                    text);
}

kz_status kz__service_name_check(const char *name, kz_error *err)
{
    size_t length = strlen(name);
    if (length && length < KZ_SERVICE_SIZE && strspn(name, NAME_CHARS) == length)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "\"%.70s\" is not the name of a service: 1 to %d of a-z A-Z 0-9 . _ -", name,
                    KZ_SERVICE_SIZE - 1);
}
