/* Several processes, one number: a second process on this host that has the same fixed node says so. */
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* An epoch of this run's own, so that no other process of the machine has these numbers. */
static char layout[48], other_layout[48];
static unsigned lines;
static char last_line[KZ_MESSAGE_SIZE];

static int set_up(void **state)
{
    (void)state;
    unsetenv("KAZAHANA_LOCK");
    snprintf(layout, sizeof layout, "41-10-12@%lld", 1700000000000ll + getpid());
    snprintf(other_layout, sizeof other_layout, "41-10-12@%lld", 1600000000000ll + getpid());
    return 0;
}

static void note_line(void *ctx, kz_log_level level, const char *message)
{
    (void)ctx;
    lines += level == KZ_LOG_ERROR;
    snprintf(last_line, sizeof last_line, "%s", message);
}

static kz_status open_node(kz_generator **gen, const char *url, const char *in, const char *service, kz_error *err)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = in;
    options.log = note_line;
    if (service)
        options.service = service;
    lines = 0;
    return kz_open(gen, url, &options, err);
}

/* Opens and closes it. */
static bool is_contended(const char *url, const char *in, const char *service)
{
    kz_generator *gen;
    kz_error err;
    kz_stats stats;
    kz_id id;
    kz_stats_init(&stats);
    if (open_node(&gen, url, in, service, &err))
        fail_msg("%s", err.message);
    assert_ok(kz_next(gen, &id)); /* it goes on all the same */
    assert_ok(kz_stats_get(gen, &stats));
    assert_int_equal(lines, stats.contended); /* once */
    kz_close(gen);
    return stats.contended;
}

/* Another process, which has nothing open: it answers by its exit status. */
static int in_another_process(int (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int others_look(void)
{
    kz_generator *gen;
    kz_error err;
    char parent[24];
    snprintf(parent, sizeof parent, "pid %ld)", (long)getppid());
    if (!is_contended("static:11", layout, NULL) || !strstr(last_line, parent) || !strstr(last_line, "node 11"))
        return 1;
    if (is_contended("static:11?lock=no", layout, NULL) || is_contended("static:12", layout, NULL))
        return 2;
    if (is_contended("static:11", other_layout, NULL) || is_contended("static:11", layout, "payments"))
        return 3;
    if (open_node(&gen, "static:11?lock=refuse", layout, NULL, &err) != KZ_IN_USE || !strstr(err.message, parent))
        return 4;
    setenv("KZ_TEST_NODE", "11", 1);
    if (!is_contended("env:KZ_TEST_NODE", layout, NULL) || is_contended("env:KZ_TEST_NODE?lock=no", layout, NULL))
        return 5;
    if (open_node(&gen, "static:11?lock=nonsense", layout, NULL, &err) != KZ_INVALID)
        return 6;
    setenv("KAZAHANA_LOCK", "refuse", 1);
    if (open_node(&gen, "static:11", layout, NULL, &err) != KZ_IN_USE)
        return 7;
    return 0;
}

static int nobody_has_it(void)
{
    return is_contended("static:11", layout, NULL);
}

static void a_second_process_with_the_same_number_says_so(void **state)
{
    (void)state;
    kz_generator *gen;
    kz_error err;
    assert_ok(open_node(&gen, "static:11", layout, NULL, &err));
    assert_int_equal(lines, 0);
    assert_int_equal(in_another_process(others_look), 0);
    assert_int_equal(in_another_process(others_look), 0);
    kz_close(gen);
    assert_int_equal(in_another_process(nobody_has_it), 0);
    assert_false(is_contended("static:11", layout, NULL));
}

/* A child of the holder's inherits every descriptor, and must not hold the number with it. */
static void a_child_does_not_keep_its_parents_number(void **state)
{
    (void)state;
    kz_generator *gen;
    kz_error err;
    int gate[2], runs[2];
    char byte = 0;
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(runs), 0);
    assert_ok(open_node(&gen, "static:11", layout, NULL, &err));
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        close(gate[1]);
        _exit(write(runs[1], &byte, 1) == 1 && read(gate[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(runs[0], &byte, 1), 1); /* it has lived long enough to let go */
    close(runs[0]);
    close(runs[1]);
    kz_close(gen);
    assert_int_equal(in_another_process(nobody_has_it), 0);
    close(gate[1]);
    close(gate[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_process_with_the_same_number_says_so),
        cmocka_unit_test(a_child_does_not_keep_its_parents_number),
    };
    return cmocka_run_group_tests_name("host lock", tests, set_up, NULL);
}
