/* The rules of a lease table, on rows in memory: what is promised about grants and releases. */
#include "core/memory_rows.h"
#include "core/rules.h"
#include "random.h"
#include "sources/table_time.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define T0    INT64_C(1800000000000)
#define LEASE INT64_C(600000)

typedef struct fixture {
    kz__memory_rows *memory;
    kz__rows rows;
    kz__service service;
    uint64_t secrets_drawn;
    kz_grant grant;
    kz_error err;
} fixture;

static fixture *fixture_of(const char *layout_text)
{
    fixture *f = calloc(1, sizeof *f);
    kz_layout layout;
    assert_ok(kz_layout_parse(layout_text, &layout, NULL));
    f->memory = kz__memory_rows_new();
    f->rows = kz__memory_rows_use(f->memory);
    assert_ok(kz__service_init(&f->service, "default", &layout, LEASE, NULL));
    assert_ok(kz__table_create(&f->rows, &f->service, NULL));
    kz__memory_rows_commit(f->memory);
    return f;
}

static void discard(fixture *f)
{
    kz__memory_rows_free(f->memory);
    free(f);
}

/* Ends a transaction as a store does. */
static kz_status settle(fixture *f, const kz__service *before, kz_status status)
{
    if (status == KZ_OK) {
        kz__memory_rows_commit(f->memory);
    } else {
        kz__memory_rows_rollback(f->memory);
        f->service = *before;
    }
    return status;
}

static kz_status acquire_as(fixture *f, uint64_t request, uint32_t throughput, int64_t now_ms)
{
    static char secrets[KZ_GRANT_LEASES_MAX][KZ_SECRET_SIZE];
    for (size_t i = 0; i < KZ_GRANT_LEASES_MAX && i < throughput; i++)
        snprintf(secrets[i], sizeof secrets[i], "%032" PRIx64, ++f->secrets_drawn);
    uint8_t id[KZ_REQUEST_ID_SIZE] = {0};
    memcpy(id, &request, sizeof request);
    kz__table_request asked = {.request = id,
                               .holder = "{}",
                               .throughput_per_ms = throughput,
                               .now_ms = now_ms,
                               .secrets = (const char(*)[KZ_SECRET_SIZE])secrets,
                               .secret_count = KZ_GRANT_LEASES_MAX};
    kz__service before = f->service;
    return settle(f, &before, kz__table_acquire(&f->rows, &f->service, &asked, &f->grant, &f->err));
}

static kz_status acquire(fixture *f, uint32_t throughput, int64_t now_ms)
{
    return acquire_as(f, 0, throughput, now_ms);
}

static kz_lease grant_one(fixture *f, int64_t now_ms)
{
    if (acquire(f, 1, now_ms))
        fail_msg("%s", f->err.message);
    assert_int_equal(f->grant.count, 1);
    return f->grant.leases[0];
}

static kz_status release(fixture *f, uint32_t node, const char *secret, int64_t timestamp_ms, int64_t now_ms)
{
    kz__service before = f->service;
    return settle(f, &before, kz__table_release(&f->rows, &f->service, node, secret, timestamp_ms, now_ms, &f->err));
}

static void assert_window(const kz_lease *lease, uint32_t id, int64_t created_ms, int64_t expired_ms,
                          int64_t twin_from_ms, int64_t twin_to_ms)
{
    assert_int_equal(lease->id, id);
    assert_int_equal(lease->created_ms, created_ms);
    assert_int_equal(lease->expired_ms, expired_ms);
    assert_int_equal(lease->fallback_created_ms, twin_from_ms);
    assert_int_equal(lease->fallback_expired_ms, twin_to_ms);
}

static void a_lease_begins_now_and_its_twin_lasts_four_times_as_long(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    kz_lease lease = grant_one(f, T0);
    assert_window(&lease, 0, T0, T0 + LEASE, T0, T0 + 4 * LEASE);
    assert_int_equal(f->grant.source_ms, T0);
    assert_int_equal(lease.node_bits, 14);
    assert_int_equal(lease.seq_bits, 8);
    assert_int_equal(lease.reserved_bits, 1);
    discard(f);
}

static void a_block_is_granted_again_at_the_very_end_of_its_window_and_not_before(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease first = grant_one(f, T0);
    assert_status(acquire(f, 1, T0 + LEASE - 1), KZ_NO_FREE_NODE);
    kz_lease second = grant_one(f, T0 + LEASE);
    assert_int_equal(first.id, second.id);
    assert_int_equal(second.created_ms, first.expired_ms);
    discard(f);
}

static void a_block_whose_twin_is_out_is_granted_without_one(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    grant_one(f, T0);
    kz_lease second = grant_one(f, T0 + LEASE);
    assert_window(&second, 0, T0 + LEASE, T0 + 2 * LEASE, T0 + 2 * LEASE, T0 + 2 * LEASE);
    kz_lease fifth = grant_one(f, T0 + 4 * LEASE);
    assert_window(&fifth, 0, T0 + 4 * LEASE, T0 + 5 * LEASE, T0 + 4 * LEASE, T0 + 8 * LEASE);
    discard(f);
}

static void a_block_with_a_free_twin_is_preferred(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-3-8@2026-01-01");
    grant_one(f, T0);
    grant_one(f, T0);
    kz_lease third = grant_one(f, T0);
    assert_int_equal(third.id, 2);
    assert_ok(release(f, third.id, third.secret, T0, T0));
    kz_lease fourth = grant_one(f, T0 + 5);
    assert_int_equal(fourth.id, 3);
    /* 0 and 1 are free of leases now, but their twins are out; 2 was released with its twin. */
    kz_lease next = grant_one(f, T0 + LEASE);
    assert_int_equal(next.id, 2);
    discard(f);
}

/* After so many without one the search is not worth going on, though one is there. */
static void a_free_twin_is_looked_for_among_so_many_blocks_and_no_more(void **state)
{
    (void)state;
    for (uint32_t without = KZ__SEARCH_BLOCKS - 1; without <= KZ__SEARCH_BLOCKS; without++) {
        fixture *f = fixture_of("41-9-3@2026-01-01");
        for (uint32_t i = 0; i < without; i++)
            grant_one(f, T0);
        f->service.cursor = 0;
        kz_lease next = grant_one(f, T0 + LEASE);
        assert_int_equal(next.id, without < KZ__SEARCH_BLOCKS ? without : 0);
        discard(f);
    }
}

static void the_search_that_goes_round_finds_the_very_first_block(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-4-3@2026-01-01");
    kz_lease first = grant_one(f, T0);
    for (uint32_t i = 1; i < 8; i++)
        grant_one(f, T0);
    assert_ok(release(f, first.id, first.secret, T0, T0));
    f->service.cursor = 3 * 8;
    kz_lease again = grant_one(f, T0 + 1);
    assert_int_equal(again.id, 0);
    kz__row row;
    assert_ok(f->rows.out_at(f->rows.ctx, 0, &row, NULL));
    assert_int_equal(row.hi, 8);
    discard(f);
}

static void asking_again_for_a_lease_without_a_twin_gives_it_again(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    grant_one(f, T0);
    assert_ok(acquire_as(f, 7, 1, T0 + LEASE));
    kz_lease lease = f->grant.leases[0];
    assert_window(&lease, 0, T0 + LEASE, T0 + 2 * LEASE, T0 + 2 * LEASE, T0 + 2 * LEASE);
    assert_ok(acquire_as(f, 7, 1, T0 + LEASE + 5));
    assert_memory_equal(&lease, &f->grant.leases[0], sizeof lease);
    discard(f);
}

/* Free space that a store makes up, or that ends too early the second time it is asked for. */
static int lies_left;
static kz__rows honest;

static kz_status lying_free_after(void *ctx, uint64_t from, kz__range *range, kz_error *err)
{
    kz_status status = honest.free_after(ctx, from, range, err);
    if (status == KZ_OK && lies_left && --lies_left == 0)
        range->hi = from + 1;
    return status;
}

static void a_store_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-4-3@2026-01-01");
    kz_lease first = grant_one(f, T0);
    assert_ok(f->rows.free_add(f->rows.ctx, (kz__range){(uint64_t)first.id * 8 + 2, (uint64_t)first.id * 8 + 4}, NULL));
    kz__memory_rows_commit(f->memory);
    assert_status(acquire(f, 1, T0 + LEASE), KZ_STORE);
    assert_contains(f->err.message, "free and held at once");
    discard(f);

    f = fixture_of("41-4-3@2026-01-01");
    honest = f->rows;
    f->rows.free_after = lying_free_after;
    lies_left = 3; /* the search asks for the block and its twin, then the block is taken */
    assert_status(acquire(f, 1, T0), KZ_STORE);
    assert_contains(f->err.message, "not free though nobody holds them");
    assert_ok(acquire(f, 1, T0));
    discard(f);
}

static void who_holds_nothing_comes_before_who_wants_more(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-4-3@2026-01-01");
    assert_ok(acquire(f, 40, T0)); /* 5 of 8 */
    assert_int_equal(f->grant.count, 5);
    assert_ok(acquire(f, 24, T0 + LEASE / 2));
    kz__service full = f->service;
    kz__table_request none = {.request = (const uint8_t[KZ_REQUEST_ID_SIZE]){0},
                              .throughput_per_ms = 8,
                              .now_ms = T0 + LEASE / 2,
                              .secrets = (const char[1][KZ_SECRET_SIZE]){"x"},
                              .secret_count = 1};
    assert_status(kz__table_acquire(&f->rows, &f->service, &none, &f->grant, &f->err), KZ_NO_FREE_NODE);
    kz__memory_rows_commit(f->memory);
    assert_true(f->service.refused_ms > full.refused_ms);
    /* Five are free again: each gets one, as long as somebody was refused within a lease. */
    assert_ok(acquire(f, 40, T0 + LEASE));
    assert_int_equal(f->grant.count, 1);
    assert_ok(acquire(f, 40, T0 + LEASE * 3 / 2));
    assert_int_equal(f->grant.count, 5);
    discard(f);
}

static void nodes_are_granted_in_turn(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-4-8@2026-01-01");
    for (uint32_t i = 0; i < 24; i++) {
        kz_lease lease = grant_one(f, T0 + i * 10);
        assert_int_equal(lease.id, i % 8);
        assert_ok(release(f, lease.id, lease.secret, T0 + i * 10, T0 + i * 10));
    }
    discard(f);
}

static void a_release_frees_the_block_only_after_its_timestamp(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease lease = grant_one(f, T0);
    assert_ok(release(f, 0, lease.secret, T0 + 500, T0 + 100));
    assert_status(acquire(f, 1, T0 + 500), KZ_NO_FREE_NODE);
    kz_lease next = grant_one(f, T0 + 501);
    assert_window(&next, 0, T0 + 501, T0 + 501 + LEASE, T0 + 501, T0 + 501 + 4 * LEASE);
    discard(f);
}

static void a_release_neither_lengthens_a_lease_nor_ends_it_before_its_start(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease lease = grant_one(f, T0);
    assert_ok(release(f, 0, lease.secret, T0 + 100 * LEASE, T0 + 1));
    assert_status(acquire(f, 1, T0 + LEASE - 1), KZ_NO_FREE_NODE);
    lease = grant_one(f, T0 + LEASE);
    assert_ok(release(f, 0, lease.secret, T0 - 5, T0 + LEASE));
    kz__row row;
    assert_ok(f->rows.out_at(f->rows.ctx, 0, &row, NULL));
    assert_int_equal(row.end_ms, row.start_ms);
    discard(f);
}

static void a_release_with_the_extreme_timestamps_does_not_overflow(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    kz_lease lease = grant_one(f, T0);
    assert_ok(release(f, 0, lease.secret, INT64_MAX, T0));
    lease = grant_one(f, T0);
    assert_ok(release(f, lease.id, lease.secret, INT64_MIN, T0));
    discard(f);
}

static void a_late_or_repeated_release_of_an_older_lease_changes_nothing(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease old = grant_one(f, T0);
    assert_ok(release(f, 0, old.secret, T0 + 9, T0 + 10));
    assert_status(release(f, 0, old.secret, T0 + 9, T0 + 10), KZ_NOT_FOUND);
    kz_lease new = grant_one(f, T0 + 10);
    uint64_t generation = f->service.generation;
    assert_status(release(f, 0, old.secret, T0 + 11, T0 + 11), KZ_FORBIDDEN);
    assert_int_equal(f->service.generation, generation);
    kz__row row;
    assert_ok(f->rows.out_by_node(f->rows.ctx, 0, &row, NULL));
    assert_int_equal(row.end_ms, new.expired_ms);
    assert_false(row.released);
    assert_status(release(f, 1, old.secret, T0 + 11, T0 + 11), KZ_NOT_FOUND);
    assert_ok(release(f, 0, new.secret, T0 + 11, T0 + 11));
    discard(f);
}

static void a_release_after_the_window_ends_the_twin_alone(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease old = grant_one(f, T0);
    kz_lease new = grant_one(f, T0 + LEASE);
    assert_int_equal(new.id, old.id);
    /* The number is another's by now: the secret tells which lease is meant. */
    assert_ok(release(f, old.id, old.secret, T0 + LEASE + 5, T0 + LEASE + 5));
    kz__row row;
    assert_ok(f->rows.out_by_node(f->rows.ctx, 0, &row, NULL));
    assert_false(row.released);
    assert_int_equal(row.end_ms, new.expired_ms);
    assert_ok(release(f, new.id, new.secret, T0 + LEASE + 5, T0 + LEASE + 5));
    kz_lease third = grant_one(f, T0 + LEASE + 6);
    assert_int_equal(third.fallback_expired_ms, T0 + LEASE + 6 + 4 * LEASE);
    discard(f);
}

static void a_release_of_an_ended_lease_without_a_twin_finds_nothing(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    grant_one(f, T0);
    kz_lease second = grant_one(f, T0 + LEASE);
    assert_status(release(f, 0, second.secret, T0 + 4 * LEASE, T0 + 4 * LEASE), KZ_NOT_FOUND);
    discard(f);
}

static void asking_twice_is_asking_once(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    assert_ok(acquire_as(f, 77, 700, T0));
    kz_grant first = f->grant;
    assert_int_equal(first.count, 3);
    assert_ok(acquire_as(f, 77, 700, T0 + 1000));
    assert_int_equal(f->grant.count, 3);
    assert_memory_equal(f->grant.leases, first.leases, 3 * sizeof first.leases[0]);
    assert_int_equal(f->grant.source_ms, T0 + 1000);
    assert_true(f->grant.generation > first.generation);
    assert_status(acquire_as(f, 77, 701, T0 + 1000), KZ_CONFLICT);
    assert_ok(release(f, 1, first.leases[1].secret, T0 + 1000, T0 + 1000));
    assert_ok(acquire_as(f, 77, 700, T0 + 1001));
    assert_int_equal(f->grant.count, 2);
    assert_ok(acquire_as(f, 77, 700, T0 + LEASE));
    assert_int_equal(f->grant.count, 3);
    assert_int_equal(f->grant.leases[0].created_ms, T0 + LEASE);
    discard(f);
}

static void requests_without_an_id_are_all_different(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    kz_lease a = grant_one(f, T0), b = grant_one(f, T0);
    assert_int_not_equal(a.id, b.id);
    discard(f);
}

static void every_secret_differs_and_a_twin_shares_its_lease_s(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    f->service.max_throughput = 256 * 256;
    assert_ok(acquire(f, 256 * 256, T0));
    assert_int_equal(f->grant.count, 256);
    for (size_t i = 0; i < 256; i++) {
        assert_int_equal(f->grant.leases[i].id, i);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(f->grant.leases[i].secret, f->grant.leases[j].secret);
        kz__row twin;
        assert_ok(f->rows.out_at(f->rows.ctx, (i << 8) + (UINT64_C(1) << 21), &twin, NULL));
        assert_string_equal(twin.secret, f->grant.leases[i].secret);
        assert_int_equal(twin.node, i + 8192);
    }
    discard(f);
}

static void a_full_table_refuses_and_loses_nothing(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    kz_lease last = {0};
    for (uint32_t i = 0; i < 8192; i++) {
        last = grant_one(f, T0);
        assert_int_equal(last.id, i);
    }
    assert_status(acquire(f, 1, T0 + 1), KZ_NO_FREE_NODE);
    assert_contains(f->err.message, "no machine ID free");
    assert_ok(release(f, last.id, last.secret, T0 + 1, T0 + 1));
    kz_lease again = grant_one(f, T0 + 2);
    assert_int_equal(again.id, last.id);
    /* All of it can be granted again when it has ended, though the sweep takes it up in parts. */
    for (uint32_t i = 0; i < 8192; i++)
        grant_one(f, T0 + 10 * LEASE);
    assert_status(acquire(f, 1, T0 + 10 * LEASE), KZ_NO_FREE_NODE);
    discard(f);
}

static void twins_that_wait_for_the_sweep_do_not_make_the_table_look_full(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-9-8@2026-01-01");
    for (int i = 0; i < 256; i++)
        grant_one(f, T0);
    for (int round = 1; round < 4; round++)
        for (int i = 0; i < 256; i++)
            grant_one(f, T0 + round * LEASE + 1000 * round);
    /* All leases have ended, behind 256 twins that ended before them. */
    grant_one(f, T0 + 6 * LEASE);
    discard(f);
}

static void fewer_are_granted_if_fewer_are_free(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-3-8@2026-01-01");
    grant_one(f, T0);
    assert_ok(acquire(f, 1024, T0));
    assert_int_equal(f->grant.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(f->grant.leases[i].id, i + 1);
    assert_status(acquire(f, 1024, T0), KZ_NO_FREE_NODE);
    discard(f);
}

static void leases_are_answered_in_order_of_slot_also_when_the_search_goes_round(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-3-8@2026-01-01");
    assert_ok(acquire(f, 768, T0));
    kz_lease first = f->grant.leases[0];
    assert_ok(release(f, 0, first.secret, T0, T0));
    assert_ok(acquire(f, 512, T0 + 1));
    assert_int_equal(f->grant.leases[0].id, 0);
    assert_int_equal(f->grant.leases[1].id, 3);
    discard(f);
}

typedef struct two_clocks {
    int64_t wall_ms, boot_ms;
} two_clocks;

static int64_t wall_of(void *ctx)
{
    return ((two_clocks *)ctx)->wall_ms * 1000000;
}

static int64_t boot_of(void *ctx)
{
    return ((two_clocks *)ctx)->boot_ms * 1000000;
}

static void one_wrong_clock_does_not_carry_a_tables_time_away(void **state)
{
    (void)state;
    const int64_t day_ms = 86400000;
    two_clocks c = {T0, 1000};
    const kz_clock clock = {.wall_ns = wall_of, .boot_ns = boot_of, .ctx = &c};
    kz__table_time time = {0};
    int64_t step_ms;
    assert_int_equal(kz__table_time_read(&time, &clock, "boot", &step_ms), T0);
    /* An hour forward is believed; eighty years are not, and nor is a boot clock that leaps by itself. */
    c = (two_clocks){T0 + 3600000, 2000};
    assert_int_equal(kz__table_time_read(&time, &clock, "boot", &step_ms), T0 + 3600000);
    kz__table_time before = time;
    c = (two_clocks){T0 + 80 * 365 * day_ms, 3000};
    assert_true(kz__table_time_read(&time, &clock, "boot", &step_ms) <= T0 + 3600000 + 1000);
    time = before;
    c = (two_clocks){T0 + 3601000, 2000 + 50 * 365 * day_ms};
    assert_true(kz__table_time_read(&time, &clock, "boot", &step_ms) <= T0 + 3601000);
    time = before;
    c = (two_clocks){T0 + 80 * 365 * day_ms, 10};
    assert_int_equal(kz__table_time_read(&time, &clock, "another boot", &step_ms), T0 + 3600000);
}

static void a_huge_or_empty_request_is_refused(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    assert_status(acquire(f, 0, T0), KZ_INVALID);
    assert_status(acquire(f, 16385, T0), KZ_INVALID);
    assert_status(acquire(f, 2097152, T0), KZ_INVALID);
    assert_status(acquire(f, UINT32_MAX, T0), KZ_INVALID);
    assert_contains(f->err.message, "16384");
    f->service.max_throughput = UINT32_MAX;
    assert_status(acquire(f, 65537, T0), KZ_INVALID);
    f->service.high_blocks = true;
    assert_status(acquire(f, UINT32_MAX, T0), KZ_INVALID);
    assert_int_equal(grant_one(f, T0).id, 0);
    discard(f);
}

static void time_that_goes_back_is_not_believed(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-1-8@2026-01-01");
    kz_lease first = grant_one(f, T0);
    kz_lease second = grant_one(f, T0 + LEASE);
    assert_status(acquire(f, 1, T0 - 5 * LEASE), KZ_NO_FREE_NODE);
    assert_ok(release(f, 0, second.secret, T0 + LEASE, T0 - LEASE));
    assert_status(acquire(f, 1, T0), KZ_NO_FREE_NODE);
    kz_lease third = grant_one(f, T0 + LEASE + 1);
    assert_true(third.created_ms >= first.expired_ms + 1);
    discard(f);
}

static void a_request_for_more_gets_one_higher_block_where_the_service_allows_it(void **state)
{
    (void)state;
    fixture *f = fixture_of("kazahana");
    f->service.high_blocks = true;
    assert_int_equal(grant_one(f, T0).id, 0);
    uint64_t cursor = f->service.cursor;
    assert_ok(acquire(f, 1000, T0));
    assert_int_equal(f->grant.count, 1);
    assert_int_equal(f->grant.leases[0].seq_bits, 10);
    assert_int_equal(f->grant.leases[0].node_bits, 12);
    assert_int_equal(f->grant.leases[0].id, 1);
    assert_int_equal(f->service.cursor, cursor);
    /* Number 1 is out as a high block, so the usual block of that number is passed over; 4 to 7 are inside it. */
    assert_int_equal(grant_one(f, T0).id, 2);
    assert_int_equal(grant_one(f, T0).id, 3);
    assert_int_equal(grant_one(f, T0).id, 8);
    discard(f);
}

static void what_was_granted_fixes_the_layout_but_not_its_division(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-14-8@2026-01-01");
    kz_layout layout;
    kz__service wanted;
    assert_ok(kz_layout_parse("41-10-12@2024-01-01", &layout, NULL));
    assert_ok(kz__service_init(&wanted, "default", &layout, 2 * LEASE, NULL));
    kz__service untouched = f->service;
    assert_ok(kz__service_adopt(&untouched, &wanted, NULL));
    assert_int_equal(untouched.epoch_ms, wanted.epoch_ms);
    grant_one(f, T0);
    assert_status(kz__service_adopt(&f->service, &wanted, &f->err), KZ_MISMATCH);
    assert_contains(f->err.message, "41-14-8@2026-01-01");
    assert_contains(f->err.message, "41-10-12@2024-01-01");
    assert_ok(kz_layout_parse("41-13-8@2026-01-01", &layout, NULL));
    assert_ok(kz__service_init(&wanted, "default", &layout, LEASE, NULL));
    assert_status(kz__service_adopt(&f->service, &wanted, NULL), KZ_MISMATCH);
    assert_ok(kz_layout_parse("41-12-10@2026-01-01", &layout, NULL));
    assert_ok(kz__service_init(&wanted, "default", &layout, 2 * LEASE, NULL));
    assert_ok(kz__service_adopt(&f->service, &wanted, NULL));
    assert_int_equal(f->service.seq_bits, 10);
    assert_int_equal(f->service.lease_ms, 2 * LEASE);
    discard(f);
}

static void a_layout_that_cannot_be_leased_is_refused(void **state)
{
    (void)state;
    kz__service service;
    kz_layout layout;
    const char *const bad[] = {"mastodon", "sonyflake", "1-32-31@2026-01-01"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_ok(kz_layout_parse(bad[i], &layout, NULL));
        assert_status(kz__service_init(&service, "default", &layout, LEASE, NULL), KZ_INVALID);
    }
    assert_status(kz__service_init(&service, "default", kz_layout_preset(0), 99, NULL), KZ_INVALID);
    assert_status(kz__service_init(&service, "default", kz_layout_preset(0), KZ__LEASE_MS_MAX + 1, NULL), KZ_INVALID);
}

/* Every rectangle ever granted, with the end that its holder kept to. */
typedef struct granted {
    uint64_t lo, hi;
    int64_t start_ms, end_ms;
    uint32_t node;
    bool twin;
    char secret[KZ_SECRET_SIZE];
} granted;

typedef struct oracle {
    granted *all;
    size_t count;
} oracle;

static void enter(oracle *o, granted new, uint64_t seed)
{
    for (size_t i = 0; i < o->count; i++) {
        const granted *g = &o->all[i];
        if (g->lo < new.hi &&new.lo < g->hi && g->start_ms < new.end_ms &&new.start_ms < g->end_ms)
            fail_msg("seed %" PRIu64 ": slots %" PRIu64 "-%" PRIu64 " granted twice", seed, new.lo, new.hi);
    }
    o->all[o->count++] = new;
}

static void enter_lease(oracle *o, const kz_lease *lease, uint64_t seed)
{
    granted g = {.lo = (uint64_t)lease->id << lease->seq_bits,
                 .hi = (uint64_t)(lease->id + 1) << lease->seq_bits,
                 .start_ms = lease->created_ms,
                 .end_ms = lease->expired_ms,
                 .node = lease->id};
    strcpy(g.secret, lease->secret);
    enter(o, g, seed);
    if (lease->fallback_expired_ms == lease->fallback_created_ms)
        return;
    uint64_t half = UINT64_C(1) << (lease->node_bits + lease->seq_bits - 1);
    g.lo += half;
    g.hi += half;
    g.start_ms = lease->fallback_created_ms;
    g.end_ms = lease->fallback_expired_ms;
    g.twin = true;
    enter(o, g, seed);
}

/* The holder of a secret stops at `timestamp_ms`, on the lease and its twin. */
static void stop(oracle *o, const char *secret, int64_t timestamp_ms)
{
    for (size_t i = 0; i < o->count; i++) {
        granted *g = &o->all[i];
        if (strcmp(g->secret, secret) != 0 || timestamp_ms + 1 >= g->end_ms)
            continue;
        g->end_ms = timestamp_ms + 1 > g->start_ms ? timestamp_ms + 1 : g->start_ms;
    }
}

static void random_story(uint64_t seed)
{
    fixture *f = fixture_of("41-7-8@2026-01-01");
    f->service.lease_ms = 1000;
    f->service.max_throughput = 4096;
    f->service.high_blocks = seed % 3 == 0;
    oracle o = {.all = calloc(40000, sizeof *o.all)};
    uint64_t random = seed;
    int64_t wall_ms = T0;
    for (int step = 0; step < 1500; step++) {
        uint64_t r = test_random(&random);
        wall_ms += (int64_t)(r % 60) - (r % 997 == 0 ? 3000 : 0);
        if (step % 300 == 299) { /* the division changes while leases are out */
            f->service.seq_bits = f->service.seq_bits == 8 ? 10 : 8;
            f->service.node_bits = (uint8_t)(15 - f->service.seq_bits);
        }
        r = test_random(&random);
        if (r % 10 < 6 || !o.count) {
            uint32_t throughput = 1u + (uint32_t)(test_random(&random) % (r % 7 ? 256 : 1500));
            kz_status status = acquire_as(f, r % 5 ? test_random(&random) : 0, throughput, wall_ms);
            if (status == KZ_OK)
                for (size_t i = 0; i < f->grant.count; i++)
                    enter_lease(&o, &f->grant.leases[i], seed);
            else
                assert_status(status, KZ_NO_FREE_NODE);
        } else { /* a release, perhaps late, perhaps once more */
            size_t from = o.count > 60 ? o.count - 60 : 0;
            granted *g = &o.all[from + test_random(&random) % (o.count - from)];
            uint32_t node = g->node;
            int64_t timestamp_ms = f->service.high_ms + (int64_t)(test_random(&random) % 40);
            char secret[KZ_SECRET_SIZE];
            strcpy(secret, g->secret);
            kz_status status = release(f, node, secret, timestamp_ms, wall_ms);
            if (status == KZ_OK)
                stop(&o, secret, timestamp_ms);
            else
                assert_true(status == KZ_NOT_FOUND || status == KZ_FORBIDDEN);
        }
    }
    free(o.all);
    discard(f);
}

static void no_two_grants_ever_overlap_whatever_their_height(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        random_story(seed);
}

static void a_rollback_leaves_no_trace(void **state)
{
    (void)state;
    fixture *f = fixture_of("41-5-8@2026-01-01");
    uint64_t random = 5;
    for (int i = 0; i < 300; i++) {
        int64_t now_ms = T0 + i * (LEASE / 5);
        kz__service before = f->service;
        char secrets[2][KZ_SECRET_SIZE] = {"a", "b"};
        uint8_t id[KZ_REQUEST_ID_SIZE] = {1, (uint8_t)i};
        kz__table_request asked = {.request = id,
                                   .throughput_per_ms = 512,
                                   .now_ms = now_ms,
                                   .secret_count = 2,
                                   .secrets = (const char(*)[KZ_SECRET_SIZE])secrets};
        kz_status tried = kz__table_acquire(&f->rows, &f->service, &asked, &f->grant, NULL);
        kz_grant first = f->grant;
        kz__memory_rows_rollback(f->memory);
        f->service = before;
        kz_status status = kz__table_acquire(&f->rows, &f->service, &asked, &f->grant, NULL);
        assert_int_equal(status, tried);
        if (status == KZ_OK)
            assert_memory_equal(f->grant.leases, first.leases, first.count * sizeof first.leases[0]);
        settle(f, &before, status);
        if (status == KZ_OK && test_random(&random) % 2)
            assert_ok(release(f, f->grant.leases[0].id, f->grant.leases[0].secret, now_ms, now_ms));
    }
    discard(f);
}

/* What an acquire and a release take of the processor, on average over a stretch. */
static double stretch_ns(fixture *f, int64_t *now_ms)
{
    enum { ROUNDS = 200 };
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < ROUNDS; i++, ++*now_ms) {
        kz_lease lease = grant_one(f, *now_ms);
        assert_ok(release(f, lease.id, lease.secret, *now_ms - 1, *now_ms));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / ROUNDS;
}

/* In turns, and the best of each: what the machine does beside it only ever adds. A search through all of them would
 * take a thousand times as long, so the limit need not be close. */
static void an_acquire_costs_the_same_with_one_and_with_8190_leases_held(void **state)
{
    (void)state;
    fixture *few = fixture_of("kazahana"), *many = fixture_of("kazahana");
    for (int i = 0; i < 8190; i++)
        grant_one(many, T0);
    grant_one(few, T0);
    int64_t few_ms = T0 + 10000, many_ms = T0 + 10000;
    double few_ns = 1e18, many_ns = 1e18;
    for (int stretch = 0; stretch < 20; stretch++) {
        double a = stretch_ns(few, &few_ms), b = stretch_ns(many, &many_ms);
        few_ns = a < few_ns ? a : few_ns;
        many_ns = b < many_ns ? b : many_ns;
    }
    print_message("acquire and release: %.0f ns with 1 lease held, %.0f ns with 8190\n", few_ns, many_ns);
    assert_true(many_ns < 4 * few_ns);
    discard(few);
    discard(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_begins_now_and_its_twin_lasts_four_times_as_long),
        cmocka_unit_test(a_block_is_granted_again_at_the_very_end_of_its_window_and_not_before),
        cmocka_unit_test(a_block_whose_twin_is_out_is_granted_without_one),
        cmocka_unit_test(a_block_with_a_free_twin_is_preferred),
        cmocka_unit_test(a_free_twin_is_looked_for_among_so_many_blocks_and_no_more),
        cmocka_unit_test(the_search_that_goes_round_finds_the_very_first_block),
        cmocka_unit_test(asking_again_for_a_lease_without_a_twin_gives_it_again),
        cmocka_unit_test(a_store_that_contradicts_itself_is_refused),
        cmocka_unit_test(who_holds_nothing_comes_before_who_wants_more),
        cmocka_unit_test(nodes_are_granted_in_turn),
        cmocka_unit_test(a_release_frees_the_block_only_after_its_timestamp),
        cmocka_unit_test(a_release_neither_lengthens_a_lease_nor_ends_it_before_its_start),
        cmocka_unit_test(a_release_with_the_extreme_timestamps_does_not_overflow),
        cmocka_unit_test(a_late_or_repeated_release_of_an_older_lease_changes_nothing),
        cmocka_unit_test(a_release_after_the_window_ends_the_twin_alone),
        cmocka_unit_test(a_release_of_an_ended_lease_without_a_twin_finds_nothing),
        cmocka_unit_test(asking_twice_is_asking_once),
        cmocka_unit_test(requests_without_an_id_are_all_different),
        cmocka_unit_test(every_secret_differs_and_a_twin_shares_its_lease_s),
        cmocka_unit_test(a_full_table_refuses_and_loses_nothing),
        cmocka_unit_test(twins_that_wait_for_the_sweep_do_not_make_the_table_look_full),
        cmocka_unit_test(fewer_are_granted_if_fewer_are_free),
        cmocka_unit_test(leases_are_answered_in_order_of_slot_also_when_the_search_goes_round),
        cmocka_unit_test(one_wrong_clock_does_not_carry_a_tables_time_away),
        cmocka_unit_test(a_huge_or_empty_request_is_refused),
        cmocka_unit_test(time_that_goes_back_is_not_believed),
        cmocka_unit_test(a_request_for_more_gets_one_higher_block_where_the_service_allows_it),
        cmocka_unit_test(what_was_granted_fixes_the_layout_but_not_its_division),
        cmocka_unit_test(a_layout_that_cannot_be_leased_is_refused),
        cmocka_unit_test(no_two_grants_ever_overlap_whatever_their_height),
        cmocka_unit_test(a_rollback_leaves_no_trace),
        cmocka_unit_test(an_acquire_costs_the_same_with_one_and_with_8190_leases_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
