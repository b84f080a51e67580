/* The lease table in Redis when things go wrong: crashes, refusals, lost data, clocks. A clear message each,
 * never a second grant. */
#include "tests/redis_table.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static redis_server server;

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

static int flush(void **state)
{
    (void)state;
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    return 0;
}

static void a_killed_server_forgets_no_grant_that_it_answered(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "?lease=1h");
    bool granted[8192] = {false};
    for (int life = 0; life < 3; life++) { /* a fourth would find all nodes set aside */
        for (int i = 0; i < 25; i++) {
            assert_ok(table_acquire(&table, 256));
            uint32_t id = table.grant.leases[0].id;
            assert_false(granted[id]);
            granted[id] = true;
        }
        redis_server_kill(&server);
        assert_status(table_acquire(&table, 256), KZ_UNAVAILABLE);
        redis_server_restart(&server);
        kz_status status;
        for (int i = 0; (status = table_acquire(&table, 256)) == KZ_UNAVAILABLE && i < 6000; i++)
            sleep_ms(10);
        assert_ok(status);
        assert_false(granted[table.grant.leases[0].id]);
        granted[table.grant.leases[0].id] = true;
    }
    kz_source_health health;
    assert_ok(table.ops->health(table.source, NULL, &health, &table.err));
    assert_int_equal(health.leases_out, 78);
    table_close(&table);
}

static void passwords_are_needed_checked_and_never_shown(void **state)
{
    (void)state;
    redis_server closed;
    redis_table table;
    char url[256];
    redis_server_start_with_password(&closed, "open:sesame@1");
    assert_status(table_try(&table, closed.url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "wants a password");
    snprintf(url, sizeof url, "redis://:tell-nobody@127.0.0.1:%d", closed.port);
    assert_status(table_try(&table, url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "wrong user or password");
    assert_null(strstr(table.err.message, "tell-nobody"));
    snprintf(url, sizeof url, "redis://:open%%3Asesame%%401@127.0.0.1:%d/2", closed.port);
    assert_ok(table_try(&table, url, "default", NULL, 5000));
    assert_ok(table_acquire(&table, 1));
    redis_server_kill(&closed);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_null(strstr(table.err.message, "sesame"));
    table_close(&table);
    snprintf(url, sizeof url, "redis://default:open%%3Asesame%%401@127.0.0.1:%d", closed.port);
    redis_server_restart(&closed);
    assert_ok(table_try(&table, url, "default", NULL, 5000));
    assert_ok(table_acquire(&table, 1));
    table_close(&table);
    redis_server_stop(&closed);
}

static void urls_that_cannot_be_meant_are_refused_without_the_password(void **state)
{
    (void)state;
    static const char *const urls[] = {"redis:localhost",
                                       "redis://localhost:0",
                                       "redis://localhost:99999",
                                       "redis://localhost:12x",
                                       "redis://localhost/two",
                                       "redis://localhost/-1",
                                       "redis://:tell%zz@localhost",
                                       "redis://user@localhost",
                                       "redis://[::1",
                                       "redis://localhost?cacert=/x",
                                       "rediss://localhost?insecure=maybe",
                                       "redis://localhost?prefx=a",
                                       "redis+sentinel://localhost",
                                       "redis+sentinel:///name",
                                       "redis+sentinel://a,/name",
                                       "redis+sentinel://a,,b/name",
                                       "redis+sentinel://a:0/name",
                                       "redis+sentinel://a/name/two",
                                       "redis+sentinel://:tell-nobody@a:1x/name",
                                       "redis+sentinel://:tell-nobody@a,/name",
                                       "redis+sentinel://a/name?cacert=/x",
                                       "redis://:tell-nobody@localhost:1x"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        redis_table table;
        assert_status(table_try(&table, urls[i], "default", NULL, 200), KZ_INVALID);
        assert_null(strstr(table.err.message, "tell"));
    }
}

static void a_server_that_refuses_writes_says_why(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 1));
    redis_server_command(&server, "CONFIG SET min-replicas-to-write 1", NULL, 0);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, "min-replicas-to-write");
    redis_server_command(&server, "CONFIG SET min-replicas-to-write 0", NULL, 0);
    redis_server_command(&server, "CONFIG SET maxmemory 1", NULL, 0);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, "maxmemory");
    redis_server_command(&server, "CONFIG SET maxmemory 0", NULL, 0);
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1", NULL, 0);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, "master");
    redis_server_command(&server, "REPLICAOF NO ONE", NULL, 0);
    assert_ok(table_acquire(&table, 1));
    /* It was promoted, so a quarter of all nodes may have been granted by its predecessor. */
    assert_int_equal(table.grant.leases[0].id, 1 + 8192 / 4);
    table_close(&table);
}

static void a_slow_server_times_out_and_the_next_call_connects_anew(void **state)
{
    (void)state;
    redis_table table;
    assert_ok(table_try(&table, server.url, "default", NULL, 1500));
    kz_acquire request = table_request(&table, 1);
    assert_ok(table.ops->acquire(table.source, &request, &table.grant, &table.err));
    kill(server.pid, SIGSTOP);
    request = table_request(&table, 1);
    kz_status status = table.ops->acquire(table.source, &request, &table.grant, &table.err);
    kill(server.pid, SIGCONT);
    assert_status(status, KZ_UNAVAILABLE);
    assert_contains(table.err.message, "1500 ms");
    /* Whether the command was carried out was not known: the same request finds out. */
    assert_ok(table.ops->acquire(table.source, &request, &table.grant, &table.err));
    assert_int_equal(table.grant.leases[0].id, 1);
    table_close(&table);
}

static void a_flushed_store_is_noticed_and_nothing_more_is_granted(void **state)
{
    (void)state;
    redis_table old, other, waiting;
    int64_t ms;
    uint64_t generation;
    table_open(&old, &server, "");
    for (int i = 0; i < 5; i++)
        assert_ok(table_acquire(&old, 1));
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    assert_status(old.ops->now(old.source, &ms, &generation, &old.err), KZ_STORE);
    assert_contains(old.err.message, "went back in time");
    table_open(&other, &server, "");
    for (int i = 0; i < 9; i++)
        assert_ok(table_acquire(&other, 1));
    assert_status(table_acquire(&old, 1), KZ_STORE);
    table_close(&old);
    table_close(&other);

    /* Under quarantine a store found empty waits out the longest window. */
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    table_open(&waiting, &server, "?lease=100ms&amnesia=quarantine");
    int64_t began_ms = table_now(&waiting);
    kz_status status = table_acquire(&waiting, 1);
    assert_status(status, KZ_UNAVAILABLE);
    assert_contains(waiting.err.message, "found empty");
    for (int i = 0; status == KZ_UNAVAILABLE && i < 6000; i++, sleep_ms(10))
        status = table_acquire(&waiting, 1);
    assert_ok(status);
    assert_true(waiting.grant.source_ms >= began_ms + 400);
    table_close(&waiting);
}

/* Mints, without waiting for what is not to be had, until the generator has acquired `more` leases. */
static void mint_until_acquired(kz_generator *gen, uint64_t more, kz_id *last)
{
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    for (uint64_t wanted = stats.leases_acquired + more, i = 0; stats.leases_acquired < wanted; i++, sleep_ms(1)) {
        assert_true(i < 60000);
        kz_id id;
        if (kz_try_next(gen, &id) == KZ_OK) {
            assert_true(id > *last);
            *last = id;
        }
        assert_ok(kz_stats_get(gen, &stats));
    }
}

static void a_generator_goes_on_over_a_store_remade_under_quarantine(void **state)
{
    (void)state;
    char url[256];
    snprintf(url, sizeof url, "%s?lease=300ms&amnesia=quarantine", server.url);
    kz_options options;
    kz_options_init(&options);
    options.timeout_ms = 60000;
    options.retry_initial_ms = 10;
    options.retry_max_ms = 40;
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, url, &options, &err))
        fail_msg("%s", err.message);
    kz_id id = 0;
    /* What was seen is far above what a store that begins anew could reach by being asked. */
    redis_server_command(&server, "HINCRBY lease:store generation 1000000", NULL, 0);
    mint_until_acquired(gen, 2, &id);
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    mint_until_acquired(gen, 2, &id);
    kz_close(gen);
}

static void lost_settings_are_noticed(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 1));
    table_close(&table);
    redis_server_command(&server, "DEL lease:service", NULL, 0);
    assert_status(table_try(&table, server.url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "noeviction");
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    redis_server_command(&server, "SET lease:service nonsense", NULL, 0);
    assert_status(table_try(&table, server.url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "prefix");
    redis_server_command(&server, "DEL lease:service", NULL, 0);
    redis_server_command(&server, "HSET lease:service name default epoch x", NULL, 0);
    assert_status(table_try(&table, server.url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "damaged");
}

static void a_clock_that_was_set_back_stops_grants_and_time_stands(void **state)
{
    (void)state;
    redis_table table;
    char command[128];
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 1));
    int64_t high_ms = table_now(&table) + 3600000;
    snprintf(command, sizeof command, "HSET lease:store high %lld", (long long)high_ms);
    redis_server_command(&server, command, NULL, 0);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, "clock");
    assert_int_equal(table_now(&table), high_ms);
    /* Less than a second is bridged. */
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    high_ms = (int64_t)t.tv_sec * 1000 + 800;
    snprintf(command, sizeof command, "HSET lease:store high %lld", (long long)high_ms);
    redis_server_command(&server, command, NULL, 0);
    assert_ok(table_acquire(&table, 1));
    assert_true(table.grant.source_ms >= high_ms);
    table_close(&table);
}

static void tls_is_checked_unless_told_otherwise(void **state)
{
    (void)state;
    redis_server safe;
    redis_table table;
    char url[256];
    redis_server_start_tls(&safe);
    assert_ok(table_try(&table, safe.url, "default", NULL, 5000));
    assert_ok(table_acquire(&table, 300));
    assert_int_equal(table.grant.count, 2);
    assert_ok(table_release(&table, &table.grant.leases[0], table.grant.source_ms));
    redis_server_kill(&safe);
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    redis_server_restart(&safe);
    assert_ok(table_acquire(&table, 1));
    table_close(&table);
    snprintf(url, sizeof url, "rediss://localhost:%d", safe.port);
    assert_status(table_try(&table, url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "cacert");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?cacert=%s", safe.port, safe.cacert);
    assert_status(table_try(&table, url, "default", NULL, 5000), KZ_STORE);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?insecure=1", safe.port);
    assert_ok(table_try(&table, url, "default", NULL, 5000));
    assert_ok(table_acquire(&table, 1));
    table_close(&table);
    /* In the clear to a port that speaks TLS. */
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", safe.port);
    kz_status status = table_try(&table, url, "default", NULL, 500);
    if (status == KZ_OK) {
        assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
        table_close(&table);
    }
    redis_server_stop(&safe);
}

static void a_cluster_needs_a_tag_in_the_prefix(void **state)
{
    (void)state;
    static const char *const extra[] = {"--cluster-enabled", "yes", "--cluster-port", "0", NULL};
    redis_server one;
    redis_table table;
    char url[256], bus[16];
    const char *args[] = {extra[0], extra[1], extra[2], bus, NULL};
    snprintf(bus, sizeof bus, "%d", redis_server_free_port());
    redis_server_start(&one, args);
    redis_server_command(&one, "CLUSTER ADDSLOTSRANGE 0 16383", NULL, 0);
    assert_status(table_try(&table, one.url, "default", NULL, 5000), KZ_INVALID);
    assert_contains(table.err.message, "?prefix={tag}:");
    snprintf(url, sizeof url, "%s?prefix={k}:", one.url);
    kz_status status = KZ_UNAVAILABLE;
    for (int i = 0; i < 1000 && status == KZ_UNAVAILABLE; i++) {
        assert_ok(table_try(&table, url, "pay", NULL, 5000));
        status = table_acquire(&table, 1);
        if (status == KZ_UNAVAILABLE) {
            table_close(&table);
            sleep_ms(50);
        }
    }
    assert_ok(status);
    char out[64];
    redis_server_command(&one, "EXISTS '{k}:pay:lease:0'", out, sizeof out);
    assert_string_equal(out, "1\n");
    kz_source_health health;
    assert_ok(table.ops->health(table.source, NULL, &health, &table.err));
    assert_false(health.durable);
    table_close(&table);
    redis_server_stop(&one);
}

static void health_says_what_a_careless_server_cannot_promise(void **state)
{
    (void)state;
    redis_table table;
    kz_source_health health;
    table_open(&table, &server, "");
    assert_ok(table.ops->health(table.source, NULL, &health, &table.err));
    assert_true(health.durable);
    assert_string_equal(health.note, "");
    assert_int_equal(health.nodes_free, 8192);
    redis_server_command(&server, "CONFIG SET appendfsync everysec", NULL, 0);
    assert_ok(table.ops->health(table.source, NULL, &health, &table.err));
    assert_false(health.durable);
    assert_contains(health.note, "Set appendfsync always");
    redis_server_command(&server, "CONFIG SET appendonly no", NULL, 0);
    assert_ok(table.ops->health(table.source, NULL, &health, &table.err));
    assert_contains(health.note, "appendonly yes");
    redis_server_command(&server, "CONFIG SET appendonly yes", NULL, 0);
    redis_server_command(&server, "CONFIG SET appendfsync always", NULL, 0);
    table_close(&table);
}

static void a_forked_child_closes_its_copy_and_the_parent_goes_on(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 1));
    pid_t child = fork();
    if (child == 0) {
        table.ops->close(table.source, true);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_ok(table_acquire(&table, 1));
    assert_int_equal(table.grant.leases[0].id, 1);
    table_close(&table);
}

static void nobody_there_is_told_by_the_first_acquire(void **state)
{
    (void)state;
    redis_table table;
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis_server_free_port());
    assert_ok(table_try(&table, url, "default", NULL, 500));
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, url);
    table_close(&table);
}

static void sentinels_of_whom_none_answers_are_all_named(void **state)
{
    (void)state;
    redis_table table;
    char url[128], list[64];
    snprintf(list, sizeof list, "127.0.0.1:%d,127.0.0.1:%d", redis_server_free_port(), redis_server_free_port());
    snprintf(url, sizeof url, "redis+sentinel://:tell-nobody@%s/name/3", list);
    assert_ok(table_try(&table, url, "default", NULL, 500));
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, list);
    assert_null(strstr(table.err.message, "tell"));
    table_close(&table);
    /* A server that is no sentinel. */
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/name", server.port);
    assert_status(table_try(&table, url, "default", NULL, 5000), KZ_STORE);
    assert_contains(table.err.message, "is it a sentinel");
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_killed_server_forgets_no_grant_that_it_answered, flush),
        cmocka_unit_test(passwords_are_needed_checked_and_never_shown),
        cmocka_unit_test(urls_that_cannot_be_meant_are_refused_without_the_password),
        cmocka_unit_test_setup(a_server_that_refuses_writes_says_why, flush),
        cmocka_unit_test_setup(a_slow_server_times_out_and_the_next_call_connects_anew, flush),
        cmocka_unit_test_setup(a_flushed_store_is_noticed_and_nothing_more_is_granted, flush),
        cmocka_unit_test_setup(a_generator_goes_on_over_a_store_remade_under_quarantine, flush),
        cmocka_unit_test_setup(lost_settings_are_noticed, flush),
        cmocka_unit_test_setup(a_clock_that_was_set_back_stops_grants_and_time_stands, flush),
        cmocka_unit_test(tls_is_checked_unless_told_otherwise),
        cmocka_unit_test(a_cluster_needs_a_tag_in_the_prefix),
        cmocka_unit_test_setup(health_says_what_a_careless_server_cannot_promise, flush),
        cmocka_unit_test_setup(a_forked_child_closes_its_copy_and_the_parent_goes_on, flush),
        cmocka_unit_test(nobody_there_is_told_by_the_first_acquire),
        cmocka_unit_test(sentinels_of_whom_none_answers_are_all_named),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
