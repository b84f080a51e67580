/* Times as text and back. */
#include "core/time.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define FIRST_MS INT64_C(-62135596800000) /* 0001-01-01 */
#define LAST_MS  INT64_C(253402300799999) /* the last of 9999 */

static void assert_text(int64_t unix_ms, const char *expected)
{
    char text[KZ_TIME_TEXT_SIZE];
    kz_time_text(unix_ms, text);
    assert_string_equal(text, expected);
}

static void assert_reads(const char *text, int64_t expected)
{
    int64_t unix_ms = 4711;
    kz_error err = {.message = ""};
    if (kz_time_parse(text, &unix_ms, &err) != KZ_OK || unix_ms != expected)
        fail_msg("'%s' reads as %" PRId64 ", not %" PRId64 " (%s)", text, unix_ms, expected, err.message);
}

static void assert_refused(const char *text, const char *part)
{
    int64_t unix_ms = 4711;
    kz_error err;
    assert_int_equal(kz_time_parse(text, &unix_ms, &err), KZ_INVALID);
    assert_contains(err.message, part);
    assert_true(unix_ms == 4711);
}

static void known_instants_have_known_texts(void **state)
{
    (void)state;
    assert_text(0, "1970-01-01T00:00:00.000Z");
    assert_text(-1, "1969-12-31T23:59:59.999Z");
    assert_text(1767225600000, "2026-01-01T00:00:00.000Z");
    assert_text(951782400000, "2000-02-29T00:00:00.000Z");
    assert_text(1288834974657, "2010-11-04T01:42:54.657Z");
    assert_text(FIRST_MS, "0001-01-01T00:00:00.000Z");
    assert_text(LAST_MS, "9999-12-31T23:59:59.999Z");
}

static void years_beyond_four_digits_carry_a_sign_and_fit(void **state)
{
    (void)state;
    assert_text(FIRST_MS - 1, "0000-12-31T23:59:59.999Z");
    assert_text(LAST_MS + 1, "+10000-01-01T00:00:00.000Z");
    assert_text(INT64_MAX, "+292278994-08-17T07:12:55.807Z");
    assert_text(INT64_MIN, "-292275055-05-16T16:47:04.192Z");
}

static void nanoseconds_have_nine_decimals(void **state)
{
    (void)state;
    char text[KZ__TIME_TEXT_NS_SIZE];
    kz__time_text_ns(INT64_C(1257894000000000001), text);
    assert_string_equal(text, "2009-11-10T23:00:00.000000001Z");
    kz__time_text_ns(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999999Z");
    kz__time_text_ns(INT64_MAX, text);
    assert_string_equal(text, "2262-04-11T23:47:16.854775807Z");
    kz__time_text_ns(INT64_MIN, text);
    assert_string_equal(text, "1677-09-21T00:12:43.145224192Z");
}

static void every_instant_of_four_digit_years_reads_back(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < 1000000; i++) {
        int64_t unix_ms = FIRST_MS + (int64_t)(test_random(&seed) % (uint64_t)(LAST_MS - FIRST_MS + 1));
        char text[KZ_TIME_TEXT_SIZE];
        int64_t back = 0;
        kz_time_text(unix_ms, text);
        if (kz_time_parse(text, &back, NULL) != KZ_OK || back != unix_ms)
            fail_msg("%" PRId64 " is '%s', which reads as %" PRId64, unix_ms, text, back);
    }
}

static void every_day_agrees_with_the_c_library(void **state)
{
    (void)state;
    for (int64_t day = FIRST_MS / 86400000; day <= LAST_MS / 86400000; day++) {
        time_t seconds = (time_t)(day * 86400);
        struct tm tm;
        gmtime_r(&seconds, &tm);
        char expected[64], text[KZ_TIME_TEXT_SIZE];
        snprintf(expected, sizeof expected, "%04d-%02d-%02dT00:00:00.000Z", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday);
        kz_time_text(day * 86400000, text);
        if (strcmp(text, expected) != 0)
            fail_msg("day %" PRId64 " is '%s', not '%s'", day, text, expected);
    }
}

static void a_date_alone_is_midnight_utc(void **state)
{
    (void)state;
    assert_reads("2026-01-01", 1767225600000);
    assert_reads("0001-01-01", FIRST_MS);
    assert_reads("2024-02-29", 1709164800000);
    assert_reads("2000-02-29", 951782400000);
}

static void decimals_may_be_fewer_and_finer_ones_are_cut_off(void **state)
{
    (void)state;
    assert_reads("2026-01-01T00:00:00Z", 1767225600000);
    assert_reads("2026-01-01t00:00:00z", 1767225600000);
    assert_reads("2026-01-01 00:00:00Z", 1767225600000);
    assert_reads("2026-01-01T00:00:00.5Z", 1767225600500);
    assert_reads("2026-01-01T00:00:00.05Z", 1767225600050);
    assert_reads("2026-01-01T00:00:00.123456789Z", 1767225600123);
    assert_reads("1969-12-31T23:59:59.9999Z", -1);
}

static void offsets_are_taken_off(void **state)
{
    (void)state;
    assert_reads("2026-01-01T09:00:00+09:00", 1767225600000);
    assert_reads("2025-12-31T18:30:00-05:30", 1767225600000);
    assert_reads("2026-01-01T00:00:00.000-00:00", 1767225600000);
}

static void plain_digits_are_unix_milliseconds(void **state)
{
    (void)state;
    assert_reads("0", 0);
    assert_reads("-1", -1);
    assert_reads("1767225600000", 1767225600000);
    assert_reads("9223372036854775807", INT64_MAX);
    assert_reads("-9223372036854775808", INT64_MIN);
    assert_refused("9223372036854775808", "9223372036854775808");
    assert_refused("-9223372036854775809", "64 bits");
}

static void what_is_no_time_is_refused_with_the_part_that_is_wrong(void **state)
{
    (void)state;
    assert_refused("", "no time");
    assert_refused("-", "no time");
    assert_refused("+5", "no time");
    assert_refused("yesterday", "'yesterday'");
    assert_refused("2026-1-1", "no time");
    assert_refused("2026-13-01", "month 13");
    assert_refused("2026-00-01", "month 0");
    assert_refused("2026-02-29", "day 29 is not in 1..28");
    assert_refused("1900-02-29", "day 29");
    assert_refused("2026-04-31", "day 31 is not in 1..30");
    assert_refused("0000-01-01", "year 0");
    assert_refused("2026-01-01T24:00:00Z", "hour 24");
    assert_refused("2026-01-01T00:60:00Z", "minute 60");
    assert_refused("2026-01-01T00:00:60Z", "second 60");
    assert_refused("2026-01-01T00:00:00", "no zone");
    assert_refused("2026-01-01T00:00Z", "no time");
    assert_refused("2026-01-01T00:00:00.Z", "no time");
    assert_refused("2026-01-01T00:00:00.1234567890Z", "no time");
    assert_refused("2026-01-01T00:00:00+0900", "no time");
    assert_refused("2026-01-01T00:00:00+24:00", "offset hour 24");
    assert_refused("2026-01-01T00:00:00+00:60", "offset minute 60");
    assert_refused("2026-01-01T00:00:00Zx", "no time");
    assert_refused("2026-01-01 ", "no time");
    assert_refused("0001-01-01T00:00:00+00:01", "outside");
    assert_refused("9999-12-31T23:59:59-00:01", "outside");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_instants_have_known_texts),
        cmocka_unit_test(years_beyond_four_digits_carry_a_sign_and_fit),
        cmocka_unit_test(nanoseconds_have_nine_decimals),
        cmocka_unit_test(every_instant_of_four_digit_years_reads_back),
        cmocka_unit_test(every_day_agrees_with_the_c_library),
        cmocka_unit_test(a_date_alone_is_midnight_utc),
        cmocka_unit_test(decimals_may_be_fewer_and_finer_ones_are_cut_off),
        cmocka_unit_test(offsets_are_taken_off),
        cmocka_unit_test(plain_digits_are_unix_milliseconds),
        cmocka_unit_test(what_is_no_time_is_refused_with_the_part_that_is_wrong),
    };
    return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
