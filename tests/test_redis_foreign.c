/* Another provider in the same Redis: one that knows the hashes lease:N and lease:last_assigned, and nothing else. It
 * goes round from the last number assigned, takes whatever has no hash or one that has ended, by its own clock. */
#include "sources/redis_link.h"
#include "tests/redis_table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

static redis_server server;

#define SKEW_MS 30000

static const char its_script[] =
    "local max, now, expired, secret, count = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[7])\n"
    "local last = tonumber(redis.call('GET', 'lease:last_assigned') or -1)\n"
    "local start, results = (last + 1) % (max + 1), {}\n"
    "for i = 0, max do\n"
    "  local id = (start + i) % (max + 1)\n"
    "  local ends = redis.call('HGET', 'lease:' .. id, 'expired')\n"
    "  if not ends or tonumber(ends) < tonumber(now) then\n"
    "    local own = secret .. '_' .. #results\n"
    "    redis.call('HMSET', 'lease:' .. id, 'serviceId', ARGV[5], 'secret', own, 'expired', expired, 'holder', "
    "ARGV[6],\n"
    "               'createdAt', now)\n"
    "    redis.call('SET', 'lease:last_assigned', id)\n"
    "    table.insert(results, {id, own})\n"
    "    if #results >= count then break end\n"
    "  end\n"
    "end\n"
    "return results\n";

static int64_t wall_ms(void)
{
    return kz__machine_clock.wall_ns(kz__machine_clock.ctx) / KZ__NS_PER_MS;
}

static kz__redis_link *link_open(void)
{
    kz__url url;
    kz__redis_address address;
    kz__redis_link *link = NULL;
    assert_ok(kz__url_parse(server.url, &url, NULL));
    assert_ok(kz__redis_address_read(&url, 10000, &address, NULL));
    assert_ok(kz__redis_link_new(&link, &address, NULL));
    return link;
}

/* Its acquire of one lease: the number, or -1. */
static int64_t its_acquire(kz__redis_link *link, unsigned node_bits, int64_t now_ms, int64_t lease_ms)
{
    static atomic_uint calls;
    char max[16], now[24], expired[24], secret[40];
    snprintf(max, sizeof max, "%u", (1u << (node_bits - 1)) - 1);
    snprintf(now, sizeof now, "%" PRId64, now_ms);
    snprintf(expired, sizeof expired, "%" PRId64, now_ms + lease_ms);
    snprintf(secret, sizeof secret, "%032x", atomic_fetch_add(&calls, 1));
    const char *texts[] = {"EVAL", its_script, "0", max, now, expired, secret, "", "{}", "1"};
    redisReply *reply = NULL;
    assert_ok(kz__redis_send(link, &(kz__redis_args){10, texts, NULL}, &reply, NULL));
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    int64_t id = reply->elements ? reply->element[0]->element[0]->integer : -1;
    freeReplyObject(reply);
    return id;
}

static void its_hash(unsigned node, int64_t expired_ms)
{
    char command[256];
    snprintf(command, sizeof command,
             "HSET lease:%u serviceId x secret its_0 expired %" PRId64 " holder {} createdAt %" PRId64, node,
             expired_ms, expired_ms - 600000);
    redis_server_command(&server, command, NULL, 0);
}

static void open_empty(redis_table *table, const char *more, const char *layout)
{
    char url[256];
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    snprintf(url, sizeof url, "%s%s", server.url, more);
    assert_ok(table_try(table, url, "default", layout, 5000));
}

static void its_leases_are_passed_over_until_30_s_after_their_end(void **state)
{
    (void)state;
    static redis_table t;
    open_empty(&t, "", NULL);
    int64_t now_ms = wall_ms();
    its_hash(0, now_ms + 60000);
    its_hash(1, now_ms);
    its_hash(2, now_ms - SKEW_MS + 20000);
    its_hash(3, now_ms - SKEW_MS);
    assert_ok(table_acquire(&t, 1));
    assert_int_equal(t.grant.leases[0].id, 3);
    its_hash(4, now_ms + 60000);
    assert_ok(table_acquire(&t, 1));
    assert_int_equal(t.grant.leases[0].id, 5);
    table_close(&t);
}

static void its_hash_is_never_written_over(void **state)
{
    (void)state;
    static redis_table t;
    char before[4][512], after[512];
    open_empty(&t, "", "41-3-8@2026-01-01");
    for (unsigned i = 0; i < 4; i++) {
        char command[32];
        if (i != 2)
            its_hash(i, wall_ms() + 1000);
        snprintf(command, sizeof command, "HGETALL lease:%u", i);
        redis_server_command(&server, command, before[i], sizeof before[i]);
    }
    assert_ok(table_acquire(&t, 512));
    assert_int_equal(t.grant.count, 1);
    assert_int_equal(t.grant.leases[0].id, 2);
    assert_int_equal(table_acquire(&t, 1), KZ_NO_FREE_NODE);
    for (unsigned i = 0; i < 4; i++) {
        char command[32];
        snprintf(command, sizeof command, "HGETALL lease:%u", i);
        redis_server_command(&server, command, after, sizeof after);
        if (i != 2)
            assert_string_equal(after, before[i]);
    }
    table_close(&t);
}

/* Its script leaves the fields in place that it does not know. */
static void what_it_took_over_from_an_ended_lease_stays_its_own(void **state)
{
    (void)state;
    static redis_table t;
    char text[1024];
    kz__redis_link *link = link_open();
    open_empty(&t, "?lease=100ms", "41-3-8@2026-01-01");
    assert_ok(table_acquire(&t, 1024));
    assert_int_equal(t.grant.count, 4);
    kz_lease was = t.grant.leases[0];
    assert_int_equal(its_acquire(link, 3, wall_ms(), 60000), -1);
    sleep_until(&t, was.expired_ms + 1);
    assert_int_equal(its_acquire(link, 3, was.expired_ms + 1, 60000), 0);
    kz_service_settings longer = {.service = "default", .lease_ms = 600000};
    assert_ok(t.ops->configure(t.source, &longer, &t.err));
    for (int i = 0; i < 3; i++) {
        assert_ok(table_acquire(&t, 1));
        assert_int_equal(t.grant.leases[0].id, 1 + i);
    }
    assert_int_equal(table_acquire(&t, 1), KZ_NO_FREE_NODE);
    redis_server_command(&server, "HKEYS lease:0", text, sizeof text);
    assert_null(strstr(text, "mine"));
    redis_server_command(&server, "HGET lease:0 holder", text, sizeof text);
    assert_string_equal(text, "{}\n");
    kz__redis_link_free(link);
    table_close(&t);
}

static void it_respects_what_is_ours(void **state)
{
    (void)state;
    static redis_table t;
    kz__redis_link *link = link_open();
    open_empty(&t, "", "41-4-8@2026-01-01");
    for (int i = 0; i < 4; i++) {
        assert_ok(table_acquire(&t, 1));
        assert_int_equal(t.grant.leases[0].id, 2 * i);
        assert_int_equal(its_acquire(link, 4, wall_ms(), 60000), 2 * i + 1);
    }
    assert_int_equal(its_acquire(link, 4, wall_ms(), 60000), -1);
    assert_int_equal(table_acquire(&t, 1), KZ_NO_FREE_NODE);
    kz__redis_link_free(link);
    table_close(&t);
}

static void health_names_it(void **state)
{
    (void)state;
    static redis_table t;
    kz_source_health health;
    kz__redis_link *link = link_open();
    open_empty(&t, "", NULL);
    assert_int_equal(its_acquire(link, 14, wall_ms(), 60000), 0);
    assert_ok(t.ops->health(t.source, "default", &health, &t.err));
    assert_non_null(strstr(health.note, "another provider holds leases"));
    assert_non_null(strstr(health.note, "node 0 "));
    assert_ok(table_acquire(&t, 1));
    assert_int_equal(its_acquire(link, 14, wall_ms(), 60000), 2);
    assert_ok(table_acquire(&t, 1));
    assert_ok(t.ops->health(t.source, "default", &health, &t.err));
    assert_non_null(strstr(health.note, "(2 seen"));
    assert_int_equal(health.nodes_free, 8192 - 4);
    kz__redis_link_free(link);
    table_close(&t);
}

/* ---- both at once ---- */

/* Few numbers, that ours go round often while its clients hold theirs; each of those is out for us to the end. */
#define SMALL "41-6-8@2026-01-01"
enum { EACH = 3, ITS_LEASE_MS = 700, OUR_TURN_MS = 5, ROUNDS = 4, IDS_MAX = 1 << 20 };

typedef struct maker {
    pthread_t thread;
    kz_id *ids;
    size_t count;
    unsigned rounds;
} maker;

static atomic_int running;

/* It mints as its clients do: by its own clock, from the start of every millisecond, to the lease's end and in it. */
static void *its_client(void *arg)
{
    maker *m = arg;
    kz__redis_link *link = link_open();
    kz_layout layout;
    assert_ok(kz_layout_parse(SMALL, &layout, NULL));
    for (m->rounds = 0; m->rounds < ROUNDS; m->rounds++) {
        int64_t began_ms = wall_ms(), last_ms = 0, now_ms;
        int64_t node = its_acquire(link, layout.node_bits, began_ms, ITS_LEASE_MS);
        assert_true(node >= 0);
        while ((now_ms = wall_ms()) <= began_ms + ITS_LEASE_MS) {
            for (uint64_t seq = 0; now_ms > last_ms && seq < 16 && m->count < IDS_MAX; seq++)
                m->ids[m->count++] = (kz_id)(now_ms - layout.epoch_ms) << 14 | (uint64_t)node << 8 | seq;
            last_ms = now_ms;
        }
    }
    kz__redis_link_free(link);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *our_client(void *arg)
{
    maker *m = arg;
    char url[256];
    kz_options options;
    kz_generator *gen = NULL;
    kz_error err;
    snprintf(url, sizeof url, "%s?lease=1s", server.url);
    kz_options_init(&options);
    options.layout = SMALL;
    for (; atomic_load(&running) > 0; m->rounds++) {
        if (kz_open(&gen, url, &options, &err))
            fail_msg("%s", err.message);
        for (int64_t end_ms = wall_ms() + OUR_TURN_MS; wall_ms() < end_ms && m->count < IDS_MAX;) {
            kz_id id;
            if (kz_next(gen, &id) == KZ_OK)
                m->ids[m->count++] = id;
        }
        kz_close(gen);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const kz_id *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void no_id_is_minted_twice_by_both_together(void **state)
{
    (void)state;
    static maker makers[2 * EACH];
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    atomic_store(&running, EACH);
    for (size_t i = 0; i < 2 * EACH; i++) {
        assert_non_null(makers[i].ids = malloc(IDS_MAX * sizeof(kz_id)));
        assert_int_equal(pthread_create(&makers[i].thread, NULL, i < EACH ? its_client : our_client, &makers[i]), 0);
    }
    size_t its = 0, ours = 0, equal = 0, used = 0;
    for (size_t i = 0; i < 2 * EACH; i++) {
        pthread_join(makers[i].thread, NULL);
        *(i < EACH ? &its : &ours) += makers[i].count;
    }
    kz_id *all = malloc((its + ours) * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < 2 * EACH; i++) {
        memcpy(all + used, makers[i].ids, makers[i].count * sizeof *all);
        used += makers[i].count;
        free(makers[i].ids);
    }
    qsort(all, used, sizeof *all, by_value);
    for (size_t i = 1; i < used; i++)
        equal += all[i] == all[i - 1];
    print_message("%zu IDs of its clients, %zu of ours, %zu equal\n", its, ours, equal);
    assert_true(its > 1000 && ours > 1000);
    assert_int_equal(equal, 0);
    free(all);
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    redis_server_start(&server, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_leases_are_passed_over_until_30_s_after_their_end),
        cmocka_unit_test(its_hash_is_never_written_over),
        cmocka_unit_test(what_it_took_over_from_an_ended_lease_stays_its_own),
        cmocka_unit_test(it_respects_what_is_ours),
        cmocka_unit_test(health_names_it),
        cmocka_unit_test(no_id_is_minted_twice_by_both_together),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_server_stop(&server);
    return failed;
}
