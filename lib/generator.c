/* Opening, closing and asking about a generator. How it mints is in lib/mint.c. */
#include "lib/generator.h"
#include "core/error.h"
#include "host/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SYNC_EVERY_MS 30000

/* ------------------------------------------------------------------------------------------------- setting up */

/* Who holds the leases, for people: this process, also after a fork. */
static void set_holder(kz_generator *gen)
{
    if (gen->options.meta) {
        snprintf(gen->holder, sizeof gen->holder, "%s", gen->options.meta);
        return;
    }
    char host[65] = "unknown";
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
            *c = '_';
    snprintf(gen->holder, sizeof gen->holder, "{\"host\":\"%s\",\"pid\":\"%ld\"}", host, (long)getpid());
}

static kz__tick_kind ticks_for(const kz_options *options)
{
    if (options->use_clock)
        return KZ__TICKS_OFF;
    return options->clock == KZ_CLOCK_COARSE ? KZ__TICKS_COARSE : kz__precise_ticks();
}

kz_status kz__generator_init(kz_generator *gen, kz_error *err)
{
    kz__hot *hot = gen->hot;
    const kz_options *o = &gen->options;
    free(gen->rects_memory);
    free(gen->held_memory);
    gen->rects_memory = NULL;
    gen->held_memory = NULL;
    /* Wiped by a fork, but not by a revival that failed after it. */
    hot->rects = NULL;
    hot->rect_count = hot->rect_room = 0;
    if (getrandom(hot->random, sizeof hot->random, 0) != sizeof hot->random)
        return kz__fail(err, KZ_SYSTEM, "the kernel gives no random numbers");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&hot->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);

    const kz_source_facts *facts = &gen->facts;
    bool same_host = facts->flags & KZ_SOURCE_SAME_HOST;
    hot->idclock.drift_ppm = same_host ? 0 : KZ__DRIFT_PPM;
    hot->reading_ms = hot->high_ms = kz__ms(kz__id_ns(gen));
    hot->keeper = (kz__keeper){.throughput_min = o->throughput_min_per_ms,
                               .throughput_max = o->throughput_max_per_ms,
                               .renew_at = o->renew_at,
                               .retry_initial_ms = o->retry_initial_ms,
                               .retry_max_ms = o->retry_max_ms,
                               .sync_every_ms = gen->wall_clock ? 0 : SYNC_EVERY_MS,
                               .uses_twins = gen->fallback != KZ_FALLBACK_NEVER,
                               .seen = &gen->seen};
    hot->ticks = ticks_for(o);
    kz__tick_rate_init(&hot->rate, hot->ticks);
    if (gen->shared)
        atomic_store(&hot->owner, KZ__EVERYBODY);
    set_holder(gen);
    hot->alive = gen->started = true;
    return kz__keeping_rebuild(gen, err);
}

void kz__generator_set_layout(kz_generator *gen, const kz_layout *layout)
{
    gen->layout = *layout;
    gen->slot_bits = kz__slot_bits(layout);
    bool fits = layout->epoch_ms <= INT64_MAX / KZ__NS_PER_MS;
    gen->epoch_ns = fits ? layout->epoch_ms * KZ__NS_PER_MS : INT64_MAX;
}

static char *copy_text(const char *text, bool *failed)
{
    char *copy = text ? strdup(text) : NULL;
    *failed |= text && !copy;
    return copy;
}

static void free_generator(kz_generator *gen)
{
    if (!gen->shared)
        kz__page_free(gen->hot);
    free(gen->rects_memory);
    free(gen->held_memory);
    free((char *)gen->options.service);
    free((char *)gen->options.layout);
    free((char *)gen->options.meta);
    free(gen->answer);
    free(gen);
}

kz_status kz__generator_new(kz_generator **out, const kz_options *options, const kz_source_facts *facts, kz_error *err)
{
    kz_generator *gen = calloc(1, sizeof *gen);
    if (!gen)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator");
    bool failed = false;
    gen->options = *options;
    gen->options.service = copy_text(options->service, &failed);
    gen->options.layout = copy_text(options->layout, &failed);
    gen->options.meta = copy_text(options->meta, &failed);
    gen->answer = calloc(1, sizeof *gen->answer);
    gen->clock = options->use_clock ? *options->use_clock : kz__machine_clock;
    gen->policy = (kz__policy){options->backward, options->max_backward_ms, options->max_ahead_ms};
    gen->fallback = options->fallback;
    gen->facts = *facts;
    gen->wall_clock = facts->flags & KZ_SOURCE_WALL_CLOCK;
    kz__generator_set_layout(gen, &facts->layout);
    gen->layout_known = options->layout || gen->wall_clock || options->fallback == KZ_FALLBACK_ANY;
    void *page = NULL;
    kz_status status = failed || !gen->answer ? kz__fail(err, KZ_NO_MEMORY, "no memory for a generator")
                                              : kz__page_new(&page, sizeof *gen->hot, err);
    gen->hot = page;
    if (status == KZ_OK)
        status = kz__generator_init(gen, err);
    if (status) {
        free_generator(gen);
        return status;
    }
    *out = gen;
    return KZ_OK;
}

/* ------------------------------------------------------------------------------------------ opening, closing */

/* An answer that will not change by asking again. */
static bool is_final(kz_status status)
{
    return status != KZ_UNAVAILABLE && status != KZ_OK;
}

static int64_t boot_ms(const kz_generator *gen)
{
    return gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
}

/* A pause that would outlast the caller's patience is cut short, so that there is one more try at its end. False: there
 * was that try already. */
static bool pause_until_next_try(kz_generator *gen, int64_t deadline_ms)
{
    kz__keeper *keeper = &gen->hot->keeper;
    int64_t now_ms = boot_ms(gen);
    if (keeper->retry_boot_ms > deadline_ms) {
        if (now_ms >= deadline_ms)
            return false;
        keeper->retry_boot_ms = deadline_ms;
    }
    if (keeper->retry_boot_ms > now_ms)
        gen->clock.sleep_ns(gen->clock.ctx, (keeper->retry_boot_ms - now_ms) * KZ__NS_PER_MS);
    return true;
}

/* Asks for the first lease until there is one or the time is up. */
static kz_status first_lease(kz_generator *gen, kz_error *err)
{
    int64_t timeout_ms = gen->options.timeout_ms;
    int64_t deadline_ms = timeout_ms < 0 || timeout_ms > INT64_MAX / 4 ? INT64_MAX : boot_ms(gen) + timeout_ms;
    for (;;) {
        int64_t until_boot_ms;
        bool stopped;
        kz_status status = kz__keeper_run_once(gen, &until_boot_ms, &stopped, err);
        if (gen->hot->keeper.held_count)
            return KZ_OK;
        if (is_final(status) || (status && gen->fallback == KZ_FALLBACK_ANY))
            return status;
        if (status && !pause_until_next_try(gen, deadline_ms))
            return status;
    }
}

static kz_status start(kz_generator *gen, kz_error *err)
{
    const kz_source_ops *ops = gen->source->ops;
    if (!ops->acquire)
        return KZ_OK;
    kz_error why = {0};
    kz_status status = first_lease(gen, &why);
    if (status && (gen->fallback != KZ_FALLBACK_ANY || gen->wall_clock || status == KZ_MISMATCH)) {
        if (gen->wall_clock) {
            if (err)
                *err = why;
            return status;
        }
        kz__fail(err, KZ_LEASE_ACQUISITION, "no lease: %s", why.message);
        if (err)
            err->cause = status;
        return KZ_LEASE_ACQUISITION;
    }
    bool endless = status == KZ_OK && gen->hot->keeper.renew_boot_ms == KZ__NEVER_MS && !gen->hot->keeper.sync_every_ms;
    return endless ? KZ_OK : kz__keeper_start(gen, err);
}

kz_status kz_open(kz_generator **out, const char *url, const kz_options *given, kz_error *err)
{
    if (!out)
        return kz__fail(err, KZ_INVALID, "kz_open needs a place for the generator, not NULL");
    kz_options options;
    kz_status status = kz__options_read(given, &options, err);
    if (status)
        return status;
    kz_source *source;
    /* A source keeps a pointer to the clock, so it must be one that outlives this call. */
    const kz_clock *clock = options.use_clock ? options.use_clock : &kz__machine_clock;
    status = kz__source_open(&source, url, &options, clock, err);
    if (status)
        return status;
    /* Without leases there is nothing but fallback; with a fixed node there is nothing to fall back from. */
    if (!source->ops->acquire)
        options.fallback = KZ_FALLBACK_ANY;
    else if (source->facts.flags & KZ_SOURCE_WALL_CLOCK)
        options.fallback = KZ_FALLBACK_NEVER;
    kz_generator *gen;
    uint32_t most = source->facts.throughput_per_ms;
    if (most && options.throughput_max_per_ms > most)
        status =
            kz__fail(err, KZ_INVALID,
                     "a throughput of up to %" PRIu32 " IDs per ms: %s: gives a generator one node, which is %" PRIu32
                     " at most; ask for less, or open several generators",
                     options.throughput_max_per_ms, source->ops->scheme, most);
    else
        status = kz__generator_new(&gen, &options, &source->facts, err);
    if (status) {
        kz__source_close(source, false);
        return status;
    }
    gen->source = source;
    status = start(gen, err);
    if (status) {
        kz_close(gen);
        return status;
    }
    if (gen->fallback == KZ_FALLBACK_ANY)
        kz__log(gen, KZ_LOG_WARNING,
                "unfenced IDs are allowed: nothing keeps other generators from minting the same ones");
    *out = gen;
    return KZ_OK;
}

void kz_close(kz_generator *gen)
{
    if (!gen || (gen->share && !kz__share_leave(gen)))
        return;
    kz__hot *hot = gen->hot;
    bool forked = !hot->alive;
    if (!forked) {
        if (gen->source && gen->source->ops->acquire)
            kz__keeper_stop(gen);
        /* Who claims on the page by himself must find nothing there. */
        kz__freeze(hot);
        pthread_cond_destroy(&hot->changed);
        pthread_mutex_destroy(&hot->lock);
    }
    kz__source_close(gen->source, forked || gen->inherited);
    if (gen->share)
        kz__share_end(gen->share);
    free_generator(gen);
}

/* ---------------------------------------------------------------------------------------------------- sharing */

kz_page *kz_share(kz_generator *gen, bool *cpu_ticks)
{
    kz__hot *hot = gen->hot;
    pthread_mutex_lock(&hot->lock);
    gen->shared = true;
    atomic_store(&hot->owner, KZ__EVERYBODY);
    pthread_mutex_unlock(&hot->lock);
    /* The same in a child, where the page is still empty. */
    *cpu_ticks = ticks_for(&gen->options) == KZ__TICKS_CPU;
    return (kz_page *)hot;
}

void kz_page_free(kz_page *page)
{
    kz__page_free(page);
}

/* ------------------------------------------------------------------------------------------------- statistics */

void kz_stats_init(kz_stats *stats)
{
    *stats = (kz_stats){.struct_size = sizeof *stats};
}

static void fill_lease_stats(const kz_generator *gen, kz_stats *s)
{
    const kz__hot *hot = gen->hot;
    const kz__keeper *keeper = &hot->keeper;
    int64_t now_ms = kz__ms(kz__id_ns(gen)) + gen->layout.epoch_ms;
    int64_t oldest_ms = INT64_MAX;
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz__held *held = &keeper->held[i];
        s->leases += !held->superseded;
        if (held->lease.created_ms < oldest_ms)
            oldest_ms = held->lease.created_ms;
    }
    s->lease_age_ms = oldest_ms < now_ms && !gen->wall_clock ? now_ms - oldest_ms : 0;
    s->throughput_per_ms = kz__keeper_throughput(keeper);
    s->leases_acquired = hot->acquired;
    s->leases_released = hot->released;
    s->acquire_failures = hot->acquire_failures;
    s->acquire_failures_now = keeper->failures;
    s->contended = gen->facts.flags & KZ_SOURCE_CONTENDED;
    s->unfenced = gen->facts.flags & KZ_SOURCE_UNFENCED || (gen->fallback == KZ_FALLBACK_ANY && !s->leases);
}

static void fill_stats(const kz_generator *gen, kz_stats *s)
{
    kz__hot *hot = gen->hot;
    uint64_t ids[KZ__CLASSES];
    memcpy(ids, hot->ids, sizeof ids);
    kz_id position = kz__position(hot);
    if (hot->run_active)
        ids[hot->run.rank] += position - hot->run.first;
    ids[hot->run.rank] -= kz__unspent(hot);
    s->ids_leased = ids[KZ__LEASED];
    s->ids_fenced = ids[KZ__FENCED];
    s->ids_unfenced = ids[KZ__UNFENCED];
    s->sequence_exhausted = hot->exhausted;
    s->clock_backward = hot->backward;
    s->clock_backward_max_ms = hot->backward_max_ms;
    s->sleeps = hot->sleeps;
    s->last = position ? position - 1 : 0;
    int64_t ahead_ms = (int64_t)(s->last >> gen->slot_bits) - kz__ms(kz__id_ns(gen));
    s->ahead_ms = ahead_ms > 0 ? ahead_ms : 0;
    uint64_t end_ms = 0;
    for (size_t i = 0; i < hot->rect_count; i++)
        if (hot->rects[i].end_ms > end_ms)
            end_ms = hot->rects[i].end_ms;
    s->window_end_unix_ms =
        end_ms == kz__end_of_time_ms(&gen->layout) ? INT64_MAX : (int64_t)end_ms + gen->layout.epoch_ms;
    fill_lease_stats(gen, s);
}

kz_status kz_stats_get(kz_generator *gen, kz_stats *stats)
{
    size_t size = stats->struct_size;
    if (size < offsetof(kz_stats, ids_leased) || size > sizeof *stats)
        return KZ_INVALID;
    kz__hot *hot = gen->hot;
    kz_stats all = {.struct_size = size};
    pthread_mutex_lock(&hot->lock);
    bool alive = hot->alive;
    if (alive)
        fill_stats(gen, &all);
    pthread_mutex_unlock(&hot->lock);
    if (!alive)
        return KZ_FORKED;
    memcpy(stats, &all, size);
    return KZ_OK;
}

void kz_generator_layout(kz_generator *gen, kz_layout *layout)
{
    pthread_mutex_lock(&gen->hot->lock);
    *layout = gen->layout;
    pthread_mutex_unlock(&gen->hot->lock);
}

void kz__log(const kz_generator *gen, kz_log_level level, const char *format, ...)
{
    if (!gen->options.log)
        return;
    char line[KZ_MESSAGE_SIZE + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    gen->options.log(gen->options.log_ctx, level, line);
}
