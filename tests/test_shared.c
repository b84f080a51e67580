/* Generators that several parts of a process share, keepers without a thread, and what the end of a process gives back.
 */
#include "lib/generator.h"
#include "redis_server.h"
#include "test.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/kz-shared-XXXXXX";
static char table[80], url[128];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(table, sizeof table, "%s/leases.db", folder);
    snprintf(url, sizeof url, "sqlite:%s/brief.db?lease=400ms", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static kz_generator *share_open(const char *from, const kz_options *options)
{
    kz_generator *gen = NULL;
    kz_error err;
    if (kz_open_shared(&gen, from, options, &err))
        fail_msg("%s: %s", from, err.message);
    return gen;
}

static void the_same_url_and_options_are_one_generator_until_the_last_closes_it(void **state)
{
    (void)state;
    kz_options other;
    kz_options_init(&other);
    other.layout = "41-2-20@2026-01-01";
    kz_generator *a = share_open("static:3", NULL), *b = share_open("static:3", NULL), *alone;
    kz_generator *c = share_open("static:3", &other), *d = share_open("static:4", NULL);
    kz_id first, second;
    kz_error err;
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ptr_not_equal(a, d);
    assert_ok(kz_next(a, &first));
    assert_status(kz_open(&alone, "static:3", NULL, &err), KZ_IN_USE);
    kz_close(a);
    assert_ok(kz_next(b, &second));
    assert_true(second > first);
    assert_status(kz_open(&alone, "static:3", NULL, &err), KZ_IN_USE);
    kz_close(b);
    assert_ok(kz_open(&alone, "static:3", NULL, &err));
    kz_close(alone);
    kz_close(c);
    kz_close(d);
    /* One that could not be opened leaves nothing behind. */
    assert_status(kz_open_shared(&a, "static:nonsense", NULL, &err), KZ_INVALID);
    assert_status(kz_open_shared(&a, "static:nonsense", NULL, &err), KZ_INVALID);
}

static void *open_and_mint(void *arg)
{
    kz_generator *gen;
    kz_id id;
    for (int i = 0; i < 200; i++) {
        if (kz_open_shared(&gen, "static:5", NULL, NULL) || kz_next(gen, &id))
            return arg;
        kz_close(gen);
    }
    return NULL;
}

static void threads_that_open_and_close_it_at_once_all_get_it(void **state)
{
    (void)state;
    pthread_t threads[8];
    void *fault;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_mint, threads), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &fault);
        assert_null(fault);
    }
}

static kz_status own_open(void **source, const char *from, const kz_source_options *options, kz_source_facts *facts,
                          kz_error *err)
{
    (void)from, (void)options, (void)err;
    *source = malloc(1);
    facts->layout = *kz_layout_preset(0);
    return KZ_OK;
}

static void own_close(void *source, bool forked)
{
    (void)forked;
    free(source);
}

static void a_source_of_the_programs_own_is_never_shared(void **state)
{
    (void)state;
    static const kz_source_ops ops = {.struct_size = sizeof ops, .scheme = "own", .open = own_open, .close = own_close};
    assert_ok(kz_source_register(&ops, NULL));
    kz_generator *a = share_open("own:", NULL), *b = share_open("own:", NULL);
    assert_ptr_not_equal(a, b);
    kz_close(a);
    kz_close(b);
}

static int wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_child_shares_nothing_with_its_parent(void **state)
{
    (void)state;
    kz_generator *ours = share_open("static:6", NULL);
    pid_t pid = fork();
    if (pid == 0) {
        kz_generator *own;
        kz_id id;
        kz_error err;
        bool good = kz_next(ours, &id) == KZ_FORKED && kz_open_shared(&own, "static:7", NULL, &err) == KZ_OK &&
                    kz_next(own, &id) == KZ_OK && own != ours;
        kz_close(own);
        kz_close(ours);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(wait_for(pid), 0);
    kz_id id;
    assert_ok(kz_next(ours, &id));
    kz_close(ours);
}

static bool count_line(void *ctx, const kz_lease_info *info)
{
    (void)info;
    ++*(unsigned *)ctx;
    return true;
}

static unsigned leases_out(const char *at)
{
    kz_source *source;
    kz_error err;
    unsigned count = 0;
    if (kz_source_open(&source, at, NULL, &err) || kz_source_list(source, count_line, &count, &err))
        fail_msg("%s", err.message);
    kz_source_close(source);
    return count;
}

static kz_generator *closed_late;

static void close_it_late(void)
{
    kz_id id;
    /* What it held was given back already. */
    if (kz_try_next(closed_late, &id) == KZ_OK)
        _exit(3);
    kz_close(closed_late);
}

/* Whatever a library of the source's registers with atexit ends after the leases are given back, and a handler that was
 * there before all of them may still close. */
static void ends_with_its_leases_given_back(const char *at)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        kz_error err;
        kz_id id;
        kz_options options;
        kz_options_init(&options);
        if (atexit(close_it_late) || kz_open_shared(&closed_late, at, &options, &err) || kz_next(closed_late, &id))
            _exit(1);
        if (kz_open_shared(&closed_late, at, &options, &err))
            _exit(2);
        exit(0);
    }
    assert_int_equal(wait_for(pid), 0);
    assert_int_equal(leases_out(at), 0);
}

static void the_end_of_the_process_gives_back_what_is_shared(void **state)
{
    (void)state;
    char at[128];
    snprintf(at, sizeof at, "sqlite:%s", table);
    ends_with_its_leases_given_back(at);
}

#ifdef KZ_HAVE_REDIS
static void over_tls_too(void **state)
{
    (void)state;
    redis_server server;
    redis_server_start_tls(&server);
    ends_with_its_leases_given_back(server.url);
    redis_server_stop(&server);
}
#endif

static unsigned threads_now(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static kz_options kept_by_hand(void)
{
    kz_options options;
    kz_options_init(&options);
    options.keeper = KZ_KEEPER_CALLER;
    options.fallback = KZ_FALLBACK_NEVER;
    return options;
}

/* IDs across three handovers, with the keeper's part done by this thread. */
static bool mint_through_handovers(kz_generator *gen)
{
    kz_stats stats;
    kz_stats_init(&stats);
    kz_id id, last = 0;
    int64_t wait_ms;
    kz_error err;
    do {
        kz_status status = kz_mint(gen, &id, 1, 0, &err);
        if (status == KZ_OK && id <= last)
            return false;
        if (status == KZ_OK)
            last = id;
        if (status && status != KZ_AGAIN)
            return false;
        if (kz_keep(gen, &wait_ms, &err) || wait_ms < 0 || wait_ms > 400)
            return false;
        usleep(1000);
    } while (kz_stats_get(gen, &stats) || stats.leases_acquired < 4);
    return true;
}

static void who_has_a_loop_keeps_the_leases_by_himself(void **state)
{
    (void)state;
    unsigned before = threads_now();
    kz_options options = kept_by_hand();
    kz_generator *gen;
    kz_error err;
    int64_t wait_ms;
    assert_ok(kz_open(&gen, url, &options, &err));
    assert_int_equal(threads_now(), before);
    assert_true(mint_through_handovers(gen));
    pid_t pid = fork();
    if (pid == 0)
        _exit(mint_through_handovers(gen) && threads_now() == 1 ? 0 : 1);
    assert_int_equal(wait_for(pid), 0);
    kz_close(gen);
    /* A fixed node has nothing to keep, and one with a thread keeps itself. */
    assert_ok(kz_open(&gen, "static:9", &options, &err));
    assert_ok(kz_keep(gen, &wait_ms, &err));
    assert_true(wait_ms == INT64_MAX);
    kz_close(gen);
    options.keeper = KZ_KEEPER_THREAD;
    assert_ok(kz_open(&gen, "static:9", &options, &err));
    assert_status(kz_keep(gen, &wait_ms, &err), KZ_UNSUPPORTED);
    kz_close(gen);
    options.keeper = 7;
    assert_status(kz_open(&gen, "static:9", &options, &err), KZ_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* These first: the order of what is done at the end begins with the first opening. */
        cmocka_unit_test(the_end_of_the_process_gives_back_what_is_shared),
#ifdef KZ_HAVE_REDIS
        cmocka_unit_test(over_tls_too),
#endif
        cmocka_unit_test(the_same_url_and_options_are_one_generator_until_the_last_closes_it),
        cmocka_unit_test(threads_that_open_and_close_it_at_once_all_get_it),
        cmocka_unit_test(a_source_of_the_programs_own_is_never_shared),
        cmocka_unit_test(a_child_shares_nothing_with_its_parent),
        cmocka_unit_test(who_has_a_loop_keeps_the_leases_by_himself),
    };
    return cmocka_run_group_tests_name("shared", tests, set_up, tear_down);
}
