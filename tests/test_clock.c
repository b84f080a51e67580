/* The rate of the tick counter: what a measurement may say, and what makes it begin anew. */
#include "host/clock.h"
#include "test.h"

#define GHZ INT64_C(1000000) /* ticks of a millisecond */
#define MS  KZ__NS_PER_MS
#define S   (1000 * MS)

/* A counter of 2 GHz that was measured for a second. */
static kz__tick_rate measured(void)
{
    kz__tick_rate rate = {.kind = KZ__TICKS_CPU, .base_ticks = 1000 * GHZ, .base_ns = 50 * S};
    kz__tick_rate_note(&rate, 1000 * GHZ + 2 * 2 * GHZ, 50 * S + 2 * MS);
    assert_int_equal(rate.per_ms, 2 * GHZ);
    kz__tick_rate_note(&rate, rate.base_ticks + 1000 * 2 * GHZ, rate.base_ns + S);
    assert_int_equal(rate.per_ms, 2 * GHZ);
    assert_int_equal(rate.span, rate.per_ms);
    return rate;
}

static void a_rate_is_known_after_two_milliseconds_and_not_before(void **state)
{
    (void)state;
    kz__tick_rate rate = {.kind = KZ__TICKS_CPU, .base_ticks = 7, .base_ns = 9};
    kz__tick_rate_note(&rate, 7 + GHZ, 9 + MS);
    assert_int_equal(rate.per_ms, 0);
    assert_int_equal(rate.base_ticks, 7);
    kz__tick_rate_note(&rate, 7 + 3 * GHZ, 9 + 3 * MS);
    assert_int_equal(rate.per_ms, GHZ);
}

static void a_slow_drift_is_followed(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    for (int i = 1; i <= 5; i++) {
        uint64_t per_ms = (uint64_t)(2 * GHZ + i * 10000);
        kz__tick_rate_note(&rate, rate.base_ticks + 1000 * per_ms, rate.base_ns + S);
        assert_int_equal(rate.per_ms, per_ms);
    }
}

/* Every call asks the clock then, until a rate is known anew. */
static void assert_begins_anew(kz__tick_rate *rate, uint64_t ticks, int64_t boot_ns, uint64_t per_ms)
{
    kz__tick_rate_note(rate, ticks, boot_ns);
    assert_int_equal(rate->per_ms, 0);
    assert_int_equal(rate->span, 0);
    assert_int_equal(rate->base_ticks, ticks);
    kz__tick_rate_note(rate, ticks + 2 * per_ms, boot_ns + 2 * MS);
    assert_int_equal(rate->per_ms, per_ms);
}

static void a_machine_that_slept_changes_nothing_if_its_counter_went_on(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    kz__tick_rate_note(&rate, rate.base_ticks + 3600 * 1000 * 2 * GHZ, rate.base_ns + 3600 * S);
    assert_int_equal(rate.per_ms, 2 * GHZ);
}

static void a_counter_that_stood_still_meanwhile_is_measured_anew(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    assert_begins_anew(&rate, rate.base_ticks + 1000 * 2 * GHZ, rate.base_ns + 30 * S, 2 * GHZ);
}

static void so_is_one_that_went_on_while_the_clock_stood(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    assert_begins_anew(&rate, rate.base_ticks + 30 * 1000 * 2 * GHZ, rate.base_ns + S, 2 * GHZ);
}

static void so_is_one_that_was_reset(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    assert_begins_anew(&rate, 17, rate.base_ns + S, 2 * GHZ);
    rate = measured();
    assert_begins_anew(&rate, rate.base_ticks + 17, rate.base_ns + S, 2 * GHZ);
}

static void so_is_that_of_another_machine(void **state)
{
    (void)state;
    kz__tick_rate rate = measured();
    assert_begins_anew(&rate, rate.base_ticks + 1000 * 3 * GHZ, rate.base_ns + S, 3 * GHZ);
}

static void no_counter_is_that_fast_or_that_slow(void **state)
{
    (void)state;
    const uint64_t nonsense[] = {0, 1, 999 * 3, UINT64_C(20000001) * 3, UINT64_MAX};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        kz__tick_rate rate = {.kind = KZ__TICKS_CPU, .base_ticks = 1, .base_ns = 1};
        kz__tick_rate_note(&rate, 1 + nonsense[i], 1 + 3 * MS);
        assert_int_equal(rate.per_ms, 0);
        assert_int_equal(rate.base_ns, 1 + 3 * MS);
    }
    /* A clock that went back says nothing either. */
    kz__tick_rate rate = measured();
    assert_begins_anew(&rate, rate.base_ticks + 1000 * 2 * GHZ, rate.base_ns - S, 2 * GHZ);
}

/* The boot clock is the one that goes on while the machine sleeps: a measurement against another one shows here. */
static void the_machine_s_own_is_measured_by_the_boot_clock(void **state)
{
    (void)state;
    kz__tick_rate rate;
    kz__tick_rate_init(&rate, KZ__TICKS_CPU);
    int64_t apart_ns = (int64_t)kz__clock_ns(CLOCK_BOOTTIME) - rate.base_ns;
    assert_true(apart_ns >= 0 && apart_ns < 60 * S);
    rate.base_ns = (int64_t)kz__clock_ns(CLOCK_BOOTTIME) - S;
    rate.base_ticks = kz__ticks(KZ__TICKS_CPU) - (uint64_t)(1000 * GHZ);
    for (int i = 0; i < 1000000 && !rate.per_ms; i++)
        kz__tick_rate_measure(&rate);
    assert_in_range(rate.per_ms, GHZ / 1000, 2 * GHZ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_known_after_two_milliseconds_and_not_before),
        cmocka_unit_test(a_slow_drift_is_followed),
        cmocka_unit_test(a_machine_that_slept_changes_nothing_if_its_counter_went_on),
        cmocka_unit_test(a_counter_that_stood_still_meanwhile_is_measured_anew),
        cmocka_unit_test(so_is_one_that_went_on_while_the_clock_stood),
        cmocka_unit_test(so_is_one_that_was_reset),
        cmocka_unit_test(so_is_that_of_another_machine),
        cmocka_unit_test(no_counter_is_that_fast_or_that_slow),
        cmocka_unit_test(the_machine_s_own_is_measured_by_the_boot_clock),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
