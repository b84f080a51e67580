/* Forks in the middle of everything: parents whose keepers are busy all the time fork many children, and each child has
 * an ID of its own or an error within its timeout. None hangs, none keeps the table locked.
 *
 *     test_forks [PARENTS [CHILDREN]] */
#include "test.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 4, PATIENCE_S = 120 };

static unsigned parents = 6, children = 20;

/* What the processes tell, in memory that all of them see. */
typedef struct tally {
    _Atomic size_t got, refused, wrong;
    kz_id ids[];
} tally;

static tally *told;
static char folder[] = "/tmp/kz-forks-XXXXXX";

static void tell(kz_id id)
{
    told->ids[atomic_fetch_add(&told->got, 1)] = id;
}

/* A child that hangs is ended by the alarm, and its parent sees that. */
static void be_child(kz_generator *gen)
{
    alarm(PATIENCE_S);
    kz_id id, next;
    kz_error err;
    kz_status status = kz_mint(gen, &id, 1, 20000, &err);
    if (status == KZ_OK) {
        tell(id);
        if (kz_mint(gen, &next, 1, 20000, &err) == KZ_OK) {
            if (next <= id)
                atomic_fetch_add(&told->wrong, 1);
            tell(next);
        }
    } else {
        fprintf(stderr, "child: %s\n", err.message);
        atomic_fetch_add(&told->refused, 1);
    }
    _exit(0);
}

static int be_parent(const char *url)
{
    kz_generator *gen;
    kz_error err;
    kz_id id;
    if (kz_open(&gen, url, NULL, &err)) {
        fprintf(stderr, "parent: %s\n", err.message);
        return 1;
    }
    int hung = 0;
    for (unsigned i = 0; i < children; i++) {
        if (kz_next(gen, &id) == KZ_OK)
            tell(id);
        pid_t pid = fork();
        if (pid == 0)
            be_child(gen);
        /* Some at once, for they are in each other's way then; each fork at another moment of the keeper's work. */
        usleep(137 * (i % 17));
        int status;
        while (i % 5 == 4 && (pid = wait(&status)) > 0)
            hung += !WIFEXITED(status) || WEXITSTATUS(status);
    }
    for (int status; wait(&status) > 0;)
        hung += !WIFEXITED(status) || WEXITSTATUS(status);
    kz_close(gen);
    return hung ? 2 : 0;
}

static int by_value(const void *a, const void *b)
{
    kz_id x = *(const kz_id *)a, y = *(const kz_id *)b;
    return (x > y) - (x < y);
}

static void every_child_has_an_id_or_an_error_in_time(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "sqlite:%s/leases.db?lease=100ms", folder);
    size_t room = sizeof *told + (size_t)parents * children * 3 * sizeof(kz_id);
    told = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    unsigned running = 0, faults = 0;
    for (unsigned i = 0; i < parents || running;) {
        if (i < parents && running < AT_ONCE) {
            pid_t pid = fork();
            assert_true(pid >= 0);
            if (pid == 0)
                _exit(be_parent(url));
            running++;
            i++;
            continue;
        }
        int status;
        assert_true(wait(&status) > 0);
        running--;
        faults += status != 0;
    }
    assert_int_equal(faults, 0);
    assert_int_equal(told->wrong, 0);
    size_t got = told->got;
    printf("%u parents, %u children: %zu IDs, %zu refused\n", parents, parents * children, got, (size_t)told->refused);
    assert_true(got > (size_t)parents * children);
    qsort(told->ids, got, sizeof told->ids[0], by_value);
    for (size_t i = 1; i < got; i++)
        if (told->ids[i] == told->ids[i - 1])
            fail_msg("%" PRIu64 " was given twice", told->ids[i]);
    /* Nobody has left the table locked. */
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, url, NULL, &err))
        fail_msg("%s", err.message);
    kz_close(gen);
    munmap(told, room);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        parents = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        children = (unsigned)strtoul(argv[2], NULL, 10);
    char command[64];
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_child_has_an_id_or_an_error_in_time)};
    int result = cmocka_run_group_tests_name("forks", tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) ? 1 : result;
}
