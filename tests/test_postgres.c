/* What only a lease table in PostgreSQL can get wrong. */
#include "postgres_server.h"
#include "test.h"

#include <kazahana.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static postgres_server server;

static int start(void **state)
{
    (void)state;
    if (!postgres_server_missing())
        postgres_server_start(&server, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (server.pid)
        postgres_server_remove(&server);
    return 0;
}

static void need_server(void)
{
    if (!server.pid) {
        print_message("skipped: %s\n", postgres_server_missing());
        skip();
    }
}

static long number(const char *sql)
{
    char text[64];
    postgres_server_sql(&server, sql, text, sizeof text);
    return strtol(text, NULL, 10);
}

static kz_generator *open_generator(const char *service)
{
    kz_generator *gen;
    kz_options options;
    kz_error err;
    kz_options_init(&options);
    options.service = service;
    options.timeout_ms = 60000;
    if (kz_open(&gen, server.url, &options, &err))
        fail_msg("%s", err.message);
    return gen;
}

/* The child has a lease and a connection of its own, and says nothing on its parent's. */
static void a_forked_child_leaves_its_parents_session_alone(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    need_server();
    kz_generator *gen = open_generator("forked");
    kz_id mine[COUNT], theirs[COUNT];
    int pipes[2];
    static const char session[] = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'kazahana'";
    assert_ok(kz_next_batch(gen, mine, COUNT));
    assert_int_equal(number(session), 1);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        kz_status status = kz_next_batch(gen, theirs, COUNT);
        if (status || write(pipes[1], theirs, sizeof theirs) != sizeof theirs)
            _exit(1);
        kz_close(gen);
        _exit(0);
    }
    close(pipes[1]); /* else the end of a child that dies is never seen */
    size_t got = 0;
    for (ssize_t n; got < sizeof theirs && (n = read(pipes[0], (char *)theirs + got, sizeof theirs - got)) > 0;)
        got += (size_t)n;
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(got, sizeof theirs);
    assert_int_not_equal(mine[0] >> 8 & 0x3fff, theirs[0] >> 8 & 0x3fff); /* the nodes */
    /* The parent gives its lease back over the session that it had, or a new one; nothing of it is out then. */
    assert_ok(kz_next_batch(gen, mine, COUNT));
    kz_close(gen);
    assert_int_equal(number("SELECT count(*) FROM kazahana.out o JOIN kazahana.service s ON s.id = o.service WHERE "
                            "s.name = 'forked' AND NOT released"),
                     0);
    close(pipes[0]);
}

/* A second wall behind the rules: the database itself refuses two rows that overlap. */
static void overlapping_rows_are_refused_by_the_database(void **state)
{
    (void)state;
    need_server();
    kz_generator *gen = open_generator("walled");
    postgres_server_sql(&server,
                        "DO $$ BEGIN INSERT INTO kazahana.out SELECT service, lo + 1, hi + 1, start_ms, end_ms, node + "
                        "1, node_bits, seq_bits, released, asked, request, secret, holder FROM kazahana.out LIMIT 1; "
                        "RAISE 'not refused'; EXCEPTION WHEN exclusion_violation THEN NULL; END $$",
                        NULL, 0);
    kz_close(gen);
}

/* Tables that somebody changed by hand are refused, and nothing is granted from them. */
static void a_table_that_was_tampered_with_grants_nothing(void **state)
{
    (void)state;
    need_server();
    kz_close(open_generator("broken"));
    postgres_server_sql(
        &server,
        "UPDATE kazahana.service SET cursor = 0 WHERE name = 'broken'; INSERT INTO kazahana.out SELECT "
        "id, 0, 256, 0, 9000000000000, 0, 14, 8, false, 1, '\\x00', 'x', '{}' FROM kazahana.service "
        "WHERE name = 'broken' ON CONFLICT DO NOTHING; DELETE FROM kazahana.free WHERE service = (SELECT "
        "id FROM kazahana.service WHERE name = 'broken'); INSERT INTO kazahana.free SELECT id, 0, "
        "4194304 FROM kazahana.service WHERE name = 'broken'",
        NULL, 0);
    kz_source *source;
    kz_options options;
    kz_error err;
    static kz_grant grant;
    kz_options_init(&options);
    assert_ok(kz_source_open(&source, server.url, &options, &err));
    kz_acquire request = {.service = "broken", .holder = "{}", .throughput_per_ms = 1, .request_id = {7}};
    assert_status(kz_source_acquire(source, &request, &grant, &err), KZ_STORE);
    assert_contains(err.message, "contradicts itself");
    kz_source_close(source);
}

/* Tables that are made anew may be those that were lost. */
static void a_new_table_in_quarantine_grants_nothing_for_four_leases(void **state)
{
    (void)state;
    need_server();
    kz_source *source;
    kz_options options;
    kz_error err;
    char url[400];
    static kz_grant grant;
    kz_options_init(&options);
    kz_acquire request = {.service = "default", .holder = "{}", .throughput_per_ms = 1, .request_id = {9}};
    snprintf(url, sizeof url, "%s?schema=long&lease=10min&amnesia=quarantine", server.url);
    assert_ok(kz_source_open(&source, url, &options, &err));
    assert_status(kz_source_acquire(source, &request, &grant, &err), KZ_UNAVAILABLE);
    assert_contains(err.message, "found empty");
    kz_source_close(source);
    /* Not again for whoever opens it next, and for all that time. */
    snprintf(url, sizeof url, "%s?schema=short&lease=200ms&amnesia=quarantine", server.url);
    kz_status status;
    do {
        assert_ok(kz_source_open(&source, url, &options, &err));
        status = kz_source_acquire(source, &request, &grant, &err);
        kz_source_close(source);
        assert_true(status == KZ_OK || status == KZ_UNAVAILABLE);
        usleep(20000);
    } while (status);
    long since = number("SELECT split_part(place, ' ', 3) FROM short.meta");
    assert_true(grant.leases[0].created_ms >= since + 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_leaves_its_parents_session_alone),
        cmocka_unit_test(overlapping_rows_are_refused_by_the_database),
        cmocka_unit_test(a_table_that_was_tampered_with_grants_nothing),
        cmocka_unit_test(a_new_table_in_quarantine_grants_nothing_for_four_leases),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
