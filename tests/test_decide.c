/* Mint, wait or fail: what is decided in every situation. */
#include "test.h"

#include "core/decide.h"

#include <inttypes.h>

/* Three slot bits; node 1 of two, four slots a millisecond. */
enum { SLOT_BITS = 3, NODE = 4, FULL = 4 };

static const kz__rect node_1 = {.slot = NODE, .end_ms = 1000000, .height = 2};

/* The lowest point not given when `count` of this millisecond's four are. */
static kz_id given(int64_t ms, unsigned count)
{
    return ((kz_id)ms << SLOT_BITS) + NODE + count;
}

#define END_MS ((INT64_C(1) << 61) - 1)

typedef struct situation {
    const char *when;
    kz_backward backward;
    int64_t max_backward_ms, max_ahead_ms;
    kz_id next;
    int64_t high_ms, resume_ms, grace_ms;
    int64_t now_ms, budget_ms;
    /* what must come of it */
    kz__verdict verdict;
    kz_status status;
    kz_id first;
    int64_t until_ms;
    bool exhausted;
    int64_t backward_ms, limit_ms;
} situation;

static void check(const situation *s, size_t count)
{
    for (; count--; s++) {
        kz__stand stand = {.rects = &node_1,
                           .count = 1,
                           .slot_bits = SLOT_BITS,
                           .end_ms = END_MS,
                           .next = s->next,
                           .high_ms = s->high_ms,
                           .resume_ms = s->resume_ms,
                           .grace_ms = s->grace_ms};
        kz__policy policy = {s->backward, s->max_backward_ms, s->max_ahead_ms};
        kz__decision d = kz__decide(&stand, &policy, s->now_ms, s->budget_ms);
        if (d.verdict != s->verdict)
            fail_msg("%s: verdict %d, not %d (status %s)", s->when, d.verdict, s->verdict, kz_status_name(d.status));
        if (s->verdict == KZ__MINT && (d.run.first != s->first || d.run.end != (s->first | 7) + 1))
            fail_msg("%s: run from %" PRIu64 " to %" PRIu64 ", not from %" PRIu64, s->when, d.run.first, d.run.end,
                     s->first);
        if (s->verdict == KZ__WAIT && (d.until_ms != s->until_ms || d.exhausted != s->exhausted))
            fail_msg("%s: waits until %" PRId64 " (exhausted %d)", s->when, d.until_ms, d.exhausted);
        if (s->verdict == KZ__REFUSE &&
            (d.status != s->status || d.backward_ms != s->backward_ms || d.limit_ms != s->limit_ms))
            fail_msg("%s: %s, back %" PRId64 ", limit %" PRId64, s->when, kz_status_name(d.status), d.backward_ms,
                     d.limit_ms);
    }
}

#define CHECK(table) check(table, sizeof table / sizeof table[0])

/* Starts a row: the usual policy is to wait for 5 s at the most, the usual budget 10 s. */
#define WAIT_POLICY .backward = KZ_BACKWARD_WAIT, .max_backward_ms = 5000, .max_ahead_ms = 1000
#define FAIL_POLICY .backward = KZ_BACKWARD_FAIL, .max_backward_ms = 5000, .max_ahead_ms = 1000
#define LOGICAL     .backward = KZ_BACKWARD_LOGICAL, .max_backward_ms = 5000, .max_ahead_ms = 1000

static void a_clock_that_goes_on_mints_at_its_own_time(void **state)
{
    (void)state;
    const situation table[] = {
        {"first ID", WAIT_POLICY, .now_ms = 100, .budget_ms = 0, .verdict = KZ__MINT, .first = given(100, 0)},
        {"first ID at the epoch", FAIL_POLICY, .now_ms = 0, .budget_ms = 0, .verdict = KZ__MINT, .first = given(0, 0)},
        {"same ms", WAIT_POLICY, .next = given(100, 2), .high_ms = 100, .now_ms = 100, .budget_ms = 0,
         .verdict = KZ__MINT, .first = given(100, 2)},
        {"a later ms", LOGICAL, .next = given(100, 2), .high_ms = 100, .now_ms = 103, .budget_ms = 0,
         .verdict = KZ__MINT, .first = given(103, 0)},
    };
    CHECK(table);
}

static void a_millisecond_used_up_waits_for_the_next_one_under_every_policy(void **state)
{
    (void)state;
    const situation table[] = {
        {"wait", WAIT_POLICY, .next = given(100, FULL), .high_ms = 100, .now_ms = 100, .budget_ms = 10000,
         .verdict = KZ__WAIT, .until_ms = 101, .exhausted = true},
        {"fail", FAIL_POLICY, .next = given(100, FULL), .high_ms = 100, .now_ms = 100, .budget_ms = 10000,
         .verdict = KZ__WAIT, .until_ms = 101, .exhausted = true},
        {"logical: not behind, so not ahead", LOGICAL, .next = given(100, FULL), .high_ms = 100, .now_ms = 100,
         .budget_ms = 10000, .verdict = KZ__WAIT, .until_ms = 101, .exhausted = true},
        {"no limit", WAIT_POLICY, .next = given(100, FULL), .high_ms = 100, .now_ms = 100, .budget_ms = -1,
         .verdict = KZ__WAIT, .until_ms = 101, .exhausted = true},
        {"just enough budget", WAIT_POLICY, .next = given(100, FULL), .high_ms = 100, .now_ms = 100, .budget_ms = 1,
         .verdict = KZ__WAIT, .until_ms = 101, .exhausted = true},
        {"no budget", WAIT_POLICY, .next = given(100, FULL), .high_ms = 100, .now_ms = 100, .budget_ms = 0,
         .verdict = KZ__REFUSE, .status = KZ_AGAIN},
    };
    CHECK(table);
}

static void fail_refuses_the_smallest_step_backwards(void **state)
{
    (void)state;
    const situation table[] = {
        {"by 1 ms", FAIL_POLICY, .next = given(100, 1), .high_ms = 100, .now_ms = 99, .budget_ms = 10000,
         .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 1, .limit_ms = 0},
        {"by 90 ms, without budget", FAIL_POLICY, .next = given(100, 1), .high_ms = 100, .now_ms = 10, .budget_ms = 0,
         .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 90, .limit_ms = 0},
        {"no limit of time does not matter", FAIL_POLICY, .next = given(100, 1), .high_ms = 100, .now_ms = 10,
         .budget_ms = -1, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 90, .limit_ms = 0},
    };
    CHECK(table);
}

static void wait_waits_up_to_its_limit_and_fails_beyond(void **state)
{
    (void)state;
    const situation table[] = {
        {"at the limit", WAIT_POLICY, .next = given(6000, 1), .high_ms = 6000, .now_ms = 1000, .budget_ms = 10000,
         .verdict = KZ__WAIT, .until_ms = 6000},
        {"one above", WAIT_POLICY, .next = given(6001, 1), .high_ms = 6001, .now_ms = 1000, .budget_ms = 10000,
         .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 5001, .limit_ms = 5000},
        {"the last ms was full: still until it has come", WAIT_POLICY, .next = given(6000, FULL), .high_ms = 6000,
         .now_ms = 5999, .budget_ms = 10000, .verdict = KZ__WAIT, .until_ms = 6000},
        {"a limit of 0", .backward = KZ_BACKWARD_WAIT, .max_backward_ms = 0, .next = given(100, 1), .high_ms = 100,
         .now_ms = 99, .budget_ms = 10000, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 1},
        {"no limit", .backward = KZ_BACKWARD_WAIT, .max_backward_ms = -1, .next = given(900000, 1), .high_ms = 900000,
         .now_ms = 0, .budget_ms = -1, .verdict = KZ__WAIT, .until_ms = 900000},
    };
    CHECK(table);
}

static void the_shorter_of_budget_and_limit_wins(void **state)
{
    (void)state;
    const situation table[] = {
        {"the budget is shorter", WAIT_POLICY, .next = given(3000, 1), .high_ms = 3000, .now_ms = 1000,
         .budget_ms = 1999, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 2000, .limit_ms = 1999},
        {"the budget is just enough", WAIT_POLICY, .next = given(3000, 1), .high_ms = 3000, .now_ms = 1000,
         .budget_ms = 2000, .verdict = KZ__WAIT, .until_ms = 3000},
        {"no backward limit, but a budget", .backward = KZ_BACKWARD_WAIT, .max_backward_ms = -1, .next = given(3000, 1),
         .high_ms = 3000, .now_ms = 1000, .budget_ms = 100, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD,
         .backward_ms = 2000, .limit_ms = 100},
        {"never sleep, within the limit", WAIT_POLICY, .next = given(3000, 1), .high_ms = 3000, .now_ms = 1000,
         .budget_ms = 0, .verdict = KZ__REFUSE, .status = KZ_AGAIN},
        {"never sleep, beyond the limit", WAIT_POLICY, .next = given(9000, 1), .high_ms = 9000, .now_ms = 1000,
         .budget_ms = 0, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = 8000, .limit_ms = 5000},
    };
    CHECK(table);
}

static void logical_goes_on_upward_up_to_max_ahead_above_the_highest_reading(void **state)
{
    (void)state;
    const situation table[] = {
        {"in the last ms", LOGICAL, .next = given(5000, 2), .high_ms = 5000, .now_ms = 10, .budget_ms = 0,
         .verdict = KZ__MINT, .first = given(5000, 2)},
        {"into the next", LOGICAL, .next = given(5000, FULL), .high_ms = 5000, .now_ms = 10, .budget_ms = 0,
         .verdict = KZ__MINT, .first = given(5001, 0)},
        {"the last that is allowed", LOGICAL, .next = given(5999, FULL), .high_ms = 5000, .now_ms = 10, .budget_ms = 0,
         .verdict = KZ__MINT, .first = given(6000, 0)},
        {"one too far, no budget", LOGICAL, .next = given(6000, FULL), .high_ms = 5000, .now_ms = 10, .budget_ms = 0,
         .verdict = KZ__REFUSE, .status = KZ_AGAIN},
        {"one too far, too far to wait", LOGICAL, .next = given(6000, FULL), .high_ms = 5000, .now_ms = 10,
         .budget_ms = 4990, .verdict = KZ__REFUSE, .status = KZ_TIMEOUT},
        {"one too far: waits for the clock to come within max_ahead", LOGICAL, .next = given(6000, FULL),
         .high_ms = 5000, .now_ms = 10, .budget_ms = 4991, .verdict = KZ__WAIT, .until_ms = 5001},
        {"max_ahead 0", .backward = KZ_BACKWARD_LOGICAL, .next = given(5000, FULL), .high_ms = 5000, .now_ms = 4990,
         .budget_ms = 100, .verdict = KZ__WAIT, .until_ms = 5001},
    };
    CHECK(table);
}

static void before_the_epoch_nothing_is_minted_under_any_policy(void **state)
{
    (void)state;
    const situation table[] = {
        {"wait", WAIT_POLICY, .now_ms = -1, .budget_ms = -1, .verdict = KZ__REFUSE, .status = KZ_BEFORE_EPOCH},
        {"fail", FAIL_POLICY, .now_ms = -1, .budget_ms = 0, .verdict = KZ__REFUSE, .status = KZ_BEFORE_EPOCH},
        {"logical, in the middle of things", LOGICAL, .next = given(100, 1), .high_ms = 100, .now_ms = -5000,
         .budget_ms = 10, .verdict = KZ__REFUSE, .status = KZ_BEFORE_EPOCH},
    };
    CHECK(table);
}

static void a_mark_kept_ahead_on_disk_is_waited_out_within_its_grace(void **state)
{
    (void)state;
    /* A restart: the mark is 3 s ahead by design, so that no policy calls it the clock's fault. */
    const kz_id mark = (kz_id)4000 << SLOT_BITS;
    const situation table[] = {
        {"fail waits for it", FAIL_POLICY, .next = mark, .high_ms = 4000, .resume_ms = 4000, .grace_ms = 3000,
         .now_ms = 1000, .budget_ms = 10000, .verdict = KZ__WAIT, .until_ms = 3999},
        {"but no longer than the grace", FAIL_POLICY, .next = mark, .high_ms = 4000, .resume_ms = 4000,
         .grace_ms = 3000, .now_ms = 998, .budget_ms = 10000, .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD,
         .backward_ms = 3001, .limit_ms = 3000},
        {"a longer limit of its own stands", WAIT_POLICY, .next = mark, .high_ms = 4000, .resume_ms = 4000,
         .grace_ms = 3000, .now_ms = 0, .budget_ms = 10000, .verdict = KZ__WAIT, .until_ms = 3999},
        {"logical goes on at once", LOGICAL, .next = mark, .high_ms = 4000, .resume_ms = 4000, .grace_ms = 3000,
         .now_ms = 1000, .budget_ms = 0, .verdict = KZ__MINT, .first = given(4000, 0)},
        {"at the mark's last ms it is not exhaustion", FAIL_POLICY, .next = mark, .high_ms = 4000, .resume_ms = 4000,
         .grace_ms = 3000, .now_ms = 3999, .budget_ms = 10000, .verdict = KZ__WAIT, .until_ms = 4000},
        {"above the mark there is no grace any more", FAIL_POLICY, .next = given(4000, 1), .high_ms = 4000,
         .resume_ms = 4000, .grace_ms = 3000, .now_ms = 3999, .budget_ms = 10000, .verdict = KZ__REFUSE,
         .status = KZ_CLOCK_BACKWARD, .backward_ms = 1, .limit_ms = 0},
    };
    CHECK(table);
}

static void past_everything_held_there_is_nothing(void **state)
{
    (void)state;
    const situation table[] = {
        {"the clock is past the window", WAIT_POLICY, .next = given(100, 1), .high_ms = 1000000, .now_ms = 1000000,
         .budget_ms = 10, .verdict = KZ__NOTHING_HELD},
        {"the window is used up", WAIT_POLICY, .next = given(999999, FULL), .high_ms = 999999, .now_ms = 999999,
         .budget_ms = 10, .verdict = KZ__NOTHING_HELD},
        {"logical ran to the window's end", LOGICAL, .next = given(999999, FULL), .high_ms = 999999, .now_ms = 5,
         .budget_ms = 10, .verdict = KZ__NOTHING_HELD},
    };
    CHECK(table);
}

static void a_time_that_does_not_fit_in_64_bits_does_not_come_round_again(void **state)
{
    (void)state;
    /* 61 bits for the time above 3 for the slot: the time after the last one must not be taken for the first. */
    const kz__rect all = {.slot = NODE, .end_ms = (UINT64_C(1) << 61) - 1, .height = 2};
    kz__stand stand = {.rects = &all, .count = 1, .slot_bits = SLOT_BITS, .end_ms = END_MS};
    kz__policy policy = {KZ_BACKWARD_WAIT, 5000, 1000};
    int64_t past[] = {INT64_C(1) << 61, (INT64_C(1) << 61) + 5, INT64_C(1) << 62, INT64_MAX};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(kz__decide(&stand, &policy, past[i], 0).status, KZ_OVERFLOW);
}

static void a_gap_in_the_windows_is_waited_out_but_is_no_exhaustion(void **state)
{
    (void)state;
    const kz__rect two[] = {{.slot = NODE, .end_ms = 100, .height = 2},
                            {.slot = NODE, .start_ms = 200, .end_ms = 300, .height = 2}};
    kz__stand stand = {
        .rects = two, .count = 2, .slot_bits = SLOT_BITS, .end_ms = END_MS, .next = given(99, 2), .high_ms = 120};
    kz__policy policy = {KZ_BACKWARD_LOGICAL, 5000, 1000};
    kz__decision d = kz__decide(&stand, &policy, 120, 100);
    assert_int_equal(d.verdict, KZ__WAIT);
    assert_int_equal(d.until_ms, 200);
    assert_false(d.exhausted);
    d = kz__decide(&stand, &policy, 120, 79);
    assert_int_equal(d.verdict, KZ__REFUSE);
    assert_int_equal(d.status, KZ_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_goes_on_mints_at_its_own_time),
        cmocka_unit_test(a_millisecond_used_up_waits_for_the_next_one_under_every_policy),
        cmocka_unit_test(fail_refuses_the_smallest_step_backwards),
        cmocka_unit_test(wait_waits_up_to_its_limit_and_fails_beyond),
        cmocka_unit_test(the_shorter_of_budget_and_limit_wins),
        cmocka_unit_test(logical_goes_on_upward_up_to_max_ahead_above_the_highest_reading),
        cmocka_unit_test(before_the_epoch_nothing_is_minted_under_any_policy),
        cmocka_unit_test(a_mark_kept_ahead_on_disk_is_waited_out_within_its_grace),
        cmocka_unit_test(past_everything_held_there_is_nothing),
        cmocka_unit_test(a_time_that_does_not_fit_in_64_bits_does_not_come_round_again),
        cmocka_unit_test(a_gap_in_the_windows_is_waited_out_but_is_no_exhaustion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
