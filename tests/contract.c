/* What every lease table must do, asked through the interface for sources. */
#include "contract.h"
#include "core/table.h"
#include "host/clock.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LEASE INT64_C(600000)
#define DAY   INT64_C(86400000)

/* The process's own table lives through all tests, so time only ever goes on. */
static int64_t wall_ms = INT64_C(1800000000000), boot_ms = 1000000;

static int64_t read_wall_ns(void *ctx)
{
    (void)ctx;
    return wall_ms * KZ__NS_PER_MS;
}

static int64_t read_boot_ns(void *ctx)
{
    (void)ctx;
    return boot_ms * KZ__NS_PER_MS;
}

static void sleep_ns(void *ctx, int64_t ns)
{
    (void)ctx;
    contract_clock_step(ns / KZ__NS_PER_MS, ns / KZ__NS_PER_MS);
}

const kz_clock contract_clock = {.wall_ns = read_wall_ns, .boot_ns = read_boot_ns, .sleep_ns = sleep_ns};

void contract_clock_step(int64_t wall_step_ms, int64_t boot_step_ms)
{
    wall_ms += wall_step_ms;
    boot_ms += boot_step_ms;
}

static void pass(int64_t ms)
{
    contract_clock_step(ms, ms);
}

/* The table under test, and a service nobody has used. */
typedef struct table {
    const contract_kind *kind;
    char url[256];
    char service[KZ_SERVICE_SIZE];
    kz_layout layout;
    kz_source_facts facts;
    char warning[KZ_MESSAGE_SIZE];
    kz_grant grant;
    kz_error err;
} table;

static const contract_kind *kind_now;
static uint64_t random_now = 1;

static void keep_warning(void *ctx, kz_log_level level, const char *message)
{
    table *t = ctx;
    if (level == KZ_LOG_WARNING)
        snprintf(t->warning, sizeof t->warning, "%s", message);
}

static kz_status try_open(table *t, const char *params, const kz_layout *layout, void **source)
{
    char url[400];
    snprintf(url, sizeof url, "%s%s", t->url, params);
    kz_source_options options = {.layout = layout,
                                 .fallback = KZ_FALLBACK_FENCED,
                                 .service = t->service,
                                 .log = keep_warning,
                                 .log_ctx = t,
                                 .clock = t->kind->injected_clock ? &contract_clock : &kz__machine_clock,
                                 .timeout_ms = 10000};
    t->err.message[0] = '\0';
    return t->kind->ops->open(source, url, &options, &t->facts, &t->err);
}

static void *open_with(table *t, const char *params)
{
    void *source = NULL;
    if (try_open(t, params, &t->layout, &source))
        fail_msg("%s", t->err.message);
    return source;
}

static table *table_of(const char *layout)
{
    static unsigned number;
    table *t = calloc(1, sizeof *t);
    t->kind = kind_now;
    const char *why = "it cannot be had here";
    if (!t->kind->set_up(t->url, &why)) {
        print_message("skipped: %s: %s\n", t->kind->name, why);
        free(t);
        skip();
    }
    snprintf(t->service, sizeof t->service, "test-%u", ++number);
    assert_ok(kz_layout_parse(layout, &t->layout, NULL));
    pass(DAY);
    return t;
}

static void discard(table *t, void *source)
{
    t->kind->ops->close(source, false);
    t->kind->tear_down(t->url);
    free(t);
}

static kz_acquire request_of(const table *t, uint32_t throughput)
{
    kz_acquire request = {.service = t->service, .holder = "{\"host\":\"a\"}", .throughput_per_ms = throughput};
    for (size_t i = 0; i < 2; i++) {
        uint64_t r = test_random(&random_now);
        memcpy(request.request_id + 8 * i, &r, sizeof r);
    }
    return request;
}

static kz_status acquire(table *t, void *source, uint32_t throughput)
{
    kz_acquire request = request_of(t, throughput);
    return t->kind->ops->acquire(source, &request, &t->grant, &t->err);
}

static kz_lease grant_one(table *t, void *source)
{
    if (acquire(t, source, 1))
        fail_msg("%s", t->err.message);
    assert_int_equal(t->grant.count, 1);
    return t->grant.leases[0];
}

static int64_t time_of(table *t, void *source)
{
    int64_t source_ms;
    uint64_t generation;
    assert_ok(t->kind->ops->now(source, &source_ms, &generation, &t->err));
    return source_ms;
}

static kz_status release_at(table *t, void *source, const kz_lease *lease, int64_t timestamp_ms)
{
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign(lease->secret, lease->id, timestamp_ms, signature);
    kz_release release = {.service = t->service, .id = lease->id, .timestamp_ms = timestamp_ms, .signature = signature};
    return t->kind->ops->release(source, &release, &t->err);
}

static kz_status release(table *t, void *source, const kz_lease *lease)
{
    return release_at(t, source, lease, time_of(t, source));
}

static void needs_injected_clock(void)
{
    if (!kind_now->injected_clock)
        skip();
}

static void a_grant_says_all_about_the_lease(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "?lease=10min");
    int64_t before_ms = time_of(t, source);
    kz_lease lease = grant_one(t, source);
    assert_int_equal(lease.id, 0);
    assert_true(lease.created_ms >= before_ms);
    assert_int_equal(lease.created_ms, t->grant.source_ms);
    assert_int_equal(lease.expired_ms, lease.created_ms + LEASE);
    assert_int_equal(lease.fallback_created_ms, lease.created_ms);
    assert_int_equal(lease.fallback_expired_ms, lease.created_ms + 4 * LEASE);
    assert_int_equal(lease.epoch_ms, t->layout.epoch_ms);
    assert_int_equal(lease.reserved_bits, 1);
    assert_int_equal(lease.time_bits, 41);
    assert_int_equal(lease.node_bits, 14);
    assert_int_equal(lease.seq_bits, 8);
    assert_true(strlen(lease.secret) >= 32);
    assert_int_equal(t->grant.resume, 0);
    assert_true(t->grant.generation > 0);
    discard(t, source);
}

static void two_openers_share_one_table(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *one = open_with(t, ""), *two = open_with(t, "");
    kz_lease a = grant_one(t, one);
    uint64_t generation = t->grant.generation;
    kz_lease b = grant_one(t, two);
    assert_int_not_equal(a.id, b.id);
    assert_string_not_equal(a.secret, b.secret);
    assert_true(t->grant.generation > generation);
    assert_ok(release(t, two, &a));
    t->kind->ops->close(one, false);
    discard(t, two);
}

static void services_are_tables_of_their_own(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    kz_lease a = grant_one(t, source);
    kz_acquire request = request_of(t, 1);
    char other[80];
    snprintf(other, sizeof other, "%s-b", t->service);
    request.service = other;
    assert_ok(t->kind->ops->acquire(source, &request, &t->grant, &t->err));
    assert_int_equal(t->grant.leases[0].id, a.id);
    request.service = "no such name!";
    assert_status(t->kind->ops->acquire(source, &request, &t->grant, &t->err), KZ_INVALID);
    discard(t, source);
}

/* A server answers for all services from one source, and a generator compares whatever it is told. */
static void one_generation_counts_for_all_services(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    kz_acquire other = request_of(t, 1);
    char name[KZ_SERVICE_SIZE + 8];
    snprintf(name, sizeof name, "%s-other", t->service);
    other.service = name;
    uint64_t before = 0, after = 0;
    int64_t source_ms;
    assert_ok(t->kind->ops->now(source, &source_ms, &after, &t->err));
    for (int i = 0; i < 6; i++) {
        before = after;
        if (i % 2)
            grant_one(t, source);
        else
            assert_ok(t->kind->ops->acquire(source, &other, &t->grant, &t->err));
        assert_true(t->grant.generation > before);
        assert_ok(t->kind->ops->now(source, &source_ms, &after, &t->err));
        assert_true(after >= t->grant.generation);
    }
    discard(t, source);
}

static void a_full_table_says_so_and_a_release_makes_room_after_its_timestamp(void **state)
{
    (void)state;
    needs_injected_clock();
    table *t = table_of("41-2-8@2026-01-01");
    void *source = open_with(t, "");
    kz_lease a = grant_one(t, source);
    grant_one(t, source);
    kz_grant before = t->grant;
    assert_status(acquire(t, source, 1), KZ_NO_FREE_NODE);
    assert_memory_equal(&before, &t->grant, sizeof before);
    assert_ok(release_at(t, source, &a, a.created_ms + 500));
    pass(500);
    assert_status(acquire(t, source, 1), KZ_NO_FREE_NODE);
    pass(1);
    kz_lease again = grant_one(t, source);
    assert_int_equal(again.id, a.id);
    assert_int_equal(again.created_ms, a.created_ms + 501);
    discard(t, source);
}

static void a_lease_that_ended_is_granted_again_from_its_end_on(void **state)
{
    (void)state;
    needs_injected_clock();
    table *t = table_of("41-1-8@2026-01-01");
    void *source = open_with(t, "?lease=2s");
    kz_lease a = grant_one(t, source);
    pass(1999);
    assert_status(acquire(t, source, 1), KZ_NO_FREE_NODE);
    pass(1);
    kz_lease b = grant_one(t, source);
    assert_int_equal(b.created_ms, a.expired_ms);
    assert_int_equal(b.fallback_created_ms, b.fallback_expired_ms);
    assert_int_equal(b.fallback_expired_ms, b.expired_ms);
    discard(t, source);
}

static void a_release_after_the_window_ends_the_twin(void **state)
{
    (void)state;
    needs_injected_clock();
    table *t = table_of("41-1-8@2026-01-01");
    void *source = open_with(t, "?lease=2s");
    kz_lease a = grant_one(t, source);
    pass(2000);
    kz_lease b = grant_one(t, source);
    assert_ok(release(t, source, &a));
    assert_ok(release(t, source, &b));
    pass(1);
    kz_lease c = grant_one(t, source);
    assert_int_equal(c.fallback_expired_ms, c.created_ms + 8000);
    discard(t, source);
}

static void releases_are_checked_in_order(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    kz_lease a = grant_one(t, source), b = grant_one(t, source);
    int64_t now_ms = time_of(t, source);
    const kz_source_ops *ops = t->kind->ops;
    kz_release bad = {.service = t->service, .id = 4000, .timestamp_ms = 0, .signature = "00"};
    assert_status(ops->release(source, &bad, &t->err), KZ_INVALID);
    assert_contains(t->err.message, "64");
    kz_lease nobody = a;
    nobody.id = 4000;
    assert_status(release_at(t, source, &nobody, now_ms - 31000), KZ_INVALID);
    assert_status(release_at(t, source, &nobody, now_ms + 60000), KZ_INVALID);
    assert_status(release_at(t, source, &nobody, INT64_MIN), KZ_INVALID);
    assert_status(release_at(t, source, &nobody, now_ms), KZ_NOT_FOUND);
    kz_lease forged = a;
    strcpy(forged.secret, b.secret);
    assert_status(release_at(t, source, &forged, now_ms), KZ_FORBIDDEN);
    assert_ok(release_at(t, source, &a, now_ms));
    assert_status(release_at(t, source, &a, now_ms), KZ_NOT_FOUND);
    bad = (kz_release){.service = "nobody-has-this", .id = 0, .timestamp_ms = now_ms, .signature = NULL};
    assert_status(ops->release(source, &bad, &t->err), KZ_INVALID);
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign("x", 0, now_ms, signature);
    bad.signature = signature;
    assert_status(ops->release(source, &bad, &t->err), KZ_NOT_FOUND);
    assert_ok(release(t, source, &b));
    discard(t, source);
}

static void a_late_release_does_not_touch_the_next_holder(void **state)
{
    (void)state;
    needs_injected_clock();
    table *t = table_of("41-1-8@2026-01-01");
    void *source = open_with(t, "");
    kz_lease a = grant_one(t, source);
    assert_ok(release(t, source, &a));
    pass(1);
    kz_lease b = grant_one(t, source);
    assert_int_equal(a.id, b.id);
    assert_status(release(t, source, &a), KZ_FORBIDDEN);
    assert_status(acquire(t, source, 1), KZ_NO_FREE_NODE);
    assert_ok(release(t, source, &b));
    discard(t, source);
}

static void asking_twice_is_asking_once(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    kz_acquire request = request_of(t, 700);
    assert_ok(t->kind->ops->acquire(source, &request, &t->grant, &t->err));
    kz_grant first = t->grant;
    assert_int_equal(first.count, 3);
    pass(10);
    assert_ok(t->kind->ops->acquire(source, &request, &t->grant, &t->err));
    assert_int_equal(t->grant.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(t->grant.leases[i].id, first.leases[i].id);
        assert_int_equal(t->grant.leases[i].expired_ms, first.leases[i].expired_ms);
        assert_int_equal(t->grant.leases[i].fallback_expired_ms, first.leases[i].fallback_expired_ms);
        assert_string_equal(t->grant.leases[i].secret, first.leases[i].secret);
    }
    assert_true(t->grant.generation > first.generation);
    request.throughput_per_ms = 1;
    assert_status(t->kind->ops->acquire(source, &request, &t->grant, &t->err), KZ_CONFLICT);
    discard(t, source);
}

static void a_request_that_is_too_large_or_empty_is_refused(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    assert_status(acquire(t, source, 0), KZ_INVALID);
    assert_status(acquire(t, source, 2097152), KZ_INVALID);
    assert_ok(acquire(t, source, 16384));
    assert_int_equal(t->grant.count, 64);
    for (size_t i = 0; i < 64; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(t->grant.leases[i].secret, t->grant.leases[j].secret);
    discard(t, source);
}

static void time_goes_on_when_the_wall_clock_is_set_back(void **state)
{
    (void)state;
    needs_injected_clock();
    table *t = table_of("kazahana");
    void *source = open_with(t, "");
    kz_lease a = grant_one(t, source);
    *t->warning = '\0';
    contract_clock_step(-3600000, 20000);
    kz_lease b = grant_one(t, source);
    assert_int_equal(b.created_ms, a.created_ms + 20000 - 10); /* 500 ppm slower */
    assert_contains(t->warning, "set back by 3620000 ms");
    *t->warning = '\0';
    contract_clock_step(0, 0);
    assert_int_equal(time_of(t, source), b.created_ms);
    contract_clock_step(3600000 + 30000, 10000);
    kz_lease c = grant_one(t, source);
    assert_int_equal(c.created_ms, wall_ms);
    assert_contains(t->warning, "set forward");
    discard(t, source);
}

static void a_service_keeps_its_layout_and_lease(void **state)
{
    (void)state;
    table *t = table_of("41-12-10@2026-01-01");
    void *source = open_with(t, "?lease=2s"), *other = NULL;
    grant_one(t, source);
    kz_layout wrong;
    assert_ok(kz_layout_parse("41-12-10@2025-01-01", &wrong, NULL));
    assert_status(try_open(t, "", &wrong, &other), KZ_MISMATCH);
    assert_contains(t->err.message, "41-12-10@2026-01-01");
    assert_contains(t->err.message, "41-12-10@2025-01-01");
    assert_ok(kz_layout_parse("41-14-8@2026-01-01", &wrong, NULL));
    assert_status(try_open(t, "", &wrong, &other), KZ_MISMATCH);
    assert_null(other);
    assert_ok(try_open(t, "?lease=1h", NULL, &other));
    assert_int_equal(t->facts.layout.node_bits, 12);
    kz_lease lease = grant_one(t, other);
    assert_int_equal(lease.node_bits, 12);
    assert_int_equal(lease.expired_ms, lease.created_ms + 2000);
    t->kind->ops->close(other, false);
    discard(t, source);
}

static void a_service_in_the_url_is_the_opener_s(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    char params[100], other[80];
    snprintf(other, sizeof other, "%s-url", t->service);
    snprintf(params, sizeof params, "?service=%s", other);
    void *source = open_with(t, params), *plain = open_with(t, "");
    grant_one(t, source);
    assert_int_equal(grant_one(t, plain).id, 0);
    kz_acquire request = request_of(t, 1);
    request.service = other;
    assert_ok(t->kind->ops->acquire(plain, &request, &t->grant, &t->err));
    assert_int_equal(t->grant.leases[0].id, 1);
    t->kind->ops->close(plain, false);
    discard(t, source);
}

static void parameters_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "?lease=10", "?lease=min",       "?lease=1ms",  "?lease=8d",  "?service=a/b",
        "?service=", "?amnesia=perhaps", "?create=yes", "?unknown=1", "?lease=99999999999999999999h"};
    table *t = table_of("kazahana");
    void *source = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (try_open(t, bad[i], NULL, &source) != KZ_INVALID)
            fail_msg("%s was not refused", bad[i]);
        assert_true(*t->err.message);
    }
    assert_ok(kz_layout_parse("mastodon", &t->layout, NULL));
    assert_status(try_open(t, "", &t->layout, &source), KZ_INVALID);
    assert_ok(kz_layout_parse("kazahana", &t->layout, NULL));
    /* A store that does not keep a quarantine says so; it must not take the word and do nothing. */
    kz_status status = try_open(t, "?lease=7d&amnesia=quarantine", NULL, &source);
    discard(t, status == KZ_UNSUPPORTED ? open_with(t, "?lease=7d") : source);
    assert_true(status == KZ_OK || status == KZ_UNSUPPORTED);
}

typedef struct listing {
    const char *service;
    size_t count;
    kz_lease_info infos[8];
} listing;

static bool collect(void *ctx, const kz_lease_info *info)
{
    listing *l = ctx;
    if (strcmp(info->service, l->service) == 0 && l->count < 8)
        l->infos[l->count++] = *info;
    return true;
}

static void create_no_makes_nothing(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = NULL, *other = NULL;
    /* Some can tell when they are opened, others when a lease is wanted. */
    kz_status status = try_open(t, "?create=no", NULL, &source);
    if (status == KZ_OK) {
        status = acquire(t, source, 1);
        t->kind->ops->close(source, false);
    }
    assert_status(status, KZ_NOT_FOUND);
    assert_contains(t->err.message, "create=no");
    other = open_with(t, "");
    listing l = {.service = t->service};
    assert_ok(t->kind->ops->list(other, NULL, collect, &l, &t->err));
    assert_int_equal(l.count, 0);
    grant_one(t, other);
    /* What is there is used. */
    source = open_with(t, "?create=no");
    grant_one(t, source);
    t->kind->ops->close(source, false);
    discard(t, other);
}

static void the_list_and_the_health_show_what_is_out(void **state)
{
    (void)state;
    table *t = table_of("41-4-8@2026-01-01");
    /* A clock that nobody holds must not end the leases before they were looked at. */
    void *source = open_with(t, t->kind->injected_clock ? "?lease=2s" : "?lease=10min");
    kz_source_health health;
    assert_ok(t->kind->ops->health(source, t->service, &health, &t->err));
    assert_int_equal(health.nodes_free, 8);
    kz_lease a = grant_one(t, source), b = grant_one(t, source), c = grant_one(t, source);
    assert_ok(release(t, source, &b));
    listing l = {.service = t->service};
    assert_ok(t->kind->ops->list(source, NULL, collect, &l, &t->err));
    assert_int_equal(l.count, 2);
    assert_int_equal(l.infos[0].id, a.id);
    assert_int_equal(l.infos[1].id, c.id);
    assert_string_equal(l.infos[0].holder, "{\"host\":\"a\"}");
    assert_int_equal(l.infos[0].expired_ms, a.expired_ms);
    assert_int_equal(l.infos[0].fallback_created_ms, a.fallback_created_ms);
    assert_int_equal(l.infos[0].fallback_expired_ms, a.fallback_expired_ms);
    assert_int_equal(l.infos[0].node_bits, 4);
    assert_int_equal(l.infos[0].seq_bits, 8);
    assert_int_equal(l.infos[0].nodes, 1);
    assert_int_equal(l.infos[0].kind, KZ_LINE_LEASE);
    assert_ok(t->kind->ops->health(source, t->service, &health, &t->err));
    assert_int_equal(health.leases_out, 2);
    assert_in_range(health.nodes_free, 5, 6);
    assert_int_equal(health.lease_ms, t->kind->injected_clock ? 2000 : LEASE);
    assert_int_equal(health.layout.node_bits, 4);
    if (t->kind->injected_clock) {
        pass(2001);
        l.count = 0;
        assert_ok(t->kind->ops->list(source, NULL, collect, &l, &t->err));
        assert_int_equal(l.count, 0);
        assert_ok(t->kind->ops->health(source, t->service, &health, &t->err));
        assert_int_equal(health.leases_out, 0);
        assert_int_equal(health.nodes_free, 8);
    }
    discard(t, source);
}

typedef struct pages {
    const char *services[2]; /* of this test; the process's own table has others' lines too */
    size_t count, enough;
    kz_lease_info lines[128];
} pages;

static bool turn(void *ctx, const kz_lease_info *info)
{
    pages *p = ctx;
    if (strcmp(info->service, p->services[0]) != 0 && strcmp(info->service, p->services[1]) != 0)
        return true;
    assert_in_range(p->count, 0, sizeof p->lines / sizeof p->lines[0] - 1);
    p->lines[p->count++] = *info;
    return p->count < p->enough;
}

static void list_from(table *t, void *source, const char *service, uint32_t id, size_t enough, pages *p)
{
    p->count = 0;
    p->enough = enough;
    if (t->kind->ops->list(source, &(kz_list_from){.service = service, .id = id}, turn, p, &t->err))
        fail_msg("%s", t->err.message);
}

static void a_listing_is_in_order_and_begins_where_it_is_told(void **state)
{
    (void)state;
    table *t = table_of("41-8-6@2026-01-01");
    void *source = open_with(t, "?lease=1h");
    char other[KZ_SERVICE_SIZE + 8];
    snprintf(other, sizeof other, "%s.b", t->service);
    static pages p;
    p.services[0] = t->service;
    p.services[1] = other;
    /* More than are read at once; two of them are given back. */
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(grant_one(t, source).id, i);
    kz_lease last = t->grant.leases[0];
    assert_ok(release(t, source, &last));
    kz_acquire request = request_of(t, 128);
    request.service = other;
    assert_ok(t->kind->ops->acquire(source, &request, &t->grant, &t->err));
    assert_int_equal(t->grant.count, 2);

    list_from(t, source, t->service, 0, 128, &p);
    assert_int_equal(p.count, 101);
    for (uint32_t i = 0; i < 99; i++) {
        assert_string_equal(p.lines[i].service, t->service);
        assert_int_equal(p.lines[i].id, i);
    }
    assert_string_equal(p.lines[99].service, other);
    assert_string_equal(p.lines[100].service, other);
    list_from(t, source, t->service, 42, 5, &p);
    assert_int_equal(p.count, 5);
    assert_int_equal(p.lines[0].id, 42);
    assert_int_equal(p.lines[4].id, 46);
    list_from(t, source, t->service, 99, 1, &p);
    assert_string_equal(p.lines[0].service, other);
    assert_int_equal(p.lines[0].id, 0);
    list_from(t, source, other, 1, 128, &p);
    assert_int_equal(p.count, 1);
    assert_int_equal(p.lines[0].id, 1);
    list_from(t, source, other, UINT32_MAX, 128, &p);
    assert_int_equal(p.count, 0);
    list_from(t, source, "", 0, 128, &p);
    assert_int_equal(p.count, 101);
    discard(t, source);
}

/* ---- settings of services ---- */

/* Opened without a layout, so that the service's own counts. */
static void *open_plain(table *t)
{
    void *source = NULL;
    if (try_open(t, "?lease=2s", NULL, &source))
        fail_msg("%s", t->err.message);
    return source;
}

static kz_status configure(table *t, void *source, const char *layout, kz_service_settings settings)
{
    kz_layout parsed;
    settings.service = t->service;
    if (layout) {
        assert_ok(kz_layout_parse(layout, &parsed, NULL));
        settings.layout = &parsed;
    }
    t->err.message[0] = '\0';
    return t->kind->ops->configure(source, &settings, &t->err);
}

static void settings_make_a_service_and_count_from_the_next_grant_on(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_plain(t);
    kz_source_health health;
    assert_ok(configure(t, source, "41-6-8@2025-01-01", (kz_service_settings){.lease_ms = 3000}));
    assert_ok(t->kind->ops->health(source, t->service, &health, &t->err));
    assert_int_equal(health.layout.epoch_ms, INT64_C(1735689600000));
    assert_int_equal(health.layout.node_bits, 6);
    assert_int_equal(health.lease_ms, 3000);
    assert_int_equal(health.nodes_free, 32);
    kz_lease first = grant_one(t, source);
    assert_int_equal(first.epoch_ms, INT64_C(1735689600000));
    assert_int_equal(first.expired_ms, first.created_ms + 3000);

    /* What is left out stays. */
    assert_ok(configure(t, source, NULL, (kz_service_settings){.lease_ms = 5000}));
    kz_lease second = grant_one(t, source);
    assert_int_equal(second.node_bits, 6);
    assert_int_equal(second.expired_ms, second.created_ms + 5000);

    assert_ok(configure(t, source, NULL, (kz_service_settings){.max_throughput = 512}));
    assert_status(acquire(t, source, 513), KZ_INVALID);
    assert_contains(t->err.message, "512");
    assert_ok(acquire(t, source, 512));
    assert_int_equal(t->grant.count, 2);
    assert_ok(configure(t, source, NULL, (kz_service_settings){.high_blocks = 1}));
    assert_ok(acquire(t, source, 512));
    assert_int_equal(t->grant.count, 1);
    assert_int_equal(t->grant.leases[0].seq_bits, 9);
    assert_ok(configure(t, source, NULL, (kz_service_settings){.high_blocks = -1}));
    assert_ok(acquire(t, source, 512));
    assert_int_equal(t->grant.count, 2);
    discard(t, source);
}

static void a_layout_may_change_until_a_lease_was_granted(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_plain(t);
    static const char *const fixed[] = {"41-6-8@2025-01-01", "42-6-8@2026-01-01", "41-6-9@2026-01-01",
                                        "41-5-8@2026-01-01"};
    kz_source_health health;
    assert_ok(configure(t, source, "42-5-5@2020-01-01", (kz_service_settings){0}));
    assert_ok(configure(t, source, "41-6-8@2026-01-01", (kz_service_settings){0}));
    assert_ok(t->kind->ops->health(source, t->service, &health, &t->err));
    assert_int_equal(health.nodes_free, 32);
    grant_one(t, source);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        assert_status(configure(t, source, fixed[i], (kz_service_settings){.lease_ms = 4000}), KZ_MISMATCH);
        assert_contains(t->err.message, "41-6-8@2026-01-01");
        assert_contains(t->err.message, fixed[i]);
    }
    assert_status(configure(t, source, "mastodon", (kz_service_settings){0}), KZ_INVALID);
    assert_status(configure(t, source, NULL, (kz_service_settings){.lease_ms = 99}), KZ_INVALID);
    assert_contains(t->err.message, "99");
    /* Nothing of what was refused has changed. */
    kz_lease lease = grant_one(t, source);
    assert_int_equal(lease.epoch_ms, INT64_C(1767225600000));
    assert_int_equal(lease.node_bits, 6);
    assert_int_equal(lease.expired_ms, lease.created_ms + 2000);
    discard(t, source);
}

/* Takes all that there is, and adds it to what is held. */
static void grant_the_rest(table *t, void *source, kz_lease *held, size_t *count, size_t room)
{
    kz_status status;
    while ((status = acquire(t, source, 1)) == KZ_OK) {
        assert_in_range(*count, 0, room - 1);
        held[(*count)++] = t->grant.leases[0];
    }
    if (status != KZ_NO_FREE_NODE)
        fail_msg("%s", t->err.message);
}

static bool blocks_meet(const kz_lease *a, const kz_lease *b)
{
    uint64_t lo = (uint64_t)a->id << a->seq_bits, other = (uint64_t)b->id << b->seq_bits;
    return lo < other + (UINT64_C(1) << b->seq_bits) && other < lo + (UINT64_C(1) << a->seq_bits);
}

static void bits_move_while_leases_are_out_and_nothing_overlaps(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    void *source = open_plain(t);
    kz_lease held[64];
    size_t count = 0;
    /* An hour: nothing ends meanwhile. */
    assert_ok(configure(t, source, "41-6-8@2026-01-01", (kz_service_settings){.lease_ms = 3600000}));
    for (; count < 5; count++)
        held[count] = grant_one(t, source);
    assert_ok(configure(t, source, "41-4-10@2026-01-01", (kz_service_settings){0}));
    /* Five blocks of 256 slots lie in two of the eight blocks of 1,024, and the numbers 2 to 4 are out: 5 to 7 are
     * left.
     */
    for (size_t i = 0; i < 3; i++) {
        held[count] = grant_one(t, source);
        assert_int_equal(held[count].seq_bits, 10);
        assert_int_equal(held[count++].node_bits, 4);
    }
    assert_ok(release(t, source, &held[5]));
    held[5] = held[--count];
    assert_ok(configure(t, source, "41-7-7@2026-01-01", (kz_service_settings){0}));
    held[count++] = grant_one(t, source);
    assert_ok(configure(t, source, "41-6-8@2026-01-01", (kz_service_settings){0}));
    grant_the_rest(t, source, held, &count, sizeof held / sizeof held[0]);
    static pages p;
    p.services[0] = p.services[1] = t->service;
    list_from(t, source, t->service, 0, 128, &p);
    assert_int_equal(p.count, count);
    for (size_t i = 1; i < p.count; i++)
        assert_true(p.lines[i - 1].id < p.lines[i].id);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (blocks_meet(&held[i], &held[k]))
                fail_msg("node %u of 2^%u slots and node %u of 2^%u overlap", held[i].id, held[i].seq_bits, held[k].id,
                         held[k].seq_bits);
    discard(t, source);
}

/* Several operations that become durable together: one that fails leaves nothing, and the others do not mind. */
static void a_group_is_kept_as_a_whole(void **state)
{
    (void)state;
    table *t = table_of("kazahana");
    if (!t->kind->ops->group_begin) {
        print_message("skipped: %s has no groups\n", t->kind->name);
        t->kind->tear_down(t->url);
        free(t);
        skip();
    }
    void *source = open_with(t, "");
    kz_lease before = grant_one(t, source), a, b, c;
    kz_status kept;
    char mine[KZ_SERVICE_SIZE];
    strcpy(mine, t->service);
    do {
        assert_ok(t->kind->ops->group_begin(source, &t->err));
        a = grant_one(t, source);
        assert_status(acquire(t, source, 0), KZ_INVALID);
        b = grant_one(t, source);
        assert_ok(release(t, source, &b));
        snprintf(t->service, sizeof t->service, "other-%u", a.id);
        c = grant_one(t, source);
        strcpy(t->service, mine);
        assert_ok(release(t, source, &before));
        assert_status(release(t, source, &before), KZ_NOT_FOUND);
        kept = t->kind->ops->group_commit(source, &t->err);
        assert_true(kept == KZ_OK || kept == KZ_AGAIN);
    } while (kept);
    assert_int_not_equal(a.id, before.id);
    assert_int_not_equal(a.id, b.id);
    void *other = open_with(t, "");
    listing l = {.service = t->service};
    assert_ok(t->kind->ops->list(other, NULL, collect, &l, &t->err));
    assert_int_equal(l.count, 1);
    assert_int_equal(l.infos[0].id, a.id);
    snprintf(t->service, sizeof t->service, "other-%u", a.id);
    assert_ok(release(t, other, &c));
    t->kind->ops->close(other, false);
    discard(t, source);
}

int contract_run(const contract_kind *kind)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grant_says_all_about_the_lease),
        cmocka_unit_test(two_openers_share_one_table),
        cmocka_unit_test(services_are_tables_of_their_own),
        cmocka_unit_test(one_generation_counts_for_all_services),
        cmocka_unit_test(a_full_table_says_so_and_a_release_makes_room_after_its_timestamp),
        cmocka_unit_test(a_lease_that_ended_is_granted_again_from_its_end_on),
        cmocka_unit_test(a_release_after_the_window_ends_the_twin),
        cmocka_unit_test(releases_are_checked_in_order),
        cmocka_unit_test(a_late_release_does_not_touch_the_next_holder),
        cmocka_unit_test(asking_twice_is_asking_once),
        cmocka_unit_test(a_request_that_is_too_large_or_empty_is_refused),
        cmocka_unit_test(time_goes_on_when_the_wall_clock_is_set_back),
        cmocka_unit_test(a_service_keeps_its_layout_and_lease),
        cmocka_unit_test(a_service_in_the_url_is_the_opener_s),
        cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(create_no_makes_nothing),
        cmocka_unit_test(a_group_is_kept_as_a_whole),
        cmocka_unit_test(the_list_and_the_health_show_what_is_out),
        cmocka_unit_test(a_listing_is_in_order_and_begins_where_it_is_told),
        cmocka_unit_test(settings_make_a_service_and_count_from_the_next_grant_on),
        cmocka_unit_test(a_layout_may_change_until_a_lease_was_granted),
        cmocka_unit_test(bits_move_while_leases_are_out_and_nothing_overlaps),
    };
    kind_now = kind;
    return _cmocka_run_group_tests(kind->name, tests, sizeof tests / sizeof tests[0], NULL, NULL);
}

static const contract_kind *compared[2];

typedef struct held {
    kz_lease lease[2];
} held;

/* One step of the story, told to both; secrets and generations are their own. */
static void acquire_from_both(table **t, void **source, uint32_t throughput, held *holding, size_t *count, size_t room,
                              kz_acquire *last, bool again)
{
    kz_acquire request = again ? *last : request_of(t[0], throughput);
    kz_status status[2];
    *last = request;
    for (int i = 0; i < 2; i++) {
        request.service = t[i]->service;
        status[i] = t[i]->kind->ops->acquire(source[i], &request, &t[i]->grant, &t[i]->err);
    }
    assert_int_equal(status[0], status[1]);
    if (status[0])
        return;
    assert_int_equal(t[0]->grant.count, t[1]->grant.count);
    assert_int_equal(t[0]->grant.source_ms, t[1]->grant.source_ms);
    for (size_t i = 0; i < t[0]->grant.count; i++) {
        kz_lease a = t[0]->grant.leases[i], b = t[1]->grant.leases[i];
        held both = {{a, b}};
        memset(a.secret, 0, sizeof a.secret);
        memset(b.secret, 0, sizeof b.secret);
        assert_int_equal(a.id, b.id);
        assert_int_equal(a.created_ms, b.created_ms);
        assert_int_equal(a.expired_ms, b.expired_ms);
        assert_int_equal(a.fallback_created_ms, b.fallback_created_ms);
        assert_int_equal(a.fallback_expired_ms, b.fallback_expired_ms);
        holding[(*count)++ % room] = both;
    }
}

static void one_story_gets_the_same_answers(void **state)
{
    (void)state;
    enum { ROOM = 64, STEPS = 1200 };
    table *t[2];
    void *source[2];
    held holding[ROOM];
    size_t count = 0;
    uint64_t random = 42;
    kz_acquire last = {.throughput_per_ms = 1};
    /* The story before has left the clock behind the time of a table that lives on. */
    contract_clock_step(3600000, 0);
    for (int i = 0; i < 2; i++) {
        kind_now = compared[i];
        t[i] = table_of("41-6-8@2026-01-01");
        source[i] = open_with(t[i], "?lease=2s");
    }
    for (int step = 0; step < STEPS; step++) {
        uint64_t r = test_random(&random);
        contract_clock_step((int64_t)(r % 200) - (r % 211 == 0 ? 40000 : 0), (int64_t)(r % 200));
        r = test_random(&random);
        if (r % 10 < 6 || !count) {
            acquire_from_both(t, source, (uint32_t)(test_random(&random) % (r % 4 ? 256 : 2000)), holding, &count, ROOM,
                              &last, r % 17 == 0);
        } else {
            const held *one = &holding[test_random(&random) % (count < ROOM ? count : ROOM)];
            int64_t timestamp_ms = time_of(t[0], source[0]) + (int64_t)(test_random(&random) % 100);
            assert_int_equal(time_of(t[1], source[1]), time_of(t[0], source[0]));
            assert_int_equal(release_at(t[0], source[0], &one->lease[0], timestamp_ms),
                             release_at(t[1], source[1], &one->lease[1], timestamp_ms));
        }
    }
    for (int i = 0; i < 2; i++)
        discard(t[i], source[i]);
}

int contract_compare(const contract_kind *one, const contract_kind *other)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_story_gets_the_same_answers)};
    char name[64];
    compared[0] = one;
    compared[1] = other;
    snprintf(name, sizeof name, "%s and %s", one->name, other->name);
    return _cmocka_run_group_tests(name, tests, 1, NULL, NULL);
}
