/* The lease table in Redis keeps its promises. */
#include "tests/random.h"
#include "tests/redis_table.h"

#include <inttypes.h>
#include <sys/mman.h>
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

static void a_lease_is_half_open_with_a_twin_of_four_durations(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "?lease=2s");
    assert_ok(table_acquire(&table, 256));
    const kz_lease *lease = &table.grant.leases[0];
    assert_int_equal(table.grant.count, 1);
    assert_int_equal(lease->id, 0);
    assert_int_equal(lease->created_ms, table.grant.source_ms);
    assert_int_equal(lease->expired_ms - lease->created_ms, 2000);
    assert_int_equal(lease->fallback_created_ms, lease->created_ms);
    assert_int_equal(lease->fallback_expired_ms - lease->created_ms, 8000);
    assert_int_equal(lease->reserved_bits + lease->time_bits + lease->node_bits + lease->seq_bits, 64);
    assert_int_equal(strlen(lease->secret), 32);
    assert_int_equal(table.grant.generation, 1);
    char out[512];
    redis_server_command(&server, "HMGET lease:0 serviceId secret expired holder createdAt", out, sizeof out);
    assert_contains(out, "default\n");
    assert_contains(out, lease->secret);
    assert_contains(out, "{\"host\":\"test\"}");
    redis_server_command(&server, "GET lease:last_assigned", out, sizeof out);
    assert_string_equal(out, "0\n");
    redis_server_command(&server, "HGET lease:8192 secret", out, sizeof out);
    assert_contains(out, lease->secret);
    table_close(&table);
}

static void asking_twice_is_asking_once(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    kz_acquire request = table_request(&table, 700);
    kz_grant *first = calloc(1, sizeof *first);
    assert_ok(table.ops->acquire(table.source, &request, first, &table.err));
    assert_int_equal(first->count, 3);
    assert_ok(table.ops->acquire(table.source, &request, &table.grant, &table.err));
    assert_int_equal(table.grant.count, 3);
    assert_true(table.grant.generation > first->generation);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(&table.grant.leases[i], &first->leases[i], sizeof(kz_lease));
    request.throughput_per_ms = 256;
    assert_status(table.ops->acquire(table.source, &request, &table.grant, &table.err), KZ_CONFLICT);
    free(first);
    table_close(&table);
}

static void a_release_is_refused_for_a_wrong_signature_a_stale_time_and_a_number_granted_anew(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 256));
    kz_lease lease = table.grant.leases[0], forged = lease;
    int64_t now_ms = table.grant.source_ms;
    forged.secret[0] ^= 1;
    assert_status(table_release(&table, &forged, now_ms), KZ_FORBIDDEN);
    assert_status(table_release(&table, &lease, now_ms - 31000), KZ_INVALID);
    assert_status(table_release(&table, &lease, now_ms + 90000), KZ_INVALID);
    kz_release shapeless = {.service = "default", .id = lease.id, .timestamp_ms = now_ms, .signature = "abc"};
    assert_status(table.ops->release(table.source, &shapeless, &table.err), KZ_INVALID);
    forged.id = 77;
    assert_status(table_release(&table, &forged, now_ms), KZ_NOT_FOUND);
    char out[64];
    redis_server_command(&server, "HGET lease:0 released", out, sizeof out);
    assert_string_equal(out, "0\n");

    /* Given back, and the number granted again: the old secret means nothing any more. */
    assert_ok(table_release(&table, &lease, now_ms));
    assert_status(table_release(&table, &lease, now_ms), KZ_NOT_FOUND);
    redis_server_command(&server, "HSET lease:service cursor 0", NULL, 0);
    sleep_until(&table, now_ms + 1);
    assert_ok(table_acquire(&table, 256));
    assert_int_equal(table.grant.leases[0].id, lease.id);
    assert_true(table.grant.leases[0].created_ms > now_ms);
    assert_status(table_release(&table, &lease, table.grant.source_ms), KZ_FORBIDDEN);
    assert_ok(table_release(&table, &table.grant.leases[0], table.grant.source_ms));
    table_close(&table);
}

static void a_release_ends_the_twin_of_a_lease_that_has_ended(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "?lease=1s");
    assert_ok(table_acquire(&table, 256));
    kz_lease lease = table.grant.leases[0];
    sleep_until(&table, lease.expired_ms);
    assert_ok(table_release(&table, &lease, table_now(&table)));
    char out[64];
    redis_server_command(&server, "HGET lease:8192 released", out, sizeof out);
    assert_string_equal(out, "1\n");
    table_close(&table);
}

/* False: this machine was too slow, and a lease that should be out had ended. */
static bool ended_twins_do_not_hide(int64_t lease_ms)
{
    redis_table table;
    char url[256];
    snprintf(url, sizeof url, "%s?lease=%" PRId64 "ms", server.url, lease_ms);
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    assert_ok(table_try(&table, url, "default", "41-8-3@2026-01-01", 5000));
    /* The twins of the first 100 leases end before the leases that are out after them, and one sweep takes 64 rows. */
    assert_ok(table_acquire(&table, 800));
    assert_int_equal(table.grant.count, 100);
    int64_t twins_end_ms = table.grant.source_ms + 4 * lease_ms;
    sleep_until(&table, twins_end_ms - lease_ms / 2);
    assert_ok(table_acquire(&table, 1024));
    int64_t full_until_ms = table.grant.leases[0].expired_ms;
    assert_ok(table_acquire(&table, 1024));
    int64_t ended_ms = table.grant.leases[0].expired_ms;
    kz_status status = table_acquire(&table, 1);
    bool in_time = full_until_ms > twins_end_ms && table_now(&table) < full_until_ms;
    if (in_time) {
        assert_status(status, KZ_NO_FREE_NODE);
        sleep_until(&table, ended_ms);
        assert_ok(table_acquire(&table, 1));
    }
    table_close(&table);
    return in_time;
}

static void ended_twins_do_not_hide_ended_leases(void **state)
{
    (void)state;
    for (int64_t lease_ms = 300; lease_ms < 20000; lease_ms *= 2)
        if (ended_twins_do_not_hide(lease_ms))
            return;
    fail_msg("this machine is too slow");
}

static int by_secret(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void the_8193rd_acquire_finds_no_machine_id_free_and_loses_nothing(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "?lease=1h");
    char(*secrets)[KZ_SECRET_SIZE] = calloc(8192, sizeof *secrets);
    struct timespec began, ended;
    double early_ms = 0, late_ms = 0;
    for (size_t i = 0; i < 8192; i++) {
        clock_gettime(CLOCK_MONOTONIC, &began);
        assert_ok(table_acquire(&table, 256));
        clock_gettime(CLOCK_MONOTONIC, &ended);
        double ms = (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
        *(i < 4096 ? &early_ms : &late_ms) += ms / 4096;
        assert_int_equal(table.grant.leases[0].id, i);
        strcpy(secrets[i], table.grant.leases[0].secret);
    }
    print_message("acquire: %.3f ms with 0 to 4,095 leases held, %.3f ms with 4,096 to 8,191\n", early_ms, late_ms);
    assert_status(table_acquire(&table, 256), KZ_NO_FREE_NODE);
    assert_contains(table.err.message, "no machine ID free");
    kz_source_health health;
    assert_ok(table.ops->health(table.source, "default", &health, &table.err));
    assert_int_equal(health.leases_out, 8192);
    assert_int_equal(health.nodes_free, 0);
    assert_true(health.durable);

    kz_lease seventh = {.id = 7};
    strcpy(seventh.secret, secrets[7]);
    int64_t released_ms = table_now(&table);
    assert_ok(table_release(&table, &seventh, released_ms));
    sleep_until(&table, released_ms + 1);
    assert_ok(table_acquire(&table, 256));
    assert_int_equal(table.grant.leases[0].id, 7);
    qsort(secrets, 8192, sizeof *secrets, by_secret);
    for (size_t i = 1; i < 8192; i++)
        assert_string_not_equal(secrets[i - 1], secrets[i]);
    free(secrets);
    table_close(&table);
}

static void database_numbers_and_prefixes_are_tables_of_their_own(void **state)
{
    (void)state;
    redis_table first, other, third;
    char url[256], out[64];
    table_open(&first, &server, "");
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/5", server.port);
    assert_ok(table_try(&other, url, "default", NULL, 5000));
    table_open(&third, &server, "?prefix=a%3A");
    assert_ok(table_acquire(&first, 1));
    assert_ok(table_acquire(&other, 1));
    assert_ok(table_acquire(&third, 1));
    assert_int_equal(first.grant.leases[0].id, 0);
    assert_int_equal(other.grant.leases[0].id, 0);
    assert_int_equal(third.grant.leases[0].id, 0);
    redis_server_command(&server, "-n 5 EXISTS lease:0 lease:8192 lease:services", out, sizeof out);
    assert_string_equal(out, "3\n");
    redis_server_command(&server, "EXISTS a:lease:0 a:lease:last_assigned", out, sizeof out);
    assert_string_equal(out, "2\n");
    table_close(&other);
    /* Service "a" without a prefix would have the same keys. */
    assert_status(table_try(&other, server.url, "a", NULL, 5000), KZ_MISMATCH);
    assert_contains(other.err.message, "prefix");
    table_close(&first);
    table_close(&third);
}

static bool count_line(void *ctx, const kz_lease_info *info)
{
    size_t *counts = ctx;
    assert_true(info->expired_ms > info->created_ms && info->fallback_expired_ms > info->expired_ms);
    assert_string_equal(info->holder, "{\"host\":\"test\"}");
    counts[strcmp(info->service, "default") == 0 ? 0 : 1]++;
    return true;
}

static bool count_to_ten(void *ctx, const kz_lease_info *info)
{
    (void)info;
    return ++*(size_t *)ctx < 10;
}

/* How often Redis read a lease for a page of ten that begins there. */
static long reads_of_a_page(redis_table *table, uint32_t id)
{
    char stats[8192];
    size_t count = 0;
    redis_server_command(&server, "CONFIG RESETSTAT", NULL, 0);
    assert_ok(table->ops->list(table->source, &(kz_list_from){.service = "default", .id = id}, count_to_ten, &count,
                               &table->err));
    assert_int_equal(count, 10);
    redis_server_command(&server, "INFO commandstats", stats, sizeof stats);
    const char *at = strstr(stats, "cmdstat_hmget:calls=");
    assert_non_null(at);
    return strtol(at + strlen("cmdstat_hmget:calls="), NULL, 10);
}

static void a_page_costs_the_same_in_a_table_of_any_size(void **state)
{
    (void)state;
    redis_table table;
    table_open(&table, &server, "");
    assert_ok(table_acquire(&table, 64 * 256));
    long few = reads_of_a_page(&table, 0);
    for (int i = 0; i < 31; i++)
        assert_ok(table_acquire(&table, 64 * 256));
    assert_int_equal(reads_of_a_page(&table, 0), few);
    assert_int_equal(reads_of_a_page(&table, 1900), few);
    table_close(&table);
}

static void two_services_have_two_layouts_and_a_changed_epoch_is_refused(void **state)
{
    (void)state;
    redis_table plain, snow, other;
    table_open(&plain, &server, "");
    assert_ok(table_try(&snow, server.url, "snow", "snowflake", 5000));
    for (int i = 0; i < 150; i++)
        assert_ok(table_acquire(&plain, 1));
    assert_ok(table_acquire(&snow, 4096));
    assert_int_equal(snow.grant.count, 1);
    assert_int_equal(snow.grant.leases[0].node_bits, 10);
    size_t counts[2] = {0};
    assert_ok(plain.ops->list(plain.source, NULL, count_line, counts, &plain.err));
    assert_int_equal(counts[0], 150);
    assert_int_equal(counts[1], 1);

    assert_status(table_try(&other, server.url, "snow", "41-10-12@2025-01-01", 5000), KZ_MISMATCH);
    assert_contains(other.err.message, "41-10-12@2024-01-01");
    assert_contains(other.err.message, "41-10-12@2025-01-01");
    assert_ok(table_try(&other, server.url, "snow", NULL, 5000));
    assert_int_equal(other.facts.layout.seq_bits, 12);
    table_close(&other);
    table_close(&plain);
    table_close(&snow);
}

/* A rectangle as its holder may use it. */
typedef struct rect {
    uint64_t lo, hi;
    int64_t start_ms, end_ms;
} rect;

/* What the processes of the next test were granted, where all can see it. */
#define PROCESSES 8
#define ROUNDS    150

typedef struct ledger {
    size_t counts[PROCESSES];
    rect rects[PROCESSES][ROUNDS * 8];
} ledger;

static void note_lease(ledger *l, size_t process, const kz_lease *lease, int64_t released_ms)
{
    uint64_t size = UINT64_C(1) << lease->seq_bits, half = size << (lease->node_bits - 1), lo = lease->id * size;
    rect both[2] = {{lo, lo + size, lease->created_ms, lease->expired_ms},
                    {lo + half, lo + half + size, lease->fallback_created_ms, lease->fallback_expired_ms}};
    for (int i = 0; i < 2; i++) {
        if (released_ms && both[i].end_ms > released_ms + 1)
            both[i].end_ms = released_ms + 1;
        if (both[i].end_ms > both[i].start_ms)
            l->rects[process][l->counts[process]++] = both[i];
    }
}

static void work(ledger *l, size_t process, const char *url)
{
    redis_table table;
    uint64_t seed = 1000 + process;
    if (table_try(&table, url, "default", NULL, 5000))
        _exit(1);
    table.requests = (process + 1) << 48;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t throughput = (uint32_t)(1 + test_random(&seed) % 16);
        kz_status status = table_acquire(&table, throughput);
        if (status == KZ_NO_FREE_NODE) {
            sleep_ms(5);
            continue;
        }
        if (status) {
            fprintf(stderr, "%s\n", table.err.message);
            _exit(2);
        }
        sleep_ms((int64_t)(test_random(&seed) % 4));
        for (size_t k = 0; k < table.grant.count; k++) {
            const kz_lease *lease = &table.grant.leases[k];
            int64_t now_ms = table.grant.source_ms + 2;
            bool keep = test_random(&seed) % 3 == 0;
            bool released = !keep && table_release(&table, lease, now_ms) == KZ_OK;
            note_lease(l, process, lease, released ? now_ms : 0);
        }
    }
    table_close(&table);
    _exit(0);
}

static int by_slot(const void *a, const void *b)
{
    const rect *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return (x->start_ms > y->start_ms) - (x->start_ms < y->start_ms);
}

static void rectangles_of_8_processes_at_once_never_overlap(void **state)
{
    (void)state;
    ledger *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(l != MAP_FAILED);
    char url[256];
    snprintf(url, sizeof url, "%s?lease=150ms", server.url);
    redis_table maker;
    assert_ok(table_try(&maker, url, "default", "41-8-3@2026-01-01", 5000));
    assert_ok(table_acquire(&maker, 1));
    pid_t children[PROCESSES];
    for (size_t p = 0; p < PROCESSES; p++)
        if ((children[p] = fork()) == 0)
            work(l, p, url);
    for (size_t p = 0; p < PROCESSES; p++) {
        int result = -1;
        waitpid(children[p], &result, 0);
        assert_int_equal(result, 0);
    }
    rect *all = calloc(PROCESSES * ROUNDS * 8, sizeof *all);
    size_t count = 0;
    for (size_t p = 0; p < PROCESSES; p++)
        for (size_t i = 0; i < l->counts[p]; i++)
            all[count++] = l->rects[p][i];
    qsort(all, count, sizeof *all, by_slot);
    for (size_t i = 1; i < count; i++)
        if (all[i].lo == all[i - 1].lo)
            assert_true(all[i].start_ms >= all[i - 1].end_ms);
    print_message("%zu rectangles\n", count);
    assert_true(count > PROCESSES * ROUNDS / 2);
    free(all);
    munmap(l, sizeof *l);
    table_close(&maker);
}

static bool any_line(void *ctx, const kz_lease_info *info)
{
    (void)info;
    ++*(size_t *)ctx;
    return true;
}

static bool only_line(void *ctx, const kz_lease_info *info)
{
    assert_string_equal(info->service, "zebra");
    ++*(size_t *)ctx;
    return true;
}

static void a_listing_goes_past_any_number_of_services(void **state)
{
    (void)state;
    redis_table table;
    size_t lines = 0;
    redis_server_command(
        &server, "EVAL \"for i = 1, 70000 do redis.call('ZADD', 'lease:services', 0, 's' .. i) end\" 0", NULL, 0);
    assert_ok(table_try(&table, server.url, "zebra", NULL, 5000));
    assert_ok(table_acquire(&table, 1));
    assert_ok(table.ops->list(table.source, NULL, only_line, &lines, &table.err));
    assert_int_equal(lines, 1);
    assert_ok(
        table.ops->list(table.source, &(kz_list_from){.service = "zebra", .id = 1}, only_line, &lines, &table.err));
    assert_int_equal(lines, 1);
    table_close(&table);
}

static void create_no_makes_no_service(void **state)
{
    (void)state;
    redis_table table, maker;
    char url[256], out[64];
    snprintf(url, sizeof url, "%s?create=no", server.url);
    assert_status(table_try(&table, url, "default", NULL, 5000), KZ_NOT_FOUND);
    assert_contains(table.err.message, "create=no");
    table_open(&maker, &server, "");
    assert_ok(table_acquire(&maker, 1));
    assert_ok(table_try(&table, url, "default", NULL, 5000));
    assert_ok(table_acquire(&table, 1));
    kz_acquire other = table_request(&table, 1);
    other.service = "other";
    assert_status(table.ops->acquire(table.source, &other, &table.grant, &table.err), KZ_NOT_FOUND);
    assert_status(
        table.ops->configure(table.source, &(kz_service_settings){.service = "other", .lease_ms = 1000}, &table.err),
        KZ_NOT_FOUND);
    redis_server_command(&server, "KEYS other:*", out, sizeof out);
    assert_string_equal(out, "\n");
    table_close(&maker);
    table_close(&table);
}

/* The commands that docs/redis.md names are all that a user needs. */
static void a_user_with_these_rights_can_do_everything(void **state)
{
    (void)state;
    redis_table table;
    char url[256], out[64];
    size_t lines = 0;
    kz_source_health health;
    redis_server_command(
        &server,
        "ACL SETUSER minter on '>pw' resetkeys '~lease:*' '~*:lease:*' resetchannels -@all +eval "
        "+evalsha +info +role +select +time +get +mget +set +del +rename +exists +hget +hgetall +hmget "
        "+hset +hdel +zadd +zcount +zrangebylex +zrangebyscore +zrem +zremrangebyscore +zscan +zscore",
        out, sizeof out);
    assert_string_equal(out, "OK\n");
    snprintf(url, sizeof url, "redis://minter:pw@127.0.0.1:%d/0?lease=100ms", server.port);
    assert_ok(table_try(&table, url, "orders", NULL, 5000));
    for (int i = 0; i < 3; i++) {
        assert_ok(table_acquire(&table, 300));
        assert_ok(table_release(&table, &table.grant.leases[0], table_now(&table)));
        sleep_until(&table, table.grant.leases[0].expired_ms);
    }
    assert_ok(table_acquire(&table, 1));
    assert_ok(table.ops->list(table.source, NULL, any_line, &lines, &table.err));
    assert_int_equal(lines, 1);
    assert_ok(table.ops->health(table.source, "orders", &health, &table.err));
    assert_contains(health.note, "cannot be seen");
    table_close(&table);
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_lease_is_half_open_with_a_twin_of_four_durations, flush),
        cmocka_unit_test_setup(asking_twice_is_asking_once, flush),
        cmocka_unit_test_setup(a_release_is_refused_for_a_wrong_signature_a_stale_time_and_a_number_granted_anew,
                               flush),
        cmocka_unit_test_setup(a_release_ends_the_twin_of_a_lease_that_has_ended, flush),
        cmocka_unit_test_setup(ended_twins_do_not_hide_ended_leases, flush),
        cmocka_unit_test_setup(the_8193rd_acquire_finds_no_machine_id_free_and_loses_nothing, flush),
        cmocka_unit_test_setup(database_numbers_and_prefixes_are_tables_of_their_own, flush),
        cmocka_unit_test_setup(two_services_have_two_layouts_and_a_changed_epoch_is_refused, flush),
        cmocka_unit_test_setup(a_page_costs_the_same_in_a_table_of_any_size, flush),
        cmocka_unit_test_setup(a_listing_goes_past_any_number_of_services, flush),
        cmocka_unit_test_setup(create_no_makes_no_service, flush),
        cmocka_unit_test_setup(a_user_with_these_rights_can_do_everything, flush),
        cmocka_unit_test_setup(rectangles_of_8_processes_at_once_never_overlap, flush),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
