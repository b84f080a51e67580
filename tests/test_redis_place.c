/* A Redis that was restarted or replaced by a copy of itself: what it may have forgotten is set aside, and said. */
#include "core/table.h"
#include "sources/redis_source.h"
#include "tests/redis_table.h"

#include <inttypes.h>

static redis_server server;

enum { NODES = 8192, QUARTER = NODES / 4 };

static int start(void **state)
{
    (void)state;
    redis_server_start(&server, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_server_stop(&server);
    return 0;
}

/* Sets a field of the store. */
static void set(const char *field, const char *value)
{
    char command[128];
    snprintf(command, sizeof command, "HSET lease:store %s %s", field, value);
    redis_server_command(&server, command, NULL, 0);
}

static void set_ms(const char *field, int64_t ms)
{
    char value[24];
    snprintf(value, sizeof value, "%" PRId64, ms);
    set(field, value);
}

static char logged[4096];

static void log_line(void *ctx, kz_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", line);
}

static void open_empty(redis_table *t, const kz_clock *clock)
{
    kz_source_options options = {
        .fallback = KZ_FALLBACK_FENCED, .service = "default", .clock = clock, .timeout_ms = 5000, .log = log_line};
    *t = (redis_table){.ops = &kz__source_redis, .service = "default", .requests = 1};
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    *logged = '\0';
    assert_ok(t->ops->open(&t->source, server.url, &options, &t->facts, &t->err));
}

static void a_restart_costs_a_quarter_for_a_while_and_is_said(void **state)
{
    (void)state;
    redis_table t;
    kz_source_health health;
    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    assert_int_equal(t.grant.leases[0].id, 0);
    uint64_t generation = t.grant.generation;
    assert_string_equal(logged, "");
    redis_server_kill(&server);
    redis_server_restart(&server);
    kz_status status;
    while ((status = table_acquire(&t, 1)) == KZ_UNAVAILABLE)
        sleep_ms(10);
    assert_ok(status);
    assert_int_equal(t.grant.leases[0].id, 1 + QUARTER);
    assert_true(t.grant.generation >> 32 > generation >> 32);
    assert_contains(logged, "set aside until");
    assert_null(strstr(strstr(logged, "set aside until") + 1, "set aside until"));
    assert_ok(t.ops->health(t.source, "default", &health, &t.err));
    assert_contains(health.note, "set aside");
    assert_int_equal(health.nodes_free, NODES - 2 - QUARTER);
    table_close(&t);
}

static void who_saw_the_later_state_believes_a_new_era(void **state)
{
    (void)state;
    redis_table t;
    open_empty(&t, &kz__machine_clock);
    for (int i = 0; i < 5; i++)
        assert_ok(table_acquire(&t, 1));
    /* A copy without the last grants takes over; then an older copy is put back in its place. */
    set("generation", "1");
    set("place", "another");
    assert_ok(table_acquire(&t, 1));
    uint64_t generation = t.grant.generation;
    set("generation", "1");
    assert_status(table_acquire(&t, 1), KZ_STORE);
    assert_contains(t.err.message, "went back in time");
    set_ms("generation", (int64_t)generation);
    assert_ok(table_acquire(&t, 1));
    table_close(&t);
}

static void a_copy_that_is_too_old_or_not_the_next_grants_nothing_for_now(void **state)
{
    (void)state;
    redis_table t;
    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    /* As after a restart: it was away, and has what it wrote. */
    int64_t old_ms = table_now(&t) - KZ__LEASE_MS_DEFAULT / 2 - 60000;
    set_ms("high", old_ms);
    set("place", "another");
    assert_ok(table_acquire(&t, 1));
    table_close(&t);

    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1", NULL, 0);
    redis_server_command(&server, "REPLICAOF NO ONE", NULL, 0);
    set_ms("high", old_ms);
    assert_status(table_acquire(&t, 1), KZ_UNAVAILABLE);
    assert_contains(t.err.message, "nothing is granted until then");
    table_close(&t);

    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    /* Promoted from a server that is not the one remembered. */
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1", NULL, 0);
    redis_server_command(&server, "REPLICAOF NO ONE", NULL, 0);
    set("place", "another");
    assert_status(table_acquire(&t, 1), KZ_UNAVAILABLE);
    assert_contains(t.err.message, "nothing is granted until then");
    table_close(&t);
}

static void a_service_whose_creation_may_be_lost_starts_behind_it(void **state)
{
    (void)state;
    redis_table t;
    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    set("place", "another");
    assert_ok(table_acquire(&t, 1));
    kz_acquire request = table_request(&t, 1);
    request.service = "later";
    assert_ok(t.ops->acquire(t.source, &request, &t.grant, &t.err));
    assert_int_equal(t.grant.leases[0].id, QUARTER);
    table_close(&t);
}

static int64_t wall_behind_ns(void *ctx)
{
    return kz__machine_clock.wall_ns(kz__machine_clock.ctx) - *(int64_t *)ctx;
}

static int64_t boot_ns(void *ctx)
{
    (void)ctx;
    return kz__machine_clock.boot_ns(kz__machine_clock.ctx);
}

static void a_leap_of_more_than_a_day_needs_a_second_witness(void **state)
{
    (void)state;
    redis_table t;
    int64_t behind_ns = 0;
    kz_clock clock = {.ctx = &behind_ns, .wall_ns = wall_behind_ns, .boot_ns = boot_ns};
    open_empty(&t, &clock);
    assert_ok(table_acquire(&t, 1));
    int64_t two_days_ms = 2 * INT64_C(86400000), high_ms = table_now(&t) - two_days_ms;
    set_ms("high", high_ms);
    behind_ns = two_days_ms * KZ__NS_PER_MS;
    assert_status(table_acquire(&t, 1), KZ_UNAVAILABLE);
    assert_contains(t.err.message, "ahead of what it has answered before");
    char text[64];
    redis_server_command(&server, "HGET lease:store high", text, sizeof text);
    assert_int_equal(strtoll(text, NULL, 10), high_ms);
    behind_ns = 0;
    assert_ok(table_acquire(&t, 1));
    table_close(&t);
}

static void asking_for_the_time_writes_once_a_second_at_most(void **state)
{
    (void)state;
    redis_table t;
    char before[64], after[64];
    open_empty(&t, &kz__machine_clock);
    assert_ok(table_acquire(&t, 1));
    int64_t high_ms = table_now(&t) + 500; /* where time stands for a while */
    set_ms("high", high_ms);
    redis_server_command(&server, "HGET lease:store generation", before, sizeof before);
    for (int i = 0; i < 20; i++)
        assert_true(table_now(&t) >= high_ms);
    redis_server_command(&server, "HGET lease:store generation", after, sizeof after);
    if (table_now(&t) < high_ms + KZ__REDIS_LIGHT_MS)
        assert_string_equal(after, before);
    set_ms("high", high_ms - 2 * KZ__REDIS_LIGHT_MS);
    table_now(&t);
    redis_server_command(&server, "HGET lease:store generation", after, sizeof after);
    assert_true(strcmp(after, before) != 0);
    table_close(&t);
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_costs_a_quarter_for_a_while_and_is_said),
        cmocka_unit_test(who_saw_the_later_state_believes_a_new_era),
        cmocka_unit_test(a_service_whose_creation_may_be_lost_starts_behind_it),
        cmocka_unit_test(a_leap_of_more_than_a_day_needs_a_second_witness),
        cmocka_unit_test(asking_for_the_time_writes_once_a_second_at_most),
        /* The last one: it leaves the server with a predecessor. */
        cmocka_unit_test(a_copy_that_is_too_old_or_not_the_next_grants_nothing_for_now),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
