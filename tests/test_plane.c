/* The successor function against a brute-force oracle, over random small holdings. */
#include "random.h"
#include "test.h"

#include "core/plane.h"

#include <inttypes.h>

enum { SLOT_BITS_MAX = 5, SLOTS_MAX = 1 << SLOT_BITS_MAX, SPAN_MS = 14, RECTS_MAX = 9, ROUNDS = 4000, FREE = 255 };

typedef struct holdings {
    kz__rect rects[RECTS_MAX];
    size_t count;
    unsigned slot_bits;
    uint64_t base_ms;                    /* the oracle knows SPAN_MS milliseconds from here on */
    uint8_t rank_of[SPAN_MS][SLOTS_MAX]; /* of the best class held there, where that is the best of its millisecond */
    size_t points;
} holdings;

/* Paints the points that count: in a millisecond only those of the best class live then. */
static void paint(holdings *h)
{
    memset(h->rank_of, FREE, sizeof h->rank_of);
    h->points = 0;
    for (uint64_t ms = 0; ms < SPAN_MS; ms++) {
        unsigned best = KZ__CLASSES;
        for (size_t i = 0; i < h->count; i++) {
            const kz__rect *r = &h->rects[i];
            bool live = r->start_ms <= h->base_ms + ms && h->base_ms + ms < r->end_ms;
            if (live && r->rank < best)
                best = r->rank;
        }
        for (size_t i = 0; i < h->count; i++) {
            const kz__rect *r = &h->rects[i];
            if (r->rank != best || h->base_ms + ms < r->start_ms || h->base_ms + ms >= r->end_ms)
                continue;
            for (uint64_t slot = r->slot; slot < r->slot + (1u << r->height); slot++) {
                h->points += h->rank_of[ms][slot] == FREE;
                h->rank_of[ms][slot] = (uint8_t)best;
            }
        }
    }
}

static holdings random_holdings(uint64_t *seed)
{
    holdings h = {.slot_bits = (unsigned)(test_random(seed) % (SLOT_BITS_MAX + 1))};
    const uint64_t bases[] = {0, 1, UINT64_C(1) << 40, (UINT64_C(1) << (63 - h.slot_bits)) - 1,
                              (UINT64_MAX >> h.slot_bits) - SPAN_MS};
    h.base_ms = bases[test_random(seed) % 5];
    h.count = test_random(seed) % (RECTS_MAX + 1);
    for (size_t i = 0; i < h.count; i++) {
        unsigned height = (unsigned)(test_random(seed) % (h.slot_bits + 1));
        uint64_t blocks = UINT64_C(1) << (h.slot_bits - height);
        uint64_t start = test_random(seed) % SPAN_MS, length = test_random(seed) % 6;
        uint64_t end = start + length < SPAN_MS ? start + length : SPAN_MS;
        h.rects[i] = (kz__rect){.slot = test_random(seed) % blocks << height,
                                .start_ms = h.base_ms + start,
                                .end_ms = h.base_ms + end,
                                .height = (uint8_t)height,
                                .rank = (uint8_t)(test_random(seed) % KZ__CLASSES)};
    }
    paint(&h);
    return h;
}

static uint8_t rank_at(const holdings *h, kz_id point)
{
    uint64_t ms = point >> h->slot_bits;
    if (ms < h->base_ms || ms >= h->base_ms + SPAN_MS)
        return FREE;
    return h->rank_of[ms - h->base_ms][point & ((1u << h->slot_bits) - 1)];
}

static bool oracle(const holdings *h, kz_id floor, kz_id *point)
{
    kz_id first = h->base_ms << h->slot_bits, count = (kz_id)SPAN_MS << h->slot_bits;
    for (kz_id i = 0; i < count; i++) {
        if (first + i >= floor && rank_at(h, first + i) != FREE) {
            *point = first + i;
            return true;
        }
    }
    return false;
}

static void check_run(const holdings *h, const kz__run *run, uint64_t seed)
{
    if (run->block > run->first || run->first >= run->end)
        fail_msg("seed %#" PRIx64 ": a run from %" PRIu64 " to %" PRIu64 " in a block from %" PRIu64, seed, run->first,
                 run->end, run->block);
    if ((run->end - 1) >> h->slot_bits != run->first >> h->slot_bits)
        fail_msg("seed %#" PRIx64 ": a run over more than one millisecond", seed);
    for (kz_id point = run->block; point < run->end; point++)
        if (rank_at(h, point) != run->rank)
            fail_msg("seed %#" PRIx64 ": point %" PRIu64 " of a run is not held, or not in that class", seed, point);
}

static void successor_is_the_smallest_held_point_at_or_above_the_floor(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = random;
        holdings h = random_holdings(&random);
        for (int i = 0; i < 60; i++) {
            uint64_t ms = h.base_ms + test_random(&random) % (SPAN_MS + 1);
            if (i < 3)
                ms = test_random(&random) % (h.base_ms + 1);
            kz_id floor = ms << h.slot_bits | test_random(&random) % (1u << h.slot_bits);
            kz_id expected;
            kz__run run;
            bool any = oracle(&h, floor, &expected);
            if (kz__successor(h.rects, h.count, h.slot_bits, floor, &run) != any)
                fail_msg("seed %#" PRIx64 ", floor %" PRIu64 ": %s", seed, floor,
                         any ? "a held point was not found" : "a point was found where nothing is held");
            if (!any)
                continue;
            if (run.first != expected)
                fail_msg("seed %#" PRIx64 ", floor %" PRIu64 ": %" PRIu64 ", not %" PRIu64, seed, floor, run.first,
                         expected);
            check_run(&h, &run, seed);
        }
    }
}

/* Walks upward and marks what it meets. `whole_runs`: takes each run to its end, as minters do, else one point of it.
 */
static void walk(const holdings *h, uint64_t seed, bool whole_runs)
{
    bool seen[SPAN_MS][SLOTS_MAX] = {0};
    size_t count = 0;
    kz_id floor = 0;
    kz__run run;
    while (kz__successor(h->rects, h->count, h->slot_bits, floor, &run)) {
        if (run.first < floor)
            fail_msg("seed %#" PRIx64 ": %" PRIu64 " is below the floor %" PRIu64, seed, run.first, floor);
        kz_id end = whole_runs ? run.end : run.first + 1;
        for (kz_id point = run.first; point < end; point++) {
            if (rank_at(h, point) == FREE)
                fail_msg("seed %#" PRIx64 ": %" PRIu64 " is not held", seed, point);
            bool *mark = &seen[(point >> h->slot_bits) - h->base_ms][point & ((1u << h->slot_bits) - 1)];
            if (*mark)
                fail_msg("seed %#" PRIx64 ": %" PRIu64 " was given twice", seed, point);
            *mark = true;
            count++;
        }
        floor = end;
        if (floor == 0)
            break; /* past the last point of 64 bits */
    }
    if (count != h->points)
        fail_msg("seed %#" PRIx64 ": %zu points were given, %zu are held", seed, count, h->points);
}

static void walking_upward_gives_every_point_of_the_best_class_once(void **state)
{
    (void)state;
    uint64_t random = 2;
    size_t points = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = random;
        holdings h = random_holdings(&random);
        walk(&h, seed, false);
        walk(&h, seed, true);
        points += h.points;
    }
    assert_true(points > 20000); /* the holdings were not all empty */
}

static void nothing_held_has_no_successor(void **state)
{
    (void)state;
    kz__run run;
    assert_false(kz__successor(NULL, 0, 22, 0, &run));
    kz__rect empty = {.slot = 0, .start_ms = 5, .end_ms = 5, .height = 2};
    assert_false(kz__successor(&empty, 1, 4, 0, &run));
}

static void the_point_at_the_end_of_a_window_is_not_held(void **state)
{
    (void)state;
    kz__rect rect = {.slot = 4, .start_ms = 10, .end_ms = 12, .height = 2};
    kz__run run;
    assert_true(kz__successor(&rect, 1, 4, 11 << 4 | 7, &run));
    assert_int_equal(run.first, 11 << 4 | 7);
    assert_int_equal(run.end, 11 << 4 | 8);
    assert_false(kz__successor(&rect, 1, 4, 11 << 4 | 8, &run));
}

static void a_fallback_is_used_only_where_no_lease_is_live(void **state)
{
    (void)state;
    kz__rect rects[] = {{.slot = 8, .start_ms = 0, .end_ms = 20, .height = 2, .rank = KZ__FENCED},
                        {.slot = 0, .start_ms = 5, .end_ms = 6, .height = 2, .rank = KZ__LEASED}};
    kz__run run;
    assert_true(kz__successor(rects, 2, 4, 4 << 4, &run));
    assert_int_equal(run.first, 4 << 4 | 8);
    /* The lease is used up in its millisecond: the fallback of that millisecond stays unused. */
    assert_true(kz__successor(rects, 2, 4, 5 << 4 | 4, &run));
    assert_int_equal(run.first, 6 << 4 | 8);
    assert_int_equal(run.rank, KZ__FENCED);
}

static void the_end_of_time_leaves_room_to_overshoot_in_64_bits(void **state)
{
    (void)state;
    for (unsigned time = 1; time <= 63; time++) {
        for (unsigned slots = 0; slots <= 64 - time && slots <= 63; slots++) {
            kz_layout layout = {.unit_ms = 1, .time_bits = (uint8_t)time};
            layout.node_bits = (uint8_t)(slots > 32 ? 32 : slots);
            layout.seq_bits = (uint8_t)(slots - layout.node_bits);
            uint64_t end_ms = kz__end_of_time_ms(&layout);
            assert_true(end_ms <= UINT64_C(1) << time);
            /* No clock of nanoseconds in 64 bits reads beyond that. */
            const uint64_t clock_ms = INT64_MAX / 1000000;
            if (UINT64_C(1) << time > clock_ms) {
                assert_true(end_ms <= clock_ms);
                continue;
            }
            if (time + slots < 64)
                assert_int_equal(end_ms, UINT64_C(1) << time);
            else
                assert_true(end_ms << slots <= UINT64_MAX - UINT32_MAX);
            /* A hair is at most 2^32 points, rounded up to whole milliseconds. */
            uint64_t hair_ms = (UINT64_C(1) << time) - end_ms;
            assert_true(hair_ms <= (slots >= 32 ? 1 : UINT64_C(1) << (32 - slots)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(successor_is_the_smallest_held_point_at_or_above_the_floor),
        cmocka_unit_test(walking_upward_gives_every_point_of_the_best_class_once),
        cmocka_unit_test(nothing_held_has_no_successor),
        cmocka_unit_test(the_point_at_the_end_of_a_window_is_not_held),
        cmocka_unit_test(a_fallback_is_used_only_where_no_lease_is_live),
        cmocka_unit_test(the_end_of_time_leaves_room_to_overshoot_in_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
