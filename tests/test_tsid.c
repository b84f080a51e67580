/* TSID slots in a real Redis: what a claim, a refresh, a look and a release do there, and to whose keys. */
#include "tests/redis_table.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#define DAY_MS   INT64_C(86400000)
#define FIRST_MS INT64_C(300000)
#define SLOP_MS  INT64_C(60000) /* a slow machine may take so long between two steps */

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

/* ----------------------------------------------------------------------------------------------------- in one line */

static void slots_open(redis_table *slots, const char *more)
{
    char url[512];
    snprintf(url, sizeof url, "tsid+%s%s", server.url, more);
    if (table_try(slots, url, "default", NULL, 5000))
        fail_msg("%s: %s", url, slots->err.message);
}

/* The first grant's lease. */
static kz_lease claim(redis_table *slots)
{
    if (table_acquire(slots, 256))
        fail_msg("%s", slots->err.message);
    assert_int_equal(slots->grant.count, 1);
    return slots->grant.leases[0];
}

static kz_status refresh(redis_table *slots, const kz_lease *lease)
{
    kz_acquire request = table_request(slots, 256);
    request.holds = lease;
    return slots->ops->acquire(slots->source, &request, &slots->grant, &slots->err);
}

static const char *ask(const char *command)
{
    static char out[4096];
    redis_server_command(&server, command, out, sizeof out);
    out[strcspn(out, "\n")] = '\0';
    return out;
}

static int64_t ask_number(const char *command)
{
    return strtoll(ask(command), NULL, 10);
}

/* Locks slots first..last as a Java instance would. */
static void lock_slots(int first, int last)
{
    char command[200];
    snprintf(command, sizeof command,
             "EVAL \"for i=%d,%d do redis.call('SET','sys:tsid:node:'..i,'LOCKED','NX','EX',86400) end\" 0", first,
             last);
    redis_server_command(&server, command, NULL, 0);
}

/* --------------------------------------------------------------------------------------------------------- claims */

static void the_first_free_slot_is_claimed_for_five_minutes(void **state)
{
    (void)state;
    redis_table slots;
    slots_open(&slots, "");
    assert_string_equal(slots.facts.layout.name, "tsid");
    assert_int_equal(slots.facts.throughput_per_ms, 4096);
    int64_t before_ms = table_now(&slots);
    kz_lease lease = claim(&slots);
    assert_int_equal(lease.id, 0);
    assert_int_equal(lease.time_bits, 42);
    assert_int_equal(lease.node_bits, 10);
    assert_int_equal(lease.seq_bits, 12);
    assert_int_equal(lease.reserved_bits, 0);
    assert_int_equal(lease.epoch_ms, INT64_C(1577836800000)); /* 2020-01-01 */
    assert_int_equal(lease.fallback_created_ms, lease.fallback_expired_ms);
    /* From the next millisecond on, and a second less than the key lasts. */
    assert_true(lease.created_ms > before_ms);
    assert_in_range(lease.created_ms, slots.grant.source_ms - SLOP_MS, slots.grant.source_ms + 1);
    assert_int_equal(lease.expired_ms - lease.created_ms, FIRST_MS - 1001);
    assert_in_range(ask_number("PTTL sys:tsid:node:0"), FIRST_MS - SLOP_MS, FIRST_MS);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), lease.expired_ms);
    assert_int_equal(slots.grant.renew_after_ms, 60000);
    assert_int_equal(claim(&slots).id, 1);
    assert_true(strlen(lease.secret) == 32);
    const char *value = ask("GET sys:tsid:node:0");
    assert_contains(value, lease.secret);
    assert_contains(value, "{\"host\":\"test\"}");
    table_close(&slots);
}

static void a_refresh_gives_the_same_lease_the_whole_time(void **state)
{
    (void)state;
    redis_table slots;
    slots_open(&slots, "");
    kz_lease lease = claim(&slots);
    assert_ok(refresh(&slots, &lease));
    const kz_lease *longer = &slots.grant.leases[0];
    assert_int_equal(longer->id, lease.id);
    assert_string_equal(longer->secret, lease.secret);
    assert_int_equal(longer->created_ms, lease.created_ms);
    assert_in_range(longer->expired_ms - slots.grant.source_ms, DAY_MS - SLOP_MS, DAY_MS - 1000);
    assert_int_equal(slots.grant.renew_after_ms, DAY_MS / 2);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), longer->expired_ms);
    assert_in_range(ask_number("PTTL sys:tsid:node:0"), DAY_MS - SLOP_MS, DAY_MS);
    assert_int_equal(ask_number("DBSIZE"), 2);
    table_close(&slots);

    /* With a short ttl the first claim is no longer than that. */
    slots_open(&slots, "?ttl=20s&refresh=4s");
    lease = claim(&slots);
    assert_int_equal(lease.expired_ms - lease.created_ms, 18999);
    assert_int_equal(slots.grant.renew_after_ms, 4000);
    table_close(&slots);
}

static void asking_twice_is_asking_once(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "");
    slots_open(&other, "");
    kz_acquire request = table_request(&slots, 256);
    assert_ok(slots.ops->acquire(slots.source, &request, &slots.grant, &slots.err));
    kz_lease first = slots.grant.leases[0];
    /* The answer was lost, and so was the connection. */
    assert_ok(other.ops->acquire(other.source, &request, &other.grant, &other.err));
    const kz_lease *again = &other.grant.leases[0];
    assert_int_equal(again->id, first.id);
    assert_string_equal(again->secret, first.secret);
    assert_int_equal(again->created_ms, first.created_ms);
    assert_true(again->expired_ms >= first.expired_ms);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), again->expired_ms);
    assert_int_equal(ask_number("DBSIZE"), 2);
    assert_int_equal(claim(&slots).id, 1);
    table_close(&slots);
    table_close(&other);
}

/* The keeper does not know of the longer window, and asks again from the one it knows. */
static void a_refresh_whose_answer_was_lost_is_asked_again(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "");
    slots_open(&other, "?ttl=10min");
    kz_lease lease = claim(&slots);
    assert_ok(refresh(&slots, &lease));
    int64_t longest_ms = slots.grant.leases[0].expired_ms;
    /* Even with a shorter time: what was granted once stays granted. */
    assert_ok(refresh(&other, &lease));
    assert_int_equal(other.grant.leases[0].created_ms, lease.created_ms);
    assert_int_equal(other.grant.leases[0].expired_ms, longest_ms);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), longest_ms);
    assert_int_equal(claim(&other).id, 1);
    table_close(&slots);
    table_close(&other);
}

static void a_node_is_claimed_only_after_the_last_window_on_it(void **state)
{
    (void)state;
    redis_table slots;
    slots_open(&slots, "");
    char command[128];
    /* A slot deleted by hand: the window goes on, whatever the key says. */
    kz_lease lease = claim(&slots);
    redis_server_command(&server, "DEL sys:tsid:node:0", NULL, 0);
    assert_int_equal(claim(&slots).id, 1);
    /* One whose window has ended. */
    int64_t floor_ms = table_now(&slots) + 1;
    snprintf(command, sizeof command, "HSET sys:tsid:floor 0 %" PRId64, floor_ms);
    redis_server_command(&server, command, NULL, 0);
    kz_lease next = claim(&slots);
    assert_int_equal(next.id, 0);
    assert_true(next.created_ms >= floor_ms);
    assert_string_not_equal(next.secret, lease.secret);
    table_close(&slots);
}

static void all_1024_taken_is_told_with_the_way_to_look(void **state)
{
    (void)state;
    redis_table slots;
    slots_open(&slots, "");
    lock_slots(0, 500);
    kz_lease last = {0};
    for (int i = 501; i < 1024; i++) {
        last = claim(&slots);
        assert_int_equal(last.id, i);
    }
    assert_status(table_acquire(&slots, 1), KZ_NO_FREE_NODE);
    assert_contains(slots.err.message, "all 1024 TSID nodes are in use");
    assert_contains(slots.err.message, "kazahana leases --from tsid+redis://127.0.0.1:");
    kz_source_health health;
    assert_ok(slots.ops->health(slots.source, NULL, &health, &slots.err));
    assert_int_equal(health.leases_out, 1024);
    assert_int_equal(health.nodes_free, 0);
    /* A deleted key is not a free node yet, and is counted. */
    redis_server_command(&server, "DEL sys:tsid:node:1023", NULL, 0);
    assert_status(table_acquire(&slots, 1), KZ_NO_FREE_NODE);
    assert_contains(slots.err.message, "1 of them by windows that have not ended");
    redis_server_command(&server, "DEL sys:tsid:node:3", NULL, 0);
    assert_int_equal(claim(&slots).id, 3);
    table_close(&slots);
}

static bool count_line(void *ctx, const kz_lease_info *info)
{
    kz_lease_info *lines = ctx;
    assert_in_range(info->id, 0, 5);
    lines[info->id] = *info;
    return true;
}

static void slots_locked_by_java_are_respected_and_shown(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "");
    slots_open(&other, "");
    lock_slots(0, 0);
    redis_server_command(&server, "SET sys:tsid:node:2 LOCKED", NULL, 0);
    redis_server_command(&server, "RPUSH sys:tsid:node:3 1", NULL, 0);
    redis_server_command(&server, "SET sys:tsid:node:5 'kazahana ab 99999999999999999999 nonsense'", NULL, 0);
    kz_lease lease = claim(&slots);
    assert_int_equal(lease.id, 1);
    assert_int_equal(claim(&slots).id, 4);
    redis_server_command(&server, "DEL sys:tsid:node:4", NULL, 0);
    kz_lease_info lines[6] = {0};
    assert_ok(slots.ops->list(slots.source, NULL, count_line, lines, &slots.err));
    assert_string_equal(lines[0].holder, "LOCKED");
    assert_int_equal(lines[0].created_ms, 0);
    assert_in_range(lines[0].expired_ms - table_now(&other), DAY_MS - SLOP_MS, DAY_MS);
    assert_string_equal(lines[1].holder, "{\"host\":\"test\"}");
    assert_int_equal(lines[1].created_ms, lease.created_ms);
    assert_null(strstr(lines[1].holder, lease.secret));
    assert_true(lines[2].expired_ms == INT64_MAX);
    assert_string_equal(lines[5].holder, "nonsense");
    assert_int_equal(lines[5].created_ms, 0);
    assert_string_equal(ask("GET sys:tsid:node:0"), "LOCKED");
    assert_string_equal(ask("TTL sys:tsid:node:2"), "-1");
    table_close(&slots);
    table_close(&other);
}

/* -------------------------------------------------------------------------------------------------- what is ours */

static void a_refresh_touches_no_key_but_its_own(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "DEL sys:tsid:node:0",
        "SET sys:tsid:node:0 LOCKED EX 1000",
        "SET sys:tsid:node:0 'kazahana 00000000000000000000000000000001 5 x' EX 1000",
        "EVAL \"redis.call('DEL','sys:tsid:node:0') redis.call('RPUSH','sys:tsid:node:0',1)\" 0",
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        redis_table slots;
        redis_server_command(&server, "FLUSHALL", NULL, 0);
        slots_open(&slots, "");
        kz_lease lease = claim(&slots);
        redis_server_command(&server, ways[i], NULL, 0);
        char before[256];
        snprintf(before, sizeof before, "%s", ask("DUMP sys:tsid:node:0"));
        assert_status(refresh(&slots, &lease), KZ_LOST);
        assert_contains(slots.err.message, "sys:tsid:node:0");
        assert_string_equal(ask("DUMP sys:tsid:node:0"), before);
        assert_true(ask_number("PTTL sys:tsid:node:0") <= 1000000);
        assert_int_equal(ask_number("HGET sys:tsid:floor 0"), lease.expired_ms);
        /* The next one is another. */
        assert_int_equal(claim(&slots).id, 1);
        table_close(&slots);
    }
}

static void a_refresh_after_the_slot_ended_is_too_late(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "?ttl=1s");
    slots_open(&other, "?ttl=1h");
    kz_lease lease = claim(&slots);
    while (ask_number("EXISTS sys:tsid:node:0"))
        sleep_ms(50);
    kz_lease next = claim(&other);
    assert_int_equal(next.id, 0);
    assert_true(next.created_ms >= lease.expired_ms);
    assert_status(refresh(&slots, &lease), KZ_LOST);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), next.expired_ms);
    assert_in_range(ask_number("PTTL sys:tsid:node:0"), FIRST_MS - SLOP_MS, FIRST_MS);
    table_close(&slots);
    table_close(&other);
}

static void a_look_at_the_time_notices_a_lost_slot(void **state)
{
    (void)state;
    redis_table slots;
    slots_open(&slots, "");
    kz_lease lease = claim(&slots);
    int64_t ms = 0, size = ask_number("MEMORY USAGE sys:tsid:floor");
    uint64_t generation = 1;
    assert_ok(slots.ops->now(slots.source, &ms, &generation, &slots.err));
    assert_true(ms >= slots.grant.source_ms);
    assert_int_equal(generation, 0);
    assert_int_equal(ask_number("MEMORY USAGE sys:tsid:floor"), size);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), lease.expired_ms);
    redis_server_command(&server, "SET sys:tsid:node:0 LOCKED", NULL, 0);
    assert_status(slots.ops->now(slots.source, &ms, &generation, &slots.err), KZ_LOST);
    assert_contains(slots.err.message, "sys:tsid:node:0");
    assert_string_equal(ask("GET sys:tsid:node:0"), "LOCKED");
    /* Told once: there is nothing left to look at. */
    assert_ok(slots.ops->now(slots.source, &ms, &generation, &slots.err));
    table_close(&slots);
}

static void a_store_that_forgot_is_told_again(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "");
    slots_open(&other, "");
    kz_lease lease = claim(&slots), second = claim(&other);
    redis_server_command(&server, "FLUSHALL", NULL, 0);
    table_now(&slots);
    assert_contains(ask("GET sys:tsid:node:0"), lease.secret);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), lease.expired_ms);
    assert_in_range(ask_number("PTTL sys:tsid:node:0"), FIRST_MS - SLOP_MS, FIRST_MS);
    /* Somebody has the other one by now: it cannot be had back. */
    kz_lease theirs = claim(&slots);
    assert_int_equal(theirs.id, second.id);
    assert_status(refresh(&other, &second), KZ_LOST);
    assert_contains(ask("GET sys:tsid:node:1"), theirs.secret);
    /* Floors that were lost come back too. */
    redis_server_command(&server, "DEL sys:tsid:floor", NULL, 0);
    assert_ok(refresh(&slots, &lease));
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), slots.grant.leases[0].expired_ms);
    table_close(&slots);
    table_close(&other);
}

static void a_release_deletes_only_its_own_slot_and_fences_what_was_used(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "");
    slots_open(&other, "");
    kz_lease lease = claim(&slots), wrong = lease;
    strcpy(wrong.secret, "00000000000000000000000000000000");
    int64_t used_ms = table_now(&slots) + SLOP_MS;
    assert_status(table_release(&slots, &wrong, used_ms), KZ_NOT_FOUND);
    assert_int_equal(ask_number("EXISTS sys:tsid:node:0"), 1);
    /* By whatever connection. */
    assert_ok(table_release(&other, &lease, used_ms));
    assert_int_equal(ask_number("EXISTS sys:tsid:node:0"), 0);
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), used_ms + 1);
    assert_status(table_release(&slots, &lease, used_ms), KZ_NOT_FOUND);
    /* Not before the last use; a late release does not touch the next holder. */
    assert_int_equal(claim(&other).id, 1);
    redis_server_command(&server, "HSET sys:tsid:floor 0 5", NULL, 0);
    kz_lease next = claim(&other);
    assert_int_equal(next.id, 0);
    assert_status(table_release(&slots, &lease, used_ms), KZ_NOT_FOUND);
    assert_contains(ask("GET sys:tsid:node:0"), next.secret);
    /* Nor does one by who does not know yet that the slot is lost. */
    kz_lease lost = claim(&slots);
    char key[64], command[128];
    snprintf(key, sizeof key, "GET sys:tsid:node:%u", lost.id);
    snprintf(command, sizeof command, "SET sys:tsid:node:%u LOCKED", lost.id);
    redis_server_command(&server, command, NULL, 0);
    assert_status(table_release(&slots, &lost, used_ms), KZ_NOT_FOUND);
    assert_string_equal(ask(key), "LOCKED");
    /* No later than its end, no earlier than its start. */
    assert_ok(table_release(&slots, &next, next.expired_ms + DAY_MS));
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), next.expired_ms);
    redis_server_command(&server, "HSET sys:tsid:floor 0 5", NULL, 0);
    next = claim(&other);
    assert_ok(table_release(&slots, &next, 7));
    assert_int_equal(ask_number("HGET sys:tsid:floor 0"), next.created_ms);
    table_close(&slots);
    table_close(&other);
}

/* ------------------------------------------------------------------------------------------------ time, settings */

static int64_t boot_ahead_ns;

static int64_t boot_ns(void *ctx)
{
    (void)ctx;
    return kz__machine_clock.boot_ns(NULL) + boot_ahead_ns;
}

static const kz_clock boot_clock = {.boot_ns = boot_ns};

/* Redis' clock set back by an hour looks like a boot clock that went on by an hour more. */
static redis_table slots_open_by_boot_clock(const char *more)
{
    kz_source_options options = {.clock = &boot_clock, .timeout_ms = 5000};
    char url[300];
    redis_table slots = {.ops = &kz__source_tsid_redis};
    snprintf(url, sizeof url, "tsid+%s%s", server.url, more);
    boot_ahead_ns = 0;
    assert_ok(slots.ops->open(&slots.source, url, &options, &slots.facts, &slots.err));
    return slots;
}

static void time_goes_on_when_redis_was_set_back(void **state)
{
    (void)state;
    redis_table slots = slots_open_by_boot_clock("");
    kz_lease lease = claim(&slots);
    boot_ahead_ns = INT64_C(3600) * 1000000000;
    int64_t from_ms = slots.grant.source_ms, ms = table_now(&slots);
    assert_in_range(ms - from_ms, 3598000, 3600000 + SLOP_MS);
    assert_ok(refresh(&slots, &lease));
    assert_true(slots.grant.source_ms >= ms);
    table_close(&slots);
}

/* Else a generator would take the slot, find it over, and ask again without a pause. */
static void a_slot_that_is_over_by_the_time_answered_before_is_no_grant(void **state)
{
    (void)state;
    redis_table slots = slots_open_by_boot_clock("?ttl=10min");
    kz_lease lease = claim(&slots);
    boot_ahead_ns = INT64_C(3600) * 1000000000;
    assert_status(refresh(&slots, &lease), KZ_UNAVAILABLE);
    assert_contains(slots.err.message, "behind the time that it answered before");
    /* It is ours all the same, and made longer. */
    assert_true(ask_number("HGET sys:tsid:floor 0") > lease.expired_ms);
    assert_contains(ask("GET sys:tsid:node:0"), lease.secret);
    kz_acquire request = table_request(&slots, 256);
    for (int i = 0; i < 2; i++)
        assert_status(slots.ops->acquire(slots.source, &request, &slots.grant, &slots.err), KZ_UNAVAILABLE);
    assert_int_equal(ask_number("HLEN sys:tsid:floor"), 2);
    /* Redis has come near that time. */
    boot_ahead_ns = 0;
    assert_ok(refresh(&slots, &lease));
    assert_int_equal(slots.grant.leases[0].id, 0);
    assert_ok(slots.ops->acquire(slots.source, &request, &slots.grant, &slots.err));
    assert_int_equal(slots.grant.leases[0].id, 1);
    table_close(&slots);
}

static void parameters_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *more, *layout, *service, *says;
    } cases[] = {
        {"?ttl=5", NULL, NULL, "\"5\" is not a duration"},
        {"?ttl=900ms", NULL, NULL, "between 1s and 30d"},
        {"?ttl=31d", NULL, NULL, "between 1s and 30d"},
        {"?ttl=10s&refresh=10s", NULL, NULL, "below the ttl (10s)"},
        {"?refresh=24h", NULL, NULL, "below the ttl (24h)"},
        {"?refresh=99ms", NULL, NULL, "at least 100ms"},
        {"?lease=10min", NULL, NULL, "lease"},
        {"?dev=yes", NULL, NULL, "dev=yes must be 1 or 0"},
        {"?cacert=/x", NULL, NULL, "is for rediss://"},
        {"", "kazahana", NULL, "10 node bits, not 14"},
        {"", "42-8-14@2020-01-01", NULL, "10 node bits, not 8"},
        {"", NULL, "payments", "use ?prefix= to keep payments apart"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redis_table slots;
        char url[300];
        snprintf(url, sizeof url, "tsid+%s%s", server.url, cases[i].more);
        const char *service = cases[i].service ? cases[i].service : "default";
        assert_status(table_try(&slots, url, service, cases[i].layout, 5000), KZ_INVALID);
        assert_contains(slots.err.message, cases[i].says);
    }
    kz_options options;
    kz_options_init(&options);
    kz_generator *gen;
    kz_error err;
    char url[300];
    snprintf(url, sizeof url, "tsid+%s", server.url);
    options.throughput_max_per_ms = 4097;
    assert_status(kz_open(&gen, url, &options, &err), KZ_INVALID);
    assert_contains(err.message, "4096 at most");
    kz_options_init(&options);
    options.fallback = KZ_FALLBACK_ANY;
    assert_status(kz_open(&gen, url, &options, &err), KZ_INVALID);
    assert_contains(err.message, "uses all nodes");
    assert_int_equal(ask_number("DBSIZE"), 0);
}

static void prefixes_keep_slots_apart_and_a_cluster_needs_a_tag(void **state)
{
    (void)state;
    redis_table slots, other;
    slots_open(&slots, "?prefix=a:");
    slots_open(&other, "?prefix=b:");
    assert_int_equal(claim(&slots).id, 0);
    assert_int_equal(claim(&other).id, 0);
    assert_int_equal(ask_number("EXISTS a:sys:tsid:node:0 a:sys:tsid:floor b:sys:tsid:node:0 b:sys:tsid:floor"), 4);
    table_close(&slots);
    table_close(&other);

    redis_server cluster;
    char url[300], bus[16];
    const char *args[] = {"--cluster-enabled", "yes", "--cluster-port", bus, NULL};
    snprintf(bus, sizeof bus, "%d", redis_server_free_port());
    redis_server_start(&cluster, args);
    snprintf(url, sizeof url, "tsid+%s", cluster.url);
    assert_status(table_try(&slots, url, "default", NULL, 5000), KZ_INVALID);
    assert_contains(slots.err.message, "?prefix={tag}:");
    redis_server_command(&cluster, "CLUSTER ADDSLOTSRANGE 0 16383", NULL, 0);
    snprintf(url, sizeof url, "tsid+%s?prefix={t}:", cluster.url);
    kz_status status = table_try(&slots, url, "default", NULL, 5000);
    for (int i = 0; !status && i < 500 && (status = table_acquire(&slots, 1)) == KZ_UNAVAILABLE; i++, status = KZ_OK)
        sleep_ms(20);
    assert_ok(status);
    assert_int_equal(slots.grant.leases[0].id, 0);
    table_close(&slots);
    redis_server_stop(&cluster);
}

static void over_tls_it_is_the_same(void **state)
{
    (void)state;
    redis_server closed;
    redis_table slots;
    char url[300];
    redis_server_start_tls(&closed);
    snprintf(url, sizeof url, "tsid+%s", closed.url);
    assert_ok(table_try(&slots, url, "default", NULL, 5000));
    assert_int_equal(claim(&slots).id, 0);
    table_close(&slots);
    redis_server_stop(&closed);
}

/* ----------------------------------------------------------------------------------------------------- generators */

typedef struct notes {
    char text[8192];
} notes;

static void take_note(void *ctx, kz_log_level level, const char *message)
{
    notes *n = ctx;
    size_t used = strlen(n->text);
    snprintf(n->text + used, sizeof n->text - used, "%d %s\n", (int)level, message);
}

static kz_generator *generator(const char *more, notes *n)
{
    kz_options options;
    kz_error err;
    kz_generator *gen = NULL;
    char url[300];
    kz_options_init(&options);
    options.log = take_note;
    options.log_ctx = n;
    options.timeout_ms = 60000;
    snprintf(url, sizeof url, "tsid+%s%s", server.url, more);
    if (kz_open(&gen, url, &options, &err))
        fail_msg("%s", err.message);
    return gen;
}

static uint32_t node_of(kz_id id)
{
    return (uint32_t)(id >> 12) & 1023;
}

static void a_generator_whose_slot_is_taken_goes_on_with_another(void **state)
{
    (void)state;
    notes n = {""};
    kz_generator *gen = generator("?ttl=60s&refresh=200ms", &n);
    kz_id id, last = 0;
    assert_contains(n.text, "2 TSID node 0 (range 0-1023)");
    do {
        assert_ok(kz_next(gen, &id));
        assert_true(id > last);
        /* As often as needed: it may just be refreshing. */
        if (node_of(id) == 0)
            redis_server_command(&server, "SET sys:tsid:node:0 LOCKED EX 1000", NULL, 0);
        last = id;
    } while (node_of(id) == 0);
    assert_int_equal(node_of(id), 1);
    assert_string_equal(ask("GET sys:tsid:node:0"), "LOCKED");
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    assert_int_equal(stats.leases, 1);
    assert_false(stats.unfenced);
    kz_close(gen);
    assert_contains(n.text, "sys:tsid:node:0");
    assert_contains(n.text, "asking for another lease");
    assert_contains(n.text, "2 TSID node 1 (range 0-1023)");
    /* Ours is given back, the other one is not ours. */
    assert_string_equal(ask("GET sys:tsid:node:0"), "LOCKED");
    assert_int_equal(ask_number("EXISTS sys:tsid:node:1"), 0);
    assert_true(ask_number("HGET sys:tsid:floor 1") > (int64_t)(last >> 22) + INT64_C(1577836800000));
}

static void a_generator_keeps_one_lease_however_often_it_is_refreshed(void **state)
{
    (void)state;
    notes n = {""};
    kz_generator *gen = generator("?ttl=60s&refresh=100ms", &n);
    kz_stats stats;
    kz_id id, last = 0;
    do {
        assert_ok(kz_next(gen, &id));
        assert_true(id > last && node_of(id) == 0);
        last = id;
        kz_stats_init(&stats);
        assert_ok(kz_stats_get(gen, &stats));
        assert_int_equal(stats.leases, 1);
        assert_int_equal(stats.throughput_per_ms, 4096);
        sleep_ms(1);
    } while (stats.leases_acquired < 6);
    kz_close(gen);
    assert_int_equal(ask_number("EXISTS sys:tsid:node:0"), 0);
}

static void a_random_start_of_the_counter_stays_in_the_node(void **state)
{
    (void)state;
    kz_options options;
    kz_options_init(&options);
    options.seq_start = KZ_SEQ_RANDOM;
    kz_generator *gen;
    kz_error err;
    char url[300], text[KZ_TEXT_SIZE];
    snprintf(url, sizeof url, "tsid+%s", server.url);
    assert_ok(kz_open(&gen, url, &options, &err));
    kz_id last = 0, id;
    bool above_zero = false;
    for (int i = 0; i < 20; i++, sleep_ms(2)) {
        assert_ok(kz_next(gen, &id));
        assert_true(id > last && node_of(id) == 0);
        above_zero |= (id & 4095) != 0;
        last = id;
    }
    assert_true(above_zero);
    assert_int_equal(kz_text(id, KZ_BASE32, text), 13);
    kz_close(gen);
}

static void a_forked_child_takes_a_slot_of_its_own(void **state)
{
    (void)state;
    notes n = {""};
    kz_generator *gen = generator("", &n);
    kz_id id;
    assert_ok(kz_next(gen, &id));
    assert_int_equal(node_of(id), 0);
    pid_t child = fork();
    if (child == 0) {
        bool good = kz_next(gen, &id) == KZ_OK && node_of(id) == 1;
        kz_close(gen);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ask_number("EXISTS sys:tsid:node:0"), 1);
    assert_int_equal(ask_number("EXISTS sys:tsid:node:1"), 0);
    assert_ok(kz_next(gen, &id));
    assert_int_equal(node_of(id), 0);
    kz_close(gen);
}

/* A fork is no start: who has a slot from Redis has children with slots from Redis, or none. */
static void a_forked_child_does_not_fall_into_dev_mode(void **state)
{
    (void)state;
    redis_server brief;
    redis_server_start(&brief, NULL);
    notes n = {""};
    kz_options options;
    kz_options_init(&options);
    options.log = take_note;
    options.log_ctx = &n;
    kz_generator *gen;
    kz_error err;
    kz_id id;
    char url[300];
    snprintf(url, sizeof url, "tsid+%s?dev=1", brief.url);
    assert_ok(kz_open(&gen, url, &options, &err));
    assert_ok(kz_next(gen, &id));
    redis_server_kill(&brief);
    pid_t child = fork();
    if (child == 0) {
        kz_status status = kz_mint(gen, &id, 1, 500, &err);
        kz_close(gen);
        _exit(status == KZ_OK || strstr(n.text, "DEV MODE"));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kz_close(gen);
    redis_server_stop(&brief);
}

static void without_redis_a_start_fails_unless_dev_mode_is_on(void **state)
{
    (void)state;
    notes n = {""};
    kz_options options;
    kz_options_init(&options);
    options.log = take_note;
    options.log_ctx = &n;
    kz_generator *gen;
    kz_error err;
    char url[100];
    int port = redis_server_free_port();
    snprintf(url, sizeof url, "tsid+redis://127.0.0.1:%d/0", port);
    assert_status(kz_open(&gen, url, &options, &err), KZ_UNAVAILABLE);
    assert_contains(err.message, url);
    assert_contains(err.message, "?dev=1 or KAZAHANA_ALLOW_DEV=1");
    assert_string_equal(n.text, "");
    setenv("KAZAHANA_ALLOW_DEV", "1", 1);
    assert_ok(kz_open(&gen, url, &options, &err));
    unsetenv("KAZAHANA_ALLOW_DEV");
    assert_contains(n.text, "1 DEV MODE: ");
    assert_contains(n.text, "NOT guaranteed to be unique");
    kz_id id, last = 0;
    for (int i = 0; i < 10000; i++) {
        assert_ok(kz_next(gen, &id));
        assert_true(id > last);
        last = id;
    }
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    assert_true(stats.unfenced);
    assert_int_equal(stats.ids_unfenced, 10000);
    assert_int_equal(stats.ids_leased, 0);
    kz_close(gen);

    kz_source *source;
    kz_source_health health;
    strcat(url, "?dev=1");
    assert_ok(kz_source_open(&source, url, &options, &err));
    assert_ok(kz_source_health_get(source, &health, &err));
    assert_false(health.durable);
    assert_contains(health.note, "DEV MODE");
    kz_source_close(source);

    /* With Redis there, dev mode is like any other; all slots taken is a failure in it too. */
    lock_slots(0, 1023);
    snprintf(url, sizeof url, "tsid+redis://127.0.0.1:%d/0?dev=1", server.port);
    assert_status(kz_open(&gen, url, &options, &err), KZ_LEASE_ACQUISITION);
    assert_int_equal(err.cause, KZ_NO_FREE_NODE);
    assert_contains(err.message, "all 1024 TSID nodes are in use");
}

int main(void)
{
    if (redis_server_missing()) {
        printf("skipped: %s\n", redis_server_missing());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_free_slot_is_claimed_for_five_minutes, flush),
        cmocka_unit_test_setup(a_refresh_gives_the_same_lease_the_whole_time, flush),
        cmocka_unit_test_setup(asking_twice_is_asking_once, flush),
        cmocka_unit_test_setup(a_refresh_whose_answer_was_lost_is_asked_again, flush),
        cmocka_unit_test_setup(a_node_is_claimed_only_after_the_last_window_on_it, flush),
        cmocka_unit_test_setup(all_1024_taken_is_told_with_the_way_to_look, flush),
        cmocka_unit_test_setup(slots_locked_by_java_are_respected_and_shown, flush),
        cmocka_unit_test_setup(a_refresh_touches_no_key_but_its_own, flush),
        cmocka_unit_test_setup(a_refresh_after_the_slot_ended_is_too_late, flush),
        cmocka_unit_test_setup(a_look_at_the_time_notices_a_lost_slot, flush),
        cmocka_unit_test_setup(a_store_that_forgot_is_told_again, flush),
        cmocka_unit_test_setup(a_release_deletes_only_its_own_slot_and_fences_what_was_used, flush),
        cmocka_unit_test_setup(time_goes_on_when_redis_was_set_back, flush),
        cmocka_unit_test_setup(a_slot_that_is_over_by_the_time_answered_before_is_no_grant, flush),
        cmocka_unit_test_setup(parameters_are_checked, flush),
        cmocka_unit_test_setup(prefixes_keep_slots_apart_and_a_cluster_needs_a_tag, flush),
        cmocka_unit_test_setup(over_tls_it_is_the_same, flush),
        cmocka_unit_test_setup(a_generator_whose_slot_is_taken_goes_on_with_another, flush),
        cmocka_unit_test_setup(a_generator_keeps_one_lease_however_often_it_is_refreshed, flush),
        cmocka_unit_test_setup(a_random_start_of_the_counter_stays_in_the_node, flush),
        cmocka_unit_test_setup(a_forked_child_takes_a_slot_of_its_own, flush),
        cmocka_unit_test_setup(a_forked_child_does_not_fall_into_dev_mode, flush),
        cmocka_unit_test_setup(without_redis_a_start_fails_unless_dev_mode_is_on, flush),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
