/* The ID clock: the source's time, carried on by the boot clock. */
#include "tests/test.h"

#include "core/idclock.h"
#include "tests/random.h"

#define MS       INT64_C(1000000)
#define DAY_NS   (INT64_C(86400000) * MS)
#define START_MS INT64_C(1793700000000)

static void a_reading_is_carried_on_by_the_boot_clock(void **state)
{
    (void)state;
    kz__idclock clock = {0};
    assert_false(clock.set);
    kz__idclock_sample(&clock, START_MS, 5 * MS);
    assert_true(clock.set);
    assert_int_equal(kz__idclock_read(&clock, 5 * MS), START_MS * MS);
    assert_int_equal(kz__idclock_read(&clock, 5 * MS + 123), START_MS * MS + 123);
    assert_int_equal(kz__idclock_read(&clock, 5 * MS + DAY_NS), START_MS * MS + DAY_NS);
}

static void it_goes_500_ppm_slower_than_the_boot_clock_if_the_source_is_elsewhere(void **state)
{
    (void)state;
    kz__idclock clock = {.drift_ppm = KZ__DRIFT_PPM};
    kz__idclock_sample(&clock, START_MS, 0);
    /* 15 ms in the 30 s between two syncs. */
    assert_int_equal(kz__idclock_read(&clock, 30000 * MS), START_MS * MS + 30000 * MS - 15 * MS);
    assert_int_equal(kz__idclock_read(&clock, DAY_NS), START_MS * MS + DAY_NS - DAY_NS / 2000);
}

/* Sources whose clock runs up to 500 ppm slower or faster than ours, and answers that were on their way for a while. */
static void it_is_never_ahead_of_the_source_under_drift(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int run = 0; run < 200; run++) {
        kz__idclock clock = {.drift_ppm = KZ__DRIFT_PPM};
        int64_t ppm = (int64_t)(test_random(&random) % 1001) - 500;
        int64_t boot_ns = (int64_t)(test_random(&random) % (uint64_t)DAY_NS);
        int64_t source_ns = START_MS * MS, behind_ns = 0;
        for (int i = 0; i < 300; i++) {
            int64_t pause_ns = (int64_t)(test_random(&random) % (uint64_t)(60000 * MS));
            int64_t answered_ms = source_ns / MS;
            int64_t way_ns = (int64_t)(test_random(&random) % (uint64_t)(200 * MS));
            boot_ns += way_ns;
            source_ns += way_ns + way_ns / 1000000 * ppm;
            kz__idclock_sample(&clock, answered_ms, boot_ns);
            boot_ns += pause_ns;
            source_ns += pause_ns + pause_ns / 1000000 * ppm;
            /* A microsecond for this test's own rounding. */
            int64_t read_ns = kz__idclock_read(&clock, boot_ns);
            assert_true(read_ns <= source_ns + 1000);
            if (source_ns - read_ns > behind_ns)
                behind_ns = source_ns - read_ns;
        }
        /* And not far behind: 1,000 ppm of a minute, a slow answer and the millisecond it was rounded to. */
        assert_true(behind_ns <= 60 * MS + 201 * MS);
    }
}

static void the_highest_of_the_last_few_readings_counts(void **state)
{
    (void)state;
    kz__idclock clock = {.drift_ppm = KZ__DRIFT_PPM};
    kz__idclock_sample(&clock, START_MS + 100, 0);
    /* These were held up on their way. */
    kz__idclock_sample(&clock, START_MS + 130, 100 * MS);
    kz__idclock_sample(&clock, START_MS + 199, 200 * MS);
    assert_int_equal(kz__idclock_read(&clock, 200 * MS), (START_MS + 300) * MS - 100000);
    /* A better one at once. */
    kz__idclock_sample(&clock, START_MS + 350, 200 * MS);
    assert_int_equal(kz__idclock_read(&clock, 200 * MS), (START_MS + 350) * MS);
}

static void old_readings_are_forgotten(void **state)
{
    (void)state;
    kz__idclock clock = {0};
    kz__idclock_sample(&clock, START_MS + 3600000, 0);
    for (int i = 1; i < KZ__IDCLOCK_LINES; i++) {
        kz__idclock_sample(&clock, START_MS + i, i * MS);
        assert_int_equal(kz__idclock_read(&clock, i * MS), (START_MS + 3600000 + i) * MS);
    }
    kz__idclock_sample(&clock, START_MS + KZ__IDCLOCK_LINES, KZ__IDCLOCK_LINES * MS);
    assert_int_equal(kz__idclock_read(&clock, KZ__IDCLOCK_LINES * MS), (START_MS + KZ__IDCLOCK_LINES) * MS);
}

static void the_last_reading_alone_can_be_trusted(void **state)
{
    (void)state;
    /* Wherever in the ring the last one stands. */
    for (int before = 0; before < 2 * KZ__IDCLOCK_LINES; before++) {
        kz__idclock clock = {0};
        for (int i = 0; i < before; i++)
            kz__idclock_sample(&clock, START_MS + 3600000, 0);
        kz__idclock_sample(&clock, START_MS, 0);
        assert_int_equal(kz__idclock_read(&clock, 0), (START_MS + (before ? 3600000 : 0)) * MS);
        kz__idclock_trust_last(&clock);
        assert_true(clock.set);
        assert_int_equal(kz__idclock_read(&clock, 7), START_MS * MS + 7);
        /* Later ones come beside it. */
        kz__idclock_sample(&clock, START_MS - 10, 0);
        assert_int_equal(kz__idclock_read(&clock, 7), START_MS * MS + 7);
        for (int i = 0; i < KZ__IDCLOCK_LINES; i++)
            kz__idclock_sample(&clock, START_MS - 10, 0);
        assert_int_equal(kz__idclock_read(&clock, 0), (START_MS - 10) * MS);
    }
}

static void a_boot_clock_that_starts_anywhere_does(void **state)
{
    (void)state;
    /* Another time namespace, and a machine that was on for a year. */
    const int64_t starts[] = {0, -100000 * 1000 * MS, 365 * DAY_NS};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        kz__idclock clock = {.drift_ppm = KZ__DRIFT_PPM};
        kz__idclock_sample(&clock, START_MS, starts[i]);
        assert_int_equal(kz__idclock_read(&clock, starts[i] + 2000 * MS), START_MS * MS + 1999 * MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reading_is_carried_on_by_the_boot_clock),
        cmocka_unit_test(it_goes_500_ppm_slower_than_the_boot_clock_if_the_source_is_elsewhere),
        cmocka_unit_test(it_is_never_ahead_of_the_source_under_drift),
        cmocka_unit_test(the_highest_of_the_last_few_readings_counts),
        cmocka_unit_test(old_readings_are_forgotten),
        cmocka_unit_test(the_last_reading_alone_can_be_trusted),
        cmocka_unit_test(a_boot_clock_that_starts_anywhere_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
