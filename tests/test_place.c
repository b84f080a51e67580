/* What is set aside, and what a table sets aside when another copy of its store has taken over. */
#include "core/find_block.h"
#include "core/memory_rows.h"
#include "core/place.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0    INT64_C(1800000000000)
#define LEASE INT64_C(600000)

/* ---------------------------------------------------------------------------------------------------- the list */

static kz__aside range(uint64_t lo, uint64_t hi, int64_t until_ms, char why)
{
    return (kz__aside){.lo = lo, .hi = hi, .until_ms = until_ms, .why = why};
}

static bool add(kz__aside *list, kz__aside one)
{
    return kz__aside_add(list, &one, T0);
}

static size_t in_force(const kz__aside *list, int64_t now_ms)
{
    size_t count = 0;
    for (size_t i = 0; i < KZ__ASIDES; i++)
        count += kz__aside_in_force(&list[i], now_ms);
    return count;
}

static void a_range_is_not_granted_until_its_time(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    uint64_t past;
    assert_true(kz__may_grant(list, 0, 8, T0, &past));
    assert_true(add(list, range(8, 16, T0 + 5, KZ__WHY_PLACE)));
    assert_true(add(list, range(32, 40, 0, KZ__WHY_RESERVED)));
    assert_true(kz__may_grant(list, 0, 8, T0, &past));
    assert_false(kz__may_grant(list, 0, 9, T0, &past));
    assert_int_equal(past, 16);
    assert_false(kz__may_grant(list, 15, 16, T0 + 4, &past));
    assert_true(kz__may_grant(list, 15, 16, T0 + 5, &past));
    assert_true(kz__may_grant(list, 16, 32, T0, &past));
    assert_false(kz__may_grant(list, 0, 64, INT64_MAX, &past));
    assert_int_equal(past, 40);
    assert_int_equal(kz__aside_until(list, T0)->until_ms, T0 + 5);
    assert_null(kz__aside_until(list, T0 + 5));
    assert_ptr_equal(kz__aside_at(list, 39, 41, KZ__WHY_RESERVED, T0), kz__aside_at(list, 0, 64, KZ__WHY_RESERVED, T0));
    assert_null(kz__aside_at(list, 40, 64, KZ__WHY_RESERVED, T0));
}

static void a_range_swallows_what_it_covers_and_outlasts(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    add(list, range(8, 16, T0 + 5, KZ__WHY_PLACE));
    add(list, range(8, 16, T0 + 9, KZ__WHY_PLACE));
    assert_int_equal(in_force(list, T0), 1);
    add(list, range(0, 64, T0 + 7, KZ__WHY_PLACE));
    assert_int_equal(in_force(list, T0), 2);
    add(list, range(20, 24, 0, KZ__WHY_RESERVED));
    add(list, range(0, KZ__ALL_SLOTS, T0 + 20, KZ__WHY_EMPTY));
    assert_int_equal(in_force(list, T0), 2);
    assert_int_equal(in_force(list, T0 + 20), 1);
}

static void without_room_everything_is_set_aside_for_as_long_as_the_longest(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    for (uint64_t i = 0; i < 6; i++)
        add(list, range(8 * i, 8 * i + 4, T0 + 100 - (int64_t)i, KZ__WHY_PLACE));
    assert_int_equal(in_force(list, T0), 6);
    assert_true(add(list, range(80, 84, T0 + 50, KZ__WHY_PLACE)));
    assert_int_equal(in_force(list, T0), 1);
    uint64_t past;
    assert_false(kz__may_grant(list, 1000, 1001, T0 + 99, &past));
    assert_true(kz__may_grant(list, 1000, 1001, T0 + 100, &past));
}

static void an_ended_range_makes_room(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    for (uint64_t i = 0; i < 6; i++)
        add(list, range(8 * i, 8 * i + 4, T0 + 1, KZ__WHY_PLACE));
    kz__aside one = range(80, 84, T0 + 50, KZ__WHY_PLACE);
    assert_true(kz__aside_add(list, &one, T0 + 1));
    uint64_t past;
    assert_true(kz__may_grant(list, 0, 80, T0 + 1, &past));
    assert_false(kz__may_grant(list, 0, 81, T0 + 1, &past));
}

static void six_reservations_fit_beside_six_timed_ones(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    for (uint64_t i = 0; i < 6; i++) {
        add(list, range(8 * i, 8 * i + 4, T0 + 1, KZ__WHY_PLACE));
        assert_true(add(list, range(8 * i + 4, 8 * i + 6, 0, KZ__WHY_RESERVED)));
    }
    assert_false(add(list, range(100, 101, 0, KZ__WHY_RESERVED)));
    assert_int_equal(in_force(list, T0), 12);
    uint64_t past;
    assert_true(kz__may_grant(list, 100, 101, T0, &past));
}

static void a_part_of_a_reservation_can_end(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0};
    uint64_t past;
    add(list, range(8, 24, T0 + 5, KZ__WHY_PLACE));
    assert_true(add(list, range(8, 64, 0, KZ__WHY_RESERVED)));
    assert_true(kz__aside_end(list, 30, 40, T0));
    assert_false(kz__may_grant(list, 29, 30, T0 + 9, &past));
    assert_true(kz__may_grant(list, 30, 40, T0 + 9, &past));
    assert_false(kz__may_grant(list, 40, 41, T0 + 9, &past));
    assert_true(kz__aside_end(list, 0, 100, T0));
    assert_true(kz__may_grant(list, 0, 100, T0 + 9, &past));
    /* What is set aside for another reason is not a reservation. */
    assert_false(kz__may_grant(list, 8, 9, T0, &past));
    for (uint64_t i = 0; i < 6; i++)
        assert_true(add(list, range(100 + 10 * i, 105 + 10 * i, 0, KZ__WHY_RESERVED)));
    assert_false(kz__aside_end(list, 102, 103, T0));
    assert_false(kz__may_grant(list, 102, 103, T0, &past));
}

static void the_list_is_a_text_and_back(void **state)
{
    (void)state;
    kz__aside list[KZ__ASIDES] = {0}, read[KZ__ASIDES];
    char text[KZ__ASIDE_TEXT_MAX], again[KZ__ASIDE_TEXT_MAX];
    kz__aside one = range(0, 256, 0, KZ__WHY_RESERVED);
    strcpy(one.note, "worker 7 of the old service");
    add(list, one);
    add(list, range(512, KZ__ALL_SLOTS, T0 + 1, KZ__WHY_PLACE));
    add(list, range(5, 6, T0 - 1, KZ__WHY_PLACE));
    kz__aside_text(list, T0, text);
    assert_ok(kz__aside_parse(text, read, NULL));
    kz__aside_text(read, T0, again);
    assert_string_equal(text, again);
    assert_int_equal(in_force(read, T0 - 2), 2);
    assert_non_null(strstr(text, "r 0 256 0 worker 7 of the old service\n"));
    memset(one.note, 'x', KZ__NOTE_SIZE - 1);
    for (uint64_t i = 0; i < KZ__ASIDES; i++) {
        list[i] = one;
        list[i].lo = KZ__ALL_SLOTS - 20 + i;
        list[i].hi = KZ__ALL_SLOTS;
        list[i].until_ms = INT64_MAX;
    }
    kz__aside_text(list, T0, text);
    assert_ok(kz__aside_parse(text, read, NULL));
    assert_memory_equal(list, read, sizeof list);
    assert_ok(kz__aside_parse("", read, NULL));
    assert_int_equal(in_force(read, T0), 0);
    static const char *const wrong[] = {"r 0 256 0 no end", "x 0 1 0 \n", "r 1 1 0 \n", "r 0 9223372036854775807 0 \n",
                                        "r 0 1 -1 \n",      "r 0 1\n",    "r 0 1 0\n",  "\n",
                                        "r 0 1 0 \n\n",     "nonsense\n", "r a b 0 \n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(kz__aside_parse(wrong[i], read, NULL), KZ_STORE);
}

/* --------------------------------------------------------------------------------------------------- the place */

/* 32 leased nodes of 8 slots: K is 8. */
#define LAYOUT "41-6-3@2026-01-01"
enum { NODES = 32, K = 8 };

typedef struct fixture {
    kz__memory_rows *memory;
    kz__rows rows;
    kz__service service;
    kz__place place;
    uint64_t secrets_drawn;
    kz_grant grant;
    kz_error err;
} fixture;

static void set_up(fixture *f)
{
    kz_layout layout;
    *f = (fixture){0};
    assert_ok(kz_layout_parse(LAYOUT, &layout, NULL));
    f->memory = kz__memory_rows_new();
    f->rows = kz__memory_rows_use(f->memory);
    assert_ok(kz__service_init(&f->service, "default", &layout, LEASE, NULL));
    assert_ok(kz__table_create(&f->rows, &f->service, NULL));
    f->place.margin_ms = KZ__PLACE_MARGIN_MS;
    assert_true(kz__place_moved(&f->place, "first", 0, 0, T0, &f->service.generation));
}

static void tear_down(fixture *f)
{
    kz__memory_rows_free(f->memory);
}

/* An acquire as a store makes it; the place is as given. */
static kz_status acquire_at(fixture *f, const char *place, unsigned passed, uint32_t throughput, int64_t now_ms)
{
    char secrets[4][KZ_SECRET_SIZE];
    for (size_t i = 0; i < 4; i++)
        snprintf(secrets[i], sizeof secrets[i], "%032" PRIx64, ++f->secrets_drawn);
    static const uint8_t none[KZ_REQUEST_ID_SIZE];
    kz__table_request asked = {.request = none,
                               .throughput_per_ms = throughput,
                               .now_ms = now_ms,
                               .secrets = (const char(*)[KZ_SECRET_SIZE])secrets,
                               .secret_count = 4};
    bool changed;
    kz__place_moved(&f->place, place, passed, f->service.high_ms, now_ms, &f->service.generation);
    assert_ok(kz__place_settle(&f->rows, &f->service, &f->place, now_ms, &changed, &f->err));
    kz_status status = kz__table_acquire(&f->rows, &f->service, &asked, &f->grant, &f->err);
    kz__memory_rows_commit(f->memory);
    return status;
}

static uint32_t grant_at(fixture *f, const char *place, int64_t now_ms)
{
    assert_ok(acquire_at(f, place, 1, 1, now_ms));
    return f->grant.leases[0].id;
}

static void the_first_place_is_only_remembered(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    assert_int_equal(f.service.generation, 0);
    assert_int_equal(f.place.since_ms, 0);
    assert_int_equal(grant_at(&f, "first", T0), 0);
    assert_int_equal(grant_at(&f, "first", T0), 1);
    assert_false(kz__place_moved(&f.place, "first", 0, T0, T0, &f.service.generation));
    tear_down(&f);
}

static void a_new_place_sets_k_grantable_blocks_aside_and_goes_on_behind(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(grant_at(&f, "first", T0), i);
    uint64_t generation = f.service.generation;
    assert_int_equal(grant_at(&f, "second", T0 + 1000), 3 + K);
    assert_true(f.service.generation > generation + KZ__ERA);
    assert_true(f.service.generation < generation + 2 * KZ__ERA);
    /* Nothing of it before four leases and the margin are over, which is a lease here; then it is as before. */
    int64_t until_ms = T0 + 1000 + 5 * LEASE;
    for (int i = 0; i < NODES - 3 - K - 1; i++) {
        uint32_t id = grant_at(&f, "second", T0 + 1000);
        assert_true(id < 3 || id >= 3 + K);
    }
    assert_status(acquire_at(&f, "second", 1, 1, T0 + 1001), KZ_NO_FREE_NODE);
    assert_non_null(strstr(f.err.message, "set aside for another"));
    for (int64_t now_ms = T0 + LEASE; now_ms < until_ms; now_ms += LEASE) {
        uint32_t id = grant_at(&f, "second", now_ms);
        assert_true(id < 3 || id >= 3 + K);
    }
    bool granted = false;
    for (int i = 0; i < NODES && !granted; i++) {
        uint32_t id = grant_at(&f, "second", until_ms);
        granted = id >= 3 && id < 3 + K;
    }
    assert_true(granted);
    tear_down(&f);
}

/* The cursor leaps over what is out, and so does the range. */
static void blocks_that_are_out_do_not_count(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t i = 0; i < 10; i++)
        grant_at(&f, "first", T0);
    f.service.cursor = 8;
    assert_int_equal(grant_at(&f, "second", T0), 10 + K);
    tear_down(&f);
}

static void the_range_goes_round(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.service.high_ms = T0;
    f.service.cursor = 8 * (NODES - 3);
    assert_int_equal(grant_at(&f, "second", T0), K - 3);
    uint64_t past;
    assert_false(kz__may_grant(f.service.asides, 8 * (NODES - 1), 8 * NODES, T0, &past));
    assert_false(kz__may_grant(f.service.asides, 0, 8, T0, &past));
    assert_true(kz__may_grant(f.service.asides, 8 * (NODES - 4), 8 * (NODES - 3), T0, &past));
    tear_down(&f);
}

static void an_old_copy_or_one_out_of_line_grants_nothing_for_a_while(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        fixture f;
        set_up(&f);
        grant_at(&f, "first", T0);
        int64_t now_ms = T0 + (old ? LEASE / 2 + 1 : 0);
        uint64_t generation = f.service.generation;
        assert_status(acquire_at(&f, "second", old ? 1 : 2, 1, now_ms), KZ_UNAVAILABLE);
        assert_non_null(strstr(f.err.message, "went back in time"));
        assert_int_equal(f.service.generation, generation + (old ? 1 : 2) * KZ__ERA);
        assert_status(acquire_at(&f, "second", 1, 1, now_ms + 5 * LEASE - 1), KZ_UNAVAILABLE);
        grant_at(&f, "second", now_ms + 5 * LEASE);
        tear_down(&f);
    }
}

static void fewer_than_k_are_all(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t i = 0; i < NODES - K + 1; i++)
        grant_at(&f, "first", T0);
    assert_status(acquire_at(&f, "second", 1, 1, T0), KZ_UNAVAILABLE);
    tear_down(&f);
}

static void a_service_that_missed_a_change_sets_all_aside(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    grant_at(&f, "first", T0);
    assert_true(kz__place_moved(&f.place, "second", 1, T0, T0 + 1, &f.service.generation));
    assert_true(kz__place_moved(&f.place, "third", 1, T0 + 1, T0 + 1, &f.service.generation));
    assert_status(acquire_at(&f, "third", 1, 1, T0 + 2), KZ_UNAVAILABLE);
    tear_down(&f);
}

/* Its forgotten windows have ended since. */
static void a_change_of_long_ago_costs_nothing(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    grant_at(&f, "first", T0);
    assert_true(kz__place_moved(&f.place, "second", 5, T0, T0 + 1, &f.service.generation));
    assert_int_equal(grant_at(&f, "second", T0 + 1 + 5 * LEASE), 1);
    tear_down(&f);
}

static void a_service_made_soon_after_a_change_starts_as_one_that_has_it_before_it(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        fixture f;
        set_up(&f);
        assert_true(kz__place_moved(&f.place, "second", 1, T0, T0 + 1, &f.service.generation));
        kz__place_created(&f.service, &f.place);
        assert_int_equal(grant_at(&f, "second", T0 + 1 + later * 5 * LEASE), later ? 0 : K);
        tear_down(&f);
    }
}

static void an_empty_store_that_may_have_lost_everything_waits(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    kz__place_lost(&f.place, KZ__WHY_EMPTY, -1, T0, &f.service.generation);
    kz__place_created(&f.service, &f.place);
    assert_true(f.service.generation >= (uint64_t)T0 * 1000);
    assert_status(acquire_at(&f, "first", 1, 1, T0 + 4 * LEASE - 1), KZ_UNAVAILABLE);
    assert_non_null(strstr(f.err.message, "found empty"));
    assert_int_equal(grant_at(&f, "first", T0 + 4 * LEASE), 0);
    tear_down(&f);
}

static void high_blocks_change_their_half(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.service.high_blocks = true;
    assert_ok(acquire_at(&f, "first", 1, 16, T0));
    assert_int_equal(f.grant.leases[0].id, 0);
    assert_ok(acquire_at(&f, "second", 1, 16, T0));
    /* The first half is set aside whole, and K usual blocks of the second. */
    assert_int_equal(f.grant.leases[0].id, (NODES / 2 + K) / 2);
    assert_int_equal(grant_at(&f, "second", T0), NODES / 2 + K + 2);
    /* A block that no half can hold. */
    assert_status(acquire_at(&f, "second", 1, 8 * NODES / 2 + 1, T0), KZ_INVALID);
    tear_down(&f);
}

static void a_block_that_only_a_moved_number_hides_does_not_count(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.place = (kz__place){.margin_ms = KZ__PLACE_MARGIN_MS};
    f.service.high_blocks = true;
    /* Numbers 0 to 3 are out as blocks of two nodes each, 8 to 15 are free but for their numbers 0..3. */
    for (int i = 0; i < 4; i++)
        assert_ok(acquire_at(&f, "", 1, 16, T0));
    f.service.high_blocks = false;
    f.service.cursor = 0;
    uint64_t count, end = 0;
    assert_ok(kz__count_blocks(&f.rows, &f.service, (kz__range){0, 0}, NODES, T0, &count, &end, NULL));
    assert_int_equal(count, NODES - 8);
    tear_down(&f);
}

static kz_status reserve(fixture *f, uint32_t first, uint32_t last, int64_t until_ms, int64_t now_ms)
{
    kz_node_range range = {first, last};
    kz_reservation wanted = {.ranges = &range, .count = 1, .until_ms = until_ms, .note = "old"};
    return kz__table_reserve(&f->rows, &f->service, &wanted, now_ms, &f->err);
}

static void reserved_nodes_are_granted_to_nobody_until_they_are_freed(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    assert_ok(reserve(&f, 0, 3, 0, T0));
    assert_ok(reserve(&f, 5, 5, T0 + LEASE, T0));
    assert_int_equal(grant_at(&f, "first", T0), 4);
    assert_int_equal(grant_at(&f, "first", T0), 6);
    for (int i = 0; i < NODES - 7; i++)
        grant_at(&f, "first", T0);
    assert_status(acquire_at(&f, "first", 1, 1, T0), KZ_NO_FREE_NODE);
    /* The one with a free twin comes first. */
    assert_int_equal(grant_at(&f, "first", T0 + LEASE), 5);
    kz_node_range range = {2, 3};
    kz_reservation end = {.ranges = &range, .count = 1, .end = true};
    assert_ok(kz__table_reserve(&f.rows, &f.service, &end, T0 + LEASE, &f.err));
    f.service.cursor = 0;
    assert_int_equal(grant_at(&f, "first", T0 + LEASE), 2);
    tear_down(&f);
}

static void a_node_that_is_leased_cannot_be_reserved_and_nothing_changes(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    assert_int_equal(grant_at(&f, "first", T0), 0);
    f.service.high_blocks = true;
    assert_ok(acquire_at(&f, "first", 1, 16, T0)); /* nodes 2 and 3 */
    uint64_t generation = f.service.generation;
    const kz_node_range ranges[] = {{10, 12}, {0, 0}};
    kz_reservation wanted = {.ranges = ranges, .count = 2};
    assert_status(kz__table_reserve(&f.rows, &f.service, &wanted, T0 + 1000, &f.err), KZ_IN_USE);
    assert_contains(f.err.message, "node 0 of service default is leased for another 599 s");
    assert_status(reserve(&f, 3, 3, 0, T0), KZ_IN_USE);
    assert_status(reserve(&f, 30, 32, 0, T0), KZ_INVALID);
    assert_contains(f.err.message, "service default has 0-31 to lease");
    assert_status(reserve(&f, 3, 2, 0, T0), KZ_INVALID);
    assert_status(reserve(&f, 9, 9, T0, T0), KZ_INVALID);
    assert_int_equal(f.service.generation, generation);
    uint64_t past;
    assert_true(kz__may_grant(f.service.asides, 0, 8 * NODES, T0, &past));
    /* What has ended is free. */
    assert_ok(reserve(&f, 0, 3, 0, T0 + LEASE));
    for (uint32_t i = 0; i < 5; i++)
        assert_ok(reserve(&f, 5 + 2 * i, 5 + 2 * i, 0, T0 + LEASE));
    assert_status(reserve(&f, 20, 20, 0, T0 + LEASE), KZ_INVALID);
    assert_contains(f.err.message, "more than 6");
    tear_down(&f);
}

static void the_place_is_a_text_and_back(void **state)
{
    (void)state;
    kz__place place = {
        .since_ms = T0, .before_ms = T0 - 5, .copy_ms = T0 - 1, .margin_ms = -1, .passed = 3, .why = 'p'};
    kz__place read;
    char text[KZ__PLACE_TEXT_SIZE];
    memset(place.name, 'n', sizeof place.name - 1);
    kz__place_text(&place, text);
    assert_ok(kz__place_parse(text, &read, NULL));
    assert_memory_equal(&place, &read, sizeof place);
    assert_ok(kz__place_parse("", &read, NULL));
    assert_int_equal(read.since_ms, 0);
    kz__place_text(&read, text);
    assert_ok(kz__place_parse(text, &read, NULL));
    assert_string_equal(read.name, "");
    static const char *const wrong[] = {"p", "x 1 1 1 1 1 name", "p 1 1 2 1 1 name", "p 1 2 1 1 1", "p 1 2 -1 1 1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(kz__place_parse(wrong[i], &read, NULL), KZ_STORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_not_granted_until_its_time),
        cmocka_unit_test(a_range_swallows_what_it_covers_and_outlasts),
        cmocka_unit_test(without_room_everything_is_set_aside_for_as_long_as_the_longest),
        cmocka_unit_test(an_ended_range_makes_room),
        cmocka_unit_test(six_reservations_fit_beside_six_timed_ones),
        cmocka_unit_test(a_part_of_a_reservation_can_end),
        cmocka_unit_test(the_list_is_a_text_and_back),
        cmocka_unit_test(the_first_place_is_only_remembered),
        cmocka_unit_test(a_new_place_sets_k_grantable_blocks_aside_and_goes_on_behind),
        cmocka_unit_test(blocks_that_are_out_do_not_count),
        cmocka_unit_test(the_range_goes_round),
        cmocka_unit_test(an_old_copy_or_one_out_of_line_grants_nothing_for_a_while),
        cmocka_unit_test(fewer_than_k_are_all),
        cmocka_unit_test(a_service_that_missed_a_change_sets_all_aside),
        cmocka_unit_test(a_change_of_long_ago_costs_nothing),
        cmocka_unit_test(a_service_made_soon_after_a_change_starts_as_one_that_has_it_before_it),
        cmocka_unit_test(an_empty_store_that_may_have_lost_everything_waits),
        cmocka_unit_test(high_blocks_change_their_half),
        cmocka_unit_test(a_block_that_only_a_moved_number_hides_does_not_count),
        cmocka_unit_test(reserved_nodes_are_granted_to_nobody_until_they_are_freed),
        cmocka_unit_test(a_node_that_is_leased_cannot_be_reserved_and_nothing_changes),
        cmocka_unit_test(the_place_is_a_text_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
