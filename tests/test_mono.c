/* Strictly increasing nanoseconds, their UUIDs, and UUIDs as text. */
#include "random.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 8, EACH = 100000 };

static int64_t wall_ns(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec;
}

static int64_t next_at(kz_mono *mono, int64_t now_ns)
{
    int64_t ns = -1;
    assert_ok(kz_mono_next_at(mono, now_ns, &ns));
    return ns;
}

static kz_uuid uuid_of(const char *text)
{
    kz_uuid uuid;
    assert_ok(kz_uuid_from_text(text, &uuid, NULL));
    return uuid;
}

static void assert_next_uuid(kz_monouuid *gen, int64_t now_ns, const char *expected)
{
    kz_uuid uuid;
    char text[KZ_UUID_TEXT_SIZE];
    assert_ok(kz_monouuid_next_at(gen, now_ns, &uuid));
    kz_uuid_text(&uuid, text);
    assert_string_equal(text, expected);
}

static void mono_takes_the_clock_while_it_moves(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    assert_int_equal(next_at(mono, 1000), 1000);
    assert_int_equal(next_at(mono, 1001), 1001);
    assert_int_equal(next_at(mono, 5000), 5000);
    kz_mono_free(mono);
}

static void mono_runs_ahead_when_the_clock_stands_or_goes_back(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    assert_int_equal(next_at(mono, 1000), 1000);
    assert_int_equal(next_at(mono, 1000), 1001);
    assert_int_equal(next_at(mono, 10), 1002);
    assert_int_equal(next_at(mono, 1002), 1003);
    assert_int_equal(next_at(mono, 1004), 1004);
    kz_mono_free(mono);
}

static void mono_goes_on_above_the_value_it_resumes_from(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 9000, NULL));
    assert_int_equal(next_at(mono, 1000), 9001);
    assert_int_equal(next_at(mono, 9500), 9500);
    kz_mono_free(mono);
}

static void a_clock_before_1970_counts_as_zero(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    assert_int_equal(next_at(mono, -5), 1);
    assert_int_equal(next_at(mono, INT64_MIN), 2);
    kz_mono_free(mono);
}

static void mono_overflows_without_changing(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, INT64_MAX - 1, NULL));
    assert_true(next_at(mono, 0) == INT64_MAX);
    int64_t ns = 4711;
    for (int i = 0; i < 3; i++)
        assert_status(kz_mono_next_at(mono, 0, &ns), KZ_OVERFLOW);
    assert_status(kz_mono_next(mono, &ns), KZ_OVERFLOW);
    assert_int_equal(ns, 4711);
    kz_mono_free(mono);
}

static void mono_refuses_a_negative_last_value(void **state)
{
    (void)state;
    kz_mono *mono = NULL;
    kz_error err;
    assert_status(kz_mono_new(&mono, -7, &err), KZ_INVALID);
    assert_contains(err.message, "-7");
    assert_null(mono);
    kz_mono_free(NULL);
}

static void mono_is_as_good_as_the_machines_clock(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    int64_t before = wall_ns(), ns;
    assert_ok(kz_mono_next(mono, &ns));
    assert_in_range(ns, before, wall_ns());
    kz_mono_free(mono);
}

typedef struct worker {
    pthread_t thread;
    kz_mono *mono;
    kz_monouuid *gen;
    int64_t *ns;
    kz_uuid *uuids;
    bool increasing;
} worker;

static void *take_many(void *arg)
{
    worker *w = arg;
    w->increasing = true;
    for (int i = 0; i < EACH; i++) {
        if (kz_mono_next(w->mono, &w->ns[i]) || kz_monouuid_next(w->gen, &w->uuids[i]))
            w->increasing = false;
        if (i > 0 && (w->ns[i] <= w->ns[i - 1] || memcmp(&w->uuids[i], &w->uuids[i - 1], sizeof(kz_uuid)) <= 0))
            w->increasing = false;
    }
    return NULL;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(kz_uuid));
}

static void eight_threads_get_no_twins_and_each_gets_increasing_ones(void **state)
{
    (void)state;
    worker workers[THREADS];
    kz_mono *mono;
    kz_monouuid *gen;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    assert_ok(kz_monouuid_new(&gen, 7, NULL, NULL));
    int64_t *ns = malloc(sizeof *ns * THREADS * EACH);
    kz_uuid *uuids = malloc(sizeof *uuids * THREADS * EACH);
    assert_non_null(ns);
    assert_non_null(uuids);
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (worker){.mono = mono, .gen = gen, .ns = ns + t * EACH, .uuids = uuids + t * EACH};
        assert_int_equal(pthread_create(&workers[t].thread, NULL, take_many, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        assert_true(workers[t].increasing);
    }
    qsort(ns, THREADS * EACH, sizeof *ns, by_number);
    qsort(uuids, THREADS * EACH, sizeof *uuids, by_bytes);
    for (int i = 1; i < THREADS * EACH; i++) {
        assert_true(ns[i - 1] < ns[i]);
        assert_true(by_bytes(&uuids[i - 1], &uuids[i]) < 0);
    }
    free(uuids);
    free(ns);
    kz_monouuid_free(gen);
    kz_mono_free(mono);
}

static void one_thread_gets_the_clocks_own_time(void **state)
{
    (void)state;
    kz_mono *mono;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    int64_t last = 0, set_back = 0;
    for (int i = 0; i < EACH; i++) {
        int64_t before = wall_ns(), ns;
        assert_ok(kz_mono_next(mono, &ns));
        int64_t after = wall_ns();
        assert_true(ns > last);
        set_back += after < before || before <= last;
        if (!set_back)
            assert_in_range(ns, before, after);
        last = ns;
    }
    kz_mono_free(mono);
}

static void *take_one(void *arg)
{
    worker *w = arg;
    w->increasing = kz_mono_next(w->mono, w->ns) == KZ_OK;
    return NULL;
}

static void a_second_thread_goes_on_above_the_first_and_within_a_microsecond_of_the_clock(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        kz_mono *mono;
        int64_t first, second = 0, third;
        assert_ok(kz_mono_new(&mono, 0, NULL));
        assert_ok(kz_mono_next(mono, &first));
        worker other = {.mono = mono, .ns = &second};
        assert_int_equal(pthread_create(&other.thread, NULL, take_one, &other), 0);
        pthread_join(other.thread, NULL);
        assert_true(other.increasing && second > first);
        assert_ok(kz_mono_next(mono, &third));
        assert_true(third > second);
        if (wall_ns() >= first)
            assert_true(third <= wall_ns() + 1000);
        kz_mono_free(mono);
    }
}

static void the_machines_time_and_a_time_handed_in_go_on_above_each_other(void **state)
{
    (void)state;
    kz_mono *mono;
    int64_t last = 0, ns;
    assert_ok(kz_mono_new(&mono, 0, NULL));
    for (int i = 0; i < 1000; i++) {
        assert_ok(i % 3 ? kz_mono_next(mono, &ns) : kz_mono_next_at(mono, wall_ns() - i, &ns));
        assert_true(ns > last);
        last = ns;
    }
    kz_mono_free(mono);
}

static void the_machines_time_goes_on_above_the_value_it_resumes_from(void **state)
{
    (void)state;
    kz_mono *mono;
    int64_t last = wall_ns() + INT64_C(3600000000000), ns;
    assert_ok(kz_mono_new(&mono, last, NULL));
    for (int i = 1; i <= 5000; i++) {
        assert_ok(kz_mono_next(mono, &ns));
        assert_true(ns == last + i);
    }
    kz_mono_free(mono);
    assert_ok(kz_mono_new(&mono, INT64_MAX - 5000, NULL));
    for (int i = 1; i <= 5000; i++) {
        assert_ok(kz_mono_next(mono, &ns));
        assert_true(ns == INT64_MAX - 5000 + i);
    }
    assert_status(kz_mono_next(mono, &ns), KZ_OVERFLOW);
    kz_mono_free(mono);
}

/* Threads that show one another what they got. Each round begins with a new generator, hence with an owner. */
enum { SHOWN_THREADS = 3, SHOWN_ROUNDS = 1000, SHOWN_EACH = 50 };

typedef struct shown_round {
    kz_mono *mono;
    kz_monouuid *gen;
    _Atomic int64_t ns; /* the highest value that any thread has got and shown */
    atomic_int arrived;
    atomic_int wrong;
} shown_round;

typedef struct shower {
    pthread_t thread;
    shown_round *rounds;
    int number;
} shower;

static void show_highest(_Atomic int64_t *highest, int64_t ns)
{
    int64_t was = atomic_load(highest);
    while (was < ns && !atomic_compare_exchange_weak(highest, &was, ns))
        ;
}

static int64_t step(shown_round *r, int turn)
{
    int64_t ns = 0;
    uint32_t node;
    kz_uuid uuid;
    if (!r->gen)
        atomic_fetch_add(&r->wrong, kz_mono_next(r->mono, &ns) != KZ_OK);
    else if (turn % 16 == 15)
        atomic_fetch_add(&r->wrong, kz_monouuid_next_at(r->gen, 0, &uuid) != KZ_OK);
    else
        atomic_fetch_add(&r->wrong, kz_monouuid_next(r->gen, &uuid) != KZ_OK);
    if (r->gen)
        atomic_fetch_add(&r->wrong, kz_monouuid_parse(&uuid, &node, &ns, NULL) != KZ_OK);
    return ns;
}

static void *show_many(void *arg)
{
    shower *s = arg;
    for (int n = 0; n < SHOWN_ROUNDS; n++) {
        shown_round *r = &s->rounds[n];
        atomic_fetch_add(&r->arrived, 1);
        /* One begins alone, so that the others come while it gives what it has claimed. */
        while (atomic_load(&r->arrived) < SHOWN_THREADS && s->number != n % SHOWN_THREADS)
            sched_yield();
        for (int i = 0; i < SHOWN_EACH; i++) {
            int64_t shown = atomic_load(&r->ns), ns = step(r, i);
            atomic_fetch_add(&r->wrong, ns <= shown);
            show_highest(&r->ns, ns);
        }
    }
    return NULL;
}

static void a_call_gives_more_than_every_call_that_ended_before_it_began(void **state)
{
    (void)state;
    shown_round *rounds = calloc(SHOWN_ROUNDS, sizeof *rounds);
    assert_non_null(rounds);
    for (int n = 0; n < SHOWN_ROUNDS; n++) {
        assert_ok(kz_mono_new(&rounds[n].mono, 0, NULL));
        if (n % 2)
            assert_ok(kz_monouuid_new(&rounds[n].gen, 1, NULL, NULL));
    }
    shower showers[SHOWN_THREADS];
    for (int t = 0; t < SHOWN_THREADS; t++) {
        showers[t] = (shower){.rounds = rounds, .number = t};
        assert_int_equal(pthread_create(&showers[t].thread, NULL, show_many, &showers[t]), 0);
    }
    for (int t = 0; t < SHOWN_THREADS; t++)
        pthread_join(showers[t].thread, NULL);
    for (int n = 0; n < SHOWN_ROUNDS; n++) {
        assert_int_equal(atomic_load(&rounds[n].wrong), 0);
        kz_mono_free(rounds[n].mono);
        kz_monouuid_free(rounds[n].gen);
    }
    free(rounds);
}

static void uuids_carry_the_node_and_the_nanosecond(void **state)
{
    (void)state;
    kz_monouuid *gen;
    assert_ok(kz_monouuid_new(&gen, 1, NULL, NULL));
    assert_next_uuid(gen, INT64_C(1257894000000000001), "0124e053-3580-7000-8e35-500000100001");
    assert_next_uuid(gen, 0, "0124e053-3580-7000-8e35-500000100002");
    assert_next_uuid(gen, INT64_C(1257894000000999999), "0124e053-3580-7000-8e35-5000001f423f");
    /* The next nanosecond is in the next millisecond. */
    assert_next_uuid(gen, 0, "0124e053-3581-7000-8e35-500000100000");
    kz_monouuid_free(gen);
}

static void uuids_go_on_above_the_one_they_resume_from(void **state)
{
    (void)state;
    kz_uuid last = uuid_of("0124e053-3580-7000-8e35-500000100001");
    kz_monouuid *gen;
    assert_ok(kz_monouuid_new(&gen, 1, &last, NULL));
    assert_next_uuid(gen, 1000, "0124e053-3580-7000-8e35-500000100002");
    kz_monouuid_free(gen);
}

static void uuids_overflow_without_changing(void **state)
{
    (void)state;
    kz_monouuid *gen;
    assert_ok(kz_monouuid_new(&gen, 1, NULL, NULL));
    kz_uuid top, uuid;
    assert_ok(kz_monouuid_next_at(gen, INT64_MAX, &top));
    uuid = top;
    assert_status(kz_monouuid_next_at(gen, 0, &uuid), KZ_OVERFLOW);
    assert_status(kz_monouuid_next(gen, &uuid), KZ_OVERFLOW);
    assert_memory_equal(&uuid, &top, sizeof uuid);
    uint32_t node;
    int64_t ns;
    assert_ok(kz_monouuid_parse(&top, &node, &ns, NULL));
    assert_true(ns == INT64_MAX && node == 1);
    kz_monouuid_free(gen);
}

static void a_generator_of_uuids_refuses_a_wrong_node_or_last_one(void **state)
{
    (void)state;
    kz_monouuid *gen = NULL;
    kz_error err;
    assert_status(kz_monouuid_new(&gen, 0, NULL, &err), KZ_INVALID);
    assert_contains(err.message, "node 0 ");
    assert_status(kz_monouuid_new(&gen, 16777216, NULL, &err), KZ_INVALID);
    assert_contains(err.message, "16777216");
    kz_uuid last = uuid_of("0124e053-3580-7000-8e35-500000100001");
    assert_status(kz_monouuid_new(&gen, 2, &last, &err), KZ_INVALID);
    assert_contains(err.message, "0124e053-3580-7000-8e35-500000100001 is of node 1, not of node 2");
    last = uuid_of("018f3a38-641a-7c30-817f-682f7e0b704e");
    assert_status(kz_monouuid_new(&gen, 2, &last, &err), KZ_INVALID);
    assert_contains(err.message, "018f3a38-641a-7c30-817f-682f7e0b704e");
    assert_null(gen);
    assert_ok(kz_monouuid_new(&gen, KZ_MONOUUID_NODE_MAX, NULL, NULL));
    kz_monouuid_free(gen);
    kz_monouuid_free(NULL);
}

static void a_uuid_that_is_not_ours_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"0124e053-3580-4000-8e35-500000100001", "version"}, {"0124e053-3580-7001-8e35-500000100001", "12 bits"},
        {"0124e053-3580-7000-9e35-500000100001", "variant"}, {"0124e053-3580-7000-8e35-400000100001", "magic"},
        {"0124e053-3580-7000-8e35-5000001f4240", "999999"},  {"ffffffff-ffff-7000-8e35-500000100001", "2262"},
        {"00000000-0000-0000-0000-000000000000", "version"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kz_uuid uuid = uuid_of(cases[i].text);
        uint32_t node = 4711;
        int64_t ns = 4711;
        kz_error err;
        assert_false(kz_monouuid_valid(&uuid));
        assert_status(kz_monouuid_parse(&uuid, &node, &ns, &err), KZ_INVALID);
        assert_contains(err.message, cases[i].part);
        assert_contains(err.message, cases[i].text);
        assert_true(node == 4711 && ns == 4711);
    }
}

static void every_node_and_nanosecond_reads_back(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 100000; i++) {
        uint32_t node = 1 + (uint32_t)(test_random(&seed) % KZ_MONOUUID_NODE_MAX), node_back = 0;
        int64_t ns = (int64_t)(test_random(&seed) >> (1 + i % 63)), ns_back = -1;
        kz_monouuid *gen;
        kz_uuid uuid, again, least;
        char text[KZ_UUID_TEXT_SIZE];
        assert_ok(kz_monouuid_new(&gen, node, NULL, NULL));
        assert_ok(kz_monouuid_next_at(gen, ns, &uuid));
        kz_monouuid_free(gen);
        assert_ok(kz_monouuid_parse(&uuid, &node_back, &ns_back, NULL));
        assert_true(node_back == node && (ns_back == ns || (ns == 0 && ns_back == 1)));
        kz_uuid_text(&uuid, text);
        assert_ok(kz_uuid_from_text(text, &again, NULL));
        assert_memory_equal(&again, &uuid, sizeof uuid);
        assert_ok(kz_monouuid_min(ns, &least, NULL));
        assert_true(memcmp(&least, &uuid, sizeof uuid) < 0);
    }
}

static void the_least_uuid_of_an_instant_is_below_every_node_and_above_what_was_before(void **state)
{
    (void)state;
    const int64_t ms_ns = INT64_C(1257894000000000000);
    kz_uuid least, first, before;
    char text[KZ_UUID_TEXT_SIZE];
    kz_monouuid *gen;
    assert_ok(kz_monouuid_min(ms_ns, &least, NULL));
    kz_uuid_text(&least, text);
    assert_string_equal(text, "0124e053-3580-7000-8e35-500000000000");
    assert_ok(kz_monouuid_new(&gen, KZ_MONOUUID_NODE_MAX, NULL, NULL));
    assert_ok(kz_monouuid_next_at(gen, ms_ns - 1, &before));
    kz_monouuid_free(gen);
    assert_ok(kz_monouuid_new(&gen, 1, NULL, NULL));
    assert_ok(kz_monouuid_next_at(gen, ms_ns, &first));
    kz_monouuid_free(gen);
    assert_true(memcmp(&before, &least, 16) < 0);
    assert_true(memcmp(&least, &first, 16) < 0);
    kz_error err;
    assert_status(kz_monouuid_min(-1, &least, &err), KZ_INVALID);
    assert_contains(err.message, "-1");
    assert_status(kz_monouuid_min_of(1, -1, &least, &err), KZ_INVALID);
    assert_status(kz_monouuid_min_of(KZ_MONOUUID_NODE_MAX + 1, 1, &least, &err), KZ_INVALID);
    /* Of one node: what that node gives at that nanosecond. */
    kz_monouuid *of_node;
    kz_uuid given;
    const kz_uuid none = {{0}};
    assert_ok(kz_monouuid_new(&of_node, 4711, &none, &err)); /* all zeros are no last one */
    assert_ok(kz_monouuid_next_at(of_node, 1234567890123456789, &given));
    assert_ok(kz_monouuid_min_of(4711, 1234567890123456789, &least, &err));
    assert_memory_equal(&given, &least, sizeof least);
    kz_monouuid_free(of_node);
}

static void any_uuid_reads_in_either_case_and_writes_in_lower_case(void **state)
{
    (void)state;
    kz_uuid uuid = uuid_of("F81D4FAE-7dec-11D0-A765-00A0C91E6BF6");
    char text[KZ_UUID_TEXT_SIZE];
    kz_uuid_text(&uuid, text);
    assert_string_equal(text, "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
}

static void a_text_that_is_no_uuid_is_refused_with_the_character_or_length(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "not 0"},
        {"0124e053-3580-7000-8e35-50000010000", "not 35"},
        {"0124e053-3580-7000-8e35-5000001000011", "not 37"},
        {"00000000-0000-7000-8000-00000000000G", "'G' at position 36"},
        {"00000000_0000-7000-8000-000000000000", "position 9, not '_'"},
        {"00000000-0000-7000-8000-0000000\n0000", "0x0a at position 32"},
        {"000000000000-7000-8000-0000-00000000", "position 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kz_uuid uuid = {{42}};
        kz_error err;
        assert_status(kz_uuid_from_text(cases[i].text, &uuid, &err), KZ_INVALID);
        assert_contains(err.message, cases[i].part);
        assert_int_equal(uuid.bytes[0], 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mono_takes_the_clock_while_it_moves),
        cmocka_unit_test(mono_runs_ahead_when_the_clock_stands_or_goes_back),
        cmocka_unit_test(mono_goes_on_above_the_value_it_resumes_from),
        cmocka_unit_test(a_clock_before_1970_counts_as_zero),
        cmocka_unit_test(mono_overflows_without_changing),
        cmocka_unit_test(mono_refuses_a_negative_last_value),
        cmocka_unit_test(mono_is_as_good_as_the_machines_clock),
        cmocka_unit_test(eight_threads_get_no_twins_and_each_gets_increasing_ones),
        cmocka_unit_test(one_thread_gets_the_clocks_own_time),
        cmocka_unit_test(a_second_thread_goes_on_above_the_first_and_within_a_microsecond_of_the_clock),
        cmocka_unit_test(the_machines_time_and_a_time_handed_in_go_on_above_each_other),
        cmocka_unit_test(the_machines_time_goes_on_above_the_value_it_resumes_from),
        cmocka_unit_test(a_call_gives_more_than_every_call_that_ended_before_it_began),
        cmocka_unit_test(uuids_carry_the_node_and_the_nanosecond),
        cmocka_unit_test(uuids_go_on_above_the_one_they_resume_from),
        cmocka_unit_test(uuids_overflow_without_changing),
        cmocka_unit_test(a_generator_of_uuids_refuses_a_wrong_node_or_last_one),
        cmocka_unit_test(a_uuid_that_is_not_ours_is_refused_with_the_reason),
        cmocka_unit_test(every_node_and_nanosecond_reads_back),
        cmocka_unit_test(the_least_uuid_of_an_instant_is_below_every_node_and_above_what_was_before),
        cmocka_unit_test(any_uuid_reads_in_either_case_and_writes_in_lower_case),
        cmocka_unit_test(a_text_that_is_no_uuid_is_refused_with_the_character_or_length),
    };
    return cmocka_run_group_tests_name("mono", tests, NULL, NULL);
}
