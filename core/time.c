/* Times as text and back: the Gregorian calendar, UTC, without the C library's zones and locales. */
#include "core/time.h"

#include "core/error.h"

#include <string.h>

enum {
    DAY_S = 86400,
    DAYS_IN_400_YEARS = 146097,
    MARCH_0000_TO_1970 = 719468, /* days from 0000-03-01 to 1970-01-01 */
};

typedef struct date {
    int64_t year;
    int month, day;
} date;

/* Years are counted from March, so that the leap day is the last of its year and the months before it have a pattern
 * (153 days in every five months). */
static date date_of_days(int64_t days)
{
    days += MARCH_0000_TO_1970;
    int64_t cycle = days / DAYS_IN_400_YEARS;
    int64_t in_cycle = days % DAYS_IN_400_YEARS;
    if (in_cycle < 0) {
        in_cycle += DAYS_IN_400_YEARS;
        cycle--;
    }
    int64_t year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int in_year = (int)(in_cycle - (365 * year + year / 4 - year / 100));
    int month = (5 * in_year + 2) / 153;
    int day = in_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    return (date){cycle * 400 + year + (month <= 2), month, day};
}

/* For years from 0 on. */
static int64_t days_of_date(date d)
{
    int64_t year = d.year - (d.month <= 2);
    int64_t cycle = (year < 0 ? year - 399 : year) / 400;
    int64_t in_cycle = year - cycle * 400;
    int in_year = (153 * (d.month > 2 ? d.month - 3 : d.month + 9) + 2) / 5 + d.day - 1;
    return cycle * DAYS_IN_400_YEARS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + in_year - MARCH_0000_TO_1970;
}

static int days_in_month(int64_t year, int month)
{
    if (month == 2)
        return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

static char *put_number(char *at, uint64_t number, int width)
{
    for (int i = width; i-- > 0; number /= 10)
        at[i] = (char)('0' + number % 10);
    return at + width;
}

static char *put_year(char *at, int64_t year)
{
    if (year >= 0 && year <= 9999)
        return put_number(at, (uint64_t)year, 4);
    *at++ = year < 0 ? '-' : '+';
    uint64_t number = (uint64_t)(year < 0 ? -year : year);
    int width = 4;
    for (uint64_t limit = 10000; number >= limit; limit *= 10)
        width++;
    return put_number(at, number, width);
}

/* A time given in units of which `per_second` make a second, with that many `decimals`. The longest, INT64_MIN in
 * milliseconds, is `-292275055-05-16T16:47:04.192Z`: 30 characters. */
static void put_time(char *at, int64_t time, int64_t per_second, int decimals)
{
    int64_t days = time / (DAY_S * per_second);
    int64_t rest = time % (DAY_S * per_second);
    if (rest < 0) {
        rest += DAY_S * per_second;
        days--;
    }
    date d = date_of_days(days);
    uint64_t second = (uint64_t)(rest / per_second);
    at = put_year(at, d.year);
    *at++ = '-';
    at = put_number(at, (uint64_t)d.month, 2);
    *at++ = '-';
    at = put_number(at, (uint64_t)d.day, 2);
    *at++ = 'T';
    at = put_number(at, second / 3600, 2);
    *at++ = ':';
    at = put_number(at, second / 60 % 60, 2);
    *at++ = ':';
    at = put_number(at, second % 60, 2);
    *at++ = '.';
    at = put_number(at, (uint64_t)(rest % per_second), decimals);
    *at++ = 'Z';
    *at = 0;
}

void kz_time_text(int64_t unix_ms, char text[KZ_AT_LEAST(KZ_TIME_TEXT_SIZE)])
{
    put_time(text, unix_ms, 1000, 3);
}

void kz__time_text_ns(int64_t unix_ns, char text[static KZ__TIME_TEXT_NS_SIZE])
{
    put_time(text, unix_ns, 1000000000, 9);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes exactly `width` digits. */
static bool take_number(const char **at, int width, int *number)
{
    int value = 0;
    for (int i = 0; i < width; i++) {
        if (!is_digit((*at)[i]))
            return false;
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += width;
    *number = value;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static kz_status fail_shape(kz_error *err, const char *text)
{
    return kz__fail(err, KZ_INVALID,
                    "'%.60s' is no time: wanted is 2026-01-01, 2026-01-01T00:00:00Z, 2026-01-01T09:00:00.000+09:00 or "
                    "Unix milliseconds",
                    text);
}

static kz_status fail_part(kz_error *err, const char *text, const char *part, int value, int first, int last)
{
    return kz__fail(err, KZ_INVALID, "'%.60s' is no time: %s %d is not in %d..%d", text, part, value, first, last);
}

static kz_status take_date(const char *text, const char **at, int64_t *days, kz_error *err)
{
    int year, month, day;
    if (!take_number(at, 4, &year) || !take_char(at, '-') || !take_number(at, 2, &month) || !take_char(at, '-') ||
        !take_number(at, 2, &day))
        return fail_shape(err, text);
    if (year < 1)
        return fail_part(err, text, "year", year, 1, 9999);
    if (month < 1 || month > 12)
        return fail_part(err, text, "month", month, 1, 12);
    if (day < 1 || day > days_in_month(year, month))
        return fail_part(err, text, "day", day, 1, days_in_month(year, month));
    *days = days_of_date((date){year, month, day});
    return KZ_OK;
}

/* Up to nine decimals; what is finer than a millisecond is cut off. */
static bool take_decimals(const char **at, int *ms)
{
    *ms = 0;
    if (!take_char(at, '.'))
        return true;
    int count = 0;
    for (; is_digit(**at); ++*at, count++)
        if (count < 3)
            *ms = *ms * 10 + (**at - '0');
    for (int i = count; i < 3; i++)
        *ms *= 10;
    return count >= 1 && count <= 9;
}

static kz_status take_clock(const char *text, const char **at, int64_t *ms, kz_error *err)
{
    int hour, minute, second, decimals_ms;
    if (!take_number(at, 2, &hour) || !take_char(at, ':') || !take_number(at, 2, &minute) || !take_char(at, ':') ||
        !take_number(at, 2, &second) || !take_decimals(at, &decimals_ms))
        return fail_shape(err, text);
    if (hour > 23)
        return fail_part(err, text, "hour", hour, 0, 23);
    if (minute > 59)
        return fail_part(err, text, "minute", minute, 0, 59);
    if (second > 59)
        return fail_part(err, text, "second", second, 0, 59);
    *ms = ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + decimals_ms;
    return KZ_OK;
}

static kz_status take_offset(const char *text, const char **at, int64_t *offset_ms, kz_error *err)
{
    *offset_ms = 0;
    if (take_char(at, 'Z') || take_char(at, 'z'))
        return KZ_OK;
    if (**at == 0)
        return kz__fail(err, KZ_INVALID, "'%.60s' names no zone: end it with Z or an offset such as +09:00", text);
    int sign = **at == '-' ? -1 : 1;
    int hour, minute;
    if ((!take_char(at, '-') && !take_char(at, '+')) || !take_number(at, 2, &hour) || !take_char(at, ':') ||
        !take_number(at, 2, &minute))
        return fail_shape(err, text);
    if (hour > 23)
        return fail_part(err, text, "offset hour", hour, 0, 23);
    if (minute > 59)
        return fail_part(err, text, "offset minute", minute, 0, 59);
    *offset_ms = sign * (hour * 60 + minute) * INT64_C(60000);
    return KZ_OK;
}

static kz_status parse_unix_ms(const char *text, int64_t *unix_ms, kz_error *err)
{
    bool negative = text[0] == '-';
    int64_t value = 0;
    for (const char *at = text + negative; *at; at++) {
        int digit = negative ? '0' - *at : *at - '0';
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value))
            return kz__fail(err, KZ_INVALID, "%.60s milliseconds do not fit in 64 bits", text);
    }
    *unix_ms = value;
    return KZ_OK;
}

kz_status kz_time_parse(const char *text, int64_t *unix_ms, kz_error *err)
{
    const char *digits = text + (text[0] == '-');
    if (is_digit(*digits) && digits[strspn(digits, "0123456789")] == 0)
        return parse_unix_ms(text, unix_ms, err);

    const char *at = text;
    int64_t days = 0, clock_ms = 0, offset_ms = 0;
    kz_status status = take_date(text, &at, &days, err);
    if (status)
        return status;
    if (*at) {
        if (!take_char(&at, 'T') && !take_char(&at, 't') && !take_char(&at, ' '))
            return fail_shape(err, text);
        if ((status = take_clock(text, &at, &clock_ms, err)) || (status = take_offset(text, &at, &offset_ms, err)))
            return status;
        if (*at)
            return fail_shape(err, text);
    }
    int64_t ms = days * DAY_S * 1000 + clock_ms - offset_ms;
    const int64_t first_ms = INT64_C(-62135596800000), last_ms = INT64_C(253402300799999);
    if (ms < first_ms || ms > last_ms)
        return kz__fail(err, KZ_INVALID, "'%.60s' is outside the years 0001 to 9999 in UTC", text);
    *unix_ms = ms;
    return KZ_OK;
}
