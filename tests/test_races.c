/* Threads that are held up where it hurts most, while what is held and who owns the run change all the time. */
#include "lib/generator.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MINTERS = 3 };

typedef struct race {
    kz_generator *gen;
    kz_page *page;         /* readers claim on it by themselves */
    _Atomic kz_id highest; /* of all IDs that any thread has got back */
    _Atomic int minting;
    pthread_barrier_t gate;
} race;

typedef struct minter {
    pthread_t thread;
    race *race;
    unsigned number;
    size_t want, got;
    kz_id *ids;
    char fault[160];
} minter;

static _Thread_local uint64_t chance;

static void hold_up(void)
{
    uint64_t draw = test_random(&chance);
    if (draw % 16 == 0)
        sched_yield();
    if (draw % 4096 == 1)
        usleep(draw / 4096 % 2000);
}

static void raise_highest(race *r, kz_id id)
{
    kz_id seen = atomic_load(&r->highest);
    while (seen < id && !atomic_compare_exchange_weak(&r->highest, &seen, id))
        ;
}

/* The reader's part, as the header tells it to those who do it in another language. */
static bool claim_on_page(race *r, kz_id *id)
{
    _Atomic uint64_t *page = (_Atomic uint64_t *)(void *)r->page;
    uint64_t deadline = atomic_load_explicit(&page[0], memory_order_acquire);
    if (deadline - kz__ticks(KZ__TICKS_CPU) - 1 >= atomic_load_explicit(&page[1], memory_order_relaxed))
        return false;
    hold_up();
    uint64_t hi = atomic_load_explicit(&page[2], memory_order_acquire);
    hold_up();
    *id = atomic_fetch_add(&page[16], 1);
    return *id < hi;
}

static kz_status next(minter *m, kz_id *id)
{
    if (m->race->page && m->number != 1 && claim_on_page(m->race, id))
        return KZ_OK;
    return kz_next(m->race->gen, id);
}

static void *mint(void *arg)
{
    minter *m = arg;
    race *r = m->race;
    chance = m->number * 7919;
    pthread_barrier_wait(&r->gate);
    while (m->got < m->want && !*m->fault) {
        kz_id before = atomic_load(&r->highest), id;
        kz_status status = next(m, &id);
        if (status)
            snprintf(m->fault, sizeof m->fault, "thread %u: %s", m->number, kz_status_name(status));
        else if (id <= before)
            snprintf(m->fault, sizeof m->fault, "thread %u: %" PRIu64 " was given after %" PRIu64, m->number, id,
                     before);
        else
            m->ids[m->got++] = id;
        if (!status)
            raise_highest(r, id);
        /* The others are alone for a while now and then, in turn. */
        if (test_random(&chance) % 20000 == 0)
            usleep(3000);
    }
    atomic_fetch_sub(&r->minting, 1);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    kz_id x = *(const kz_id *)a, y = *(const kz_id *)b;
    return (x > y) - (x < y);
}

/* Lets the threads mint until each has its share, with `meddle` called all the while. */
static void run(race *r, size_t each, void (*meddle)(kz_generator *gen, unsigned turn))
{
    minter minters[MINTERS];
    kz_id *all = malloc(MINTERS * each * sizeof *all);
    assert_non_null(all);
    pthread_barrier_init(&r->gate, NULL, MINTERS);
    r->minting = MINTERS;
    kz__hold_up = hold_up;
    for (unsigned i = 0; i < MINTERS; i++) {
        minters[i] = (minter){.race = r, .number = i + 1, .want = each, .ids = all + i * each};
        assert_int_equal(pthread_create(&minters[i].thread, NULL, mint, &minters[i]), 0);
    }
    for (unsigned turn = 0; atomic_load(&r->minting); turn++) {
        if (meddle)
            meddle(r->gen, turn);
        usleep(100);
    }
    for (unsigned i = 0; i < MINTERS; i++)
        pthread_join(minters[i].thread, NULL);
    kz__hold_up = NULL;
    pthread_barrier_destroy(&r->gate);
    for (unsigned i = 0; i < MINTERS; i++)
        if (*minters[i].fault)
            fail_msg("%s", minters[i].fault);
    qsort(all, MINTERS * each, sizeof *all, by_value);
    for (size_t i = 1; i < MINTERS * each; i++)
        if (all[i] == all[i - 1])
            fail_msg("%" PRIu64 " was given twice", all[i]);
    free(all);
}

static kz_generator *open_race(const char *url, const char *layout, kz_fallback fallback)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = layout;
    options.fallback = fallback;
    options.backward = KZ_BACKWARD_LOGICAL;
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, url, &options, &err))
        fail_msg("%s", err.message);
    return gen;
}

/* What is held is made anew, as at every change of leases: the run is frozen and published again. */
static void rebuild(kz_generator *gen, unsigned turn)
{
    (void)turn;
    kz_error err;
    pthread_mutex_lock(&gen->hot->lock);
    kz_status status = kz__keeping_rebuild(gen, &err);
    pthread_mutex_unlock(&gen->hot->lock);
    assert_ok(status);
}

static void a_run_that_is_frozen_all_the_time_gives_each_point_once(void **state)
{
    (void)state;
    kz__alone_looks = 1u << 30; /* everybody is the owner */
    race r = {.gen = open_race("static:1", "41-2-20@2026-01-01", KZ_FALLBACK_NEVER)};
    run(&r, 60000, rebuild);
    kz_close(r.gen);
}

/* Lease, twin and unfenced IDs in turn: a twin's run lies inside the unfenced half, and ends before it does. */
static void change_holdings(kz_generator *gen, unsigned turn)
{
    kz__hot *hot = gen->hot;
    kz_error err;
    pthread_mutex_lock(&hot->lock);
    kz__keeper *keeper = &hot->keeper;
    size_t count = keeper->held_count;
    int64_t end_ms = count ? keeper->held[0].lease.expired_ms : 0;
    if (turn % 3 == 1)
        keeper->held_count = 0;
    if (turn % 3 == 2 && count)
        keeper->held[0].lease.expired_ms = keeper->held[0].lease.created_ms;
    kz_status status = kz__keeping_rebuild(gen, &err);
    keeper->held_count = count;
    if (count)
        keeper->held[0].lease.expired_ms = end_ms;
    pthread_mutex_unlock(&hot->lock);
    assert_ok(status);
}

static void runs_inside_runs_give_each_point_once(void **state)
{
    (void)state;
    kz__alone_looks = 1u << 30;
    race r = {.gen = open_race("memory:", "41-4-18@2026-01-01", KZ_FALLBACK_ANY)};
    kz_lease *lease = &r.gen->hot->keeper.held[0].lease;
    uint32_t id = lease->id;
    lease->id = 6; /* its twin lies in the middle of the unfenced half */
    run(&r, 60000, change_holdings);
    lease->id = id;
    kz_close(r.gen);
}

/* Whoever comes the slow way becomes the owner at once: it changes all the time. */
static void an_owner_that_changes_all_the_time_keeps_the_order(void **state)
{
    (void)state;
    kz__alone_looks = 0;
    race r = {.gen = open_race("static:1", "41-2-20@2026-01-01", KZ_FALLBACK_NEVER)};
    run(&r, 60000, rebuild);
    for (unsigned round = 0; round < 8; round++) {
        kz__alone_looks = round % 4;
        run(&r, 60000, NULL);
    }
    kz_close(r.gen);
}

static void readers_of_a_shared_page_and_callers_share_a_run(void **state)
{
    (void)state;
    if (kz__precise_ticks() != KZ__TICKS_CPU)
        skip();
    const char *const layouts[] = {"41-2-20@2026-01-01", "41-10-12@2026-01-02"};
    for (int i = 0; i < 2; i++) {
        bool cpu_ticks;
        kz__alone_looks = 0; /* nobody may become the owner all the same */
        race r = {.gen = open_race("static:1", layouts[i], KZ_FALLBACK_NEVER)};
        kz_id id;
        assert_ok(kz_next(r.gen, &id)); /* the owner so far */
        r.page = kz_share(r.gen, &cpu_ticks);
        assert_true(cpu_ticks);
        run(&r, 40000, rebuild);
        kz_close(r.gen);
        /* Nothing is left on it, and it is still there. */
        assert_false(claim_on_page(&r, &id));
        assert_true(r.page->deadline == 0 && r.page->next >= r.page->hi);
        kz_page_free(r.page);
    }
}

static void *mint_once(void *arg)
{
    kz_id id;
    return kz_next(arg, &id) ? arg : NULL;
}

static void the_only_thread_left_is_the_owner_again(void **state)
{
    (void)state;
    kz__alone_looks = 64;
    kz_generator *gen = open_race("static:1", "41-2-20@2026-01-01", KZ_FALLBACK_NEVER);
    kz_id id, last = 0;
    for (int round = 0; round < 40; round++) { /* more threads than there are places */
        pthread_t other;
        void *failed;
        assert_ok(kz_next(gen, &id));
        assert_true(id > last);
        assert_int_equal(pthread_create(&other, NULL, mint_once, gen), 0);
        pthread_join(other, &failed);
        assert_null(failed);
        assert_int_equal(atomic_load(&gen->hot->owner), KZ__EVERYBODY);
        /* A look for each millisecond is all it takes. */
        for (last = id; atomic_load(&gen->hot->owner) == KZ__EVERYBODY; last = id) {
            assert_ok(kz_next(gen, &id));
            assert_true(id > last);
        }
    }
    kz_close(gen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_is_frozen_all_the_time_gives_each_point_once),
        cmocka_unit_test(runs_inside_runs_give_each_point_once),
        cmocka_unit_test(an_owner_that_changes_all_the_time_keeps_the_order),
        cmocka_unit_test(readers_of_a_shared_page_and_callers_share_a_run),
        cmocka_unit_test(the_only_thread_left_is_the_owner_again),
    };
    return cmocka_run_group_tests_name("races", tests, NULL, NULL);
}
