/* One seeded sequence of operations gets the same answers from the lease table in Redis as from core/table.c. */
#include "core/memory_rows.h"
#include "core/place.h"
#include "host/random.h"
#include "sources/redis_link.h"
#include "tests/random.h"
#include "tests/redis_table.h"

#include <inttypes.h>

#define STEPS    1000
#define HELD_MAX 64
#define SECRETS  256
#define SEEDS    3
#define TRIES    20

/* 16 machine IDs of 8 slots: soon used up, and bits can change. 128 of them: there is room behind what is set aside. */
static const struct {
    const char *text;
    uint8_t slot_bits;
} layouts[] = {{"41-5-3@2026-01-01", 8}, {"41-8-3@2026-01-01", 11}};

static redis_server server;

/* The same lease in Redis and in the reference, which drew other secrets. */
typedef struct held {
    kz_lease real, model;
} held;

typedef struct story {
    redis_table table;
    kz__redis_link *link; /* to set the time behind the source's back */
    kz__service model;
    kz__place place; /* the store's */
    unsigned passed; /* there is another since the last write: 1: the next, 2: not */
    kz__memory_rows *memory;
    kz__rows rows;
    kz_grant expected;
    held held[HELD_MAX];
    size_t count;
    kz_acquire last;
    int64_t now_ms;
    uint64_t first, seed;
    int step;
    size_t granted, none_free, conflicts, released, refused, changed, mismatched, moved, all_aside;
} story;

static int64_t wall_ms(void)
{
    return kz__machine_clock.wall_ns(kz__machine_clock.ctx) / KZ__NS_PER_MS;
}

static void set(story *s, const char *field, int64_t value)
{
    char digits[24];
    redisReply *reply = NULL;
    snprintf(digits, sizeof digits, "%" PRId64, value);
    const char *texts[] = {"HSET", "lease:store", field, digits};
    assert_ok(kz__redis_send(s->link, &(kz__redis_args){4, texts, NULL}, &reply, &s->table.err));
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
}

/* The table's time stands at `high` as long as that is ahead of the clock, by a second at most: so the test decides
 * what time it is, as it does for the reference. */
static void move_time(story *s)
{
    s->now_ms += (int64_t)(test_random(&s->seed) % 9);
    /* On a slow machine time overtakes the story, which then leaps ahead; the reference leaps with it. */
    if (s->now_ms < wall_ms() + 450)
        s->now_ms = wall_ms() + 900;
    while (s->now_ms > wall_ms() + 900)
        sleep_ms(20);
    set(s, "high", s->now_ms);
}

/* False: this machine was too slow, and Redis went by its own clock. */
static bool time_stood(const story *s)
{
    return wall_ms() < s->now_ms;
}

static void end_step(story *s, kz_status status)
{
    if (status && status != KZ_NO_FREE_NODE)
        kz__memory_rows_rollback(s->memory);
    else
        kz__memory_rows_commit(s->memory);
}

/* The next write finds another place. Redis: the one it remembers is not the server's own. The server knows the one
 * before it, once it was promoted, and then whether it is the next in line. */
static void change_place(story *s)
{
    bool next_in_line = test_random(&s->seed) % 4 != 0;
    char before[4096], *id;
    if (!next_in_line) {
        redis_server_command(&server, "REPLICAOF 127.0.0.1 1", NULL, 0);
        redis_server_command(&server, "REPLICAOF NO ONE", NULL, 0);
    }
    redis_server_command(&server, "INFO replication", before, sizeof before);
    assert_non_null(id = strstr(before, "master_replid2:"));
    id += strlen("master_replid2:");
    id[strcspn(id, "\r\n")] = '\0';
    bool known = next_in_line && strspn(id, "0") < strlen(id);
    char command[128];
    snprintf(command, sizeof command, "HSET lease:store place %.64s", known ? id : "x");
    redis_server_command(&server, command, NULL, 0);
    s->moved++;
    s->passed = next_in_line ? 1 : 2;
}

/* What every write begins with. */
static void settle(story *s)
{
    bool changed;
    char name[32];
    uint64_t generation = 0;
    snprintf(name, sizeof name, "x%zu", s->moved);
    /* The steps cannot be counted; but Redis knows when it is not the next. */
    if (s->passed && kz__place_moved(&s->place, name, 0, s->now_ms, s->now_ms, &generation))
        s->place.passed = s->passed;
    s->passed = 0;
    assert_ok(kz__place_settle(&s->rows, &s->model, &s->place, s->now_ms, &changed, NULL));
    kz__memory_rows_commit(s->memory);
}

static void same_status(const story *s, const char *what, kz_status got, kz_status wanted)
{
    if (got != wanted)
        fail_msg("KZ_TEST_SEED=%" PRIu64 " step %d: %s gave %s (%s), not %s", s->first, s->step, what,
                 kz_status_name(got), got ? s->table.err.message : "", kz_status_name(wanted));
}

static void same_lease(const story *s, kz_lease got, kz_lease wanted)
{
    memset(got.secret, 0, sizeof got.secret);
    memset(wanted.secret, 0, sizeof wanted.secret);
    if (memcmp(&got, &wanted, sizeof got) != 0)
        fail_msg("KZ_TEST_SEED=%" PRIu64 " step %d: lease %u/%u [%" PRId64 ",%" PRId64 ") twin to %" PRId64
                 ", not %u/%u [%" PRId64 ",%" PRId64 ") twin to %" PRId64,
                 s->first, s->step, got.id, got.seq_bits, got.created_ms, got.expired_ms, got.fallback_expired_ms,
                 wanted.id, wanted.seq_bits, wanted.created_ms, wanted.expired_ms, wanted.fallback_expired_ms);
}

/* Now and then a layout that cannot be had any more. */
static void change_settings(story *s)
{
    kz_layout layout;
    assert_ok(kz_layout_parse(layouts[s->first % 2].text, &layout, NULL));
    layout.seq_bits = (uint8_t)(2 + test_random(&s->seed) % 3);
    layout.node_bits = (uint8_t)(layouts[s->first % 2].slot_bits - layout.seq_bits);
    uint64_t wrong = test_random(&s->seed) % 8;
    layout.epoch_ms += wrong == 0;
    layout.time_bits = (uint8_t)(layout.time_bits + (wrong == 1));
    layout.node_bits = (uint8_t)(layout.node_bits + (wrong == 2));
    kz_service_settings settings = {.service = "default",
                                    .layout = test_random(&s->seed) % 4 ? &layout : NULL,
                                    .lease_ms = 100 + (int64_t)(test_random(&s->seed) % 3) * 20,
                                    .max_throughput = (uint32_t)(test_random(&s->seed) % 3) * 10,
                                    .high_blocks = (int)(test_random(&s->seed) % 3) - 1};
    kz_status got = s->table.ops->configure(s->table.source, &settings, &s->table.err);
    settle(s);
    kz__service with;
    kz_error err;
    assert_ok(kz__service_with(&s->model, &settings, &with, &err));
    kz_status wanted = kz__service_adopt(&s->model, &with, &err);
    same_status(s, "configure", got, wanted);
    if (wanted)
        assert_string_equal(s->table.err.message, err.message);
    s->changed += wanted == KZ_OK;
    s->mismatched += wanted != KZ_OK;
}

static bool acquire(story *s, uint64_t dice)
{
    kz_acquire request = table_request(&s->table, (uint32_t)(1 + test_random(&s->seed) % 20));
    if (dice < 10 && s->last.service)
        request = s->last;
    if (dice == 8)
        request.throughput_per_ms++;
    if (dice == 11)
        memset(request.request_id, 0, sizeof request.request_id);
    s->last = request;
    kz_status got = s->table.ops->acquire(s->table.source, &request, &s->table.grant, &s->table.err);
    if (!time_stood(s))
        return false;
    static char secrets[SECRETS][KZ_SECRET_SIZE];
    assert_ok(kz__secrets_draw(secrets, SECRETS, NULL));
    kz__table_request asked = {.request = request.request_id,
                               .holder = request.holder,
                               .throughput_per_ms = request.throughput_per_ms,
                               .now_ms = s->now_ms,
                               .secrets = (const char(*)[KZ_SECRET_SIZE])(uintptr_t)secrets,
                               .secret_count = SECRETS};
    settle(s);
    kz__service after = s->model;
    kz_status wanted = kz__table_acquire(&s->rows, &after, &asked, &s->expected, NULL);
    end_step(s, wanted);
    same_status(s, "acquire", got, wanted);
    s->none_free += wanted == KZ_NO_FREE_NODE;
    s->all_aside += wanted == KZ_UNAVAILABLE;
    s->conflicts += wanted == KZ_CONFLICT;
    if (wanted == KZ_NO_FREE_NODE)
        s->model = after;
    if (wanted)
        return true;
    s->model = after;
    s->granted++;
    assert_int_equal(s->table.grant.count, s->expected.count);
    assert_int_equal(s->table.grant.source_ms, s->expected.source_ms);
    for (size_t i = 0; i < s->expected.count; i++) {
        same_lease(s, s->table.grant.leases[i], s->expected.leases[i]);
        s->held[s->count++ % HELD_MAX] = (held){s->table.grant.leases[i], s->expected.leases[i]};
    }
    return true;
}

static bool release(story *s)
{
    held h = s->held[test_random(&s->seed) % (s->count < HELD_MAX ? s->count : HELD_MAX)];
    int64_t timestamp_ms = s->now_ms - 20 + (int64_t)(test_random(&s->seed) % 60);
    kz_status got = table_release(&s->table, &h.real, timestamp_ms);
    if (!time_stood(s))
        return false;
    kz_status wanted =
        kz__table_release(&s->rows, &s->model, h.model.id, h.model.secret, timestamp_ms, s->now_ms, NULL);
    end_step(s, wanted);
    /* Who has nothing to give back writes nothing. */
    if (!wanted)
        settle(s);
    same_status(s, "release", got, wanted);
    s->released += wanted == KZ_OK;
    s->refused += wanted != KZ_OK;
    return true;
}

static void begin(story *s, uint64_t seed)
{
    *s = (story){.first = seed, .seed = seed};
    char url[256];
    kz__url parsed;
    kz__redis_address address;
    kz_layout layout;
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    snprintf(url, sizeof url, "%s?lease=100ms", server.url);
    assert_ok(kz__url_parse(server.url, &parsed, NULL));
    assert_ok(kz__redis_address_read(&parsed, 5000, &address, NULL));
    assert_ok(kz__redis_link_new(&s->link, &address, NULL));
    assert_ok(kz_layout_parse(layouts[s->first % 2].text, &layout, NULL));
    assert_ok(kz__service_init(&s->model, "default", &layout, 100, NULL));
    s->memory = kz__memory_rows_new();
    s->rows = kz__memory_rows_use(s->memory);
    assert_ok(kz__table_create(&s->rows, &s->model, NULL));
    kz__memory_rows_commit(s->memory);

    /* The first acquire makes the service, at a time that is not ours; after it the layout is the table's to say. */
    assert_ok(table_try(&s->table, url, "default", layouts[s->first % 2].text, 5000));
    assert_ok(table_acquire(&s->table, 1));
    static const char secret[1][KZ_SECRET_SIZE] = {"x"};
    static const uint8_t request[KZ_REQUEST_ID_SIZE] = {1};
    kz__table_request first = {.request = request,
                               .throughput_per_ms = 1,
                               .secrets = secret,
                               .secret_count = 1,
                               .now_ms = s->table.grant.source_ms};
    assert_ok(kz__table_acquire(&s->rows, &s->model, &first, &s->expected, NULL));
    kz__memory_rows_commit(s->memory);
    s->now_ms = s->table.grant.source_ms + 800;
    /* What is set aside is so for five leases: else little would be left to tell. */
    s->place = (kz__place){.name = "first"};
    set(s, "margin", 1);
    s->place.margin_ms = 1;
    table_close(&s->table);
    assert_ok(table_try(&s->table, url, "default", NULL, 5000));
}

static void end(story *s)
{
    kz__memory_rows_free(s->memory);
    kz__redis_link_free(s->link);
    table_close(&s->table);
}

static bool tell(story *s)
{
    bool stood = true;
    for (s->step = 0; stood && s->step < STEPS; s->step++) {
        move_time(s);
        uint64_t dice = test_random(&s->seed) % 100;
        if (dice < 4)
            change_settings(s);
        else if (dice == 99 && test_random(&s->seed) % 2)
            change_place(s);
        else
            stood = dice < 65 || !s->count ? acquire(s, dice) : release(s);
    }
    return stood;
}

static void a_seeded_sequence_gets_the_answers_of_the_reference(void **state)
{
    (void)state;
    static story s;
    const char *text = getenv("KZ_TEST_SEED");
    uint64_t first = text ? strtoull(text, NULL, 10) : 1, seeds = text ? 1 : SEEDS;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        bool stood = false;
        for (int i = 0; !stood && i < TRIES; i++) {
            begin(&s, seed);
            stood = tell(&s);
            end(&s);
        }
        if (!stood)
            fail_msg("this machine is too slow to hold Redis's time still");
        print_message("seed %" PRIu64
                      ": %zu granted, %zu none free, %zu conflicts, %zu released, %zu not, %zu changes, "
                      "%zu refused, %zu changes of place, %zu times all aside\n",
                      seed, s.granted, s.none_free, s.conflicts, s.released, s.refused, s.changed, s.mismatched,
                      s.moved, s.all_aside);
        assert_true(s.changed && s.mismatched && s.moved && s.granted > 50);
    }
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    redis_server_start(&server, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_seeded_sequence_gets_the_answers_of_the_reference)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_server_stop(&server);
    return failed;
}
