/* The flow of lease tables over a store that others use too, and are faster. */
#include "core/memory_rows.h"
#include "sources/table_source.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define T0 INT64_C(1800000000000)

static int64_t wall_ms = T0;

static int64_t read_ns(void *ctx)
{
    (void)ctx;
    return wall_ms * INT64_C(1000000);
}

static void sleep_ns(void *ctx, int64_t ns)
{
    (void)ctx;
    wall_ms += ns / 1000000;
}

static const kz_clock clock_of_test = {.wall_ns = read_ns, .boot_ns = read_ns, .sleep_ns = sleep_ns};

typedef struct far {
    kz__table_source base;
    kz__memory_rows *table;
    kz__service service;
    bool exists;
    int64_t high_ms;
    uint64_t generation;
    unsigned faster, missing; /* how often somebody will be faster, at the commit and at a row */
    unsigned lost;            /* of this call */
    unsigned begun, looked, commits, rollbacks;
    size_t secrets_at_begin;
} far;

static kz_status begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    (void)err;
    far *f = (far *)base;
    assert_int_equal(t->attempt, f->lost);
    ++*(ask->write ? &f->begun : &f->looked);
    f->secrets_at_begin = ask->acquire ? strlen(base->secrets[base->secret_count - 1]) : 0;
    t->high_ms = f->high_ms;
    t->now_ms = wall_ms > f->high_ms ? wall_ms : f->high_ms;
    t->generation = f->generation;
    t->found = ask->service && f->exists;
    t->service = f->service;
    return KZ_OK;
}

static far *opened;

static kz_status free_after(void *ctx, uint64_t from, kz__range *range, kz_error *err)
{
    return opened->missing ? KZ_AGAIN : kz__memory_rows_use(ctx).free_after(ctx, from, range, err);
}

static kz__rows rows(kz__table_source *base)
{
    (void)base;
    kz__rows part = kz__memory_rows_use(opened->table);
    part.free_after = free_after;
    return part;
}

static kz_status commit(kz__table_source *base, kz__transaction *t, kz_error *err)
{
    (void)err;
    far *f = (far *)base;
    if (f->faster) {
        f->faster--;
        f->lost++;
        kz__memory_rows_rollback(f->table);
        return KZ_AGAIN;
    }
    kz__memory_rows_commit(f->table);
    f->commits++;
    f->high_ms = t->now_ms;
    f->generation = t->generation;
    if (t->service_write) {
        f->service = t->service;
        f->exists = true;
    }
    return KZ_OK;
}

static void rollback(kz__table_source *base, kz_status why)
{
    far *f = (far *)base;
    kz__memory_rows_rollback(f->table);
    f->rollbacks++;
    if (why == KZ_AGAIN) {
        f->missing--;
        f->lost++;
    }
}

static const kz__table_store store = {.begin = begin, .rows = rows, .commit = commit, .rollback = rollback};

static far *open_far(const char *layout)
{
    far *f = calloc(1, sizeof *f);
    kz_layout parsed;
    kz__url url;
    kz_error err;
    assert_ok(kz_layout_parse(layout, &parsed, NULL));
    assert_ok(kz__url_parse("far:", &url, &err));
    kz_source_options options = {.layout = &parsed, .clock = &clock_of_test};
    f->table = kz__memory_rows_new();
    opened = f;
    assert_ok(kz__table_source_init(&f->base, &store, "far:", &url, &options, NULL, &err));
    return f;
}

static void close_far(far *f)
{
    kz__memory_rows_free(f->table);
    free(f);
}

static kz_status acquire(far *f, uint32_t throughput, kz_grant *grant)
{
    static uint8_t number;
    kz_acquire request = {.service = "default", .holder = "{}", .throughput_per_ms = throughput};
    request.request_id[0] = ++number;
    f->begun = f->lost = 0;
    return kz__table_source_acquire(f, &request, grant, NULL);
}

static size_t rows_out(far *f)
{
    size_t count = 0;
    for (size_t at = 0; kz__memory_rows_each(f->table, &at);)
        count++;
    return count;
}

static void a_commit_that_somebody_was_faster_than_is_begun_anew_and_grants_once(void **state)
{
    (void)state;
    far *f = open_far("kazahana");
    static kz_grant grant;
    f->faster = 3;
    assert_ok(acquire(f, 1, &grant));
    assert_int_equal(f->begun, 4);
    assert_int_equal(f->commits, 1);
    assert_int_equal(rows_out(f), 2); /* a lease and its twin */
    assert_int_equal(grant.leases[0].id, 0);
    f->faster = 1;
    assert_ok(acquire(f, 1, &grant));
    assert_int_equal(grant.leases[0].id, 1);
    assert_int_equal(rows_out(f), 4);
    close_far(f);
}

static void a_store_that_others_are_always_faster_on_is_given_up_some_time(void **state)
{
    (void)state;
    far *f = open_far("kazahana");
    static kz_grant grant, before;
    f->faster = UINT32_MAX;
    assert_status(acquire(f, 1, &grant), KZ_UNAVAILABLE);
    assert_memory_equal(&grant, &before, sizeof grant);
    assert_int_equal(rows_out(f), 0);
    f->faster = 0;
    f->missing = UINT32_MAX;
    assert_status(acquire(f, 1, &grant), KZ_UNAVAILABLE);
    assert_int_equal(rows_out(f), 0);
    close_far(f);
}

static void rows_that_are_gone_meanwhile_are_begun_anew_too(void **state)
{
    (void)state;
    far *f = open_far("kazahana");
    static kz_grant grant;
    f->missing = 2;
    assert_ok(acquire(f, 600, &grant));
    assert_int_equal(f->begun, 3);
    assert_int_equal(grant.count, 3);
    assert_int_equal(grant.generation, 1); /* and not once for each run */
    assert_int_equal(rows_out(f), 6);
    close_far(f);
}

static void secrets_are_drawn_before_anything_is_locked(void **state)
{
    (void)state;
    far *f = open_far("41-12-10@2026-01-01");
    static kz_grant grant;
    assert_ok(acquire(f, 1024, &grant));
    assert_int_equal(f->secrets_at_begin, 32);
    assert_int_equal(grant.count, 1);
    /* Smaller blocks than the opener's need more of them: they are drawn, and it begins anew. */
    kz_layout smaller;
    assert_ok(kz_layout_parse("41-14-8@2026-01-01", &smaller, NULL));
    f->base.params.layout_given = false;
    f->begun = 0;
    assert_ok(kz__table_source_configure(f, &(kz_service_settings){.layout = &smaller}, NULL));
    assert_ok(acquire(f, 1024, &grant));
    assert_int_equal(f->begun, 2);
    assert_int_equal(grant.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(strlen(grant.leases[i].secret), 32);
    assert_ok(acquire(f, 1024, &grant));
    assert_int_equal(f->begun, 1);
    assert_int_equal(strlen(f->base.secrets[0]), 0); /* nor left behind */
    close_far(f);
}

static void a_time_is_written_when_the_one_written_is_a_second_old(void **state)
{
    (void)state;
    far *f = open_far("kazahana");
    static kz_grant grant;
    int64_t now_ms;
    uint64_t generation;
    assert_ok(acquire(f, 1, &grant));
    unsigned commits = f->commits;
    wall_ms += 1000;
    f->begun = 0;
    assert_ok(kz__table_source_now(f, &now_ms, &generation, NULL));
    assert_int_equal(now_ms, wall_ms);
    assert_int_equal(generation, grant.generation);
    assert_int_equal(f->commits, commits);
    wall_ms += 1;
    assert_ok(kz__table_source_now(f, &now_ms, &generation, NULL));
    assert_int_equal(f->commits, commits + 1);
    assert_int_equal(f->high_ms, now_ms);
    wall_ms -= 5000;
    f->begun = 0;
    assert_ok(kz__table_source_now(f, &now_ms, &generation, NULL));
    assert_int_equal(now_ms, f->high_ms);
    close_far(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_that_somebody_was_faster_than_is_begun_anew_and_grants_once),
        cmocka_unit_test(a_store_that_others_are_always_faster_on_is_given_up_some_time),
        cmocka_unit_test(rows_that_are_gone_meanwhile_are_begun_anew_too),
        cmocka_unit_test(secrets_are_drawn_before_anything_is_locked),
        cmocka_unit_test(a_time_is_written_when_the_one_written_is_a_second_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
