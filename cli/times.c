/* Times and numbers as people read and write them. */
#include "cli/times.h"

#include "cli/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t times_wall_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

int64_t times_boot_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

kz_status times_parse(const char *text, int64_t wall_ms, int64_t *unix_ms, kz_error *err)
{
    int64_t offset_ms = 0;
    bool relative = (text[0] == '-' || text[0] == '+') && units_duration_with_unit_ms(text, &offset_ms);
    if (strcmp(text, "now") != 0 && !relative)
        return kz_time_parse(text, unix_ms, err);
    int64_t sum_ms;
    if (__builtin_add_overflow(wall_ms, offset_ms, &sum_ms)) {
        err->status = KZ_INVALID;
        snprintf(err->message, sizeof err->message, "%s is too far away", text);
        return KZ_INVALID;
    }
    *unix_ms = sum_ms;
    return KZ_OK;
}

void times_age(int64_t unix_ms, int64_t wall_ms, char text[static TIMES_TEXT_SIZE])
{
    static const struct {
        uint64_t ms;
        const char *name;
    } steps[] = {
        {31556952000, "year"}, {2629746000, "month"}, {86400000, "day"},
        {3600000, "hour"},     {60000, "minute"},     {1000, "second"},
    };
    uint64_t distance_ms =
        unix_ms < wall_ms ? (uint64_t)wall_ms - (uint64_t)unix_ms : (uint64_t)unix_ms - (uint64_t)wall_ms;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t count = distance_ms / steps[i].ms;
        if (!count)
            continue;
        const char *plural = count == 1 ? "" : "s";
        if (unix_ms < wall_ms)
            snprintf(text, TIMES_TEXT_SIZE, "%" PRIu64 " %s%s ago", count, steps[i].name, plural);
        else
            snprintf(text, TIMES_TEXT_SIZE, "in %" PRIu64 " %s%s", count, steps[i].name, plural);
        return;
    }
    snprintf(text, TIMES_TEXT_SIZE, "now");
}

void times_span_text(int64_t span_ms, char text[static TIMES_TEXT_SIZE])
{
    int64_t s = span_ms / 1000, min = s / 60, h = min / 60, d = h / 24;
    if (d)
        snprintf(text, TIMES_TEXT_SIZE, "%" PRId64 "d%02" PRId64 "h", d, h % 24);
    else if (h)
        snprintf(text, TIMES_TEXT_SIZE, "%" PRId64 "h%02" PRId64 "m", h, min % 60);
    else if (min)
        snprintf(text, TIMES_TEXT_SIZE, "%" PRId64 "m%02" PRId64 "s", min, s % 60);
    else if (s >= 10)
        snprintf(text, TIMES_TEXT_SIZE, "%" PRId64 "s", s);
    else
        snprintf(text, TIMES_TEXT_SIZE, "%" PRId64 ".%" PRId64 "s", s, span_ms % 1000 / 100);
}

void times_ns_text(int64_t unix_ns, char text[static TIMES_TEXT_SIZE])
{
    char ms_text[KZ_TIME_TEXT_SIZE];
    kz_time_text(unix_ns / 1000000, ms_text);
    ms_text[strcspn(ms_text, "Z")] = '\0';
    snprintf(text, TIMES_TEXT_SIZE, "%s%06dZ", ms_text, (int)(unix_ns % 1000000));
}

void times_day_text(int64_t unix_ms, char text[static TIMES_TEXT_SIZE])
{
    char whole[KZ_TIME_TEXT_SIZE];
    kz_time_text(unix_ms, whole);
    snprintf(text, TIMES_TEXT_SIZE, "%.*s", (int)strcspn(whole, "T"), whole);
}

const char *number_grouped(uint64_t number, char text[static NUMBER_GROUPED_SIZE])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    char *at = text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return text;
}
