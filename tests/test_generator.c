/* A generator in virtual time: what it mints, how long it sleeps, and what it refuses. */
#include "test.h"
#include "virtual_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Four IDs a millisecond for each of four nodes. */
#define SMALL "41-2-2@2026-01-01"
/* One ID a millisecond. */
#define SINGLE "41-2-0@2026-01-01"

static virtual_clock now;

/* The machine's time is this many milliseconds after the epoch of the layouts above. */
static void begin_at(int64_t id_ms)
{
    virtual_begin(&now, VIRTUAL_EPOCH_MS + id_ms);
}

static kz_options options_for(const char *layout)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = layout;
    options.use_clock = &now.clock;
    return options;
}

/* What a test has open, so that one that fails does not leave its node in use for the next. */
static kz_generator *opened[8];

static kz_generator *open_with(const char *url, const kz_options *options)
{
    size_t place = 0;
    while (opened[place])
        place++;
    kz_error err;
    if (kz_open(&opened[place], url, options, &err))
        fail_msg("%s: %s", url, err.message);
    return opened[place];
}

static void shut(kz_generator *gen)
{
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++)
        if (opened[i] == gen)
            opened[i] = NULL;
    kz_close(gen);
}

static int shut_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++)
        shut(opened[i]);
    return 0;
}

static kz_generator *open_small(kz_backward backward)
{
    kz_options options = options_for(SMALL);
    options.backward = backward;
    return open_with("static:1", &options);
}

static kz_id next_of(kz_generator *gen)
{
    kz_id id;
    kz_error err;
    if (kz_mint(gen, &id, 1, 10000, &err))
        fail_msg("%s", err.message);
    return id;
}

/* A point of node 1 in SMALL. */
static kz_id point(int64_t id_ms, unsigned seq)
{
    return (kz_id)id_ms << 4 | 1 << 2 | seq;
}

static kz_stats stats_of(kz_generator *gen)
{
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    return stats;
}

static void assert_not_opened(const char *url, const kz_options *options, kz_status expected, const char *part)
{
    kz_generator *gen = (kz_generator *)&now;
    kz_error err;
    kz_status status = kz_open(&gen, url, options, &err);
    if (status != expected)
        fail_msg("%s gave %s, not %s", url ? url : "NULL", kz_status_name(status), kz_status_name(expected));
    assert_int_equal(err.status, expected);
    assert_contains(err.message, part);
    assert_ptr_equal(gen, &now);
    assert_status(kz_open(&gen, url, options, NULL), expected);
}

/* -------------------------------------------------------------------------------------------- order and time */

static void ids_carry_the_clock_the_node_and_a_sequence_from_zero(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    assert_int_equal(next_of(gen), point(1000, 0));
    assert_int_equal(next_of(gen), point(1000, 1));
    virtual_advance(&now, 5 * VIRTUAL_MS);
    assert_int_equal(next_of(gen), point(1005, 0));
    shut(gen);
}

static void a_long_walk_increases_and_never_shows_the_future(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id last = 0;
    for (int i = 0; i < 20000; i++) {
        kz_id id = next_of(gen);
        assert_true(id > last);
        int64_t id_ms = (int64_t)(id >> 4), clock_ms = now.wall_ns / VIRTUAL_MS - VIRTUAL_EPOCH_MS;
        assert_true(id_ms == clock_ms);
        assert_int_equal(id >> 2 & 3, 1);
        last = id;
        virtual_advance(&now, i % 7 * 90000);
    }
    shut(gen);
}

static void a_used_up_millisecond_sleeps_exactly_to_the_next(void **state)
{
    (void)state;
    begin_at(1000);
    now.wall_ns += 300000;
    kz_generator *gen = open_small(KZ_BACKWARD_FAIL);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(next_of(gen), point(1000, i));
    assert_int_equal(now.sleeps, 0);
    assert_int_equal(next_of(gen), point(1001, 0));
    assert_int_equal(now.sleeps, 1);
    assert_int_equal(now.slept_ns, 700000);
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.sequence_exhausted, 1);
    assert_int_equal(stats.sleeps, 1);
    shut(gen);
}

static void logical_too_waits_for_the_next_millisecond_when_the_clock_is_right(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    for (int i = 0; i < 40; i++)
        next_of(gen);
    assert_int_equal(now.slept_ns, 9 * VIRTUAL_MS);
    assert_int_equal(stats_of(gen).ahead_ms, 0);
    shut(gen);
}

static void the_first_millisecond_of_all_can_be_used(void **state)
{
    (void)state;
    begin_at(0);
    kz_options options = options_for(SMALL);
    kz_generator *gen = open_with("static:0", &options);
    for (kz_id i = 0; i < 4; i++)
        assert_int_equal(next_of(gen), i);
    assert_int_equal(next_of(gen), 1 << 4);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- timeouts */

static void a_timeout_bounds_the_whole_call(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SINGLE);
    kz_generator *gen = open_with("static:1", &options);
    kz_id ids[5];
    kz_error err;
    /* One ID now and one in each of the next two milliseconds: the fourth is too late. */
    assert_status(kz_mint(gen, ids, 5, 2, &err), KZ_TIMEOUT);
    assert_int_equal(err.status, KZ_TIMEOUT);
    assert_contains(err.message, "2 ms");
    assert_int_equal(now.slept_ns, 2 * VIRTUAL_MS);
    assert_ok(kz_mint(gen, ids, 3, 3, &err));
    assert_int_equal(now.slept_ns, 5 * VIRTUAL_MS);
    shut(gen);
}

static void without_a_limit_a_call_goes_on(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SINGLE);
    kz_generator *gen = open_with("static:1", &options);
    static kz_id ids[20001];
    assert_ok(kz_mint(gen, ids, 20001, -1, NULL));
    assert_int_equal(now.slept_ns, 20000 * VIRTUAL_MS);
    assert_status(kz_next_batch(gen, ids, 10002), KZ_TIMEOUT); /* the default of 10 s */
    shut(gen);
}

static void try_batch_gives_what_there_is_and_says_when_there_is_more(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SINGLE);
    kz_generator *gen = open_with("static:1", &options);
    kz_id ids[3] = {0, 0, 7};
    size_t got = 9;
    kz_error err;
    /* One ID a millisecond. */
    assert_status(kz_try_batch(gen, ids, 3, &got, &err), KZ_AGAIN);
    assert_int_equal(got, 1);
    assert_int_equal(ids[2], 7);
    assert_int_equal(err.retry_us, 1000);
    assert_status(kz_try_batch(gen, &ids[1], 2, &got, &err), KZ_AGAIN);
    assert_int_equal(got, 0);
    virtual_set(&now, VIRTUAL_EPOCH_MS + 1001);
    assert_ok(kz_try_batch(gen, &ids[1], 1, &got, NULL));
    assert_int_equal(got, 1);
    assert_true(ids[1] > ids[0]);
    assert_int_equal(now.slept_ns, 0);
    shut(gen);
}

/* Whichever is opened first: a high block inside a wide one, or a wide one around a high block. */
static void blocks_that_overlap_are_refused_in_either_order(void **state)
{
    (void)state;
    static const struct {
        const char *url, *layout;
    } nodes[2] = {{"static:3", "41-3-1@2026-01-01"}, {"static:1", "41-2-2@2026-01-01"}};
    for (int i = 0; i < 2; i++) {
        kz_options options;
        kz_options_init(&options);
        kz_generator *first, *second;
        kz_error err;
        options.layout = nodes[i].layout;
        assert_ok(kz_open(&first, nodes[i].url, &options, &err));
        options.layout = nodes[!i].layout;
        assert_status(kz_open(&second, nodes[!i].url, &options, &err), KZ_IN_USE);
        assert_ok(kz_open(&second, "static:0", &options, &err));
        kz_close(second);
        kz_close(first);
    }
}

static void after_a_step_back_it_is_worth_asking_again_before_long(void **state)
{
    (void)state;
    begin_at(5000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id id;
    kz_error err;
    assert_ok(kz_try_next(gen, &id));
    virtual_set(&now, VIRTUAL_EPOCH_MS + 4970);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_AGAIN);
    assert_int_equal(err.retry_us, 30000);
    /* It may be set right any moment. */
    virtual_set(&now, VIRTUAL_EPOCH_MS + 1000);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_AGAIN);
    assert_int_equal(err.retry_us, 100000);
    virtual_set(&now, VIRTUAL_EPOCH_MS - 1);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_BEFORE_EPOCH);
    assert_int_equal(err.retry_us, 0);
    shut(gen);
}

static void try_next_never_sleeps(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id id;
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(kz_try_next(gen, &id));
        assert_int_equal(id, point(1000, i));
    }
    id = 77;
    assert_status(kz_try_next(gen, &id), KZ_AGAIN);
    assert_status(kz_try_next(gen, &id), KZ_AGAIN);
    assert_int_equal(id, 77);
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_AGAIN);
    assert_int_equal(err.status, KZ_AGAIN);
    assert_int_equal(now.sleeps, 0);
    assert_int_equal(err.retry_us, 1000);
    virtual_advance(&now, 250500);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_AGAIN);
    assert_int_equal(err.retry_us, 750); /* rounded up: asking then is not too early */
    virtual_advance(&now, 749499);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_AGAIN);
    assert_int_equal(err.retry_us, 1);
    virtual_advance(&now, -VIRTUAL_MS + 1);
    /* The millisecond was used up while more were wanted, slept or not: counted, and once. */
    assert_int_equal(stats_of(gen).sequence_exhausted, 1);
    virtual_advance(&now, VIRTUAL_MS);
    assert_ok(kz_try_next(gen, &id));
    assert_int_equal(id, point(1001, 0));
    shut(gen);
}

static void a_timeout_of_zero_in_the_options_never_sleeps(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SINGLE);
    options.timeout_ms = 0;
    kz_generator *gen = open_with("static:1", &options);
    kz_id ids[2];
    assert_ok(kz_next(gen, ids));
    assert_status(kz_next(gen, ids), KZ_AGAIN);
    assert_status(kz_next_batch(gen, ids, 2), KZ_AGAIN);
    assert_int_equal(now.sleeps, 0);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- backward */

static void fail_says_by_how_much_and_goes_on_when_the_clock_is_right(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_FAIL);
    kz_id last = next_of(gen), id = 77;
    virtual_step_by(&now, -10000);
    kz_error err;
    for (int i = 0; i < 3; i++) {
        assert_status(kz_mint(gen, &id, 1, 10000, &err), KZ_CLOCK_BACKWARD);
        assert_int_equal(err.status, KZ_CLOCK_BACKWARD);
        assert_int_equal(err.backward_ms, 10000);
        assert_int_equal(err.limit_ms, 0);
        assert_contains(err.message, "10000 ms");
        assert_int_equal(id, 77);
        assert_status(kz_next(gen, &id), KZ_CLOCK_BACKWARD);
        assert_status(kz_try_next(gen, &id), KZ_CLOCK_BACKWARD);
    }
    assert_int_equal(now.sleeps, 0);
    virtual_step_by(&now, 10000);
    assert_int_equal(next_of(gen), last + 1);
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.clock_backward, 1);
    assert_int_equal(stats.clock_backward_max_ms, 10000);
    assert_int_equal(stats.ids_leased, 2);
    shut(gen);
}

static void wait_sleeps_until_the_clock_is_back(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id last = next_of(gen);
    virtual_step_by(&now, -5000);
    assert_int_equal(next_of(gen), last + 1);
    assert_int_equal(now.slept_ns, 5000 * VIRTUAL_MS);
    assert_int_equal(stats_of(gen).clock_backward_max_ms, 5000);
    shut(gen);
}

static void wait_refuses_more_than_its_limit_at_once(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id last = next_of(gen), id = 77;
    virtual_step_by(&now, -5001);
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, -1, &err), KZ_CLOCK_BACKWARD);
    assert_int_equal(err.backward_ms, 5001);
    assert_int_equal(err.limit_ms, 5000);
    assert_int_equal(now.sleeps, 0);
    virtual_advance(&now, VIRTUAL_MS);
    assert_ok(kz_mint(gen, &id, 1, -1, &err));
    assert_int_equal(id, last + 1);
    shut(gen);
}

static void wait_looks_again_after_sleeping(void **state)
{
    (void)state;
    /* One second into the wait the clock is set back again. */
    begin_at(20000);
    const virtual_step again[] = {{now.boot_ns + 1000 * VIRTUAL_MS, -2000 * VIRTUAL_MS}};
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id last = next_of(gen);
    now.steps = again;
    now.step_count = 1;
    virtual_step_by(&now, -3000);
    assert_int_equal(next_of(gen), last + 1);
    assert_int_equal(now.slept_ns, 5000 * VIRTUAL_MS);
    shut(gen);
}

static void wait_gives_up_when_the_clock_is_set_back_beyond_its_limit_meanwhile(void **state)
{
    (void)state;
    begin_at(20000);
    const virtual_step again[] = {{now.boot_ns + 1000 * VIRTUAL_MS, -9000 * VIRTUAL_MS}};
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    next_of(gen);
    now.steps = again;
    now.step_count = 1;
    virtual_step_by(&now, -3000);
    kz_id id;
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, -1, &err), KZ_CLOCK_BACKWARD);
    assert_int_equal(err.backward_ms, 11000);
    shut(gen);
}

static void wait_notices_early_that_the_clock_was_set_right(void **state)
{
    (void)state;
    begin_at(20000);
    const virtual_step right[] = {{now.boot_ns + 500 * VIRTUAL_MS, 60000 * VIRTUAL_MS}};
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    next_of(gen);
    now.steps = right;
    now.step_count = 1;
    virtual_step_by(&now, -4000);
    next_of(gen);
    assert_true(now.slept_ns <= 600 * VIRTUAL_MS);
    shut(gen);
}

static void wait_on_a_clock_that_stands_ends_with_the_timeout(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    next_of(gen);
    virtual_step_by(&now, -100);
    now.stands = true;
    kz_id id = 77;
    kz_status status = kz_mint(gen, &id, 1, 1000, NULL);
    assert_true(status == KZ_TIMEOUT || status == KZ_CLOCK_BACKWARD);
    assert_int_equal(id, 77);
    assert_true(now.slept_ns <= 1000 * VIRTUAL_MS);
    shut(gen);
}

static void the_shorter_of_timeout_and_limit_wins(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    next_of(gen);
    virtual_step_by(&now, -3000);
    kz_id id;
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, 2999, &err), KZ_CLOCK_BACKWARD);
    assert_int_equal(err.backward_ms, 3000);
    assert_int_equal(err.limit_ms, 2999);
    assert_int_equal(now.sleeps, 0);
    assert_status(kz_try_next(gen, &id), KZ_AGAIN);
    assert_ok(kz_mint(gen, &id, 1, 3000, &err));
    shut(gen);
}

static void a_negative_limit_waits_for_as_long_as_it_takes(void **state)
{
    (void)state;
    begin_at(86400000);
    kz_options options = options_for(SMALL);
    options.max_backward_ms = -1;
    options.timeout_ms = -1;
    kz_generator *gen = open_with("static:1", &options);
    kz_id last = next_of(gen), id;
    virtual_step_by(&now, -3600000);
    assert_ok(kz_next(gen, &id));
    assert_int_equal(id, last + 1);
    assert_int_equal(now.slept_ns, 3600000 * VIRTUAL_MS);
    shut(gen);
}

static void logical_goes_on_upward_and_is_bounded(void **state)
{
    (void)state;
    begin_at(20000);
    kz_options options = options_for(SMALL);
    options.backward = KZ_BACKWARD_LOGICAL;
    options.max_ahead_ms = 10;
    kz_generator *gen = open_with("static:1", &options);
    assert_int_equal(next_of(gen), point(20000, 0));
    virtual_step_by(&now, -10000);
    /* What is left of this millisecond, and ten more. */
    for (unsigned i = 1; i < 4 + 10 * 4; i++)
        assert_int_equal(next_of(gen), point(20000 + i / 4, i % 4));
    assert_int_equal(now.sleeps, 0);
    assert_int_equal(stats_of(gen).ahead_ms, 10010);
    kz_id id = 77;
    kz_error err;
    assert_status(kz_try_next(gen, &id), KZ_AGAIN);
    assert_status(kz_mint(gen, &id, 1, 9999, &err), KZ_TIMEOUT);
    assert_int_equal(id, 77);
    /* The clock goes on by itself: once it is within max_ahead_ms again, so does the generator. */
    virtual_advance(&now, 10001 * VIRTUAL_MS);
    assert_ok(kz_try_next(gen, &id));
    assert_int_equal(id, point(20011, 0));
    shut(gen);
}

static void logical_comes_back_to_the_clock_when_it_has_caught_up(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    next_of(gen);
    virtual_step_by(&now, -1000);
    assert_int_equal(next_of(gen), point(20000, 1));
    virtual_step_by(&now, 5000);
    assert_int_equal(next_of(gen), point(24000, 0));
    assert_int_equal(stats_of(gen).ahead_ms, 0);
    shut(gen);
}

static void repeated_steps_backwards_do_not_carry_logical_ever_further(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    kz_id last = 0, id;
    for (int i = 0; i < 20000; i++) {
        if (i % 100 == 50)
            virtual_step_by(&now, -3);
        kz_status status = kz_try_next(gen, &id);
        if (status == KZ_OK) {
            assert_true(id > last);
            last = id;
            assert_true((int64_t)(id >> 4) <= 20000 + 1000);
        }
    }
    shut(gen);
}

static void steps_backwards_are_counted_with_the_largest(void **state)
{
    (void)state;
    begin_at(20000);
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    next_of(gen);
    const int64_t steps[] = {-5, -300, 1000, -20};
    for (size_t i = 0; i < 4; i++) {
        virtual_step_by(&now, steps[i]);
        next_of(gen);
        next_of(gen);
    }
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.clock_backward, 3);
    assert_int_equal(stats.clock_backward_max_ms, 300);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- the ends of time */

static void a_clock_before_the_epoch_is_refused_until_it_is_right(void **state)
{
    (void)state;
    begin_at(-1);
    now.wall_ns += 999999; /* one nanosecond before */
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    kz_id id = 77;
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, -1, &err), KZ_BEFORE_EPOCH);
    assert_contains(err.message, "41-2-2@2026-01-01");
    assert_status(kz_next(gen, &id), KZ_BEFORE_EPOCH);
    assert_status(kz_try_next(gen, &id), KZ_BEFORE_EPOCH);
    assert_int_equal(id, 77);
    now.wall_ns += 1;
    assert_int_equal(next_of(gen), point(0, 0));
    shut(gen);
}

static void every_epoch_in_the_future_is_refused(void **state)
{
    (void)state;
    const char *const layouts[] = {"41-2-2@2026-01-02", "41-2-2@2027-01-01", "41-2-2@2262-04-12", "41-2-2@2500-01-01",
                                   "41-2-2@2610-08-01", "41-2-2@3000-01-01", "41-2-2@5000-01-01", "41-2-2@9999-12-31"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        begin_at(0);
        kz_options options = options_for(layouts[i]);
        kz_generator *gen = open_with("static:1", &options);
        kz_id id;
        kz_status status = kz_next(gen, &id);
        if (status != KZ_BEFORE_EPOCH)
            fail_msg("%s gave %s", layouts[i], kz_status_name(status));
        shut(gen);
    }
}

static void assert_runs_out(const char *layout_text, int64_t end_ms)
{
    kz_layout layout;
    assert_ok(kz_layout_parse(layout_text, &layout, NULL));
    unsigned slot_bits = (unsigned)layout.node_bits + layout.seq_bits;
    /* The last millisecond that can be used, and then the first that cannot, to the end and past it. */
    virtual_begin(&now, layout.epoch_ms + end_ms - 1);
    kz_options options = options_for(layout_text);
    kz_generator *gen = open_with("static:1", &options);
    kz_id last, id;
    assert_ok(kz_try_next(gen, &last));
    assert_int_equal(last >> slot_bits, end_ms - 1);
    const int64_t past_ms[] = {end_ms, end_ms + 1, end_ms + 2000, end_ms + (INT64_C(1) << layout.time_bits) / 2,
                               2 * (INT64_C(1) << layout.time_bits) + 7};
    for (size_t i = 0; i < 5; i++) {
        if (past_ms[i] > INT64_C(9000000000000) - layout.epoch_ms) /* past the nanoseconds of a clock */
            continue;
        virtual_set(&now, layout.epoch_ms + past_ms[i]);
        kz_error err;
        kz_status status = kz_mint(gen, &id, 1, 1000, &err);
        if (status != KZ_OVERFLOW)
            fail_msg("%s at ms %" PRId64 " gave %s", layout_text, past_ms[i], kz_status_name(status));
        assert_contains(err.message, "run out");
        assert_status(kz_next(gen, &id), KZ_OVERFLOW);
    }
    shut(gen);
    /* A generator opened only then gets the same answer. */
    gen = open_with("static:1", &options);
    assert_status(kz_next(gen, &id), KZ_OVERFLOW);
    shut(gen);
}

static void a_time_field_that_has_run_out_is_refused(void **state)
{
    (void)state;
    assert_runs_out("41-2-2@2026-01-01", INT64_C(1) << 41);
    assert_runs_out("20-2-2@2026-01-01", 1 << 20);
    assert_runs_out("1-2-2@2026-01-01", 2);
    /* 63 bits */
    assert_runs_out("20-22-21@2026-01-01", 1 << 20);
}

static void a_time_field_of_64_bits_does_not_come_round_again(void **state)
{
    (void)state;
    /* Short of its end by a hair, for which see kz__end_of_time_ms. */
    assert_runs_out("tsid", (INT64_C(1) << 42) - 1024);
    assert_runs_out("41-14-9@2026-01-01", (INT64_C(1) << 41) - 512);
    assert_runs_out("20-22-22@2026-01-01", (1 << 20) - 1);
    assert_runs_out("32-32-0@2026-01-01", (INT64_C(1) << 32) - 1);
}

static void the_last_slots_of_the_last_millisecond_overflow_without_a_wait(void **state)
{
    (void)state;
    begin_at((INT64_C(1) << 41) - 1);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    for (int i = 0; i < 4; i++)
        next_of(gen);
    kz_id id;
    assert_status(kz_next(gen, &id), KZ_OVERFLOW);
    assert_int_equal(now.sleeps, 0);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- seq_start */

static void a_random_start_stays_in_the_lower_half_and_never_wraps(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("41-2-6@2026-01-01");
    options.seq_start = KZ_SEQ_RANDOM;
    kz_generator *gen = open_with("static:1", &options);
    bool started[64] = {false};
    unsigned starts = 0;
    for (int ms = 0; ms < 2000; ms++) {
        kz_id id, last = 0;
        unsigned count = 0, first = 64;
        while (kz_try_next(gen, &id) == KZ_OK) {
            assert_int_equal(id >> 6, (kz_id)(1000 + ms) << 2 | 1);
            assert_true(id > last);
            last = id;
            if (!count++)
                first = (unsigned)(id & 63);
        }
        assert_true(first < 32);
        assert_int_equal(count, 64 - first);
        starts += !started[first];
        started[first] = true;
        virtual_advance(&now, VIRTUAL_MS);
    }
    assert_int_equal(starts, 32); /* 2,000 draws of 32: to miss one is a matter of e^-60 */
    shut(gen);
}

static void a_random_start_in_a_block_of_one_or_two_is_its_first(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("41-2-1@2026-01-01");
    options.seq_start = KZ_SEQ_RANDOM;
    kz_generator *gen = open_with("static:1", &options);
    for (kz_id i = 0; i < 20; i++)
        assert_int_equal(next_of(gen), (1000 + i / 2) << 3 | 1 << 1 | i % 2);
    shut(gen);
    options.layout = SINGLE;
    gen = open_with("static:1", &options);
    assert_int_equal(next_of(gen) & 3, 1);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- batches, stats */

static void a_batch_goes_over_milliseconds_and_increases(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id ids[43];
    next_of(gen);
    assert_ok(kz_next_batch(gen, ids, 43));
    for (unsigned i = 0; i < 43; i++)
        assert_int_equal(ids[i], point(1000 + (i + 1) / 4, (i + 1) % 4));
    assert_int_equal(now.slept_ns, 10 * VIRTUAL_MS);
    assert_int_equal(next_of(gen), point(1011, 0));
    assert_ok(kz_next_batch(gen, NULL, 0));
    shut(gen);
}

static void a_batch_that_fails_loses_ids_but_repeats_none(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_id ids[10] = {0};
    assert_status(kz_mint(gen, ids, 10, 1, NULL), KZ_TIMEOUT);
    kz_id id = next_of(gen);
    for (int i = 0; i < 10; i++)
        assert_true(ids[i] < id);
    shut(gen);
}

static void stats_say_what_was_done(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_LOGICAL);
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.ids_leased, 0);
    assert_int_equal(stats.last, 0);
    assert_int_equal(stats.leases, 1);
    assert_int_equal(stats.window_end_unix_ms, INT64_MAX);
    kz_id last = 0;
    for (int i = 0; i < 10; i++)
        last = next_of(gen);
    virtual_step_by(&now, -2);
    stats = stats_of(gen);
    assert_int_equal(stats.ids_leased, 10);
    assert_int_equal(stats.ids_fenced, 0);
    assert_int_equal(stats.ids_unfenced, 0);
    assert_int_equal(stats.sequence_exhausted, 2);
    assert_int_equal(stats.sleeps, 2);
    assert_int_equal(stats.last, last);
    assert_int_equal(stats.ahead_ms, 2);
    shut(gen);
}

static void stats_without_a_size_are_refused_and_a_shorter_struct_is_served(void **state)
{
    (void)state;
    begin_at(1000);
    kz_generator *gen = open_small(KZ_BACKWARD_WAIT);
    kz_stats stats = {0};
    assert_status(kz_stats_get(gen, &stats), KZ_INVALID);
    stats.struct_size = sizeof stats + 1;
    assert_status(kz_stats_get(gen, &stats), KZ_INVALID);
    next_of(gen);
    kz_stats_init(&stats);
    stats.struct_size = offsetof(kz_stats, sequence_exhausted);
    stats.sleeps = 4711;
    assert_ok(kz_stats_get(gen, &stats));
    assert_int_equal(stats.ids_leased, 1);
    assert_int_equal(stats.sleeps, 4711);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- opening */

static void options_begin_with_the_documented_defaults(void **state)
{
    (void)state;
    kz_options options;
    memset(&options, 0x5a, sizeof options);
    kz_options_init(&options);
    assert_int_equal(options.struct_size, sizeof options);
    assert_null(options.layout);
    assert_int_equal(options.fallback, KZ_FALLBACK_FENCED);
    assert_int_equal(options.backward, KZ_BACKWARD_WAIT);
    assert_int_equal(options.max_backward_ms, 5000);
    assert_int_equal(options.max_ahead_ms, 1000);
    assert_int_equal(options.timeout_ms, 10000);
    assert_int_equal(options.clock, KZ_CLOCK_PRECISE);
    assert_int_equal(options.seq_start, KZ_SEQ_ZERO);
    assert_null(options.log);
    assert_null(options.use_clock);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    begin_at(1000);
    const kz_options good = options_for(SMALL);
    kz_options bad = good;
    bad.struct_size = 0;
    assert_not_opened("static:1", &bad, KZ_INVALID, "kz_options_init");
    bad.struct_size = sizeof bad + 1;
    assert_not_opened("static:1", &bad, KZ_INVALID, "kz_options_init");
    bad = good;
    bad.fallback = (kz_fallback)3;
    assert_not_opened("static:1", &bad, KZ_INVALID, "fallback 3");
    bad = good;
    bad.backward = (kz_backward)-1;
    assert_not_opened("static:1", &bad, KZ_INVALID, "backward -1");
    bad = good;
    bad.clock = (kz_clock_kind)2;
    assert_not_opened("static:1", &bad, KZ_INVALID, "clock 2");
    bad = good;
    bad.seq_start = (kz_seq_start)2;
    assert_not_opened("static:1", &bad, KZ_INVALID, "seq_start 2");
    bad = good;
    bad.max_ahead_ms = -1;
    assert_not_opened("static:1", &bad, KZ_INVALID, "max_ahead_ms -1");
    bad.max_ahead_ms = 86400001;
    assert_not_opened("static:1", &bad, KZ_INVALID, "max_ahead_ms 86400001");
    bad = good;
    bad.layout = "42-14-9@2026-01-01";
    assert_not_opened("static:1", &bad, KZ_INVALID, "65 bits");
    kz_clock half = now.clock;
    half.sleep_ns = NULL;
    bad = good;
    bad.use_clock = &half;
    assert_not_opened("static:1", &bad, KZ_INVALID, "use_clock");
    kz_error err;
    assert_status(kz_open(NULL, "static:1", NULL, &err), KZ_INVALID);
}

static void an_older_and_shorter_options_struct_gets_the_defaults(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options;
    kz_options_init(&options);
    options.struct_size = offsetof(kz_options, layout);
    options.layout = "nonsense that is not to be read";
    kz_generator *gen = open_with("static:1", &options);
    shut(gen);
}

static void a_source_that_is_not_there_is_refused(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SMALL);
    assert_not_opened("", &options, KZ_INVALID, "not a URL");
    assert_not_opened("7", &options, KZ_INVALID, "static:7");
    assert_not_opened("statik:7", &options, KZ_UNSUPPORTED, "\"statik:\"");
    assert_not_opened("Static:7", &options, KZ_UNSUPPORTED, "static:, env:, standalone:");
#ifndef KZ_HAVE_ETCD
    assert_not_opened("etcd://localhost", &options, KZ_UNSUPPORTED, "etcd: is not in this build");
#endif
    assert_not_opened("static:1?stat=x", &options, KZ_INVALID, "\"stat\"");
    assert_not_opened("static:1?default=1", &options, KZ_INVALID, "\"default\"");
    assert_not_opened("static:1?state=", &options, KZ_INVALID, "state");
    assert_not_opened("standalone:?state=x", &options, KZ_INVALID, "state");
    assert_not_opened("standalone:x", &options, KZ_INVALID, "\"x\"");
    assert_not_opened("env:", &options, KZ_INVALID, "no variable");
    options.layout = "sonyflake";
    assert_not_opened("static:1", &options, KZ_UNSUPPORTED, "sonyflake");
}

static void a_node_must_fit_in_its_bits(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("41-10-12@2026-01-01");
    const char *const bad[] = {"static:1024", "static:99999999999999999999999", "static:4294967296"};
    for (size_t i = 0; i < 3; i++)
        assert_not_opened(bad[i], &options, KZ_INVALID, "0..1023");
    const char *const none[] = {"static:",   "static:-1",  "static:+1", "static:1x",
                                "static: 1", "static:0x1", "static:1.0"};
    for (size_t i = 0; i < 7; i++)
        assert_not_opened(none[i], &options, KZ_INVALID, "is not a node number (0..1023)");
    shut(open_with("static:1023", &options));
    options.layout = "mastodon";
    assert_not_opened("static:1", &options, KZ_INVALID, "0..0");
    shut(open_with("static:0", &options));
}

static void the_widest_node_numbers_are_read_whole(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("31-32-1@2026-01-01");
    assert_not_opened("static:4294967296", &options, KZ_INVALID, "0..4294967295");
    assert_not_opened("static:42949672950", &options, KZ_INVALID, "0..4294967295");
    assert_not_opened("static:4294967295000", &options, KZ_INVALID, "0..4294967295");
    kz_generator *gen = open_with("static:4294967295", &options);
    assert_int_equal(next_of(gen) >> 1 & UINT32_MAX, UINT32_MAX);
    shut(gen);
}

static void kazahana_keeps_its_upper_half_from_static_nodes(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("kazahana");
    shut(open_with("static:8191", &options));
    assert_not_opened("static:8192", &options, KZ_INVALID, "0..8191");
    assert_not_opened("static:16384", &options, KZ_INVALID, "0..8191");
    options.layout = NULL; /* kazahana is the default */
    assert_not_opened("static:8192", &options, KZ_INVALID, "0..8191");
    options.layout = "41-14-8@2026-01-02";
    shut(open_with("static:16383", &options));
}

static void a_second_generator_on_one_node_is_refused_until_the_first_is_closed(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SMALL);
    kz_generator *first = open_with("static:1", &options);
    assert_not_opened("static:1", &options, KZ_IN_USE, "node 1");
    setenv("KZ_TEST_NODE", "1", 1);
    assert_not_opened("env:KZ_TEST_NODE", &options, KZ_IN_USE, "node 1");
    kz_generator *other_node = open_with("static:2", &options);
    options.layout = "41-2-2@2026-01-02";
    kz_generator *other_layout = open_with("static:1", &options);
    /* Divided otherwise, another number is the same place: slots 4 to 7 are nodes 2 and 3 of 41-3-1. */
    options.layout = "41-3-1@2026-01-01";
    assert_not_opened("static:2", &options, KZ_IN_USE, "node 2");
    assert_not_opened("static:3", &options, KZ_IN_USE, "node 3");
    kz_generator *beside = open_with("static:1", &options);
    shut(beside);
    options.layout = SMALL;
    shut(first);
    first = open_with("static:1", &options);
    assert_not_opened("static:1", &options, KZ_IN_USE, "node 1");
    shut(other_layout);
    shut(other_node);
    shut(first);
    kz_close(NULL);
}

/* On the machine's clock: closing and opening takes less than a millisecond. */
static void a_node_that_is_opened_again_goes_on_above_what_it_gave(void **state)
{
    (void)state;
    kz_options options;
    kz_options_init(&options);
    kz_id last = 0;
    for (int i = 0; i < 2000; i++) {
        /* Divided otherwise it is the same place. */
        options.layout = i % 2 ? "41-10-12@2026-01-01" : "41-11-11@2026-01-01";
        kz_generator *gen = open_with(i % 2 ? "static:7" : "static:14", &options);
        kz_id id;
        assert_ok(kz_next(gen, &id));
        assert_true(id > last);
        last = id;
        shut(gen);
    }
}

static void a_node_comes_from_the_environment(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("41-10-12@2026-01-01");
    setenv("KZ_TEST_NODE", "7", 1);
    kz_generator *gen = open_with("env:KZ_TEST_NODE", &options);
    assert_int_equal(next_of(gen) >> 12 & 1023, 7);
    shut(gen);
    gen = open_with("env:KZ_TEST_NODE?default=9", &options);
    assert_int_equal(next_of(gen) >> 12 & 1023, 7);
    shut(gen);
    const char *const bad[] = {"abc", "-1", "1024", "", " 7", "7 "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("KZ_TEST_NODE", bad[i], 1);
        assert_not_opened("env:KZ_TEST_NODE", &options, KZ_INVALID, bad[i]);
        assert_not_opened("env:KZ_TEST_NODE", &options, KZ_INVALID, "KZ_TEST_NODE");
        assert_not_opened("env:KZ_TEST_NODE?default=0", &options, KZ_INVALID, "0..1023");
    }
    unsetenv("KZ_TEST_NODE");
    assert_not_opened("env:KZ_TEST_NODE", &options, KZ_INVALID, "KZ_TEST_NODE is not set");
    assert_not_opened("env:KZ_TEST_NODE", &options, KZ_INVALID, "0..1023");
    assert_not_opened("env:KZ_TEST_NODE?default=1024", &options, KZ_INVALID, "1024");
    gen = open_with("env:KZ_TEST_NODE?default=9", &options);
    assert_int_equal(next_of(gen) >> 12 & 1023, 9);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- standalone */

static unsigned warnings;

static void count_warnings(void *ctx, kz_log_level level, const char *message)
{
    assert_ptr_equal(ctx, &warnings);
    warnings += level == KZ_LOG_WARNING && strstr(message, "unfenced") != NULL;
}

static void standalone_mints_random_ids_in_the_upper_half_and_says_so(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for("kazahana");
    options.log = count_warnings;
    options.log_ctx = &warnings;
    warnings = 0;
    kz_generator *gen = open_with("standalone:", &options);
    assert_int_equal(warnings, 1);
    kz_layout layout;
    assert_ok(kz_layout_parse("kazahana", &layout, NULL));
    kz_id last = 0, starts[100];
    for (int ms = 0; ms < 100; ms++) {
        for (int i = 0; i < 3; i++) {
            kz_id id = next_of(gen);
            kz_parts parts;
            assert_ok(kz_decode(&layout, id, &parts, NULL));
            assert_true(parts.fallback);
            assert_true(id > last);
            last = id;
            if (i == 0)
                starts[ms] = id & ((1 << 21) - 1);
        }
        virtual_advance(&now, VIRTUAL_MS);
    }
    /* Chance is all they have: hardly two of a hundred starts are equal. */
    int equal = 0;
    for (int i = 0; i < 100; i++)
        for (int j = 0; j < i; j++)
            equal += starts[i] == starts[j];
    assert_true(equal <= 2);
    kz_stats stats = stats_of(gen);
    assert_true(stats.ids_unfenced >= 298 && stats.ids_unfenced <= 300);
    assert_int_equal(stats.ids_leased, 0);
    shut(gen);
}

static void standalone_wants_fallback_and_node_bits(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SMALL);
    options.fallback = KZ_FALLBACK_NEVER;
    assert_not_opened("standalone:", &options, KZ_NO_PROVIDER, "fallback is disabled");
    options.fallback = KZ_FALLBACK_ANY;
    options.layout = "mastodon";
    assert_not_opened("standalone:", &options, KZ_INVALID, "node bits");
    options.layout = SMALL;
    kz_generator *gen = open_with("standalone:", &options);
    assert_true(next_of(gen) >> 3 & 1);
    kz_generator *second = open_with("standalone:", &options); /* as many as one likes */
    shut(second);
    shut(gen);
}

static void a_refused_source_leaves_nothing_behind(void **state)
{
    (void)state;
    begin_at(1000);
    kz_options options = options_for(SMALL);
    assert_not_opened("static:1?state=/nonexistent-folder/state", &options, KZ_STATE, "/nonexistent-folder/state");
    shut(open_with("static:1", &options));
}

#define TEST(name) cmocka_unit_test_teardown(name, shut_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_carry_the_clock_the_node_and_a_sequence_from_zero),
        TEST(a_long_walk_increases_and_never_shows_the_future),
        TEST(a_used_up_millisecond_sleeps_exactly_to_the_next),
        TEST(logical_too_waits_for_the_next_millisecond_when_the_clock_is_right),
        TEST(the_first_millisecond_of_all_can_be_used),
        TEST(a_timeout_bounds_the_whole_call),
        TEST(without_a_limit_a_call_goes_on),
        TEST(try_next_never_sleeps),
        TEST(blocks_that_overlap_are_refused_in_either_order),
        TEST(try_batch_gives_what_there_is_and_says_when_there_is_more),
        TEST(after_a_step_back_it_is_worth_asking_again_before_long),
        TEST(a_timeout_of_zero_in_the_options_never_sleeps),
        TEST(fail_says_by_how_much_and_goes_on_when_the_clock_is_right),
        TEST(wait_sleeps_until_the_clock_is_back),
        TEST(wait_refuses_more_than_its_limit_at_once),
        TEST(wait_looks_again_after_sleeping),
        TEST(wait_gives_up_when_the_clock_is_set_back_beyond_its_limit_meanwhile),
        TEST(wait_notices_early_that_the_clock_was_set_right),
        TEST(wait_on_a_clock_that_stands_ends_with_the_timeout),
        TEST(the_shorter_of_timeout_and_limit_wins),
        TEST(a_negative_limit_waits_for_as_long_as_it_takes),
        TEST(logical_goes_on_upward_and_is_bounded),
        TEST(logical_comes_back_to_the_clock_when_it_has_caught_up),
        TEST(repeated_steps_backwards_do_not_carry_logical_ever_further),
        TEST(steps_backwards_are_counted_with_the_largest),
        TEST(a_clock_before_the_epoch_is_refused_until_it_is_right),
        TEST(every_epoch_in_the_future_is_refused),
        TEST(a_time_field_that_has_run_out_is_refused),
        TEST(a_time_field_of_64_bits_does_not_come_round_again),
        TEST(the_last_slots_of_the_last_millisecond_overflow_without_a_wait),
        TEST(a_random_start_stays_in_the_lower_half_and_never_wraps),
        TEST(a_random_start_in_a_block_of_one_or_two_is_its_first),
        TEST(a_batch_goes_over_milliseconds_and_increases),
        TEST(a_batch_that_fails_loses_ids_but_repeats_none),
        TEST(stats_say_what_was_done),
        TEST(stats_without_a_size_are_refused_and_a_shorter_struct_is_served),
        TEST(options_begin_with_the_documented_defaults),
        TEST(options_that_make_no_sense_are_refused),
        TEST(an_older_and_shorter_options_struct_gets_the_defaults),
        TEST(a_source_that_is_not_there_is_refused),
        TEST(a_node_must_fit_in_its_bits),
        TEST(the_widest_node_numbers_are_read_whole),
        TEST(kazahana_keeps_its_upper_half_from_static_nodes),
        TEST(a_second_generator_on_one_node_is_refused_until_the_first_is_closed),
        TEST(a_node_that_is_opened_again_goes_on_above_what_it_gave),
        TEST(a_node_comes_from_the_environment),
        TEST(standalone_mints_random_ids_in_the_upper_half_and_says_so),
        TEST(standalone_wants_fallback_and_node_bits),
        TEST(a_refused_source_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
