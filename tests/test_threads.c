/* Many threads on one generator, with the machine's clock: no twin, each increasing, and in order across threads. */
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, ALL = 2000000 };

#define FAST "41-2-20@2026-01-01"

/* Assertions of the test framework may only fail on the main thread: workers leave a message here. */
typedef struct crowd {
    kz_generator *gen;
    _Atomic kz_id highest; /* of all IDs that any thread has got back */
    _Atomic int started;
    pthread_barrier_t gate;
    bool mixed;
} crowd;

typedef struct worker {
    pthread_t thread;
    crowd *crowd;
    unsigned number;
    size_t want, got;
    kz_id *ids;
    char fault[160];
} worker;

/* `id` was asked for after `before` had been given to somebody. */
static bool in_order(worker *w, kz_id before, kz_id id)
{
    if (id > before)
        return true;
    snprintf(w->fault, sizeof w->fault, "thread %u: %" PRIu64 " was given after %" PRIu64, w->number, id, before);
    return false;
}

static void raise_highest(crowd *c, kz_id id)
{
    kz_id seen = atomic_load_explicit(&c->highest, memory_order_relaxed);
    while (seen < id &&
           !atomic_compare_exchange_weak_explicit(&c->highest, &seen, id, memory_order_acq_rel, memory_order_relaxed))
        ;
}

/* Some IDs by one of the three calls. Returns how many, 0 for a fault. */
static size_t take(worker *w, kz_id *ids, size_t room, uint64_t *random)
{
    unsigned choice = w->crowd->mixed ? (unsigned)(test_random(random) % 8) : 0;
    size_t count = choice == 7 ? 1 + test_random(random) % (room < 300 ? room : 300) : 1;
    kz_status status;
    do {
        if (choice == 7)
            status = kz_next_batch(w->crowd->gen, ids, count);
        else if (choice >= 4)
            status = kz_try_next(w->crowd->gen, ids);
        else
            status = kz_next(w->crowd->gen, ids);
        if (status == KZ_AGAIN)
            choice = 0;
    } while (status == KZ_AGAIN);
    if (status == KZ_OK)
        return count;
    snprintf(w->fault, sizeof w->fault, "thread %u: %s", w->number, kz_status_name(status));
    return 0;
}

static void mint(worker *w)
{
    uint64_t random = w->number;
    while (w->got < w->want && !*w->fault) {
        kz_id before = atomic_load_explicit(&w->crowd->highest, memory_order_acquire);
        kz_id *ids = w->ids + w->got;
        size_t count = take(w, ids, w->want - w->got, &random);
        if (!count)
            return;
        for (size_t i = 0; i < count; i++) {
            if (!in_order(w, before, ids[i]))
                return;
            before = ids[i];
        }
        w->got += count;
        raise_highest(w->crowd, ids[count - 1]);
    }
}

static void *work(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(&w->crowd->gate);
    mint(w);
    return NULL;
}

/* The sequences are increasing (checked by their threads); merged, no two neighbours may be equal. All are node 1's.
 * Returns how many milliseconds they are of. */
static size_t assert_no_twins(const worker *workers, size_t count, const char *layout_text)
{
    kz_layout layout;
    kz_parts parts;
    assert_ok(kz_layout_parse(layout_text, &layout, NULL));
    size_t at[64] = {0}, left = 0, milliseconds = 0;
    kz_id last = 0;
    int64_t last_ms = 0;
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        if (*workers[i].fault)
            fail_msg("%s", workers[i].fault);
        assert_int_equal(workers[i].got, workers[i].want);
        left += workers[i].got;
    }
    for (; left; left--) {
        size_t lowest = count;
        for (size_t i = 0; i < count; i++)
            if (at[i] < workers[i].got && (lowest == count || workers[i].ids[at[i]] < workers[lowest].ids[at[lowest]]))
                lowest = i;
        kz_id id = workers[lowest].ids[at[lowest]++];
        if (id == last)
            fail_msg("%" PRIu64 " was given twice", id);
        if (kz_decode(&layout, id, &parts, NULL) || parts.node != 1)
            fail_msg("%" PRIu64 " is not of node 1", id);
        milliseconds += parts.unix_ms != last_ms;
        last_ms = parts.unix_ms;
        last = id;
    }
    return milliseconds;
}

static kz_generator *open_real(const char *url, const char *layout, kz_clock_kind clock)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = layout;
    options.clock = clock;
    options.backward = KZ_BACKWARD_LOGICAL; /* whatever the machine's clock does meanwhile */
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, url, &options, &err))
        fail_msg("%s", err.message);
    return gen;
}

static void prepare(crowd *c, worker *workers, size_t count, size_t all)
{
    for (size_t i = 0; i < count; i++) {
        workers[i] = (worker){.crowd = c, .number = (unsigned)i + 1, .want = all / count};
        workers[i].ids = malloc(workers[i].want * sizeof(kz_id));
        assert_non_null(workers[i].ids);
    }
}

static void discard(worker *workers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(workers[i].ids);
}

static void run_crowd(const char *url, const char *layout, kz_clock_kind clock, bool mixed, size_t all)
{
    crowd c = {.gen = open_real(url, layout, clock), .mixed = mixed};
    worker workers[THREADS];
    prepare(&c, workers, THREADS, all);
    pthread_barrier_init(&c.gate, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&c.gate);
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(c.gen, &stats));
    kz_close(c.gen);
    size_t milliseconds = assert_no_twins(workers, THREADS, layout);
    discard(workers, THREADS);
    /* A claim that came too late for its run is counted, though it gave no ID: never too few, and about one of each
     * thread for a millisecond at the most. */
    assert_in_range(stats.ids_leased, all, all + all / 100 + 1000 + THREADS * milliseconds);
    assert_true(stats.last >= c.highest);
}

static void two_million_ids_by_eight_threads_have_no_twin_and_are_in_order(void **state)
{
    (void)state;
    run_crowd("static:1", FAST, KZ_CLOCK_PRECISE, false, ALL);
}

static void the_coarse_clock_keeps_order_too(void **state)
{
    (void)state;
    run_crowd("static:1", FAST, KZ_CLOCK_COARSE, false, ALL / 4);
    run_crowd("static:1", "snowflake", KZ_CLOCK_COARSE, true, ALL / 4);
}

static void snowflake_with_every_kind_of_call(void **state)
{
    (void)state;
    run_crowd("static:1", "snowflake", KZ_CLOCK_PRECISE, true, ALL / 4);
}

static void threads_that_use_up_every_millisecond(void **state)
{
    (void)state;
    run_crowd("static:1", "41-14-8@2026-01-01", KZ_CLOCK_PRECISE, false, ALL / 10);
    run_crowd("static:1", "41-14-8@2026-01-01", KZ_CLOCK_COARSE, true, ALL / 10);
    run_crowd("static:1", "41-14-1@2026-01-02", KZ_CLOCK_PRECISE, true, 2000);
}

/* The first thread hands out points it claimed for itself; then the others come. Many times, for the moment is short.
 */
static void the_first_thread_hands_over_to_those_that_join(void **state)
{
    (void)state;
    enum { ROUNDS = 300, EACH = 300 };
    for (int round = 0; round < ROUNDS; round++) {
        crowd c = {.gen = open_real("static:1", FAST, KZ_CLOCK_PRECISE)};
        worker workers[4];
        prepare(&c, workers, 4, 4 * EACH);
        pthread_barrier_init(&c.gate, NULL, 3);
        /* The main thread mints alone, long enough for the tick counter to be in use ... */
        worker *first = &workers[0];
        first->want = EACH / 3;
        usleep(round % 8 == 0 ? 2500 : 0);
        mint(first);
        for (size_t i = 1; i < 4; i++)
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        /* ... and goes on while they come. */
        first->want = EACH;
        mint(first);
        for (size_t i = 1; i < 4; i++)
            pthread_join(workers[i].thread, NULL);
        pthread_barrier_destroy(&c.gate);
        kz_close(c.gen);
        assert_no_twins(workers, 4, FAST);
        discard(workers, 4);
    }
}

/* Takes turns, one after another: what a thread gets is above all that were given before, whoever got them. */
static void *take_a_few(void *arg)
{
    worker *w = arg;
    mint(w);
    return NULL;
}

static void threads_that_come_and_go_one_after_another_stay_in_order(void **state)
{
    (void)state;
    enum { LIVES = 60, EACH = 150 };
    crowd c = {.gen = open_real("static:1", FAST, KZ_CLOCK_PRECISE)};
    worker workers[LIVES];
    prepare(&c, workers, LIVES, LIVES * EACH);
    for (size_t i = 0; i < LIVES; i++) {
        if (i % 7 == 3) { /* the main thread takes a turn */
            mint(&workers[i]);
            continue;
        }
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_a_few, &workers[i]), 0);
        pthread_join(workers[i].thread, NULL);
    }
    kz_close(c.gen);
    assert_no_twins(workers, LIVES, FAST);
    discard(workers, LIVES);
}

static _Atomic bool stop_polling;

static void *poll_stats(void *arg)
{
    kz_id last = 0;
    while (!atomic_load(&stop_polling)) {
        kz_stats stats;
        kz_stats_init(&stats);
        if (kz_stats_get(arg, &stats) || stats.last < last)
            return arg;
        last = stats.last;
        usleep(200);
    }
    return NULL;
}

static void statistics_can_be_read_while_threads_mint(void **state)
{
    (void)state;
    crowd c = {.gen = open_real("static:1", "snowflake", KZ_CLOCK_PRECISE), .mixed = true};
    worker workers[4];
    prepare(&c, workers, 4, 200000);
    pthread_barrier_init(&c.gate, NULL, 4);
    pthread_t poller;
    atomic_store(&stop_polling, false);
    assert_int_equal(pthread_create(&poller, NULL, poll_stats, c.gen), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&stop_polling, true);
    void *fault;
    pthread_join(poller, &fault);
    assert_null(fault);
    pthread_barrier_destroy(&c.gate);
    kz_close(c.gen);
    assert_no_twins(workers, 4, "snowflake");
    discard(workers, 4);
}

/* The points a thread has claimed for itself and not handed out yet do not count. */
static void one_threads_ids_are_counted_exactly(void **state)
{
    (void)state;
    kz_generator *gen = open_real("static:1", FAST, KZ_CLOCK_PRECISE);
    for (uint64_t count = 1; count <= 20000; count++) {
        kz_id id;
        assert_ok(kz_next(gen, &id));
        if (count % 100 == 0)
            usleep(300); /* into another millisecond now and then */
        if (count % 1000 == 0) {
            kz_stats stats;
            kz_stats_init(&stats);
            assert_ok(kz_stats_get(gen, &stats));
            assert_int_equal(stats.ids_leased, count);
            assert_true(stats.last >= id);
        }
    }
    kz_close(gen);
}

static int64_t unix_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A thread may be stopped between looking at the clock and returning, so a few may be late; none is early. */
static void an_id_shows_the_millisecond_in_which_it_was_asked_for(void **state)
{
    (void)state;
    enum { COUNT = 200000, BEHIND_MS = 11 };
    const kz_clock_kind kinds[] = {KZ_CLOCK_PRECISE, KZ_CLOCK_COARSE};
    for (int kind = 0; kind < 2; kind++) {
        kz_generator *gen = open_real("static:1", FAST, kinds[kind]);
        kz_layout layout;
        assert_ok(kz_layout_parse(FAST, &layout, NULL));
        int late = 0;
        for (int i = 0; i < COUNT; i++) {
            int64_t before_ms = unix_ms();
            kz_id id;
            kz_parts parts;
            assert_ok(kz_next(gen, &id));
            assert_ok(kz_decode(&layout, id, &parts, NULL));
            int64_t after_ms = unix_ms();
            if (parts.unix_ms > after_ms && after_ms >= before_ms)
                fail_msg("an ID from the future: %" PRId64 " at %" PRId64, parts.unix_ms, after_ms);
            late += parts.unix_ms < before_ms - (kinds[kind] == KZ_CLOCK_COARSE ? BEHIND_MS : 0);
        }
        kz_close(gen);
        if (late > COUNT / 50)
            fail_msg("%d of %d IDs are late", late, COUNT);
    }
}

/* Long enough for the keeper's thread to move the mark several times while eight threads mint. */
static void a_state_file_is_kept_ahead_under_load(void **state)
{
    (void)state;
    char folder[] = "/tmp/kz-threads-XXXXXX", path[64], url[96];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    snprintf(url, sizeof url, "static:1?state=%s", path);
    run_crowd(url, "41-14-8@2026-01-01", KZ_CLOCK_PRECISE, true, 256 * 4000);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_million_ids_by_eight_threads_have_no_twin_and_are_in_order),
        cmocka_unit_test(the_coarse_clock_keeps_order_too),
        cmocka_unit_test(snowflake_with_every_kind_of_call),
        cmocka_unit_test(threads_that_use_up_every_millisecond),
        cmocka_unit_test(the_first_thread_hands_over_to_those_that_join),
        cmocka_unit_test(threads_that_come_and_go_one_after_another_stay_in_order),
        cmocka_unit_test(statistics_can_be_read_while_threads_mint),
        cmocka_unit_test(one_threads_ids_are_counted_exactly),
        cmocka_unit_test(an_id_shows_the_millisecond_in_which_it_was_asked_for),
        cmocka_unit_test(a_state_file_is_kept_ahead_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
