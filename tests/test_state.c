/* state=: a high-water mark on disk, through crashes, clocks set back, damaged files and full disks. */
#include "random.h"
#include "test.h"

#include "state_file.h"
#include "virtual_clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define LAYOUT "41-4-8@2026-01-01"
enum { SLOT_BITS = 12, AHEAD_MS = 3000 };

static virtual_clock now;
static state_file file;

/* What a test has open, so that one that fails does not leave its file in use for the next. */
static kz_generator *opened[4];

static kz_options options_with(kz_backward backward)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = LAYOUT;
    options.backward = backward;
    options.use_clock = &now.clock;
    return options;
}

static kz_generator *open_with(const kz_options *options)
{
    size_t place = 0;
    while (opened[place])
        place++;
    kz_error err;
    if (kz_open(&opened[place], file.url, options, &err))
        fail_msg("%s", err.message);
    return opened[place];
}

static kz_generator *open_state(kz_backward backward)
{
    kz_options options = options_with(backward);
    return open_with(&options);
}

static void shut(kz_generator *gen)
{
    for (size_t i = 0; i < 4; i++)
        if (opened[i] == gen)
            opened[i] = NULL;
    kz_close(gen);
}

/* The process dies: what is on disk is what was there before the generator could give anything back. */
static void crash(kz_generator *gen)
{
    char bytes[STATE_SIZE];
    size_t length = state_file_read(&file, bytes);
    shut(gen);
    state_file_write(&file, bytes, length);
}

static int begin(void **state)
{
    (void)state;
    virtual_begin(&now, VIRTUAL_EPOCH_MS + 86400000);
    state_file_begin(&file, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        shut(opened[i]);
    state_file_end(&file);
    return 0;
}

static kz_id next_of(kz_generator *gen)
{
    kz_id id;
    kz_error err;
    if (kz_mint(gen, &id, 1, 10000, &err))
        fail_msg("%s", err.message);
    return id;
}

static kz_id mark_on_disk(void)
{
    kz_id mark = 0;
    assert_true(state_file_mark(&file, &mark) >= 0);
    return mark;
}

static int64_t id_now_ms(void)
{
    return now.wall_ns / VIRTUAL_MS - VIRTUAL_EPOCH_MS;
}

static int64_t real_unix_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void assert_refused(const char *url, const char *layout, kz_status expected, const char *part)
{
    kz_options options = options_with(KZ_BACKWARD_WAIT);
    options.layout = layout;
    kz_generator *gen = NULL;
    kz_error err;
    kz_status status = kz_open(&gen, url, &options, &err);
    if (status != expected)
        fail_msg("%s gave %s (%s), not %s", url, kz_status_name(status), status ? err.message : "",
                 kz_status_name(expected));
    assert_contains(err.message, part);
    assert_null(gen);
}

/* -------------------------------------------------------------------------------------------- starts and ends */

static void the_mark_stands_ahead_of_the_first_id(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    assert_int_equal(mark_on_disk(), (kz_id)(id_now_ms() + AHEAD_MS) << SLOT_BITS);
    assert_true(next_of(gen) < mark_on_disk());
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    assert_int_equal(stats.window_end_unix_ms, now.wall_ns / VIRTUAL_MS + AHEAD_MS);
    shut(gen);
}

static void a_clean_close_cuts_the_mark_and_the_next_start_does_not_wait(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_FAIL);
    kz_id last = 0;
    for (int i = 0; i < 10; i++)
        last = next_of(gen);
    shut(gen);
    assert_int_equal(mark_on_disk(), last + 1);
    gen = open_state(KZ_BACKWARD_FAIL);
    assert_int_equal(next_of(gen), last + 1);
    assert_int_equal(now.sleeps, 0);
    shut(gen);
}

static void opening_and_closing_without_an_id_moves_nothing(void **state)
{
    (void)state;
    shut(open_state(KZ_BACKWARD_WAIT));
    assert_int_equal(mark_on_disk(), 0);
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    kz_id last = next_of(gen);
    shut(gen);
    for (int i = 0; i < 5; i++)
        shut(open_state(KZ_BACKWARD_WAIT));
    assert_int_equal(mark_on_disk(), last + 1);
}

static void a_start_after_a_crash_waits_for_the_mark_and_no_longer(void **state)
{
    (void)state;
    const kz_backward policies[] = {KZ_BACKWARD_FAIL, KZ_BACKWARD_WAIT};
    for (int i = 0; i < 2; i++) {
        kz_generator *gen = open_state(policies[i]);
        next_of(gen);
        crash(gen);
        kz_id mark = mark_on_disk();
        int64_t slept_ns = now.slept_ns;
        gen = open_state(policies[i]);
        kz_id id = next_of(gen);
        assert_int_equal(id, mark | 1 << 8); /* the first of node 1 at the mark */
        assert_int_equal(now.slept_ns - slept_ns, AHEAD_MS * VIRTUAL_MS);
        shut(gen);
    }
}

static void logical_goes_on_at_once_after_a_crash(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        kz_generator *gen = open_state(KZ_BACKWARD_LOGICAL);
        kz_id last = next_of(gen);
        crash(gen);
        gen = open_state(KZ_BACKWARD_LOGICAL);
        assert_true(next_of(gen) > last);
        crash(gen);
    }
    assert_int_equal(now.sleeps, 0);
}

static void a_loop_of_crashes_does_not_push_the_mark_ahead(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_FAIL);
    kz_id last = next_of(gen);
    for (int i = 0; i < 10; i++) {
        crash(gen);
        virtual_advance(&now, 100 * VIRTUAL_MS);
        gen = open_state(KZ_BACKWARD_FAIL);
        assert_true((int64_t)(mark_on_disk() >> SLOT_BITS) <= id_now_ms() + AHEAD_MS);
    }
    assert_true(next_of(gen) > last);
    assert_true(now.slept_ns <= AHEAD_MS * VIRTUAL_MS);
    shut(gen);
}

static void restarted_an_hour_in_the_past_wait_says_by_how_much(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    kz_id last = next_of(gen);
    crash(gen);
    virtual_step_by(&now, -3600000);
    gen = open_state(KZ_BACKWARD_WAIT);
    kz_id id;
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, -1, &err), KZ_CLOCK_BACKWARD);
    assert_int_equal(err.backward_ms, 3600000 + AHEAD_MS - 1); /* to the last millisecond below the mark */
    assert_int_equal(err.limit_ms, 5000);
    /* The error has cost nothing: with the clock set right it goes on. */
    virtual_step_by(&now, 3600000);
    assert_true(next_of(gen) > last);
    shut(gen);
}

static void restarted_an_hour_in_the_past_logical_goes_on_above(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_LOGICAL);
    kz_id last = 0;
    for (int restart = 0; restart < 20; restart++) {
        for (int i = 0; i < 200; i++) {
            kz_id id = next_of(gen);
            assert_true(id > last);
            assert_true(id < mark_on_disk());
            last = id;
        }
        crash(gen);
        virtual_step_by(&now, -3600000 / 20);
        gen = open_state(KZ_BACKWARD_LOGICAL);
    }
    assert_int_equal(now.sleeps, 0);
    shut(gen);
}

static void after_a_clean_close_too_the_past_is_refused(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_FAIL);
    kz_id last = next_of(gen), id;
    shut(gen);
    virtual_step_by(&now, -3600000);
    gen = open_state(KZ_BACKWARD_FAIL);
    kz_error err;
    assert_status(kz_mint(gen, &id, 1, -1, &err), KZ_CLOCK_BACKWARD);
    assert_int_equal(err.backward_ms, 3600000);
    shut(gen);
    /* Closing it did not cut the mark to the past. */
    assert_int_equal(mark_on_disk(), last + 1);
}

static void a_mark_inside_a_millisecond_is_not_lowered_by_a_start_in_the_past(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    kz_id last = 0;
    for (int i = 0; i < 3; i++)
        last = next_of(gen);
    shut(gen);
    /* Two seconds more than the mark is ever ahead. */
    virtual_step_by(&now, -5000);
    crash(open_state(KZ_BACKWARD_WAIT));
    virtual_step_by(&now, 5000);
    gen = open_state(KZ_BACKWARD_WAIT);
    assert_true(next_of(gen) > last);
    shut(gen);
}

static void a_file_that_was_removed_or_emptied_while_in_use_is_refused(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    next_of(gen);
    assert_int_equal(unlink(file.path), 0);
    virtual_advance(&now, 4000 * VIRTUAL_MS);
    kz_error err = {0};
    kz_id id;
    kz_status status;
    for (int i = 0; i < 60000 && (status = kz_mint(gen, &id, 1, 0, &err)) == KZ_AGAIN; i++)
        usleep(1000);
    assert_status(status, KZ_STATE);
    assert_contains(err.message, "removed or replaced");
    shut(gen);
    /* And one without a byte is damaged, not new. */
    FILE *empty = fopen(file.path, "w");
    assert_non_null(empty);
    fclose(empty);
    kz_options options;
    kz_options_init(&options);
    options.layout = LAYOUT;
    assert_status(kz_open(&gen, file.url, &options, &err), KZ_STATE);
    assert_contains(err.message, "damaged");
    unlink(file.path);
}

static void the_mark_moves_with_the_clock_over_many_windows(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    kz_id last = 0;
    for (int i = 0; i < 60; i++) {
        kz_id id = next_of(gen);
        assert_true(id > last);
        assert_int_equal(id >> SLOT_BITS, id_now_ms());
        assert_true(id < mark_on_disk());
        assert_true((int64_t)(mark_on_disk() >> SLOT_BITS) <= id_now_ms() + AHEAD_MS);
        last = id;
        virtual_advance(&now, (i % 10 == 5 ? 3600000 : 700) * VIRTUAL_MS);
    }
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    assert_int_equal(stats.ids_leased, 60);
    assert_true(stats.leases <= 4);
    shut(gen);
}

/* Those who never sleep have the keeper called too: an hour has gone by, nothing that is held is left. */
static void try_next_has_the_window_renewed_without_waiting_for_the_plan(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    next_of(gen);
    virtual_advance(&now, 3600000 * VIRTUAL_MS);
    kz_id id;
    kz_status status = kz_try_next(gen, &id);
    assert_int_equal(status, KZ_AGAIN);
    for (int i = 0; status == KZ_AGAIN && i < 60000; i++) {
        usleep(1000);
        status = kz_try_next(gen, &id);
    }
    assert_int_equal(status, KZ_OK);
    assert_int_equal(id >> SLOT_BITS, id_now_ms());
    shut(gen);
}

/* In real time, with the keeper renewing ahead of need: neither do IDs leave the clock, nor does the mark run away, for
 * which the next start would have to wait. */
static void renewals_keep_the_mark_three_seconds_ahead_and_the_ids_at_the_clock(void **state)
{
    (void)state;
    kz_options options = options_with(KZ_BACKWARD_FAIL);
    options.use_clock = NULL;
    kz_generator *gen = open_with(&options);
    int64_t began_ms = real_unix_ms(), before_ms = began_ms, ahead_ms = 0;
    kz_id mark = mark_on_disk(), last = 0;
    for (int moved = 0; moved < 2; before_ms = real_unix_ms()) {
        assert_true(before_ms < began_ms + 60000);
        kz_id id = next_of(gen);
        int64_t id_ms = (int64_t)(id >> SLOT_BITS) + VIRTUAL_EPOCH_MS, after_ms = real_unix_ms();
        if (id <= last || id_ms < before_ms - 1 || id_ms > after_ms)
            fail_msg("after %" PRId64 " ms: an ID %" PRId64 " ms ahead of the clock", before_ms - began_ms,
                     id_ms - before_ms);
        last = id;
        moved += mark_on_disk() > mark;
        mark = mark_on_disk();
        /* The clock is looked at after the mark: looked at before, it might be older than the mark by any time. */
        int64_t this_ms = (int64_t)(mark >> SLOT_BITS) + VIRTUAL_EPOCH_MS - real_unix_ms();
        ahead_ms = this_ms > ahead_ms ? this_ms : ahead_ms;
        usleep(2000);
    }
    if (ahead_ms > AHEAD_MS)
        fail_msg("the mark was %" PRId64 " ms ahead of the clock", ahead_ms);
    shut(gen);
}

/* -------------------------------------------------------------------------------------------- kill -9 */

typedef struct shared {
    _Atomic kz_id first, last; /* that the child has got */
    _Atomic int fault;
} shared;

static void mint_until_killed(shared *s, kz_backward backward)
{
    kz_options options = options_with(backward);
    options.use_clock = NULL;
    kz_generator *gen;
    kz_id id, last = 0;
    if (kz_open(&gen, file.url, &options, NULL)) {
        atomic_store(&s->fault, 1);
        _exit(1);
    }
    for (;;) {
        kz_status status = kz_next(gen, &id);
        if (status == KZ_TIMEOUT) { /* as far ahead of the clock as is allowed */
            usleep(1000);
            continue;
        }
        if (status || id <= last)
            break;
        if (!last)
            atomic_store(&s->first, id);
        atomic_store(&s->last, id);
        last = id;
    }
    atomic_store(&s->fault, 2);
    _exit(1);
}

static shared *share(void)
{
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);
    return s;
}

/* Starts a child that mints, and kills it after it has given an ID and `us` more. */
static void kill_a_child(shared *s, kz_backward backward, useconds_t us)
{
    *s = (shared){0};
    pid_t pid = fork();
    if (pid == 0)
        mint_until_killed(s, backward);
    for (int i = 0; i < 60000 && !atomic_load(&s->last) && !atomic_load(&s->fault); i++)
        usleep(1000);
    usleep(us);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (atomic_load(&s->fault) || !atomic_load(&s->last))
        fail_msg("the child failed at its stage %d", atomic_load(&s->fault));
}

static void killed_at_any_time_the_mark_is_above_every_id(void **state)
{
    (void)state;
    shared *s = share();
    uint64_t random = 8;
    kz_id mark = 0;
    for (int i = 0; i < 50; i++) {
        kill_a_child(s, KZ_BACKWARD_LOGICAL, (useconds_t)(test_random(&random) % 15000));
        if (s->first < mark)
            fail_msg("round %d: %" PRIu64 " was given below the mark %" PRIu64, i, s->first, mark);
        mark = mark_on_disk();
        if (s->last >= mark)
            fail_msg("round %d: %" PRIu64 " was given, the mark is %" PRIu64, i, s->last, mark);
    }
    munmap(s, sizeof *s);
}

static void after_kill_9_a_start_resumes_above_within_three_seconds(void **state)
{
    (void)state;
    shared *s = share();
    kill_a_child(s, KZ_BACKWARD_FAIL, 20000);
    virtual_begin(&now, real_unix_ms());
    kz_generator *gen = open_state(KZ_BACKWARD_FAIL);
    assert_true(next_of(gen) > s->last);
    assert_true(now.slept_ns <= AHEAD_MS * VIRTUAL_MS);
    shut(gen);
    munmap(s, sizeof *s);
}

/* -------------------------------------------------------------------------------------------- locks */

static void a_second_process_is_refused_while_the_first_lives(void **state)
{
    (void)state;
    shared *s = share();
    pid_t pid = fork();
    if (pid == 0)
        mint_until_killed(s, KZ_BACKWARD_WAIT);
    for (int i = 0; i < 60000 && !atomic_load(&s->last); i++)
        usleep(1000);
    char who[32];
    snprintf(who, sizeof who, "process %ld", (long)pid);
    assert_refused(file.url, LAYOUT, KZ_IN_USE, who);
    assert_refused(file.url, LAYOUT, KZ_IN_USE, file.path);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    virtual_begin(&now, real_unix_ms());
    shut(open_state(KZ_BACKWARD_WAIT));
    munmap(s, sizeof *s);
}

/* Tries from another process. */
static kz_status status_elsewhere(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        kz_options options = options_with(KZ_BACKWARD_WAIT);
        kz_generator *gen;
        _exit((int)kz_open(&gen, file.url, &options, NULL));
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? (kz_status)WEXITSTATUS(status) : KZ_SYSTEM;
}

static void the_same_file_by_another_name_is_refused_and_stays_locked(void **state)
{
    (void)state;
    char soft[80], hard[80], around[120], url[160];
    snprintf(soft, sizeof soft, "%s/soft", file.folder);
    snprintf(hard, sizeof hard, "%s/hard", file.folder);
    snprintf(around, sizeof around, "%s/../%s/state", file.folder, strrchr(file.folder, '/') + 1);
    kz_generator *gen = open_state(KZ_BACKWARD_WAIT);
    assert_int_equal(symlink(file.path, soft), 0);
    assert_int_equal(link(file.path, hard), 0);
    const char *const names[] = {file.path, soft, hard, around};
    for (size_t i = 0; i < 4; i++) {
        snprintf(url, sizeof url, "static:2?state=%s", names[i]);
        assert_refused(url, LAYOUT, KZ_IN_USE, names[i]);
        assert_int_equal(status_elsewhere(), KZ_IN_USE);
    }
    next_of(gen);
    shut(gen);
    assert_int_equal(status_elsewhere(), KZ_OK);
    unlink(soft);
    unlink(hard);
}

/* -------------------------------------------------------------------------------------------- damage */

static void a_file_without_a_whole_record_is_refused_and_left_as_it_is(void **state)
{
    (void)state;
    shut(open_state(KZ_BACKWARD_WAIT));
    char good[STATE_SIZE], bytes[STATE_SIZE], after[STATE_SIZE];
    assert_int_equal(state_file_read(&file, good), STATE_SIZE);

    uint64_t random = 9;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)test_random(&random);
    const struct {
        const char *text;
        size_t length;
    } damaged[] = {{bytes, sizeof bytes}, {"x", 1}, {"\0\0\0\0", 4}, {good, 511}, {"kazahana-state 1 record", 23}};
    for (size_t i = 0; i < 5; i++) {
        state_file_write(&file, damaged[i].text, damaged[i].length);
        assert_refused(file.url, LAYOUT, KZ_STATE, "damaged");
        assert_int_equal(state_file_read(&file, after), damaged[i].length);
        assert_memory_equal(after, damaged[i].text, damaged[i].length);
    }
}

static void a_torn_record_falls_back_to_the_other(void **state)
{
    (void)state;
    /* Two records: 4,000 ms apart, and the newer one is spoiled in every byte that counts. */
    kz_generator *gen = open_state(KZ_BACKWARD_LOGICAL);
    next_of(gen);
    virtual_advance(&now, 4000 * VIRTUAL_MS);
    next_of(gen);
    char good[STATE_SIZE + 1] = "";
    assert_int_equal(state_file_read(&file, good), STATE_SIZE);
    kz_id newer_mark, older_mark;
    int newer = state_file_mark(&file, &newer_mark);
    uint64_t number;
    assert_true(state_record_mark(good + (1 - newer) * RECORD_SIZE, &number, &older_mark));
    assert_true(older_mark < newer_mark);
    shut(gen);

    const char *record = good + newer * RECORD_SIZE;
    size_t used = (size_t)(strstr(record, " sum ") - record) + strlen(" sum 01234567");
    for (size_t i = 0; i < used; i++) {
        char torn[STATE_SIZE];
        memcpy(torn, good, sizeof torn);
        torn[newer * RECORD_SIZE + (int)i] ^= 1;
        state_file_write(&file, torn, sizeof torn);
        gen = open_state(KZ_BACKWARD_LOGICAL);
        kz_stats stats;
        kz_stats_init(&stats);
        assert_ok(kz_stats_get(gen, &stats));
        if (stats.last + 1 != older_mark)
            fail_msg("byte %zu: resumes at %" PRIu64 ", not at %" PRIu64, i, stats.last + 1, older_mark);
        /* The record that stands is not the one that is overwritten. */
        char after[STATE_SIZE];
        assert_int_equal(state_file_read(&file, after), STATE_SIZE);
        assert_memory_equal(after + (1 - newer) * RECORD_SIZE, good + (1 - newer) * RECORD_SIZE, RECORD_SIZE);
        shut(gen);
    }
}

static void a_file_cut_short_still_has_its_first_record(void **state)
{
    (void)state;
    kz_generator *gen = open_state(KZ_BACKWARD_LOGICAL);
    kz_id last = next_of(gen);
    shut(gen);
    char good[STATE_SIZE];
    assert_int_equal(state_file_read(&file, good), STATE_SIZE);
    kz_id mark;
    assert_int_equal(state_file_mark(&file, &mark), 0); /* the second write went there */
    state_file_write(&file, good, RECORD_SIZE + 200);
    gen = open_state(KZ_BACKWARD_LOGICAL);
    assert_int_equal(next_of(gen), last + 1);
    shut(gen);
}

static void a_file_of_another_node_or_layout_is_refused(void **state)
{
    (void)state;
    shut(open_state(KZ_BACKWARD_WAIT));
    char url[128];
    snprintf(url, sizeof url, "static:2?state=%s", file.path);
    assert_refused(url, LAYOUT, KZ_STATE, "node 1 of layout 41-4-8@2026-01-01, not to node 2");
    assert_refused(file.url, "41-4-8@2026-01-02", KZ_STATE, "41-4-8@2026-01-02");
    assert_refused(file.url, "41-5-8@2026-01-01", KZ_STATE, "41-5-8@2026-01-01");
    assert_refused(file.url, "41-4-9@2026-01-01", KZ_STATE, "41-4-9@2026-01-01");
    shut(open_state(KZ_BACKWARD_WAIT)); /* none of them has hurt it */
}

/* -------------------------------------------------------------------------------------------- places */

static void a_place_that_cannot_hold_a_file_is_refused(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "static:1?state=%s/missing/state", file.folder);
    assert_refused(url, LAYOUT, KZ_STATE, "missing/state");
    snprintf(url, sizeof url, "static:1?state=%s", file.folder);
    assert_refused(url, LAYOUT, KZ_STATE, file.folder);
    assert_refused("static:1?state=/dev/null", LAYOUT, KZ_STATE, "/dev/null");
    assert_refused("static:1?state=/dev/full", LAYOUT, KZ_STATE, "/dev/full");
}

/* As somebody else, for the administrator may write everywhere. */
static kz_status status_as_nobody(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && seteuid(65534))
            _exit(99);
        _exit((int)status_elsewhere());
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? (kz_status)WEXITSTATUS(status) : KZ_SYSTEM;
}

static void a_file_or_folder_that_may_not_be_written_is_refused(void **state)
{
    (void)state;
    assert_int_equal(chmod(file.folder, 0555), 0);
    assert_int_equal(status_as_nobody(), KZ_STATE);
    assert_int_equal(chmod(file.folder, 0755), 0);
    shut(open_state(KZ_BACKWARD_WAIT));
    assert_int_equal(chmod(file.path, 0444), 0);
    assert_int_equal(status_as_nobody(), KZ_STATE);
}

static void a_new_file_is_private(void **state)
{
    (void)state;
    shut(open_state(KZ_BACKWARD_WAIT));
    struct stat info;
    assert_int_equal(stat(file.path, &info), 0);
    assert_int_equal(info.st_mode & 0077, 0);
}

/* -------------------------------------------------------------------------------------------- full disks */

/* No file of this process may grow past `bytes`, and none be written beyond: as good as a full disk. */
static void disk_ends_at(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    if (setrlimit(RLIMIT_FSIZE, &limit))
        _exit(98);
}

/* Runs in a child, whose limits are its own. Returns the line that failed, or 0. */
static int live_through_a_full_disk(void)
{
    kz_options options = options_with(KZ_BACKWARD_WAIT);
    kz_generator *gen;
    kz_id id, last;
    if (kz_open(&gen, file.url, &options, NULL) || kz_next(gen, &last))
        return __LINE__;
    disk_ends_at(0);
    kz_id mark = 0;
    state_file_mark(&file, &mark);
    /* Up to the mark it goes on ... */
    virtual_advance(&now, (AHEAD_MS - 1) * VIRTUAL_MS);
    if (kz_next(gen, &id) || id <= last || id >= mark)
        return __LINE__;
    last = id;
    /* ... and not a step further, however often it is asked. */
    virtual_advance(&now, VIRTUAL_MS);
    for (int i = 0; i < 20; i++) {
        kz_error err;
        if (kz_mint(gen, &id, 1, 10000, &err) != KZ_STATE || !strstr(err.message, file.path))
            return __LINE__;
        if (kz_try_next(gen, &id) != KZ_STATE)
            return __LINE__;
        virtual_advance(&now, 100 * VIRTUAL_MS);
    }
    disk_ends_at(RLIM_INFINITY);
    /* There is room again: the keeper finds out by itself, at its next try. */
    for (int i = 0; i < 1000; i++) {
        virtual_advance(&now, 300 * VIRTUAL_MS);
        kz_status status = kz_next(gen, &id);
        if (status == KZ_OK) {
            state_file_mark(&file, &mark);
            kz_close(gen);
            return id > last && id < mark ? 0 : __LINE__;
        }
        if (status != KZ_STATE)
            return __LINE__;
        usleep(50000);
    }
    return __LINE__;
}

static int open_on_a_full_disk(void)
{
    kz_options options = options_with(KZ_BACKWARD_WAIT);
    kz_generator *gen;
    kz_id id;
    const rlim_t ends[] = {0, 1, 511, 512, 513, 600, 1023};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        unlink(file.path);
        disk_ends_at(ends[i]);
        if (kz_open(&gen, file.url, &options, NULL) != KZ_STATE)
            return __LINE__;
        disk_ends_at(RLIM_INFINITY);
        /* Nothing was ever minted with this file, so it cannot be in the way. */
        kz_error err;
        if (kz_open(&gen, file.url, &options, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return __LINE__;
        }
        if (kz_next(gen, &id))
            return __LINE__;
        kz_close(gen);
    }
    return 0;
}

static void assert_in_a_child(int (*story)(void))
{
    int report[2];
    assert_int_equal(pipe(report), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int line = story();
        _exit(write(report[1], &line, sizeof line) != sizeof line);
    }
    close(report[1]);
    int line = -1;
    ssize_t length = read(report[0], &line, sizeof line);
    close(report[0]);
    waitpid(pid, NULL, 0);
    if (length != sizeof line || line)
        fail_msg("the child failed at line %d", line);
}

static void a_full_disk_stops_at_the_mark_and_goes_on_when_there_is_room(void **state)
{
    (void)state;
    assert_in_a_child(live_through_a_full_disk);
}

static void a_disk_that_is_full_from_the_start_leaves_no_damaged_file(void **state)
{
    (void)state;
    assert_in_a_child(open_on_a_full_disk);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_mark_stands_ahead_of_the_first_id),
        TEST(a_clean_close_cuts_the_mark_and_the_next_start_does_not_wait),
        TEST(opening_and_closing_without_an_id_moves_nothing),
        TEST(a_start_after_a_crash_waits_for_the_mark_and_no_longer),
        TEST(logical_goes_on_at_once_after_a_crash),
        TEST(a_loop_of_crashes_does_not_push_the_mark_ahead),
        TEST(restarted_an_hour_in_the_past_wait_says_by_how_much),
        TEST(restarted_an_hour_in_the_past_logical_goes_on_above),
        TEST(after_a_clean_close_too_the_past_is_refused),
        TEST(a_mark_inside_a_millisecond_is_not_lowered_by_a_start_in_the_past),
        TEST(a_file_that_was_removed_or_emptied_while_in_use_is_refused),
        TEST(the_mark_moves_with_the_clock_over_many_windows),
        TEST(try_next_has_the_window_renewed_without_waiting_for_the_plan),
        TEST(renewals_keep_the_mark_three_seconds_ahead_and_the_ids_at_the_clock),
        TEST(killed_at_any_time_the_mark_is_above_every_id),
        TEST(after_kill_9_a_start_resumes_above_within_three_seconds),
        TEST(a_second_process_is_refused_while_the_first_lives),
        TEST(the_same_file_by_another_name_is_refused_and_stays_locked),
        TEST(a_file_without_a_whole_record_is_refused_and_left_as_it_is),
        TEST(a_torn_record_falls_back_to_the_other),
        TEST(a_file_cut_short_still_has_its_first_record),
        TEST(a_file_of_another_node_or_layout_is_refused),
        TEST(a_place_that_cannot_hold_a_file_is_refused),
        TEST(a_file_or_folder_that_may_not_be_written_is_refused),
        TEST(a_new_file_is_private),
        TEST(a_full_disk_stops_at_the_mark_and_goes_on_when_there_is_room),
        TEST(a_disk_that_is_full_from_the_start_leaves_no_damaged_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
