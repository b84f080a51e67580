/* fork: a child holds nothing of its parent's, and many processes mint side by side. */
#include "test.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYOUT "41-4-18@2026-01-01"

/* A child tells by its exit status which of its checks failed first. */
#define CHILD_EXPECT(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                                             \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static kz_status open_node(kz_generator **gen, const char *url, const char *layout)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = layout;
    options.backward = KZ_BACKWARD_LOGICAL;
    kz_error err;
    kz_status status = kz_open(gen, url, &options, &err);
    if (status)
        fprintf(stderr, "%s: %s\n", url, err.message);
    return status;
}

/* A child that hangs is a failure, not a wait without end. */
static void assert_child_ends_well(pid_t pid)
{
    int status;
    for (unsigned i = 0; i < 100 * 200; i++) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        assert_true(ended >= 0);
        if (ended == pid) {
            if (!WIFEXITED(status) || WEXITSTATUS(status))
                fail_msg("the child ended with status %#x", (unsigned)status);
            return;
        }
        usleep(5000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    fail_msg("the child hangs");
}

static void expect_forked(kz_generator *gen)
{
    kz_id ids[3] = {7, 7, 7};
    kz_error err;
    kz_stats stats;
    kz_stats_init(&stats);
    CHILD_EXPECT(kz_next(gen, ids) == KZ_FORKED);
    CHILD_EXPECT(kz_try_next(gen, ids) == KZ_FORKED);
    CHILD_EXPECT(kz_next_batch(gen, ids, 3) == KZ_FORKED);
    CHILD_EXPECT(kz_mint(gen, ids, 3, -1, &err) == KZ_FORKED);
    CHILD_EXPECT(err.status == KZ_FORKED && strstr(err.message, "parent"));
    CHILD_EXPECT(kz_stats_get(gen, &stats) == KZ_FORKED);
    CHILD_EXPECT(kz_next(gen, ids) == KZ_FORKED);
    CHILD_EXPECT(ids[0] == 7 && ids[1] == 7 && ids[2] == 7);
}

static void a_child_cannot_use_its_parents_generator(void **state)
{
    (void)state;
    kz_generator *gen;
    assert_ok(open_node(&gen, "static:1", LAYOUT));
    kz_id before, after;
    assert_ok(kz_next(gen, &before));
    pid_t pid = fork();
    if (pid == 0) {
        expect_forked(gen);
        kz_close(gen);
        _exit(0);
    }
    assert_child_ends_well(pid);
    assert_ok(kz_next(gen, &after));
    assert_true(after > before);
    kz_close(gen);
}

static void even_one_that_was_never_used_or_is_standalone(void **state)
{
    (void)state;
    const char *const urls[] = {"static:1", "standalone:"};
    for (size_t i = 0; i < 2; i++) {
        kz_generator *gen;
        assert_ok(open_node(&gen, urls[i], LAYOUT));
        pid_t pid = fork();
        if (pid == 0) {
            expect_forked(gen);
            kz_close(gen);
            _exit(0);
        }
        assert_child_ends_well(pid);
        kz_id id;
        assert_ok(kz_next(gen, &id));
        kz_close(gen);
    }
}

/* A child is another process: it may have the same number as its parent has, and nothing can tell. With a number of its
 * own it is safe. */
static void a_child_opens_a_generator_of_its_own(void **state)
{
    (void)state;
    kz_generator *gen;
    assert_ok(open_node(&gen, "static:1", LAYOUT));
    kz_id id;
    assert_ok(kz_next(gen, &id));
    pid_t pid = fork();
    if (pid == 0) {
        kz_generator *own, *third;
        CHILD_EXPECT(open_node(&own, "static:2", LAYOUT) == KZ_OK);
        kz_close(gen); /* the parent's: must not disturb our own */
        kz_id mine;
        CHILD_EXPECT(kz_next(own, &mine) == KZ_OK && (mine >> 18 & 15) == 2);
        kz_options options;
        kz_options_init(&options);
        options.layout = LAYOUT;
        CHILD_EXPECT(kz_open(&third, "static:2", &options, NULL) == KZ_IN_USE);
        kz_close(own);
        CHILD_EXPECT(open_node(&third, "static:2", LAYOUT) == KZ_OK);
        kz_close(third);
        _exit(0);
    }
    assert_child_ends_well(pid);
    assert_ok(kz_next(gen, &id));
    kz_close(gen);
}

static void grandchildren_are_refused_too_and_have_their_own(void **state)
{
    (void)state;
    kz_generator *gen;
    assert_ok(open_node(&gen, "static:1", LAYOUT));
    pid_t pid = fork();
    if (pid == 0) {
        kz_generator *own;
        CHILD_EXPECT(open_node(&own, "static:2", LAYOUT) == KZ_OK);
        kz_id id, later;
        CHILD_EXPECT(kz_next(own, &id) == KZ_OK);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            expect_forked(gen);
            expect_forked(own);
            kz_generator *third;
            CHILD_EXPECT(open_node(&third, "static:3", LAYOUT) == KZ_OK);
            CHILD_EXPECT(kz_next(third, &id) == KZ_OK);
            kz_close(own);
            kz_close(gen);
            kz_close(third);
            _exit(0);
        }
        int status;
        CHILD_EXPECT(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        CHILD_EXPECT(kz_next(own, &later) == KZ_OK && later > id);
        kz_close(own);
        kz_close(gen);
        _exit(0);
    }
    assert_child_ends_well(pid);
    kz_close(gen);
}

static void a_child_frees_its_copy_whole(void **state)
{
    (void)state;
    /* Nothing to see but under a leak checker, which looks when a process ends by exit. */
    kz_generator *gen;
    assert_ok(open_node(&gen, "static:1", LAYOUT));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        kz_close(gen);
        gen = NULL;
        exit(0);
    }
    assert_child_ends_well(pid);
    kz_close(gen);
}

static _Atomic bool stop_minting;

static void *mint_until_stopped(void *arg)
{
    kz_id id, last = 0;
    while (!atomic_load(&stop_minting)) {
        if (kz_next(arg, &id) || id <= last)
            return arg;
        last = id;
    }
    return NULL;
}

/* Forks while others are in the middle of a call, with whatever locks they hold. */
static void a_fork_in_the_middle_of_minting_leaves_no_child_hanging(void **state)
{
    (void)state;
    /* Few slots, so that the threads are under the lock most of the time. */
    kz_generator *gen;
    assert_ok(open_node(&gen, "static:1", "41-14-2@2026-01-01"));
    pthread_t threads[4];
    atomic_store(&stop_minting, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mint_until_stopped, gen), 0);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            expect_forked(gen);
            kz_close(gen);
            kz_generator *own;
            CHILD_EXPECT(open_node(&own, "static:2", "41-14-2@2026-01-01") == KZ_OK);
            kz_id id;
            CHILD_EXPECT(kz_next(own, &id) == KZ_OK);
            kz_close(own);
            _exit(0);
        }
        assert_child_ends_well(pid);
    }
    atomic_store(&stop_minting, true);
    for (int i = 0; i < 4; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        assert_null(fault);
    }
    kz_close(gen);
}

static void a_fork_with_a_keeper_at_work_leaves_the_state_file_alone(void **state)
{
    (void)state;
    char folder[] = "/tmp/kz-fork-XXXXXX", path[64], url[96];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    snprintf(url, sizeof url, "static:1?state=%s", path);
    kz_generator *gen;
    assert_ok(open_node(&gen, url, LAYOUT));
    kz_id before, after;
    assert_ok(kz_next(gen, &before));
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            expect_forked(gen);
            kz_close(gen); /* closes the child's descriptor; the lock is the parent's */
            kz_generator *own;
            kz_options options;
            kz_options_init(&options);
            options.layout = LAYOUT;
            kz_error err;
            CHILD_EXPECT(kz_open(&own, url, &options, &err) == KZ_IN_USE);
            char parent[32];
            snprintf(parent, sizeof parent, "process %ld", (long)getppid());
            CHILD_EXPECT(strstr(err.message, parent));
            _exit(0);
        }
        assert_child_ends_well(pid);
    }
    assert_ok(kz_next(gen, &after));
    assert_true(after > before);
    kz_close(gen);
    unlink(path);
    rmdir(folder);
}

/* The parent is gone, its child takes the file over, and only then closes what it had inherited. */
static void closing_an_inherited_generator_does_not_unlock_ones_own_state_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/kz-fork-XXXXXX", path[64], url[96];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    snprintf(url, sizeof url, "static:1?state=%s", path);
    int report[2];
    assert_int_equal(pipe(report), 0);
    pid_t pid = fork();
    if (pid == 0) {
        kz_generator *inherited;
        CHILD_EXPECT(open_node(&inherited, url, LAYOUT) == KZ_OK);
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent)
                usleep(1000);
            /* The parent's threads may take a moment longer to let go of its lock. */
            kz_generator *own;
            kz_status opened = KZ_IN_USE;
            for (int i = 0; i < 60000 && opened == KZ_IN_USE; i++, usleep(1000))
                opened = open_node(&own, url, LAYOUT);
            CHILD_EXPECT(opened == KZ_OK);
            kz_close(inherited);
            char told[64];
            snprintf(told, sizeof told, "%ld", (long)getpid());
            CHILD_EXPECT(write(report[1], told, sizeof told) == sizeof told);
            pause();
        }
        _exit(0);
    }
    assert_child_ends_well(pid);
    close(report[1]);
    char told[64] = "";
    assert_int_equal(read(report[0], told, sizeof told), sizeof told);
    close(report[0]);
    kz_generator *third;
    kz_options options;
    kz_options_init(&options);
    options.layout = LAYOUT;
    kz_status status = kz_open(&third, url, &options, NULL);
    kill((pid_t)atol(told), SIGKILL);
    if (status == KZ_OK)
        kz_close(third);
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, KZ_IN_USE);
}

enum { CHILDREN = 8, EACH = 250000 };

static void two_million_ids_by_forked_children_have_no_twin(void **state)
{
    (void)state;
    size_t size = (size_t)CHILDREN * EACH * sizeof(kz_id);
    kz_id(*ids)[EACH] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(ids, MAP_FAILED);
    kz_generator *parents;
    assert_ok(open_node(&parents, "static:15", LAYOUT));
    pid_t pids[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        char url[16];
        snprintf(url, sizeof url, "static:%d", i);
        kz_generator *own;
        CHILD_EXPECT(open_node(&own, url, LAYOUT) == KZ_OK);
        for (size_t done = 0; done < EACH; done++)
            CHILD_EXPECT(kz_next(own, &ids[i][done]) == KZ_OK);
        kz_close(own);
        _exit(0);
    }
    for (int i = 0; i < CHILDREN; i++)
        assert_child_ends_well(pids[i]);
    kz_close(parents);
    size_t at[CHILDREN] = {0};
    kz_id last = 0;
    for (size_t left = (size_t)CHILDREN * EACH; left; left--) {
        int lowest = -1;
        for (int i = 0; i < CHILDREN; i++)
            if (at[i] < EACH && (lowest < 0 || ids[i][at[i]] < ids[lowest][at[lowest]]))
                lowest = i;
        kz_id id = ids[lowest][at[lowest]];
        if (at[lowest] && id <= ids[lowest][at[lowest] - 1])
            fail_msg("child %d: %" PRIu64 " is not larger than the one before", lowest, id);
        if (id == last)
            fail_msg("%" PRIu64 " was given twice", id);
        last = id;
        at[lowest]++;
    }
    munmap(ids, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_cannot_use_its_parents_generator),
        cmocka_unit_test(even_one_that_was_never_used_or_is_standalone),
        cmocka_unit_test(a_child_opens_a_generator_of_its_own),
        cmocka_unit_test(grandchildren_are_refused_too_and_have_their_own),
        cmocka_unit_test(a_child_frees_its_copy_whole),
        cmocka_unit_test(a_fork_in_the_middle_of_minting_leaves_no_child_hanging),
        cmocka_unit_test(a_fork_with_a_keeper_at_work_leaves_the_state_file_alone),
        cmocka_unit_test(closing_an_inherited_generator_does_not_unlock_ones_own_state_file),
        cmocka_unit_test(two_million_ids_by_forked_children_have_no_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
