/* Values as people write them: numbers, durations, choices, names. The message shows the value and what would be right;
 * which setting it was is for the caller to say. */
#include "core/values.h"
#include "core/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Reads digits from `text` on; `rest` is what follows them. False: there are none, or too many. */
static bool read_digits(const char *text, uint64_t *number, const char **rest)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return false;
    *number = sum;
    *rest = at;
    return at != text;
}

kz_status kz_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number, kz_error *err)
{
    uint64_t read;
    const char *rest;
    if (!read_digits(text, &read, &rest) || *rest || read < min || read > max)
        return kz__fail(err, KZ_INVALID, "\"%.100s\" is not a number from %" PRIu64 " to %" PRIu64, text, min, max);
    *number = read;
    return KZ_OK;
}

static bool find_unit(const char *name, int64_t *ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1},    {"s", 1000},    {"sec", 1000},   {"min", 60000},
                 {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {"w", 604800000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(name, units[i].name) == 0) {
            *ms = units[i].ms;
            return true;
        }
    return false;
}

/* In the largest unit that it is a whole number of. */
static const char *duration_text(char text[static 24], int64_t ms)
{
    static const char *const names[] = {"ms", "s", "min", "h", "d"};
    static const int64_t steps[] = {1000, 60, 60, 24};
    size_t unit = 0;
    while (unit < 4 && ms && ms % steps[unit] == 0)
        ms /= steps[unit++];
    snprintf(text, 24, "%" PRId64 " %s", ms, names[unit]);
    return text;
}

/* The unit must be there: some would read "10" as seconds, others as milliseconds. */
kz_status kz_duration_parse(const char *text, int64_t min_ms, int64_t max_ms, int64_t *ms, kz_error *err)
{
    uint64_t count;
    const char *unit;
    int64_t unit_ms, read_ms;
    if (!read_digits(text, &count, &unit) || !find_unit(unit, &unit_ms))
        return kz__fail(err, KZ_INVALID,
                        "\"%.100s\" is not a duration: write a number and ms, s, min, h or d, as in 10s", text);
    if (__builtin_mul_overflow(count, unit_ms, &read_ms) || read_ms < min_ms || read_ms > max_ms)
        return kz__fail(err, KZ_INVALID, "\"%.100s\" is not between %s and %s", text,
                        duration_text((char[24]){0}, min_ms), duration_text((char[24]){0}, max_ms));
    *ms = read_ms;
    return KZ_OK;
}

kz_status kz__ms_parse(const char *text, int64_t max_ms, int64_t *ms, kz_error *err)
{
    uint64_t count;
    const char *rest;
    if (read_digits(text, &count, &rest) && !*rest && count <= (uint64_t)max_ms) {
        *ms = (int64_t)count;
        return KZ_OK;
    }
    if (strcmp(text, "forever") == 0 || (*text == '-' && read_digits(text + 1, &count, &rest) && !*rest)) {
        *ms = -1;
        return KZ_OK;
    }
    return kz_duration_parse(text, 0, max_ms, ms, err);
}

kz_status kz__choice_parse(const char *text, const char *choices, int *choice, kz_error *err)
{
    char all[128];
    size_t length = strlen(text), used = 0;
    int index = 0;
    for (const char *at = choices;; index++) {
        size_t name = strcspn(at, "|");
        if (name == length && memcmp(at, text, name) == 0) {
            *choice = index;
            return KZ_OK;
        }
        int wrote = snprintf(all + used, sizeof all - used, "%s%.*s", used ? ", " : "", (int)name, at);
        used += wrote > 0 && used + (size_t)wrote < sizeof all ? (size_t)wrote : 0;
        if (!at[name])
            break;
        at += name + 1;
    }
    return kz__fail(err, KZ_INVALID, "\"%.100s\" is not one of %s", text, all);
}

kz_status kz__service_name_check(const char *name, kz_error *err)
{
    size_t length = strlen(name);
    if (length && length < KZ_SERVICE_SIZE && strspn(name, NAME_CHARS) == length)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "\"%.70s\" is not the name of a service: 1 to %d of a-z A-Z 0-9 . _ -", name,
                    KZ_SERVICE_SIZE - 1);
}
