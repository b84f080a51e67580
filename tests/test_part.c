/* A part of a table answers like the table itself: one story is told to rows in memory, and to a part of other rows in
 * memory that tell little at a time, refuse commits, and lose the answers to some. */
#include "core/find_block.h"
#include "core/memory_rows.h"
#include "core/part.h"
#include "far_memory.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define T0    INT64_C(1800000000000)
#define LEASE INT64_C(2000)

enum { HELD = 256, PAGE_MAX = 64, GROUP_MAX = 4 };

typedef struct held {
    uint32_t node;
    char secret[KZ_SECRET_SIZE];
} held;

typedef struct story {
    uint64_t seed, random;
    int64_t now_ms;
    /* the reference */
    kz__memory_rows *memory;
    kz__rows rows;
    kz__service service;
    /* the far store: what is committed there */
    kz__memory_rows *store;
    kz__rows store_rows;
    kz__service store_service;
    uint64_t store_heights;
    /* what came from it */
    kz__part *part;
    kz__service part_service;
    size_t page;
    size_t asked, refused, doubtful, undone, high, moved;
    held held[HELD];
    size_t held_count;
    uint64_t secrets_drawn, requests_drawn;
} story;

static uint64_t below(story *s, uint64_t limit)
{
    return test_random(&s->random) % limit;
}

static kz_status ask(void *ctx, kz__part *part, const kz__part_question *question, kz_error *err)
{
    (void)err;
    story *s = ctx;
    s->asked++;
    far_memory_tell(s->store, s->page, part, question);
    return KZ_OK;
}

static void begin(story *s)
{
    s->page = 1 + below(s, below(s, 2) ? 4 : PAGE_MAX);
    s->part_service = s->store_service;
    assert_ok(kz__part_begin(s->part, s->store_heights, NULL));
}

static void commit(story *s)
{
    far_memory_apply(s->store, s->part);
    s->store_service = s->part_service;
    s->store_heights = kz__part_heights(s->part);
}

/* ------------------------------------------------------------------------------------------------ operations */

typedef struct operation {
    enum { ACQUIRE, RELEASE, CONFIGURE } kind;
    uint8_t request[KZ_REQUEST_ID_SIZE];
    uint32_t throughput;
    char secrets[KZ_GRANT_LEASES_MAX][KZ_SECRET_SIZE];
    held released;
    int64_t timestamp_ms;
    kz__service wanted;
} operation;

typedef struct answer {
    kz_status status;
    kz_grant grant;
    kz_error err;
} answer;

static void run(story *s, const kz__rows *rows, kz__service *service, const operation *op, answer *a)
{
    if (op->kind == CONFIGURE) {
        a->status = kz__service_adopt(service, &op->wanted, &a->err);
    } else if (op->kind == RELEASE) {
        a->status = kz__table_release(rows, service, op->released.node, op->released.secret, op->timestamp_ms,
                                      s->now_ms, &a->err);
    } else {
        kz__table_request asked = {.request = op->request,
                                   .holder = "{}",
                                   .throughput_per_ms = op->throughput,
                                   .now_ms = s->now_ms,
                                   .secrets = op->secrets,
                                   .secret_count = KZ_GRANT_LEASES_MAX};
        a->status = kz__table_acquire(rows, service, &asked, &a->grant, &a->err);
    }
}

/* As a store does: what failed is undone, but for a sweep that found nothing free. */
static void run_on_memory(story *s, const operation *op, answer *a)
{
    kz__service before = s->service;
    run(s, &s->rows, &s->service, op, a);
    if (a->status && a->status != KZ_NO_FREE_NODE) {
        kz__memory_rows_rollback(s->memory);
        s->service = before;
    } else {
        kz__memory_rows_commit(s->memory);
    }
}

static void run_on_part(story *s, const operation *op, answer *a)
{
    kz__service before = s->part_service;
    kz__rows rows = kz__part_rows(s->part);
    if (op->kind == RELEASE && below(s, 2))
        assert_ok(kz__part_want_node(s->part, &s->part_service, op->released.node, NULL));
    run(s, &rows, &s->part_service, op, a);
    if (a->status && a->status != KZ_NO_FREE_NODE) {
        kz__part_undo(s->part);
        s->part_service = before;
        s->undone++;
    } else {
        kz__part_keep(s->part);
    }
}

static void draw(story *s, operation *op, const operation *last)
{
    uint64_t r = below(s, 100);
    memset(op, 0, sizeof *op);
    if (r < 3) {
        /* bits move between node and sequence, and high blocks are switched on or off */
        op->kind = CONFIGURE;
        op->wanted = s->service;
        op->wanted.seq_bits = (uint8_t)(3 + below(s, 3));
        op->wanted.node_bits = (uint8_t)(12 - op->wanted.seq_bits);
        op->wanted.high_blocks = below(s, 3);
        s->moved++;
    } else if (r < 35 && s->held_count) {
        op->kind = RELEASE;
        op->released = s->held[below(s, s->held_count < HELD ? s->held_count : HELD)];
        if (below(s, 20) == 0)
            op->released.secret[0] ^= 1;
        op->timestamp_ms = s->now_ms + (int64_t)below(s, 200) - 100;
    } else if (r < 42 && last->kind == ACQUIRE && last->throughput) {
        *op = *last;
        if (below(s, 8) == 0)
            op->throughput++; /* the same request with another wish */
    } else {
        op->kind = ACQUIRE;
        op->throughput = (uint32_t)(1 + below(s, below(s, 4) ? 8 : 200));
        uint64_t request = ++s->requests_drawn;
        if (below(s, 10))
            memcpy(op->request, &request, sizeof request);
        for (size_t i = 0; i < KZ_GRANT_LEASES_MAX; i++)
            snprintf(op->secrets[i], KZ_SECRET_SIZE, "%032" PRIx64, ++s->secrets_drawn);
    }
}

/* --------------------------------------------------------------------------------------------- the comparison */

static void fail_story(const story *s, int step, const char *what)
{
    fail_msg("seed %" PRIu64 ", step %d: %s", s->seed, step, what);
}

static void same_answer(const story *s, int step, const answer *mine, const answer *other)
{
    if (mine->status != other->status)
        fail_story(s, step, kz_status_name(mine->status));
    if (strcmp(mine->err.message, other->err.message) != 0)
        fail_story(s, step, mine->err.message);
    if (mine->grant.count != other->grant.count || mine->grant.generation != other->grant.generation ||
        mine->grant.source_ms != other->grant.source_ms ||
        memcmp(mine->grant.leases, other->grant.leases, mine->grant.count * sizeof mine->grant.leases[0]) != 0)
        fail_story(s, step, "another grant");
}

/* Row by row, range by range. */
static void same_table(const story *s, int step)
{
    size_t at = 0, mine = 0, theirs = 0;
    const kz__row *row;
    kz__row other;
    kz__range a, b;
    while ((row = kz__memory_rows_each(s->memory, &at))) {
        mine++;
        if (s->store_rows.out_at(s->store, row->lo, &other, NULL) || memcmp(row, &other, sizeof other) != 0)
            fail_story(s, step, "a row differs");
    }
    for (at = 0; kz__memory_rows_each(s->store, &at);)
        theirs++;
    for (uint64_t from = 0;; from = a.hi) {
        kz_status one = s->rows.free_after(s->memory, from, &a, NULL);
        kz_status two = s->store_rows.free_after(s->store, from, &b, NULL);
        if (one != two || (one == KZ_OK && (a.lo != b.lo || a.hi != b.hi)))
            fail_story(s, step, "a free range differs");
        if (one)
            break;
    }
    if (mine != theirs || memcmp(&s->service, &s->store_service, sizeof s->service) != 0)
        fail_story(s, step, "rows or service differ");
}

static void remember(story *s, const answer *a)
{
    for (size_t i = 0; a->status == KZ_OK && i < a->grant.count; i++) {
        held *one = &s->held[s->held_count++ % HELD];
        one->node = a->grant.leases[i].id;
        memcpy(one->secret, a->grant.leases[i].secret, sizeof one->secret);
        s->high += a->grant.leases[i].seq_bits > s->service.seq_bits;
    }
}

/* One commit with one or more operations. It may be refused, then all is done again on a fresh part; or its answer is
 * lost, then everything is asked for again by both. */
static void one_step(story *s, int step, operation *last)
{
    static operation ops[GROUP_MAX];
    static answer mine[GROUP_MAX], far[GROUP_MAX];
    size_t count = 1 + (below(s, 4) ? 0 : below(s, GROUP_MAX));
    s->now_ms += (int64_t)below(s, below(s, 30) ? 100 : 9000) - (below(s, 40) ? 0 : 500);
    for (size_t i = 0; i < count; i++)
        draw(s, &ops[i], i ? &ops[i - 1] : last);
    bool doubtful = below(s, 10) == 0;
    for (int times = doubtful ? 2 : 1; times; times--) {
        memset(mine, 0, sizeof mine);
        for (size_t i = 0; i < count; i++)
            run_on_memory(s, &ops[i], &mine[i]);
        bool refused;
        do {
            begin(s);
            memset(far, 0, sizeof far);
            for (size_t i = 0; i < count; i++)
                run_on_part(s, &ops[i], &far[i]);
            refused = below(s, 8) == 0;
            s->refused += refused;
        } while (refused);
        commit(s);
        for (size_t i = 0; i < count; i++)
            same_answer(s, step, &far[i], &mine[i]);
        same_table(s, step);
        s->doubtful += times > 1;
    }
    for (size_t i = 0; i < count; i++)
        remember(s, &mine[i]);
    *last = ops[count - 1];
}

static story *story_of(uint64_t seed)
{
    story *s = calloc(1, sizeof *s);
    kz_layout layout;
    s->seed = s->random = seed;
    s->now_ms = T0;
    assert_ok(kz_layout_parse("41-8-4@2026-01-01", &layout, NULL));
    assert_ok(kz__service_init(&s->service, "default", &layout, LEASE, NULL));
    s->memory = kz__memory_rows_new();
    s->rows = kz__memory_rows_use(s->memory);
    assert_ok(kz__table_create(&s->rows, &s->service, NULL));
    kz__memory_rows_commit(s->memory);
    s->store = kz__memory_rows_new();
    s->store_rows = kz__memory_rows_use(s->store);
    s->part = kz__part_new(ask, s);
    /* The far service is made through a part too. */
    s->store_service = s->service;
    begin(s);
    kz__part_know_all(s->part);
    kz__rows rows = kz__part_rows(s->part);
    assert_ok(kz__table_create(&rows, &s->part_service, NULL));
    kz__part_keep(s->part);
    commit(s);
    assert_int_equal(s->asked, 0);
    return s;
}

static void end(story *s)
{
    kz__memory_rows_free(s->memory);
    kz__memory_rows_free(s->store);
    kz__part_free(s->part);
    free(s);
}

static void a_part_answers_like_the_table_itself(void **state)
{
    (void)state;
    const char *only = getenv("KZ_TEST_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    size_t high = 0;
    for (uint64_t seed = first; seed < first + (only ? 1 : 16); seed++) {
        story *s = story_of(seed);
        operation *last = calloc(1, sizeof *last);
        same_table(s, 0);
        for (int step = 1; step <= 600; step++)
            one_step(s, step, last);
        /* Otherwise the story did not test what it is for. */
        assert_true(s->asked > 600 && s->refused > 20 && s->doubtful > 20 && s->undone > 20);
        assert_true(s->moved > 5);
        high += s->high;
        free(last);
        end(s);
    }
    assert_true(only || high > 500);
}

/* ------------------------------------------------------------------------------------------------- questions */

static void acquire_one(story *s, operation *op, answer *a)
{
    memset(op, 0, sizeof *op);
    op->kind = ACQUIRE;
    op->throughput = 1;
    snprintf(op->secrets[0], KZ_SECRET_SIZE, "%032" PRIx64, ++s->secrets_drawn);
    begin(s);
    s->page = 2;
    run_on_part(s, op, a);
    assert_ok(a->status);
    commit(s);
}

static void an_acquire_asks_for_the_same_with_few_and_with_many_held(void **state)
{
    (void)state;
    story *s = story_of(1);
    operation *op = calloc(1, sizeof *op);
    answer *a = calloc(1, sizeof *a);
    acquire_one(s, op, a);
    s->asked = 0;
    acquire_one(s, op, a);
    size_t few = s->asked;
    for (int i = 0; i < 28; i++)
        acquire_one(s, op, a);
    s->asked = 0;
    acquire_one(s, op, a);
    assert_int_equal(s->asked, few);
    free(op);
    free(a);
    end(s);
}

static kz_status ask_in_vain(void *ctx, kz__part *part, const kz__part_question *question, kz_error *err)
{
    (void)part;
    (void)question;
    (void)err;
    return ctx ? *(kz_status *)ctx : KZ_OK;
}

static void a_store_that_does_not_answer_is_an_error_and_no_endless_loop(void **state)
{
    (void)state;
    kz_status unavailable = KZ_UNAVAILABLE;
    kz__part *silent = kz__part_new(ask_in_vain, NULL), *down = kz__part_new(ask_in_vain, &unavailable);
    assert_ok(kz__part_begin(silent, 1, NULL));
    assert_ok(kz__part_begin(down, 1, NULL));
    kz__rows rows = kz__part_rows(silent), others = kz__part_rows(down);
    kz__range range;
    kz__row row;
    uint8_t request[KZ_REQUEST_ID_SIZE] = {1};
    assert_int_equal(rows.free_after(silent, 3, &range, NULL), KZ_STORE);
    assert_int_equal(rows.free_ending(silent, 3, &range, NULL), KZ_STORE);
    assert_int_equal(rows.out_ended(silent, T0, &row, NULL), KZ_STORE);
    assert_int_equal(rows.out_at(silent, 3, &row, NULL), KZ_STORE);
    assert_int_equal(rows.out_by_node(silent, 3, &row, NULL), KZ_STORE);
    assert_int_equal(rows.out_by_request(silent, request, 0, &row, NULL), KZ_STORE);
    assert_int_equal(others.free_after(down, 3, &range, NULL), KZ_UNAVAILABLE);
    assert_int_equal(others.free_ending(down, 3, &range, NULL), KZ_UNAVAILABLE);
    assert_int_equal(others.out_ended(down, T0, &row, NULL), KZ_UNAVAILABLE);
    assert_int_equal(others.out_at(down, 3, &row, NULL), KZ_UNAVAILABLE);
    kz__part_free(silent);
    kz__part_free(down);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_answers_like_the_table_itself),
        cmocka_unit_test(an_acquire_asks_for_the_same_with_few_and_with_many_held),
        cmocka_unit_test(a_store_that_does_not_answer_is_an_error_and_no_endless_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
