/* The thread that runs the keeper's errands: the only place that talks to a source once a generator is open. */
#include "core/error.h"
#include "lib/generator.h"

#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static kz_status run_errand(kz_generator *gen, const kz__errand *errand, kz_error *err)
{
    const kz_source_ops *ops = gen->source->ops;
    /* In a child the parent's connection must be left alone before anything else. */
    if (gen->inherited)
        kz__source_abandon(gen->source);
    gen->inherited = false;
    if (!gen->source->handle) {
        kz_status status = kz__source_reopen(gen->source, &gen->options, &gen->clock, err);
        if (status)
            return status;
    }
    void *handle = gen->source->handle;
    kz_grant *answer = gen->answer;
    memset(answer, 0, offsetof(kz_grant, leases));
    switch (errand->task.deed) {
    case KZ__ACQUIRE:
        return ops->acquire(handle, &errand->acquire, answer, err);
    case KZ__RELEASE:
        return ops->release ? ops->release(handle, &errand->release, err) : KZ_OK;
    case KZ__SYNC:
        return ops->now ? ops->now(handle, &answer->source_ms, &answer->generation, err) : KZ_OK;
    case KZ__REST:
    case KZ__STOP:
        break;
    }
    return KZ_OK;
}

static void report(const kz_generator *gen, const kz__errand *errand, kz_status status, const kz_error *why)
{
    if (status == KZ_OK || (errand->task.deed == KZ__RELEASE && status == KZ_NOT_FOUND))
        return;
    if (errand->task.deed == KZ__ACQUIRE && gen->hot->acquired == 0) {
        kz__log(gen, KZ_LOG_WARNING, "%s; nothing is held yet", why->message);
        return;
    }
    if (status == KZ_LOST && errand->task.deed != KZ__RELEASE) {
        kz__log(gen, KZ_LOG_ERROR, "%s; nothing more is minted from what was held, asking for another lease",
                why->message);
        return;
    }
    const char *consequence[] = {
        [KZ__ACQUIRE] = gen->hot->keeper.held_count ? "minting goes on with what is held, trying again"
                                                    : "nothing is held, trying again",
        [KZ__RELEASE] = "the lease will end by itself",
        [KZ__SYNC] = "the ID clock goes on by itself",
    };
    kz__log(gen, errand->task.deed == KZ__ACQUIRE ? KZ_LOG_ERROR : KZ_LOG_WARNING, "%s; %s", why->message,
            consequence[errand->task.deed]);
}

/* What was done in all. */
static kz_usage usage_of(kz_generator *gen)
{
    kz_stats stats;
    kz_stats_init(&stats);
    if (kz_stats_get(gen, &stats))
        return (kz_usage){0};
    return (kz_usage){stats.ids_leased, stats.ids_fenced, stats.ids_unfenced, stats.sequence_exhausted,
                      stats.clock_backward};
}

static kz_usage usage_since(const kz_usage *all, const kz_usage *told)
{
    return (kz_usage){all->ids - told->ids, all->fenced - told->fenced, all->unfenced - told->unfenced,
                      all->exhausted - told->exhausted, all->clock_back - told->clock_back};
}

kz_status kz__keeper_run_once(kz_generator *gen, int64_t *until_boot_ms, bool *stopped, kz_error *err)
{
    kz__errand errand;
    kz_error why = {0};
    kz__keeping_plan(gen, &errand);
    *stopped = errand.task.deed == KZ__STOP;
    *until_boot_ms = errand.task.deed == KZ__REST ? errand.task.until_boot_ms : 0;
    if (errand.task.deed == KZ__REST || *stopped)
        return KZ_OK;
    kz_usage all = usage_of(gen), used = usage_since(&all, &gen->hot->told);
    errand.acquire.used = errand.release.used = &used;
    kz_status status = run_errand(gen, &errand, &why);
    if (status == KZ_OK && errand.task.deed != KZ__SYNC)
        gen->hot->told = all;
    status = kz__keeping_done(gen, &errand, status, gen->answer, &why);
    report(gen, &errand, status, &why);
    if (status && err)
        *err = why;
    return status;
}

/* Waits until then, or until something changed. The lock is held before and after. */
static void rest(kz_generator *gen, int64_t until_boot_ms)
{
    kz__hot *hot = gen->hot;
    int64_t pause_ms = until_boot_ms - gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
    if (until_boot_ms == KZ__NEVER_MS) {
        pthread_cond_wait(&hot->changed, &hot->lock);
        return;
    }
    if (pause_ms <= 0)
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += pause_ms % 1000 * KZ__NS_PER_MS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&hot->changed, &hot->lock, &until);
}

/* A copy of this process (a cloned machine, a restored image) would draw the same request as we do, be taken for us
 * asking again, and be given our leases for ever. So fresh entropy is mixed in before each request: a clone then draws
 * another one. Where the kernel gives none at once, the old has to do. */
static void draw_anew(kz_generator *gen)
{
    kz__hot *hot = gen->hot;
    uint64_t fresh[2];
    if (getrandom(fresh, sizeof fresh, GRND_NONBLOCK) != sizeof fresh)
        return;
    pthread_mutex_lock(&hot->lock);
    hot->random[0] ^= fresh[0];
    hot->random[1] ^= fresh[1];
    pthread_mutex_unlock(&hot->lock);
}

static void *keep(void *arg)
{
    kz_generator *gen = arg;
    kz__hot *hot = gen->hot;
    for (bool stopped = false; !stopped;) {
        draw_anew(gen);
        pthread_mutex_lock(&hot->lock);
        uint64_t calls = hot->keeper_calls;
        pthread_mutex_unlock(&hot->lock);
        int64_t until_boot_ms;
        (void)kz__keeper_run_once(gen, &until_boot_ms, &stopped, NULL);
        pthread_mutex_lock(&hot->lock);
        /* Nobody may have called between the plan and now, else the plan is out of date. */
        if (!stopped && until_boot_ms && calls == hot->keeper_calls)
            rest(gen, until_boot_ms);
        pthread_mutex_unlock(&hot->lock);
    }
    return NULL;
}

kz_status kz__keeper_start(kz_generator *gen, kz_error *err)
{
    if (gen->options.keeper == KZ_KEEPER_CALLER)
        return KZ_OK;
    /* The program's signals are the program's: none of them is delivered to this thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&gen->keeper_thread, NULL, keep, gen);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return kz__fail(err, KZ_SYSTEM, "no thread for the keeper: %s", strerror(error));
    gen->hot->keeper_runs = true;
    return KZ_OK;
}

kz_status kz__keeper_revive(kz_generator *gen, kz_error *err)
{
    if (gen->facts.flags & KZ_SOURCE_FIXED)
        return KZ_FORKED;
    kz_status status = kz__generator_init(gen, err);
    gen->inherited = true;
    if (status == KZ_OK && gen->source)
        status = kz__keeper_start(gen, err);
    /* Not for ever: the next call tries again. */
    gen->hot->alive = status == KZ_OK;
    return status;
}

kz_status kz_keep(kz_generator *gen, int64_t *wait_ms, kz_error *err)
{
    kz__hot *hot = gen->hot;
    if (gen->options.keeper != KZ_KEEPER_CALLER)
        return kz__fail(err, KZ_UNSUPPORTED, "this generator keeps itself: open it with keeper = KZ_KEEPER_CALLER");
    pthread_mutex_lock(&hot->lock);
    kz_status status = hot->alive ? KZ_OK : kz__keeper_revive(gen, err);
    pthread_mutex_unlock(&hot->lock);
    if (status)
        return status == KZ_FORKED ? kz__fail(err, status, "%s", kz_status_text(status)) : status;
    int64_t until_boot_ms = KZ__NEVER_MS;
    if (gen->source->ops->acquire) {
        bool stopped;
        kz_error why;
        do {
            draw_anew(gen);
            kz_status done = kz__keeper_run_once(gen, &until_boot_ms, &stopped, &why);
            if (done && !status) {
                status = done;
                if (err)
                    *err = why;
            }
        } while (!until_boot_ms && !stopped);
    }
    int64_t left_ms = until_boot_ms - gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
    *wait_ms = until_boot_ms == KZ__NEVER_MS ? INT64_MAX : left_ms > 0 ? left_ms : 0;
    return status;
}

void kz__keeper_stop(kz_generator *gen)
{
    kz__hot *hot = gen->hot;
    pthread_mutex_lock(&hot->lock);
    hot->keeper.closing = true;
    kz__keeper_call(hot);
    pthread_mutex_unlock(&hot->lock);
    if (hot->keeper_runs) {
        pthread_join(gen->keeper_thread, NULL);
        hot->keeper_runs = false;
        return;
    }
    int64_t until_boot_ms;
    for (bool stopped = false; !stopped;)
        (void)kz__keeper_run_once(gen, &until_boot_ms, &stopped, NULL);
}
