/* Services that clients make up: how many there may be, which are forgotten, and that no window repeats for it. */
#include "test.h"
#include "virtual_clock.h"

#include "sources/all.h"
#include "sources/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DAY_MS INT64_C(86400000)
#define MAX    4

static virtual_clock v;
static const kz_source_ops *ops;
static void *source;
static char folder[] = "/tmp/kz_services_XXXXXX";
static char url[64];

static void open_table(uint32_t max_services)
{
    kz_source_facts facts;
    kz_source_options options = {
        .service = "default", .clock = &v.clock, .timeout_ms = 5000, .max_services = max_services};
    assert_ok(ops->open(&source, url, &options, &facts, NULL));
}

static int begin(void **state)
{
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    ops = *state;
    bool file = ops == &kz__source_sqlite;
    snprintf(url, sizeof url, "%s:%s%s", ops->scheme, file ? folder : "", file ? "/leases.db" : "");
    virtual_begin(&v, VIRTUAL_EPOCH_MS + DAY_MS * 400);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ops->close(source, false);
    source = NULL;
    static const char *const files[] = {"leases.db", "leases.db-wal", "leases.db-shm", "leases.db-mark"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static kz_status acquire(const char *service, kz_lease *lease, kz_error *err)
{
    static uint8_t number = 1;
    static kz_grant grant;
    kz_acquire request = {.service = service, .holder = "{}", .throughput_per_ms = 1, .request_id = {number++, 7}};
    kz_status status = ops->acquire(source, &request, &grant, err);
    if (status == KZ_OK && lease)
        *lease = grant.leases[0];
    return status;
}

static bool see(void *ctx, const kz_lease_info *info)
{
    size_t length = strlen(ctx);
    snprintf((char *)ctx + length, 256 - length, "%s:%u ", info->service, info->id);
    return true;
}

static void more_services_than_allowed_are_refused_by_name(void **state)
{
    (void)state;
    kz_error err = {0};
    open_table(MAX);
    assert_ok(acquire("default", NULL, &err));
    assert_ok(acquire("a", NULL, &err));
    assert_ok(acquire("b", NULL, &err));
    assert_ok(acquire("c", NULL, &err));
    assert_status(acquire("d", NULL, &err), KZ_NO_FREE_NODE);
    assert_contains(err.message, "max_services");
    assert_contains(err.message, "4");
    assert_ok(acquire("a", NULL, &err)); /* those that are there go on */
    /* Nor does it make room to ask again and again. */
    for (int i = 0; i < 3; i++) {
        virtual_advance(&v, 1500 * VIRTUAL_MS);
        assert_status(acquire("d", NULL, &err), KZ_NO_FREE_NODE);
    }
}

static void an_idle_service_is_forgotten_only_after_a_day(void **state)
{
    (void)state;
    kz_error err = {0};
    open_table(MAX);
    assert_ok(acquire("default", NULL, &err));
    assert_ok(acquire("a", NULL, &err));
    assert_ok(acquire("b", NULL, &err));
    kz_service_settings settings = {.service = "configured", .lease_ms = 5000};
    assert_ok(ops->configure(source, &settings, &err));
    virtual_advance(&v, (DAY_MS - 60000) * VIRTUAL_MS); /* the twins have ended, but not a day ago */
    assert_status(acquire("d", NULL, &err), KZ_NO_FREE_NODE);
    assert_ok(acquire("b", NULL, &err));
    virtual_advance(&v, 3600000 * VIRTUAL_MS); /* a's end is a day ago, b's is not */
    assert_ok(acquire("d", NULL, &err));
    assert_status(acquire("e", NULL, &err), KZ_NO_FREE_NODE); /* b, d, configured and default remain */
    assert_ok(acquire("b", NULL, &err));
    assert_ok(acquire("configured", NULL, &err));
}

static void a_service_made_again_repeats_no_window(void **state)
{
    (void)state;
    kz_error err = {0};
    kz_lease before, after;
    open_table(3);
    assert_ok(acquire("default", NULL, &err));
    assert_ok(acquire("a", &before, &err));
    assert_ok(acquire("b", NULL, &err));
    virtual_advance(&v, 2 * DAY_MS * VIRTUAL_MS);
    assert_ok(acquire("c", NULL, &err)); /* a and b are forgotten */
    virtual_step_by(&v, -30 * DAY_MS);   /* and somebody sets the clock back, to before a's window */
    virtual_advance(&v, 60000 * VIRTUAL_MS);
    assert_ok(acquire("a", &after, &err));
    assert_int_equal(after.id, before.id); /* made anew, it begins with the same node */
    assert_true(after.created_ms >= before.fallback_expired_ms);
}

static void leases_of_one_number_are_found_in_all_services(void **state)
{
    (void)state;
    kz_error err = {0};
    char seen[256] = "";
    open_table(0);
    for (const char *name = "abc"; *name; name++)
        assert_ok(acquire((char[]){*name, '\0'}, NULL, &err));
    assert_ok(acquire("b", NULL, &err));
    assert_ok(ops->list(source, &(kz_list_from){"", 0, .only_id = true}, see, seen, &err));
    assert_string_equal(seen, "a:0 b:0 c:0 ");
    *seen = '\0';
    assert_ok(ops->list(source, &(kz_list_from){"", 1, .only_id = true}, see, seen, &err));
    assert_string_equal(seen, "b:1 ");
    *seen = '\0';
    assert_ok(ops->list(source, &(kz_list_from){"b", 0, .only_id = true}, see, seen, &err));
    assert_string_equal(seen, "b:0 c:0 ");
}

#define TEST(name, kind)                                                                                               \
    {                                                                                                                  \
#name " on " #kind, name, begin, end, (void *)&kz__source_##kind                                               \
    }

/* The table of memory: lasts as long as the process, so one test has it. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(more_services_than_allowed_are_refused_by_name, sqlite),
        TEST(an_idle_service_is_forgotten_only_after_a_day, sqlite),
        TEST(a_service_made_again_repeats_no_window, sqlite),
        TEST(leases_of_one_number_are_found_in_all_services, sqlite),
        TEST(a_service_made_again_repeats_no_window, memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
