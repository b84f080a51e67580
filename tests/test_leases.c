/* Generators over lease tables, with real threads and real time: what happens when a source goes, comes back, changes
 * its mind, and when processes fork. The source `scripted:` answers as the test says. */
#include "tests/test.h"

#include "lib/generator.h"
#include "tests/virtual_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

#define EPOCH_MS INT64_C(1767225600000) /* 2026-01-01 */

/* -------------------------------------------------------------------------------------------- a scripted source */

typedef enum answer {
    GRANT,
    REFUSE,
    SILENCE,
    LOSE, /* once, then grants again */
    OTHER_EPOCH,
    OTHER_TIME,
    OTHER_SUM,
    OTHER_SPLIT,
    NO_LEASES,
    OLDER
} answer;

/* Shared with forked children, so that their leases differ from the parent's. */
typedef struct script {
    _Atomic int answer;
    _Atomic int lease_ms;
    _Atomic int twin_ms;  /* 0: there is none */
    _Atomic int delay_ms; /* an acquire takes so long */
    _Atomic bool asking;  /* an acquire is under way */
    _Atomic unsigned acquires, releases, releases_tried, closes, abandoned;
    _Atomic uint32_t next_node;
    _Atomic uint64_t generation;
} script;

static script *scripted;

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void nap_us(int64_t us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static void script_reset(int lease_ms)
{
    *scripted = (script){.lease_ms = lease_ms, .twin_ms = 4 * lease_ms, .generation = 100};
}

static kz_status scripted_open(void **source, const char *url, const kz_source_options *options, kz_source_facts *facts,
                               kz_error *err)
{
    (void)url, (void)options, (void)err;
    facts->flags = KZ_SOURCE_SAME_HOST;
    *source = malloc(1);
    return *source ? KZ_OK : KZ_NO_MEMORY;
}

static void scripted_close(void *source, bool forked)
{
    forked ? scripted->abandoned++ : scripted->closes++;
    free(source);
}

static kz_lease scripted_lease(int64_t now_ms)
{
    int64_t lease_ms = scripted->lease_ms;
    kz_lease lease = {.created_ms = now_ms,
                      .expired_ms = now_ms + lease_ms,
                      .fallback_created_ms = scripted->twin_ms ? now_ms : now_ms + lease_ms,
                      .fallback_expired_ms = now_ms + (scripted->twin_ms ? scripted->twin_ms : lease_ms),
                      .epoch_ms = EPOCH_MS,
                      .id = scripted->next_node++ % 8192,
                      .reserved_bits = 1,
                      .time_bits = 41,
                      .node_bits = 14,
                      .seq_bits = 8,
                      .secret = "scripted"};
    switch ((answer)scripted->answer) {
    case OTHER_EPOCH:
        lease.epoch_ms += 86400000;
        break;
    case OTHER_TIME:
        lease.reserved_bits--;
        lease.time_bits++;
        break;
    case OTHER_SUM:
        lease.reserved_bits++;
        lease.node_bits--;
        break;
    case OTHER_SPLIT:
        /* The same numbers four times as high: apart from what was granted with 8 bits if those are below 1,024. */
        lease.id = 1024 + lease.id % 1024;
        lease.node_bits = 12;
        lease.seq_bits = 10;
        break;
    default:
        break;
    }
    return lease;
}

static kz_status told(kz_error *err, kz_status status, const char *message)
{
    *err = (kz_error){.status = status};
    snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

static kz_status scripted_acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    (void)source;
    scripted->asking = true;
    nap_us(scripted->delay_ms * INT64_C(1000));
    scripted->asking = false;
    scripted->acquires++;
    switch ((answer)scripted->answer) {
    case REFUSE:
        return told(err, KZ_NO_FREE_NODE, "the script has no node free");
    case SILENCE:
        return told(err, KZ_UNAVAILABLE, "the script says nothing");
    case LOSE:
        scripted->answer = GRANT;
        return told(err, KZ_LOST, "the script lost it");
    case NO_LEASES:
        *grant = (kz_grant){.source_ms = wall_ms(), .generation = scripted->generation++};
        return KZ_OK;
    default:
        break;
    }
    grant->source_ms = wall_ms();
    grant->generation = scripted->answer == OLDER ? 50 : scripted->generation++;
    grant->resume = 0;
    grant->count = 0;
    for (uint32_t left = request->throughput_per_ms, got; left; left -= got < left ? got : left) {
        grant->leases[grant->count] = scripted_lease(grant->source_ms);
        got = UINT32_C(1) << grant->leases[grant->count++].seq_bits;
    }
    return KZ_OK;
}

static kz_status scripted_release(void *source, const kz_release *release, kz_error *err)
{
    (void)source, (void)release;
    scripted->releases_tried++;
    if (scripted->answer == SILENCE)
        return told(err, KZ_UNAVAILABLE, "the script says nothing");
    scripted->releases++;
    return KZ_OK;
}

static kz_status scripted_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    (void)source;
    if (scripted->answer == SILENCE)
        return told(err, KZ_UNAVAILABLE, "the script says nothing");
    *source_ms = wall_ms();
    *generation = scripted->generation;
    return KZ_OK;
}

static const kz_source_ops scripted_ops = {.struct_size = sizeof(kz_source_ops),
                                           .scheme = "scripted",
                                           .open = scripted_open,
                                           .acquire = scripted_acquire,
                                           .release = scripted_release,
                                           .now = scripted_now,
                                           .close = scripted_close};

/* -------------------------------------------------------------------------------------- generators and their IDs */

/* The machine's clock, with every sleep that the library asks for noted. */
static _Atomic int64_t slept_most_ns;
static _Atomic uint64_t slept_count;

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t noting_wall(void *ctx)
{
    (void)ctx;
    return read_ns(CLOCK_REALTIME);
}

static int64_t noting_boot(void *ctx)
{
    (void)ctx;
    return read_ns(CLOCK_BOOTTIME);
}

static void noting_sleep(void *ctx, int64_t ns)
{
    (void)ctx;
    slept_count++;
    if (ns > slept_most_ns)
        slept_most_ns = ns;
    nap_us(ns / 1000 + 1);
}

static const kz_clock noting_clock = {.wall_ns = noting_wall, .boot_ns = noting_boot, .sleep_ns = noting_sleep};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[65536];

static void note_log(void *ctx, kz_log_level level, const char *message)
{
    (void)ctx, (void)level;
    pthread_mutex_lock(&log_lock);
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", message);
    pthread_mutex_unlock(&log_lock);
}

static kz_options brisk(kz_fallback fallback)
{
    kz_options options;
    kz_options_init(&options);
    options.fallback = fallback;
    options.retry_initial_ms = 10;
    options.retry_max_ms = 40;
    options.timeout_ms = 60000; /* for a machine that is slow: nothing here takes so long */
    options.log = note_log;
    log_text[0] = 0;
    return options;
}

static kz_generator *open_with(const char *url, const kz_options *options)
{
    kz_generator *gen = NULL;
    kz_error err = {0};
    if (kz_open(&gen, url, options, &err))
        fail_msg("%s: %s", url, err.message);
    return gen;
}

typedef struct ids {
    kz_id *at;
    size_t count, room;
} ids;

static void add_ids(ids *all, const kz_id *more, size_t count)
{
    if (all->count + count > all->room) {
        all->room = 2 * (all->count + count);
        all->at = realloc(all->at, all->room * sizeof *all->at);
        assert_non_null(all->at);
    }
    memcpy(all->at + all->count, more, count * sizeof *more);
    all->count += count;
}

static void assert_increasing(const ids *all)
{
    for (size_t i = 1; i < all->count; i++)
        if (all->at[i - 1] >= all->at[i])
            fail_msg("ID %zu is %llu after %llu", i, (unsigned long long)all->at[i],
                     (unsigned long long)all->at[i - 1]);
}

static int by_id(const void *a, const void *b)
{
    kz_id x = *(const kz_id *)a, y = *(const kz_id *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static void assert_no_twins(ids *all)
{
    qsort(all->at, all->count, sizeof *all->at, by_id);
    assert_increasing(all);
}

static bool in_upper_half(kz_id id)
{
    return id >> 21 & 1;
}

static kz_stats stats_of(kz_generator *gen)
{
    kz_stats stats;
    kz_stats_init(&stats);
    assert_ok(kz_stats_get(gen, &stats));
    return stats;
}

/* Mints for a while at a modest rate; no call may fail. */
static void mint_for(kz_generator *gen, int64_t ms, ids *all)
{
    for (int64_t until_us = mono_us() + ms * 1000; mono_us() < until_us; nap_us(300)) {
        kz_id id;
        kz_error err = {0};
        if (kz_mint(gen, &id, 1, 60000, &err))
            fail_msg("after %zu IDs: %s", all->count, err.message);
        add_ids(all, &id, 1);
    }
}

/* Mints until `done`, or for a minute. */
static void mint_until(kz_generator *gen, bool (*done)(const kz_stats *), ids *all)
{
    for (int i = 0; i < 6000; i++) {
        kz_stats stats = stats_of(gen);
        if (done(&stats))
            return;
        mint_for(gen, 10, all);
    }
    fail_msg("it does not come to that");
}

static bool is_failing(const kz_stats *s)
{
    return s->acquire_failures_now > 0;
}

static bool has_recovered(const kz_stats *s)
{
    return s->acquire_failures_now == 0;
}

static bool has_fenced(const kz_stats *s)
{
    return s->ids_fenced > 20;
}

static bool has_unfenced(const kz_stats *s)
{
    return s->ids_unfenced > 20;
}

/* Mints until nothing is left, and the keeper too got nothing; what is told then. */
static kz_status mint_to_the_end(kz_generator *gen, ids *all, kz_error *err)
{
    kz_status status = KZ_TIMEOUT;
    for (int64_t until_us = mono_us() + 60000000; mono_us() < until_us; nap_us(300)) {
        kz_id id;
        status = kz_mint(gen, &id, 1, 20, err);
        if (status == KZ_OK)
            add_ids(all, &id, 1);
        else if (status != KZ_TIMEOUT)
            break;
    }
    return status;
}

/* The end of all that is held, when the source has gone silent and the keeper has noticed: nothing is added then. */
static int64_t end_of_all_ms(kz_generator *gen, ids *all)
{
    scripted->answer = SILENCE;
    mint_until(gen, is_failing, all);
    return stats_of(gen).window_end_unix_ms;
}

static int64_t unix_ms_of(kz_id id)
{
    return (int64_t)(id >> 22) + EPOCH_MS;
}

/* --------------------------------------------------------------------------------------- the source goes and comes */

static void a_generator_outlives_its_source_on_its_lease_and_then_on_fenced_twins(void **state)
{
    (void)state;
    script_reset(600);
    scripted->twin_ms = 60000;
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.use_clock = &noting_clock;
    slept_most_ns = 0;
    slept_count = 0;
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 100, &all);
    int64_t lease_end_ms = end_of_all_ms(gen, &all) - scripted->twin_ms + scripted->lease_ms;
    mint_until(gen, has_fenced, &all);
    /* To the very end on the lease, from there on by the twin. */
    for (size_t i = 0; i < all.count; i++)
        assert_int_equal(in_upper_half(all.at[i]), unix_ms_of(all.at[i]) >= lease_end_ms);
    kz_layout layout;
    kz_parts parts;
    kz_generator_layout(gen, &layout);
    assert_ok(kz_decode(&layout, all.at[all.count - 1], &parts, NULL));
    assert_true(parts.fallback);
    scripted->lease_ms = 60000;
    scripted->answer = GRANT;
    mint_until(gen, has_recovered, &all);
    uint64_t fenced = stats_of(gen).ids_fenced;
    mint_for(gen, 100, &all);
    kz_stats stats = stats_of(gen);
    assert_false(in_upper_half(all.at[all.count - 1]));
    /* The millisecond in which it came back may still belong to the twin. */
    assert_true(stats.ids_fenced <= fenced + 5);
    assert_int_equal(stats.ids_unfenced, 0);
    assert_int_equal(stats.ids_leased + stats.ids_fenced, all.count);
    assert_true(stats.acquire_failures > 0);
    assert_increasing(&all);
    /* No call waited for the keeper, and none slept past the next millisecond. */
    assert_int_equal(stats.sleeps, slept_count);
    assert_true(slept_most_ns <= 1000000);
    assert_contains(log_text, "the script says nothing; minting goes on with what is held, trying again");
    kz_close(gen);
    free(all.at);
}

/* With the machine's own clock, as fast as can be. Nobody but this thread ends the silence: a call that waited for the
 * keeper would fail. */
static void the_quick_way_outlives_it_too(void **state)
{
    (void)state;
    script_reset(300);
    scripted->twin_ms = 60000;
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.timeout_ms = 5000;
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    static kz_id batch[64];
    int64_t began_us = mono_us();
    for (bool done = false; !done;) {
        kz_stats stats = stats_of(gen);
        scripted->answer = mono_us() < began_us + 100000 || stats.ids_fenced > 10000 ? GRANT : SILENCE;
        done = stats.ids_fenced > 10000 && stats.acquire_failures_now == 0 && !in_upper_half(batch[63]);
        assert_true(mono_us() < began_us + 60000000);
        assert_ok(kz_next_batch(gen, batch, 64));
        add_ids(&all, batch, 64);
    }
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.ids_leased + stats.ids_fenced, all.count);
    assert_increasing(&all);
    kz_close(gen);
    free(all.at);
}

static void without_fallback_it_stops_at_the_window_s_end_and_says_why(void **state)
{
    (void)state;
    script_reset(400);
    kz_options options = brisk(KZ_FALLBACK_NEVER);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    kz_error err = {0};
    scripted->answer = SILENCE;
    assert_status(mint_to_the_end(gen, &all, &err), KZ_LEASE_ACQUISITION);
    int64_t told_ms = wall_ms(), end_ms = stats_of(gen).window_end_unix_ms;
    assert_int_equal(err.cause, KZ_UNAVAILABLE);
    assert_contains(err.message, "the script says nothing");
    assert_true(told_ms >= end_ms);
    assert_true(unix_ms_of(all.at[all.count - 1]) < end_ms);
    kz_id id;
    assert_status(kz_try_next(gen, &id), KZ_LEASE_ACQUISITION);
    assert_status(kz_mint(gen, &id, 1, 0, &err), KZ_LEASE_ACQUISITION);
    assert_true(err.retry_us > 0 && err.retry_us <= 60 * 1000 * 1000);
    scripted->answer = REFUSE;
    for (int i = 0; i < 5000 && err.cause != KZ_NO_FREE_NODE; i++)
        assert_status(kz_mint(gen, &id, 1, 10, &err), KZ_LEASE_ACQUISITION);
    assert_int_equal(err.cause, KZ_NO_FREE_NODE);
    scripted->lease_ms = 60000;
    scripted->answer = GRANT;
    assert_ok(kz_next(gen, &id));
    add_ids(&all, &id, 1);
    assert_increasing(&all);
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.ids_fenced + stats.ids_unfenced, 0);
    assert_int_equal(stats.acquire_failures_now, 0);
    kz_close(gen);
    free(all.at);
}

static void a_fenced_generator_stops_when_its_twin_has_ended(void **state)
{
    (void)state;
    script_reset(100);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    kz_error err = {0};
    scripted->answer = SILENCE;
    assert_status(mint_to_the_end(gen, &all, &err), KZ_LEASE_ACQUISITION);
    int64_t told_ms = wall_ms(), end_ms = stats_of(gen).window_end_unix_ms;
    assert_true(told_ms >= end_ms);
    assert_true(unix_ms_of(all.at[all.count - 1]) < end_ms);
    assert_int_equal(stats_of(gen).ids_unfenced, 0);
    kz_close(gen);
    free(all.at);
}

static void with_any_fallback_it_goes_on_unfenced_after_the_twin_and_comes_back(void **state)
{
    (void)state;
    script_reset(100);
    scripted->twin_ms = 1500;
    kz_options options = brisk(KZ_FALLBACK_ANY);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 20, &all);
    scripted->answer = SILENCE;
    mint_until(gen, has_unfenced, &all);
    kz_stats stats = stats_of(gen);
    assert_true(stats.ids_fenced > 0);
    assert_true(in_upper_half(all.at[all.count - 1]));
    scripted->lease_ms = 60000;
    scripted->answer = GRANT;
    mint_until(gen, has_recovered, &all);
    mint_for(gen, 50, &all);
    assert_false(in_upper_half(all.at[all.count - 1]));
    stats = stats_of(gen);
    assert_int_equal(stats.ids_leased + stats.ids_fenced + stats.ids_unfenced, all.count);
    assert_increasing(&all);
    assert_contains(log_text, "unfenced IDs are allowed");
    kz_close(gen);
    free(all.at);
}

static void *take_one(void *gen)
{
    kz_id id;
    return kz_next(gen, &id) ? gen : NULL;
}

/* Points that the first thread had claimed and not handed out when the second came are of the class of that time, and
 * nothing is taken off another's count for them. */
static void a_count_does_not_turn_over_when_a_second_thread_came(void **state)
{
    (void)state;
    script_reset(300);
    scripted->twin_ms = 60000;
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 50, &all); /* one at a time: each leaves most of what was claimed with it */
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, take_one, gen), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    scripted->answer = SILENCE;
    kz_stats stats = stats_of(gen);
    for (int64_t until_us = mono_us() + 60000000; !stats.ids_fenced && mono_us() < until_us; stats = stats_of(gen))
        mint_for(gen, 1, &all);
    assert_in_range(stats.ids_fenced, 1, all.count);
    assert_in_range(stats.ids_leased, 1, UINT32_MAX);
    kz_close(gen);
    free(all.at);
}

static void a_lease_that_is_lost_is_replaced_at_once(void **state)
{
    (void)state;
    script_reset(400);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 50, &all);
    /* At the next handover. */
    scripted->answer = LOSE;
    while (scripted->answer == LOSE)
        mint_for(gen, 10, &all);
    mint_for(gen, 100, &all);
    kz_stats stats = stats_of(gen);
    assert_int_equal(stats.acquire_failures, 0);
    assert_int_equal(stats.leases, 1);
    assert_increasing(&all);
    assert_contains(log_text, "the script lost it; nothing more is minted from what was held");
    kz_close(gen);
    /* All but the one that was lost are given back. */
    assert_int_equal(scripted->releases, scripted->acquires - 2);
    free(all.at);
}

/* Step by step, without a thread: the light sync says that the lease is lost. */
static void what_a_sync_finds_lost_gives_no_id_any_more(void **state)
{
    (void)state;
    virtual_clock v;
    virtual_begin(&v, VIRTUAL_EPOCH_MS + 5000);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.use_clock = &v.clock;
    kz_source_facts facts = {.layout = *kz_layout_preset(0), .flags = KZ_SOURCE_SAME_HOST};
    kz_generator *gen;
    kz_error err = {0};
    kz__errand errand;
    static kz_grant grant;
    script_reset(600000);
    assert_ok(kz__generator_new(&gen, &options, &facts, &err));
    kz__keeping_plan(gen, &errand);
    assert_int_equal(errand.task.deed, KZ__ACQUIRE);
    assert_null(errand.acquire.holds);
    grant = (kz_grant){.source_ms = VIRTUAL_EPOCH_MS + 5000, .count = 1};
    grant.leases[0] = scripted_lease(grant.source_ms);
    assert_ok(kz__keeping_done(gen, &errand, KZ_OK, &grant, &err));
    kz_id before, after;
    assert_ok(kz_mint(gen, &before, 1, 0, &err));

    virtual_advance(&v, 30000 * VIRTUAL_MS);
    kz__keeping_plan(gen, &errand);
    assert_int_equal(errand.task.deed, KZ__SYNC);
    assert_ok(kz_mint(gen, &before, 1, 0, &err));
    told(&err, KZ_LOST, "lost");
    assert_status(kz__keeping_done(gen, &errand, KZ_LOST, NULL, &err), KZ_LOST);
    assert_status(kz_mint(gen, &after, 1, 0, &err), KZ_AGAIN);
    kz__keeping_plan(gen, &errand);
    assert_int_equal(errand.task.deed, KZ__ACQUIRE);
    assert_null(errand.acquire.holds);

    /* The same place again, by chance: not one ID of it twice. */
    grant.source_ms = VIRTUAL_EPOCH_MS + 35000;
    assert_ok(kz__keeping_done(gen, &errand, KZ_OK, &grant, &err));
    assert_ok(kz_mint(gen, &after, 1, 0, &err));
    assert_true(after > before);
    gen->hot->keeper.needed = true;
    kz__keeping_plan(gen, &errand);
    assert_int_equal(errand.task.deed, KZ__ACQUIRE);
    assert_int_equal(errand.acquire.holds->id, grant.leases[0].id);
    assert_string_equal(errand.acquire.holds->secret, "scripted");
    kz_close(gen);
}

static void opening_fails_without_a_first_lease_in_time(void **state)
{
    (void)state;
    script_reset(1000);
    scripted->answer = SILENCE;
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.timeout_ms = 300;
    kz_generator *gen = NULL;
    kz_error err = {0};
    int64_t from_us = mono_us();
    assert_status(kz_open(&gen, "scripted:", &options, &err), KZ_LEASE_ACQUISITION);
    int64_t took_us = mono_us() - from_us;
    assert_int_equal(err.cause, KZ_UNAVAILABLE);
    assert_contains(err.message, "the script says nothing");
    assert_null(gen);
    assert_true(took_us >= 200000);
    assert_true(scripted->acquires > 1);
    assert_int_equal(scripted->closes, 1);
    /* An answer that will not change by asking again is told at once. */
    scripted->answer = REFUSE;
    scripted->acquires = 0;
    assert_status(kz_open(&gen, "scripted:", &options, &err), KZ_LEASE_ACQUISITION);
    assert_int_equal(err.cause, KZ_NO_FREE_NODE);
    assert_int_equal(scripted->acquires, 1);
    assert_null(gen);
}

static void *come_back(void *arg)
{
    (void)arg;
    while (scripted->acquires < 3)
        nap_us(1000);
    scripted->answer = GRANT;
    return NULL;
}

static void opening_waits_for_a_source_that_comes_back_in_time(void **state)
{
    (void)state;
    /* The largest number there is must not turn over into a time long past. */
    const int64_t timeouts_ms[] = {60000, INT64_MAX, -1};
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof timeouts_ms[0]; i++) {
        script_reset(60000);
        scripted->answer = SILENCE;
        kz_options options = brisk(KZ_FALLBACK_FENCED);
        options.timeout_ms = timeouts_ms[i];
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, come_back, NULL), 0);
        kz_generator *gen = open_with("scripted:", &options);
        pthread_join(thread, NULL);
        kz_id id;
        assert_ok(kz_try_next(gen, &id));
        assert_ok(kz_next(gen, &id));
        kz_close(gen);
    }
}

static void with_any_fallback_it_opens_without_a_source(void **state)
{
    (void)state;
    script_reset(60000);
    scripted->answer = SILENCE;
    kz_options options = brisk(KZ_FALLBACK_ANY);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 20, &all);
    assert_int_equal(stats_of(gen).ids_unfenced, all.count);
    scripted->answer = GRANT;
    mint_until(gen, has_recovered, &all);
    mint_for(gen, 20, &all);
    assert_false(in_upper_half(all.at[all.count - 1]));
    assert_increasing(&all);
    kz_close(gen);
    free(all.at);
}

static void closing_asks_once_when_nobody_answers(void **state)
{
    (void)state;
    script_reset(60000);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.throughput_min_per_ms = options.throughput_max_per_ms = 4096;
    kz_generator *gen = open_with("scripted:", &options);
    assert_int_equal(stats_of(gen).leases, 16);
    scripted->answer = SILENCE;
    kz_close(gen);
    assert_int_equal(scripted->releases_tried, 1);
}

/* ------------------------------------------------------------------------------------- answers that cannot be used */

/* Its first lease is good, the next answer is `wrong`: refused, and what is held goes on to its end. */
static void refuse_after_the_first(answer wrong, kz_status cause, const char *words)
{
    script_reset(250);
    kz_options options = brisk(KZ_FALLBACK_NEVER);
    kz_generator *gen = open_with("scripted:", &options);
    kz_layout before, after;
    kz_generator_layout(gen, &before);
    scripted->answer = wrong;
    kz_error err = {0};
    ids all = {0};
    assert_status(mint_to_the_end(gen, &all, &err), KZ_LEASE_ACQUISITION);
    assert_int_equal(err.cause, cause);
    assert_contains(err.message, words);
    assert_contains(log_text, words);
    kz_generator_layout(gen, &after);
    assert_memory_equal(&before, &after, sizeof before);
    scripted->answer = GRANT;
    kz_id id;
    /* A source that lost what it promised stays refused for a while; any other is believed again. */
    bool lost = cause == KZ_STORE && strstr(words, "back in time");
    kz_status status = lost ? kz_try_next(gen, &id) : kz_next(gen, &id);
    assert_int_equal(status, lost ? KZ_LEASE_ACQUISITION : KZ_OK);
    if (status == KZ_OK)
        add_ids(&all, &id, 1);
    assert_increasing(&all);
    kz_close(gen);
    free(all.at);
}

static void another_epoch_is_refused_with_both_values(void **state)
{
    (void)state;
    refuse_after_the_first(OTHER_EPOCH, KZ_MISMATCH, "epoch 1767312000000");
    assert_contains(log_text, "have epoch 1767225600000");
}

static void other_time_and_reserved_bits_are_refused(void **state)
{
    (void)state;
    refuse_after_the_first(OTHER_TIME, KZ_MISMATCH, "42 time and 22 low bits");
    assert_contains(log_text, "41 and 22");
}

static void another_sum_of_node_and_sequence_bits_is_refused(void **state)
{
    (void)state;
    refuse_after_the_first(OTHER_SUM, KZ_MISMATCH, "41 time and 21 low bits");
}

static void an_answer_without_leases_is_refused(void **state)
{
    (void)state;
    refuse_after_the_first(NO_LEASES, KZ_STORE, "answered with 0 leases");
}

static void a_source_that_went_back_in_time_is_refused(void **state)
{
    (void)state;
    refuse_after_the_first(OLDER, KZ_STORE, "the source went back in time");
}

static void a_layout_that_was_asked_for_is_insisted_on(void **state)
{
    (void)state;
    script_reset(1000);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.layout = "41-14-8@2026-01-01";
    kz_close(open_with("scripted:", &options));
    const answer wrong[] = {OTHER_EPOCH, OTHER_TIME, OTHER_SUM};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        scripted->answer = wrong[i];
        kz_generator *gen = NULL;
        kz_error err = {0};
        assert_status(kz_open(&gen, "scripted:", &options, &err), KZ_LEASE_ACQUISITION);
        assert_int_equal(err.cause, KZ_MISMATCH);
        assert_null(gen);
    }
}

static bool has_only_the_new_division(const kz_stats *s)
{
    return s->leases_acquired >= 3 && s->throughput_per_ms == 1024 && s->leases == 1;
}

static void another_division_of_the_same_bits_is_accepted(void **state)
{
    (void)state;
    script_reset(200);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    mint_for(gen, 20, &all);
    scripted->answer = OTHER_SPLIT;
    mint_until(gen, has_only_the_new_division, &all);
    mint_for(gen, 1, &all);
    assert_int_equal(stats_of(gen).acquire_failures, 0);
    /* Node 1,024 and up, of 12 bits. */
    assert_true((all.at[all.count - 1] & 0x3fffff) >> 10 >= 1024);
    assert_increasing(&all);
    kz_close(gen);
    free(all.at);
}

/* -------------------------------------------------------------------------------------------------- real tables */

typedef struct place {
    char folder[64];
    char path[128];
} place;

static int make_place(void **state)
{
    static place here;
    here = (place){.folder = "/tmp/kz-leases-XXXXXX"};
    if (!mkdtemp(here.folder))
        return -1;
    snprintf(here.path, sizeof here.path, "%s/leases.db", here.folder);
    *state = &here;
    return 0;
}

static int remove_place(void **state)
{
    const place *here = *state;
    static const char *const ends[] = {"", "-wal", "-shm", "-mark"};
    for (size_t i = 0; i < 4; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s%s", here->path, ends[i]);
        unlink(path);
    }
    return rmdir(here->folder);
}

typedef struct url {
    char text[256];
} url;

static url at(const place *here, const char *parameters)
{
    url u;
    snprintf(u.text, sizeof u.text, "sqlite:%s%s", here->path, parameters);
    return u;
}

static bool count_one(void *ctx, const kz_lease_info *info)
{
    (void)info;
    ++*(size_t *)ctx;
    return true;
}

static size_t leases_out(const char *where)
{
    kz_source *source;
    kz_error err = {0};
    size_t count = 0;
    if (kz_source_open(&source, where, NULL, &err) || kz_source_list(source, count_one, &count, &err))
        fail_msg("%s", err.message);
    kz_source_close(source);
    return count;
}

/* Until no more than so many are out. */
static void wait_for_leases_out(const char *where, size_t most)
{
    for (int64_t until_us = mono_us() + 60000000; leases_out(where) > most; nap_us(10000))
        assert_true(mono_us() < until_us);
}

static void closing_gives_the_leases_back(void **state)
{
    url u[2] = {at(*state, ""), {"memory:"}};
    for (int i = 0; i < 2; i++) {
        kz_options options = brisk(KZ_FALLBACK_FENCED);
        options.throughput_min_per_ms = options.throughput_max_per_ms = 1024;
        kz_generator *gen = open_with(u[i].text, &options), *other = open_with(u[i].text, NULL);
        kz_id id;
        assert_ok(kz_next(gen, &id));
        assert_int_equal(leases_out(u[i].text), 5);
        kz_close(gen);
        assert_int_equal(leases_out(u[i].text), 1);
        kz_close(other);
        assert_int_equal(leases_out(u[i].text), 0);
    }
}

/* Few IDs a millisecond and lease, so that a slow machine too uses them up. */
#define NARROW "41-14-4@2026-01-01"

/* Mints as fast as it can until it holds 16 leases and 256 IDs of one millisecond were seen. */
static void mint_256_in_a_millisecond(kz_generator *gen, ids *all)
{
    static kz_id batch[256];
    uint64_t ms = 0, in_ms = 0, most = 0;
    kz_stats stats = {0};
    for (int64_t until_us = mono_us() + 60000000; most < 256 || stats.leases != 16; stats = stats_of(gen)) {
        assert_true(mono_us() < until_us);
        assert_ok(kz_next_batch(gen, batch, 256));
        add_ids(all, batch, 256);
        for (size_t i = 0; i < 256; i++) {
            in_ms = batch[i] >> 18 == ms ? in_ms + 1 : 1;
            ms = batch[i] >> 18;
            most = in_ms > most ? in_ms : most;
        }
    }
    assert_int_equal(most, 256);
    assert_int_equal(stats.throughput_per_ms, 256);
    assert_true(stats.sequence_exhausted > 0);
}

static bool is_at_one_lease(const kz_stats *s)
{
    return s->leases == 1;
}

static bool has_given_16_back(const kz_stats *s)
{
    return s->leases_released >= 16;
}

static void throughput_grows_to_16_leases_under_load_and_they_go_back(void **state)
{
    url u[2] = {at(*state, "?lease=400ms"), {"memory:?service=wide&lease=400ms"}};
    for (int i = 0; i < 2; i++) {
        kz_options options = brisk(KZ_FALLBACK_FENCED);
        options.layout = NARROW;
        options.throughput_min_per_ms = 16;
        options.throughput_max_per_ms = 256;
        kz_generator *gen = open_with(u[i].text, &options);
        ids all = {0};
        assert_int_equal(stats_of(gen).leases, 1);
        mint_256_in_a_millisecond(gen, &all);
        mint_until(gen, is_at_one_lease, &all);
        assert_int_equal(stats_of(gen).throughput_per_ms, 16);
        /* Those that were succeeded go when their window is over. */
        mint_until(gen, has_given_16_back, &all);
        wait_for_leases_out(u[i].text, 2);
        assert_increasing(&all);
        kz_close(gen);
        free(all.at);
        assert_int_equal(leases_out(u[i].text), 0);
    }
}

static void handovers_leave_neither_gap_nor_twin(void **state)
{
    url u = at(*state, "?lease=200ms");
    enum { COUNT = 4 };
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gens[COUNT];
    ids each[COUNT] = {0}, all = {0};
    for (int i = 0; i < COUNT; i++)
        gens[i] = open_with(u.text, &options);
    int64_t began_us = mono_us();
    for (uint64_t fewest = 0; fewest < 6;) {
        assert_true(mono_us() < began_us + 60000000);
        fewest = UINT64_MAX;
        for (int i = 0; i < COUNT; i++) {
            kz_id batch[100];
            assert_ok(kz_next_batch(gens[i], batch, 100));
            add_ids(&each[i], batch, 100);
            uint64_t acquired = stats_of(gens[i]).leases_acquired;
            fewest = acquired < fewest ? acquired : fewest;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        kz_close(gens[i]);
        assert_increasing(&each[i]);
        add_ids(&all, each[i].at, each[i].count);
        free(each[i].at);
    }
    assert_no_twins(&all);
    free(all.at);
    wait_for_leases_out(u.text, 0);
}

static void two_services_in_one_store_have_their_own_layouts(void **state)
{
    url u = at(*state, "");
    kz_options a = brisk(KZ_FALLBACK_FENCED), b = brisk(KZ_FALLBACK_FENCED);
    a.service = "orders";
    b.service = "payments";
    b.layout = "42-12-10@2025-01-01";
    kz_generator *orders = open_with(u.text, &a), *payments = open_with(u.text, &b);
    kz_layout layout;
    kz_generator_layout(orders, &layout);
    assert_string_equal(layout.name, "kazahana");
    kz_generator_layout(payments, &layout);
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(&layout, text);
    assert_string_equal(text, "42-12-10@2025-01-01");
    kz_id id;
    assert_ok(kz_next(orders, &id));
    assert_ok(kz_next(payments, &id));
    kz_close(orders);
    kz_close(payments);
}

static void a_changed_epoch_is_refused_with_both_values_named(void **state)
{
    url u = at(*state, "");
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.layout = "41-14-8@2026-01-01";
    kz_close(open_with(u.text, &options));
    options.layout = "41-14-8@2025-01-01";
    kz_generator *gen = NULL;
    kz_error err = {0};
    assert_status(kz_open(&gen, u.text, &options, &err), KZ_MISMATCH);
    assert_contains(err.message, "2026-01-01");
    assert_contains(err.message, "2025-01-01");
    assert_null(gen);
}

static void set_division(const place *here, int node_bits, int seq_bits)
{
    sqlite3 *db;
    char sql[100];
    snprintf(sql, sizeof sql, "UPDATE service SET node_bits=%d, seq_bits=%d", node_bits, seq_bits);
    assert_int_equal(sqlite3_open(here->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Every generator uses its blocks to the last slot, so an overlap would show at once. */
static void sequence_bits_8_become_10_and_8_again_while_leases_are_out(void **state)
{
    url u = at(*state, "?lease=400ms");
    enum { COUNT = 9 };
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.throughput_max_per_ms = 2048;
    kz_generator *gens[COUNT] = {0};
    ids each[COUNT] = {0}, all = {0};
    for (int i = 0; i < COUNT; i++) {
        if (i == 3)
            set_division(*state, 12, 10);
        if (i == 6)
            set_division(*state, 14, 8);
        gens[i] = open_with(u.text, &options);
        for (int64_t until_us = mono_us() + 120000; mono_us() < until_us;) {
            for (int j = 0; j <= i; j++) {
                kz_id batch[256];
                assert_ok(kz_next_batch(gens[j], batch, 256));
                add_ids(&each[j], batch, 256);
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(stats_of(gens[i]).acquire_failures, 0);
        kz_close(gens[i]);
        assert_increasing(&each[i]);
        add_ids(&all, each[i].at, each[i].count);
        free(each[i].at);
    }
    assert_no_twins(&all);
    free(all.at);
}

/* --------------------------------------------------------------------------------------------------------- fork */

/* What a child minted comes through a pipe. */
static int fork_minting(kz_generator *gen, size_t count, bool try_first, pid_t *child)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *child = fork();
    assert_true(*child >= 0);
    if (*child) {
        close(ends[1]);
        return ends[0];
    }
    alarm(120);
    kz_id *minted = malloc((count + 1) * sizeof *minted);
    if (!minted)
        _exit(2);
    /* Unless this thread stood still and its keeper was faster. */
    kz_status status = try_first ? kz_try_next(gen, minted) : KZ_AGAIN;
    if (status && status != KZ_AGAIN)
        _exit(5);
    size_t done = status ? 0 : 1;
    for (; done < count && kz_next(gen, &minted[done]) == KZ_OK; done++)
        ;
    if (done < count)
        _exit(3);
    for (const char *from = (char *)minted, *end = (char *)(minted + count); from < end;) {
        ssize_t wrote = write(ends[1], from, (size_t)(end - from));
        if (wrote <= 0)
            _exit(4);
        from += wrote;
    }
    kz_close(gen);
    _exit(0);
}

static void read_child(int fd, size_t count, pid_t child, ids *all)
{
    ids minted = {.at = malloc(count * sizeof(kz_id)), .count = count};
    assert_non_null(minted.at);
    size_t have = 0;
    for (ssize_t got; (got = read(fd, (char *)minted.at + have, count * sizeof(kz_id) - have)) > 0;)
        have += (size_t)got;
    close(fd);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(have, count * sizeof(kz_id));
    assert_increasing(&minted);
    add_ids(all, minted.at, count);
    free(minted.at);
}

static void a_child_takes_a_lease_of_its_own(void **state)
{
    if (UNDER_TSAN)
        skip();
    url u = at(*state, "");
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with(u.text, &options);
    ids all = {0};
    mint_for(gen, 20, &all);
    pid_t child;
    int fd = fork_minting(gen, 5000, true, &child);
    mint_for(gen, 50, &all);
    read_child(fd, 5000, child, &all);
    mint_for(gen, 20, &all);
    assert_no_twins(&all);
    free(all.at);
    /* The child's went back when it closed the generator. */
    assert_int_equal(leases_out(u.text), 1);
    kz_close(gen);
    assert_int_equal(leases_out(u.text), 0);
}

static void a_child_forked_while_an_acquire_is_in_flight_takes_a_lease_of_its_own(void **state)
{
    (void)state;
    if (UNDER_TSAN)
        skip();
    script_reset(400);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    ids all = {0};
    scripted->delay_ms = 300;
    while (!scripted->asking)
        mint_for(gen, 1, &all);
    scripted->delay_ms = 0;
    pid_t child;
    int fd = fork_minting(gen, 2000, true, &child);
    mint_for(gen, 500, &all);
    read_child(fd, 2000, child, &all);
    assert_true(scripted->abandoned >= 1);
    assert_no_twins(&all);
    free(all.at);
    kz_close(gen);
}

static void forks_at_any_moment_of_a_busy_keeper_leave_no_child_hanging_and_no_twin(void **state)
{
    if (UNDER_TSAN)
        skip();
    url u = at(*state, "?lease=200ms");
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with(u.text, &options);
    ids all = {0};
    enum { CHILDREN = 24 };
    pid_t child[CHILDREN];
    int fd[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        kz_id batch[500];
        assert_ok(kz_next_batch(gen, batch, 500));
        add_ids(&all, batch, 500);
        fd[i] = fork_minting(gen, 1000, false, &child[i]);
        nap_us(10000);
    }
    for (int i = 0; i < CHILDREN; i++)
        read_child(fd[i], 1000, child[i], &all);
    assert_no_twins(&all);
    free(all.at);
    kz_close(gen);
    wait_for_leases_out(u.text, 0);
}

/* pthread_create goes through here, for the library too: see meson.build. */
static _Atomic bool no_threads;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    return no_threads ? EAGAIN : __real_pthread_create(thread, attr, body, arg);
}

static void a_child_without_a_thread_for_its_keeper_is_told_and_tries_again(void **state)
{
    (void)state;
    if (UNDER_TSAN)
        skip();
    script_reset(60000);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    kz_generator *gen = open_with("scripted:", &options);
    pid_t child = fork();
    if (!child) {
        alarm(120);
        kz_id id;
        kz_error err = {0};
        no_threads = true;
        for (int i = 0; i < 3; i++)
            if (kz_mint(gen, &id, 1, 100, &err) != KZ_SYSTEM || !strstr(err.message, "thread") ||
                kz_try_next(gen, &id) != KZ_SYSTEM)
                _exit(1);
        no_threads = false;
        if (kz_next(gen, &id))
            _exit(2);
        kz_close(gen);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The parent's, and the child's, which went back. */
    assert_int_equal(scripted->acquires, 2);
    assert_int_equal(scripted->releases, 1);
    kz_close(gen);
}

/* An answer that went astray and comes now must not move the clock, nor stop anybody. */
static void an_old_answer_about_the_time_is_not_used(void **state)
{
    (void)state;
    script_reset(60000);
    kz_options options = brisk(KZ_FALLBACK_NEVER);
    kz_generator *gen = open_with("scripted:", &options);
    kz__errand errand = {.task = {.deed = KZ__SYNC}};
    kz_grant *late = calloc(1, sizeof *late);
    assert_non_null(late);
    *late = (kz_grant){.source_ms = wall_ms() + 3600000, .generation = 50};
    kz_error err = {0};
    int64_t before_ns = kz__id_ns(gen);
    assert_status(kz__keeping_done(gen, &errand, KZ_OK, late, &err), KZ_STORE);
    assert_contains(err.message, "went back in time");
    assert_true(kz__id_ns(gen) - before_ns < 1800000 * KZ__NS_PER_MS);
    late->generation = scripted->generation + 1;
    assert_ok(kz__keeping_done(gen, &errand, KZ_OK, late, &err));
    assert_true(kz__id_ns(gen) - before_ns > 1800000 * KZ__NS_PER_MS);
    free(late);
    kz_close(gen);
}

/* What its parent saw counts for it too: else it would take a lease from a table that forgot who holds it. */
static void a_child_remembers_the_generation_that_its_parent_saw(void **state)
{
    (void)state;
    if (UNDER_TSAN)
        skip();
    script_reset(60000);
    kz_options options = brisk(KZ_FALLBACK_NEVER);
    kz_generator *gen = open_with("scripted:", &options);
    scripted->answer = OLDER;
    pid_t child = fork();
    if (!child) {
        alarm(120);
        kz_id id;
        kz_error err = {0};
        if (kz_mint(gen, &id, 1, 2000, &err) != KZ_LEASE_ACQUISITION || err.cause != KZ_STORE ||
            !strstr(err.message, "went back in time"))
            _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kz_id id;
    assert_ok(kz_next(gen, &id));
    kz_close(gen);
}

/* A restored process image: the same state of chance in two generators. They are not one that asks twice. */
static void a_copy_of_a_generator_is_given_a_lease_of_its_own(void **state)
{
    (void)state;
    kz_generator *gens[2];
    kz_error err;
    for (int i = 0; i < 2; i++)
        assert_ok(kz_open(&gens[i], "memory:", NULL, &err));
    kz__hot *one = gens[0]->hot, *other = gens[1]->hot;
    pthread_mutex_lock(&one->lock);
    pthread_mutex_lock(&other->lock);
    memcpy(other->random, one->random, sizeof one->random);
    for (int i = 0; i < 2; i++) {
        gens[i]->hot->keeper.renew_boot_ms = 0;
        kz__keeper_call(gens[i]->hot);
    }
    pthread_mutex_unlock(&other->lock);
    pthread_mutex_unlock(&one->lock);
    kz_lease newest[2];
    for (int i = 0; i < 2; i++) {
        kz__hot *hot = gens[i]->hot;
        for (bool there = false; !there; nap_us(1000)) {
            pthread_mutex_lock(&hot->lock);
            there = hot->acquired >= 2;
            newest[i] = hot->keeper.held[hot->keeper.held_count - 1].lease;
            pthread_mutex_unlock(&hot->lock);
        }
    }
    assert_int_not_equal(newest[0].id, newest[1].id);
    assert_string_not_equal(newest[0].secret, newest[1].secret);
    for (int i = 0; i < 2; i++)
        kz_close(gens[i]);
}

static void a_child_of_a_generator_over_memory_is_refused(void **state)
{
    (void)state;
    kz_generator *gen = open_with("memory:", NULL);
    pid_t child = fork();
    if (!child) {
        alarm(120);
        kz_id id;
        _exit(kz_next(gen, &id) == KZ_FORKED && kz_try_next(gen, &id) == KZ_FORKED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kz_id id;
    assert_ok(kz_next(gen, &id));
    kz_close(gen);
}

static int64_t in_1970(void *ctx)
{
    (void)ctx;
    return 0;
}

static int64_t since_boot(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void no_sleep(void *ctx, int64_t ns)
{
    (void)ctx;
    nap_us(ns / 1000);
}

/* With leases the time is the source's: a wall clock in 1970 is nobody's business, in a child without a lease either.
 */
static void a_child_does_not_look_at_the_wall_clock(void **state)
{
    (void)state;
    if (UNDER_TSAN)
        skip();
    static const kz_clock clock = {.wall_ns = in_1970, .boot_ns = since_boot, .sleep_ns = no_sleep};
    script_reset(60000);
    kz_options options = brisk(KZ_FALLBACK_FENCED);
    options.use_clock = &clock;
    kz_generator *gen = open_with("scripted:", &options);
    kz_id id;
    assert_ok(kz_next(gen, &id));
    scripted->delay_ms = 300;
    pid_t child = fork();
    if (!child) {
        alarm(120);
        kz_error err;
        if (kz_mint(gen, &id, 1, 0, &err) != KZ_AGAIN || err.retry_us <= 0)
            _exit(1);
        _exit(kz_mint(gen, &id, 1, 60000, &err) == KZ_OK ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    scripted->delay_ms = 0;
    kz_close(gen);
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generator_outlives_its_source_on_its_lease_and_then_on_fenced_twins),
        cmocka_unit_test(the_quick_way_outlives_it_too),
        cmocka_unit_test(a_child_does_not_look_at_the_wall_clock),
        cmocka_unit_test(without_fallback_it_stops_at_the_window_s_end_and_says_why),
        cmocka_unit_test(a_fenced_generator_stops_when_its_twin_has_ended),
        cmocka_unit_test(with_any_fallback_it_goes_on_unfenced_after_the_twin_and_comes_back),
        cmocka_unit_test(a_count_does_not_turn_over_when_a_second_thread_came),
        cmocka_unit_test(a_lease_that_is_lost_is_replaced_at_once),
        cmocka_unit_test(what_a_sync_finds_lost_gives_no_id_any_more),
        cmocka_unit_test(opening_fails_without_a_first_lease_in_time),
        cmocka_unit_test(opening_waits_for_a_source_that_comes_back_in_time),
        cmocka_unit_test(with_any_fallback_it_opens_without_a_source),
        cmocka_unit_test(closing_asks_once_when_nobody_answers),
        cmocka_unit_test(another_epoch_is_refused_with_both_values),
        cmocka_unit_test(other_time_and_reserved_bits_are_refused),
        cmocka_unit_test(another_sum_of_node_and_sequence_bits_is_refused),
        cmocka_unit_test(an_answer_without_leases_is_refused),
        cmocka_unit_test(a_source_that_went_back_in_time_is_refused),
        cmocka_unit_test(a_layout_that_was_asked_for_is_insisted_on),
        cmocka_unit_test(another_division_of_the_same_bits_is_accepted),
        PLACE_TEST(closing_gives_the_leases_back),
        PLACE_TEST(throughput_grows_to_16_leases_under_load_and_they_go_back),
        PLACE_TEST(handovers_leave_neither_gap_nor_twin),
        PLACE_TEST(two_services_in_one_store_have_their_own_layouts),
        PLACE_TEST(a_changed_epoch_is_refused_with_both_values_named),
        PLACE_TEST(sequence_bits_8_become_10_and_8_again_while_leases_are_out),
        PLACE_TEST(a_child_takes_a_lease_of_its_own),
        cmocka_unit_test(a_child_forked_while_an_acquire_is_in_flight_takes_a_lease_of_its_own),
        PLACE_TEST(forks_at_any_moment_of_a_busy_keeper_leave_no_child_hanging_and_no_twin),
        cmocka_unit_test(a_child_without_a_thread_for_its_keeper_is_told_and_tries_again),
        cmocka_unit_test(a_copy_of_a_generator_is_given_a_lease_of_its_own),
        cmocka_unit_test(a_child_of_a_generator_over_memory_is_refused),
        cmocka_unit_test(a_child_remembers_the_generation_that_its_parent_saw),
        cmocka_unit_test(an_old_answer_about_the_time_is_not_used),
    };
    void *page = mmap(NULL, sizeof *scripted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || kz_source_register(&scripted_ops, NULL))
        return 1;
    scripted = page;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
