/* Numbers, durations and rates as people write them. Every function reads a text whole or returns false. */
#include "cli/units.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t ms;
} units[] = {
    {"ms", 1},          {"s", 1000},        {"sec", 1000},         {"m", 60 * 1000},
    {"min", 60 * 1000}, {"h", 3600 * 1000}, {"d", 86400 * 1000LL}, {"w", 7 * 86400 * 1000LL},
};

static bool find_unit_ms(const char *name, int64_t *ms)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0) {
            *ms = units[i].ms;
            return true;
        }
    return false;
}

/* Digits from `text` on; `end` is what follows them. */
static bool read_digits(const char *text, uint64_t *number, const char **end)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return false;
    *number = sum;
    *end = at;
    return at != text;
}

bool units_number(const char *text, uint64_t *number)
{
    const char *end;
    uint64_t read;
    if (!read_digits(text, &read, &end) || *end)
        return false;
    *number = read;
    return true;
}

static bool read_duration_ms(const char *text, bool unit_needed, int64_t *ms)
{
    bool negative = *text == '-';
    const char *end;
    uint64_t count;
    int64_t unit_ms = 1, read_ms;
    if (!read_digits(text + (negative || *text == '+'), &count, &end))
        return false;
    if ((*end || unit_needed) && !find_unit_ms(end, &unit_ms))
        return false;
    if (__builtin_mul_overflow(count, unit_ms, &read_ms))
        return false;
    *ms = negative ? -read_ms : read_ms;
    return true;
}

bool units_duration_ms(const char *text, int64_t *ms)
{
    return read_duration_ms(text, false, ms);
}

bool units_duration_with_unit_ms(const char *text, int64_t *ms)
{
    return read_duration_ms(text, true, ms);
}

bool units_rate(const char *text, double *per_second)
{
    /* strtod alone would also take "inf", hexadecimal and leading blanks. */
    size_t length = strspn(text, "0123456789.");
    if (!length || (text[length] && text[length] != '/'))
        return false;
    char *end;
    double count = strtod(text, &end);
    int64_t unit_ms = 1000;
    if (end != text + length || !(count > 0) || count > 1e12)
        return false;
    if (*end && !find_unit_ms(end + 1, &unit_ms))
        return false;
    *per_second = count * 1000 / (double)unit_ms;
    return true;
}
