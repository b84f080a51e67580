/* The keeper's decisions: which leases to ask for, when, and when to give them back. */
#include "tests/test.h"

#include "core/keeper.h"
#include "tests/random.h"

#define START_MS INT64_C(1793700000000)
#define LEASE_MS INT64_C(600000)
#define ROOM     64

/* A keeper, the time, and what it wanted last. */
typedef struct desk {
    kz__keeper keeper;
    kz__held held[ROOM];
    kz__seen seen;
    int64_t boot_ms, now_ms;
    uint64_t random;
    uint64_t generation;
    uint32_t next_id;
    kz__task task;
    kz_error err;
} desk;

static void begin(desk *d, uint32_t min, uint32_t max)
{
    *d = (desk){.boot_ms = 5000, .now_ms = START_MS, .random = 1, .generation = 10};
    d->keeper = (kz__keeper){.throughput_min = min,
                             .throughput_max = max,
                             .renew_at = 0.9,
                             .retry_initial_ms = 1000,
                             .retry_max_ms = 60000,
                             .held_room = ROOM,
                             .seen = &d->seen};
}

static void pass(desk *d, int64_t ms)
{
    d->boot_ms += ms;
    d->now_ms += ms;
}

static kz__deed plan_used(desk *d, uint32_t used_per_ms)
{
    d->keeper.held = d->held;
    const uint64_t random[2] = {test_random(&d->random), test_random(&d->random)};
    kz__keeper_plan(&d->keeper, d->boot_ms, d->now_ms, used_per_ms, random, &d->task);
    return d->task.deed;
}

static kz__deed plan(desk *d)
{
    return plan_used(d, 0);
}

static kz_lease make_lease(desk *d, bool twin)
{
    kz_lease lease = {.created_ms = d->now_ms,
                      .expired_ms = d->now_ms + LEASE_MS,
                      .fallback_created_ms = d->now_ms + LEASE_MS,
                      .fallback_expired_ms = d->now_ms + LEASE_MS,
                      .id = d->next_id++,
                      .reserved_bits = 1,
                      .time_bits = 41,
                      .node_bits = 14,
                      .seq_bits = 8};
    if (twin) {
        lease.fallback_created_ms = d->now_ms;
        lease.fallback_expired_ms = d->now_ms + 4 * LEASE_MS;
    }
    return lease;
}

static kz_status grant(desk *d, size_t count, bool twin)
{
    static kz_grant answer;
    answer = (kz_grant){.source_ms = d->now_ms, .generation = d->generation++, .count = count};
    for (size_t i = 0; i < count; i++)
        answer.leases[i] = make_lease(d, twin);
    kz_status status = kz__keeper_check_generation(&d->keeper, answer.generation, true, d->boot_ms, &d->err);
    if (status == KZ_OK)
        kz__keeper_granted(&d->keeper, &answer, d->boot_ms, d->now_ms, test_random(&d->random));
    return status;
}

/* The first lease is there. */
static void begin_held(desk *d, uint32_t min, uint32_t max, bool twin)
{
    begin(d, min, max);
    assert_int_equal(plan(d), KZ__ACQUIRE);
    assert_ok(grant(d, (min + 255) / 256, twin));
}

/* Rests until it wants something, and says how long that took. */
static int64_t rest_used(desk *d, uint32_t used_per_ms)
{
    int64_t from_ms = d->boot_ms;
    while (plan_used(d, used_per_ms) == KZ__REST) {
        assert_true(d->task.until_boot_ms > d->boot_ms);
        assert_true(d->task.until_boot_ms != KZ__NEVER_MS);
        pass(d, d->task.until_boot_ms - d->boot_ms);
    }
    return d->boot_ms - from_ms;
}

static void fail_with(desk *d, kz_status status)
{
    kz__keeper_failed(&d->keeper, status, d->boot_ms, d->now_ms, test_random(&d->random));
}

/* ---------------------------------------------------------------------------------------------------- handover */

static void the_first_lease_is_asked_for_at_once(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 4096);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_int_equal(d.task.throughput, 256);
    assert_false(d.keeper.widening);
    begin(&d, 700, 4096);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_int_equal(d.task.throughput, 700);
}

static void one_request_is_in_flight_at_a_time(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 4096);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    /* Whatever happens meanwhile. */
    d.keeper.needed = d.keeper.exhausted = true;
    for (int i = 0; i < 3; i++, pass(&d, LEASE_MS)) {
        assert_int_equal(plan(&d), KZ__REST);
        assert_int_equal(d.task.until_boot_ms, KZ__NEVER_MS);
    }
    assert_ok(grant(&d, 1, true));
    d.keeper.closing = true;
    assert_int_equal(plan(&d), KZ__RELEASE);
    assert_int_equal(plan(&d), KZ__REST);
    kz__keeper_finished(&d.keeper, d.boot_ms);
    assert_int_equal(plan(&d), KZ__STOP);
}

static void the_handover_is_at_90_percent_and_a_little_early_for_everybody_else(void **state)
{
    (void)state;
    int64_t earliest = LEASE_MS, latest = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        desk d;
        begin(&d, 256, 256);
        d.random = seed;
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        assert_ok(grant(&d, 1, true));
        int64_t after_ms = rest_used(&d, 0);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        if (after_ms < earliest)
            earliest = after_ms;
        if (after_ms > latest)
            latest = after_ms;
    }
    assert_in_range(latest, LEASE_MS * 898 / 1000, LEASE_MS * 9 / 10);
    assert_in_range(earliest, LEASE_MS * 855 / 1000, LEASE_MS * 857 / 1000);
}

static void another_part_can_be_chosen(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    d.keeper.renew_at = 0.5;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 1, true));
    assert_in_range(rest_used(&d, 0), LEASE_MS * 475 / 1000, LEASE_MS / 2);
}

static void the_lease_that_ends_first_plans_the_handover(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    int64_t planned_ms = d.keeper.renew_boot_ms;
    pass(&d, LEASE_MS / 2);
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_true(d.keeper.widening);
    assert_ok(grant(&d, 1, true));
    int64_t off_ms = d.keeper.renew_boot_ms - planned_ms;
    assert_true(off_ms < LEASE_MS / 20 && off_ms > -LEASE_MS / 20);
}

static void a_handover_asks_for_the_whole_throughput_wanted(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 1024, 4096, true);
    assert_int_equal(kz__keeper_throughput(&d.keeper), 1024);
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    /* Not for what is missing at that moment, which is nothing. */
    assert_int_equal(d.task.throughput, 1024);
    assert_false(d.keeper.widening);
    assert_ok(grant(&d, 4, true));
    assert_int_equal(kz__keeper_throughput(&d.keeper), 1024);
    assert_int_equal(d.keeper.held_count, 8);
}

static void what_the_last_window_used_is_asked_for_so_that_a_burst_goes_back(void **state)
{
    (void)state;
    const uint32_t used[][2] = {{0, 256}, {255, 256}, {257, 257}, {2000, 2000}, {4096, 4096}, {9999, 4096}};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        desk d;
        begin_held(&d, 256, 4096, true);
        rest_used(&d, used[i][0]);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        assert_int_equal(d.task.throughput, used[i][1]);
    }
}

static void the_old_lease_is_used_to_its_end_and_then_given_back_with_its_twin(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    rest_used(&d, 0);
    int64_t end_ms = d.keeper.held[0].lease.expired_ms;
    assert_true(d.now_ms < end_ms);
    assert_ok(grant(&d, 1, true));
    assert_int_equal(d.keeper.held_count, 2);
    assert_true(d.keeper.held[0].superseded);
    assert_false(d.keeper.held[1].superseded);
    /* Held until the very end, which is no longer its own. */
    assert_int_equal(plan(&d), KZ__REST);
    pass(&d, end_ms - 1 - d.now_ms);
    assert_int_equal(plan(&d), KZ__REST);
    assert_int_equal(d.task.until_boot_ms, d.boot_ms + 1);
    assert_int_equal(d.keeper.held_count, 2);
    pass(&d, 1);
    assert_int_equal(plan(&d), KZ__RELEASE);
    assert_int_equal(d.task.lease.id, 0);
    assert_int_equal(d.keeper.held_count, 1);
    assert_int_equal(d.keeper.held[0].lease.id, 1);
    kz__keeper_finished(&d.keeper, d.boot_ms);
    assert_int_equal(plan(&d), KZ__REST);
}

static void an_old_lease_without_a_twin_is_dropped_without_a_word(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 512, 512, false);
    rest_used(&d, 0);
    assert_ok(grant(&d, 2, false));
    assert_int_equal(d.keeper.held_count, 4);
    pass(&d, d.keeper.held[0].lease.expired_ms - d.now_ms);
    assert_int_equal(plan(&d), KZ__REST);
    assert_int_equal(d.keeper.held_count, 2);
    assert_int_equal(d.keeper.held[0].lease.id, 2);
}

static void of_old_leases_only_those_with_a_twin_are_given_back(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, false);
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 1, true));
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 2, false));
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    assert_ok(grant(&d, 1, false));
    pass(&d, LEASE_MS / 5);
    assert_int_equal(plan(&d), KZ__RELEASE);
    assert_int_equal(d.task.lease.id, 1);
    kz__keeper_finished(&d.keeper, d.boot_ms);
    assert_int_equal(plan(&d), KZ__REST);
    assert_int_equal(d.keeper.held_count, 1);
    assert_int_equal(d.keeper.held[0].lease.id, 4);
}

/* A lease that nothing has succeeded stays, for its twin is all there is to go on with. */
static void without_a_successor_an_ended_lease_stays_for_its_twin(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    for (int i = 0; i < 40; i++) {
        rest_used(&d, 0);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        fail_with(&d, KZ_UNAVAILABLE);
    }
    assert_true(d.now_ms > d.keeper.held[0].lease.expired_ms);
    assert_int_equal(d.keeper.held_count, 1);
    rest_used(&d, 0);
    assert_ok(grant(&d, 1, true));
    /* Now it can go, at once. */
    assert_int_equal(plan(&d), KZ__RELEASE);
    assert_int_equal(d.task.lease.id, 0);
}

static void a_lease_without_an_end_is_never_handed_over(void **state)
{
    (void)state;
    desk d;
    static kz_grant answer;
    begin(&d, 256, 256);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    answer = (kz_grant){.source_ms = d.now_ms, .count = 1};
    answer.leases[0] = make_lease(&d, false);
    answer.leases[0].expired_ms = INT64_MAX;
    kz__keeper_granted(&d.keeper, &answer, d.boot_ms, d.now_ms, 0);
    assert_int_equal(plan(&d), KZ__REST);
    assert_int_equal(d.task.until_boot_ms, KZ__NEVER_MS);
}

/* The source says when, whatever the window's length; still a little early for everybody else. */
static void a_grant_can_say_when_the_next_is_asked_for(void **state)
{
    (void)state;
    static kz_grant answer;
    int64_t earliest = LEASE_MS, latest = 0;
    for (uint64_t random = 0; random < 1024; random++) {
        desk d;
        begin(&d, 256, 256);
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        answer = (kz_grant){.source_ms = d.now_ms, .renew_after_ms = 60000, .count = 1};
        answer.leases[0] = make_lease(&d, true);
        kz__keeper_granted(&d.keeper, &answer, d.boot_ms, d.now_ms, random);
        int64_t after_ms = rest_used(&d, 0);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        earliest = after_ms < earliest ? after_ms : earliest;
        latest = after_ms > latest ? after_ms : latest;
    }
    assert_int_equal(latest, 60000);
    assert_in_range(earliest, 57000, 57100);
}

static void an_acquire_names_the_lease_it_succeeds(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 4096);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_false(d.task.succeeds);
    assert_ok(grant(&d, 1, false));
    /* More is asked for, which succeeds nothing. */
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_false(d.task.succeeds);
    fail_with(&d, KZ_NO_FREE_NODE);
    pass(&d, LEASE_MS * 9 / 10);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_true(d.task.succeeds);
    assert_int_equal(d.task.lease.id, 0);
    assert_ok(grant(&d, 1, false));
    d.keeper.needed = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_true(d.task.succeeds);
    assert_int_equal(d.task.lease.id, 1);
}

/* As TSID slots and fixed nodes with a mark do. */
static void a_lease_on_the_same_block_and_secret_makes_the_old_one_longer(void **state)
{
    (void)state;
    static kz_grant answer;
    desk d;
    begin_held(&d, 256, 256, false);
    kz_lease first = d.held[0].lease;
    for (int i = 0; i < 5; i++) {
        rest_used(&d, 0);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        answer = (kz_grant){.source_ms = d.now_ms, .count = 1};
        answer.leases[0] = first;
        /* From the old end on, or all of it once more. */
        answer.leases[0].created_ms = i % 2 ? first.created_ms : d.held[0].lease.expired_ms;
        answer.leases[0].expired_ms = d.now_ms + LEASE_MS;
        kz__keeper_granted(&d.keeper, &answer, d.boot_ms, d.now_ms, 0);
        assert_int_equal(d.keeper.held_count, 1);
        assert_int_equal(d.held[0].lease.created_ms, first.created_ms);
        assert_int_equal(d.held[0].lease.expired_ms, d.now_ms + LEASE_MS);
        assert_false(d.held[0].superseded);
        assert_int_equal(kz__keeper_throughput(&d.keeper), 256);
    }
    /* Given back once. */
    d.keeper.closing = true;
    assert_int_equal(plan(&d), KZ__RELEASE);
    kz__keeper_finished(&d.keeper, d.boot_ms);
    assert_int_equal(plan(&d), KZ__STOP);

    /* Not another node, another secret, one with a twin, or one after a gap. */
    for (int i = 0; i < 4; i++) {
        begin_held(&d, 256, 256, false);
        d.keeper.needed = true;
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        answer = (kz_grant){.source_ms = d.now_ms, .count = 1};
        kz_lease *next = &answer.leases[0];
        *next = d.held[0].lease;
        next->created_ms = next->expired_ms + (i == 3);
        next->expired_ms += LEASE_MS;
        next->id += i == 0;
        strcpy(next->secret, i == 1 ? "another" : "");
        next->fallback_expired_ms += i == 2;
        kz__keeper_granted(&d.keeper, &answer, d.boot_ms, d.now_ms, 0);
        assert_int_equal(d.keeper.held_count, 2);
        assert_true(d.held[0].superseded);
    }
}

static void what_was_lost_is_dropped_and_another_asked_for_at_once(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 512, 512, true);
    d.keeper.sync_every_ms = 30000;
    d.keeper.sync_boot_ms = d.boot_ms + 30000;
    pass(&d, 30000);
    assert_int_equal(plan(&d), KZ__SYNC);
    kz__keeper_lost(&d.keeper, d.boot_ms);
    assert_int_equal(d.keeper.held_count, 0);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_false(d.task.succeeds);
    assert_int_equal(d.task.throughput, 512);
    assert_ok(grant(&d, 2, true));
    assert_int_equal(plan(&d), KZ__REST);
    /* A repetition is none any more: it was about what is lost. */
    d.keeper.needed = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    uint8_t before[KZ_REQUEST_ID_SIZE];
    memcpy(before, d.keeper.request_id, sizeof before);
    fail_with(&d, KZ_UNAVAILABLE);
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    assert_memory_equal(d.keeper.request_id, before, sizeof before);
    kz__keeper_lost(&d.keeper, d.boot_ms);
    assert_int_equal(d.keeper.failures, 0);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_memory_not_equal(d.keeper.request_id, before, sizeof before);
}

static void who_holds_nothing_does_not_wait_for_the_plan(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    assert_int_equal(plan(&d), KZ__REST);
    d.keeper.needed = true;
    assert_int_equal(plan_used(&d, 600), KZ__ACQUIRE);
    /* A handover, not more of the same. */
    assert_false(d.keeper.widening);
    assert_int_equal(d.task.throughput, 600);
    assert_ok(grant(&d, 3, true));
    assert_false(d.keeper.needed);
    assert_true(d.keeper.held[0].superseded);
}

static void the_time_is_asked_for_in_between(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    d.keeper.sync_every_ms = 30000;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 1, true));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rest_used(&d, 0), 30000);
        assert_int_equal(d.task.deed, KZ__SYNC);
        assert_int_equal(plan(&d), KZ__REST);
        kz__keeper_finished(&d.keeper, d.boot_ms);
    }
}

/* ---------------------------------------------------------------------------------------------------- widening */

static void widening_doubles_what_is_held_up_to_the_maximum(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 3000, true);
    const uint32_t asked[] = {256, 512, 1024, 3000 - 2048};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        assert_int_equal(plan(&d), KZ__REST);
        d.keeper.exhausted = true;
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        assert_true(d.keeper.widening);
        assert_int_equal(d.task.throughput, asked[i]);
        assert_ok(grant(&d, (asked[i] + 255) / 256, true));
        /* What was there is still in use. */
        for (size_t j = 0; j < d.keeper.held_count; j++)
            assert_false(d.keeper.held[j].superseded);
    }
    assert_true(kz__keeper_throughput(&d.keeper) >= 3000);
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__REST);
}

static void sixteen_leases_come_in_four_steps_and_one_is_left_after_a_quiet_window(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    for (int i = 0; i < 4; i++) {
        d.keeper.exhausted = true;
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        assert_ok(grant(&d, d.task.throughput / 256, true));
    }
    assert_int_equal(d.keeper.held_count, 16);
    assert_int_equal(kz__keeper_throughput(&d.keeper), 4096);
    rest_used(&d, 3);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    assert_int_equal(d.task.throughput, 256);
    assert_ok(grant(&d, 1, true));
    assert_int_equal(kz__keeper_throughput(&d.keeper), 256);
    for (int i = 0; i < 16; i++) {
        rest_used(&d, 3);
        assert_int_equal(d.task.deed, KZ__RELEASE);
        kz__keeper_finished(&d.keeper, d.boot_ms);
    }
    assert_int_equal(d.keeper.held_count, 1);
}

static void widening_that_fails_waits_like_any_other_request(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    fail_with(&d, KZ_NO_FREE_NODE);
    for (int i = 0; i < 500; i++, pass(&d, 1)) {
        d.keeper.exhausted = true;
        assert_int_equal(plan(&d), KZ__REST);
    }
}

static void at_the_time_of_the_handover_there_is_nothing_to_widen(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    d.keeper.exhausted = true;
    pass(&d, LEASE_MS * 9 / 10);
    assert_int_equal(plan_used(&d, 256), KZ__ACQUIRE);
    assert_false(d.keeper.widening);
    assert_int_equal(d.task.throughput, 256);
}

/* ---------------------------------------------------------------------------------------------------- failures */

static void pauses_double_from_1_to_60_seconds_and_are_spread_over_the_upper_half(void **state)
{
    (void)state;
    const int64_t full_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000};
    enum { STEPS = sizeof full_ms / sizeof full_ms[0] };
    int64_t least[STEPS], most[STEPS] = {0};
    for (int i = 0; i < STEPS; i++)
        least[i] = INT64_MAX;
    for (uint64_t seed = 0; seed < 500; seed++) {
        desk d;
        begin(&d, 256, 256);
        d.random = seed;
        for (int i = 0; i < STEPS; i++) {
            assert_int_equal(plan(&d), KZ__ACQUIRE);
            fail_with(&d, seed % 2 ? KZ_UNAVAILABLE : KZ_NO_FREE_NODE);
            int64_t pause_ms = d.keeper.retry_boot_ms - d.boot_ms;
            assert_true(pause_ms > full_ms[i] / 2 && pause_ms <= full_ms[i]);
            least[i] = pause_ms < least[i] ? pause_ms : least[i];
            most[i] = pause_ms > most[i] ? pause_ms : most[i];
            assert_int_equal(plan(&d), KZ__REST);
            assert_int_equal(d.task.until_boot_ms, d.keeper.retry_boot_ms);
            pass(&d, pause_ms);
        }
    }
    for (int i = 0; i < STEPS; i++) {
        assert_true(least[i] < full_ms[i] * 52 / 100);
        assert_true(most[i] > full_ms[i] * 98 / 100);
    }
}

static void a_pause_holds_also_for_who_holds_nothing(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    fail_with(&d, KZ_UNAVAILABLE);
    d.keeper.needed = true;
    assert_int_equal(plan(&d), KZ__REST);
}

static void a_success_begins_the_pauses_anew(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    for (int i = 0; i < 7; i++) {
        rest_used(&d, 0);
        fail_with(&d, KZ_UNAVAILABLE);
    }
    assert_int_equal(d.keeper.failures, 7);
    rest_used(&d, 0);
    assert_ok(grant(&d, 1, true));
    assert_int_equal(d.keeper.failures, 0);
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    fail_with(&d, KZ_UNAVAILABLE);
    assert_in_range(d.keeper.retry_boot_ms - d.boot_ms, 501, 1000);
}

static void no_pause_is_longer_than_half_of_what_is_left_of_the_window(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        desk d;
        begin_held(&d, 256, 256, true);
        d.random = seed;
        rest_used(&d, 0);
        for (int tries = 0;; tries++) {
            int64_t left_ms = d.keeper.held[0].lease.expired_ms - d.now_ms;
            if (left_ms / 2 <= d.keeper.retry_initial_ms) {
                /* 90 % of 10 minutes leave a minute, which pauses that only double would have slept through. */
                assert_true(tries >= 6);
                break;
            }
            fail_with(&d, KZ_UNAVAILABLE);
            assert_true(d.keeper.retry_boot_ms - d.boot_ms <= left_ms / 2);
            rest_used(&d, 0);
            assert_int_equal(d.task.deed, KZ__ACQUIRE);
        }
    }
}

static void an_unknown_outcome_is_asked_for_again_under_the_same_id(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 4096);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    uint8_t id[KZ_REQUEST_ID_SIZE];
    memcpy(id, d.keeper.request_id, sizeof id);
    for (int i = 0; i < 4; i++) {
        fail_with(&d, KZ_UNAVAILABLE);
        rest_used(&d, 4000);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        assert_memory_equal(d.keeper.request_id, id, sizeof id);
        assert_int_equal(d.task.throughput, 256);
    }
    assert_ok(grant(&d, 1, true));
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    assert_memory_not_equal(d.keeper.request_id, id, sizeof id);
}

static void a_widening_of_unknown_outcome_is_repeated_as_one(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 4096, true);
    d.keeper.exhausted = true;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    fail_with(&d, KZ_UNAVAILABLE);
    rest_used(&d, 0);
    assert_int_equal(d.task.deed, KZ__ACQUIRE);
    assert_true(d.keeper.widening);
    assert_int_equal(d.task.throughput, 256);
    assert_ok(grant(&d, 1, true));
    assert_int_equal(kz__keeper_throughput(&d.keeper), 512);
}

static void a_refusal_draws_a_new_id(void **state)
{
    (void)state;
    const kz_status refusals[] = {KZ_NO_FREE_NODE, KZ_STORE, KZ_MISMATCH, KZ_CONFLICT, KZ_INVALID, KZ_FORBIDDEN};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        desk d;
        begin(&d, 256, 256);
        assert_int_equal(plan(&d), KZ__ACQUIRE);
        uint8_t id[KZ_REQUEST_ID_SIZE];
        memcpy(id, d.keeper.request_id, sizeof id);
        fail_with(&d, refusals[i]);
        rest_used(&d, 0);
        assert_int_equal(d.task.deed, KZ__ACQUIRE);
        assert_memory_not_equal(d.keeper.request_id, id, sizeof id);
    }
}

static void every_request_has_an_id_of_its_own(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    uint8_t ids[50][KZ_REQUEST_ID_SIZE];
    for (int i = 0; i < 50; i++) {
        rest_used(&d, 0);
        if (d.task.deed == KZ__RELEASE) {
            kz__keeper_finished(&d.keeper, d.boot_ms);
            i--;
            continue;
        }
        memcpy(ids[i], d.keeper.request_id, sizeof ids[i]);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(ids[i], ids[j], sizeof ids[i]);
        assert_ok(grant(&d, 1, true));
    }
}

static void a_source_that_went_back_in_time_is_refused(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    rest_used(&d, 0);
    d.generation = 9;
    assert_status(grant(&d, 1, true), KZ_STORE);
    assert_contains(d.err.message, "was 10 and is 9");
    assert_int_equal(d.keeper.held_count, 1);
    assert_false(d.keeper.held[0].superseded);
    assert_int_equal(d.seen.generation, 10);
    /* Nothing more is asked of it before what it forgot has ended: it would only be wasted. */
    int64_t until_ms = d.boot_ms + 4 * LEASE_MS + LEASE_MS;
    fail_with(&d, KZ_STORE);
    assert_int_equal(plan(&d), KZ__REST);
    assert_int_equal(d.task.until_boot_ms, until_ms);
    /* Till then it is not believed, however high its number grows. */
    d.generation = 1000;
    pass(&d, until_ms - 1 - d.boot_ms);
    assert_status(grant(&d, 1, true), KZ_STORE);
    assert_int_equal(d.keeper.held_count, 1);
    /* After that it is, at whatever number it stands by then. */
    d.generation = 5;
    pass(&d, 1);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 1, true));
    assert_int_equal(d.seen.generation, 5);
    assert_int_equal(d.seen.refused_until_boot_ms, 0);
}

static void a_higher_era_is_believed_whatever_was_before(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    rest_used(&d, 0);
    d.generation = 9;
    assert_status(grant(&d, 1, true), KZ_STORE);
    d.generation = (UINT64_C(1) << 32) + 3;
    assert_ok(grant(&d, 1, true));
    assert_int_equal(d.seen.refused_until_boot_ms, 0);
    assert_int_equal(d.seen.generation, (UINT64_C(1) << 32) + 3);
}

static void an_answer_of_a_lower_era_is_not_used_and_the_next_may_be(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    d.generation = (UINT64_C(2) << 32) + 7;
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    assert_ok(grant(&d, 1, true));
    rest_used(&d, 0);
    d.generation = (UINT64_C(1) << 32) + 4000;
    assert_status(grant(&d, 1, true), KZ_UNAVAILABLE);
    assert_contains(d.err.message, "era 1, and 2 was seen");
    assert_int_equal(d.keeper.held_count, 1);
    assert_int_equal(d.seen.refused_until_boot_ms, 0);
    fail_with(&d, KZ_UNAVAILABLE);
    rest_used(&d, 0);
    d.generation = (UINT64_C(2) << 32) + 8;
    assert_ok(grant(&d, 1, true));
}

/* It may have been an old answer that somebody delivered again. */
static void a_lower_generation_beside_the_time_alone_stops_nobody(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    assert_status(kz__keeper_check_generation(&d.keeper, 9, false, d.boot_ms, &d.err), KZ_STORE);
    assert_int_equal(d.seen.generation, 10);
    assert_int_equal(d.seen.refused_until_boot_ms, 0);
    rest_used(&d, 0);
    assert_ok(grant(&d, 1, true));
    assert_ok(kz__keeper_check_generation(&d.keeper, 50, false, d.boot_ms, &d.err));
    assert_int_equal(d.seen.generation, 50);
}

static void the_same_generation_again_is_no_step_back(void **state)
{
    (void)state;
    desk d;
    begin_held(&d, 256, 256, true);
    rest_used(&d, 0);
    d.generation = 10;
    assert_ok(grant(&d, 1, true));
    assert_int_equal(d.keeper.held_count, 2);
    assert_ok(kz__keeper_check_generation(&d.keeper, 0, true, d.boot_ms, NULL));
    assert_int_equal(d.seen.generation, 10);
}

/* ----------------------------------------------------------------------------------------------------- closing */

static void closing_gives_everything_back(void **state)
{
    (void)state;
    for (int twin = 0; twin < 2; twin++) {
        desk d;
        begin_held(&d, 1024, 4096, twin);
        rest_used(&d, 0);
        assert_ok(grant(&d, 3, twin));
        assert_int_equal(d.keeper.held_count, 7);
        d.keeper.closing = true;
        uint64_t seen = 0;
        for (int i = 0; i < 7; i++) {
            assert_int_equal(plan(&d), KZ__RELEASE);
            seen |= UINT64_C(1) << d.task.lease.id;
            kz__keeper_finished(&d.keeper, d.boot_ms);
        }
        assert_int_equal(seen, 0x7f);
        assert_int_equal(plan(&d), KZ__STOP);
        assert_int_equal(plan(&d), KZ__STOP);
    }
}

static void closing_with_nothing_asks_for_nothing(void **state)
{
    (void)state;
    desk d;
    begin(&d, 256, 256);
    d.keeper.closing = true;
    assert_int_equal(plan(&d), KZ__STOP);
    begin(&d, 256, 256);
    assert_int_equal(plan(&d), KZ__ACQUIRE);
    fail_with(&d, KZ_UNAVAILABLE);
    d.keeper.closing = d.keeper.needed = true;
    assert_int_equal(plan(&d), KZ__STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_lease_is_asked_for_at_once),
        cmocka_unit_test(one_request_is_in_flight_at_a_time),
        cmocka_unit_test(the_handover_is_at_90_percent_and_a_little_early_for_everybody_else),
        cmocka_unit_test(another_part_can_be_chosen),
        cmocka_unit_test(the_lease_that_ends_first_plans_the_handover),
        cmocka_unit_test(a_handover_asks_for_the_whole_throughput_wanted),
        cmocka_unit_test(what_the_last_window_used_is_asked_for_so_that_a_burst_goes_back),
        cmocka_unit_test(the_old_lease_is_used_to_its_end_and_then_given_back_with_its_twin),
        cmocka_unit_test(an_old_lease_without_a_twin_is_dropped_without_a_word),
        cmocka_unit_test(of_old_leases_only_those_with_a_twin_are_given_back),
        cmocka_unit_test(without_a_successor_an_ended_lease_stays_for_its_twin),
        cmocka_unit_test(a_lease_without_an_end_is_never_handed_over),
        cmocka_unit_test(a_grant_can_say_when_the_next_is_asked_for),
        cmocka_unit_test(an_acquire_names_the_lease_it_succeeds),
        cmocka_unit_test(a_lease_on_the_same_block_and_secret_makes_the_old_one_longer),
        cmocka_unit_test(what_was_lost_is_dropped_and_another_asked_for_at_once),
        cmocka_unit_test(who_holds_nothing_does_not_wait_for_the_plan),
        cmocka_unit_test(the_time_is_asked_for_in_between),
        cmocka_unit_test(widening_doubles_what_is_held_up_to_the_maximum),
        cmocka_unit_test(sixteen_leases_come_in_four_steps_and_one_is_left_after_a_quiet_window),
        cmocka_unit_test(widening_that_fails_waits_like_any_other_request),
        cmocka_unit_test(at_the_time_of_the_handover_there_is_nothing_to_widen),
        cmocka_unit_test(pauses_double_from_1_to_60_seconds_and_are_spread_over_the_upper_half),
        cmocka_unit_test(a_pause_holds_also_for_who_holds_nothing),
        cmocka_unit_test(a_success_begins_the_pauses_anew),
        cmocka_unit_test(no_pause_is_longer_than_half_of_what_is_left_of_the_window),
        cmocka_unit_test(an_unknown_outcome_is_asked_for_again_under_the_same_id),
        cmocka_unit_test(a_widening_of_unknown_outcome_is_repeated_as_one),
        cmocka_unit_test(a_refusal_draws_a_new_id),
        cmocka_unit_test(every_request_has_an_id_of_its_own),
        cmocka_unit_test(a_source_that_went_back_in_time_is_refused),
        cmocka_unit_test(a_higher_era_is_believed_whatever_was_before),
        cmocka_unit_test(an_answer_of_a_lower_era_is_not_used_and_the_next_may_be),
        cmocka_unit_test(a_lower_generation_beside_the_time_alone_stops_nobody),
        cmocka_unit_test(the_same_generation_again_is_no_step_back),
        cmocka_unit_test(closing_gives_everything_back),
        cmocka_unit_test(closing_with_nothing_asks_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
