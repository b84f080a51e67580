/* Opening, closing and asking about a generator. How it mints is in lib/mint.c. */
#include "lib/generator.h"
#include "lib/error.h"
#include "lib/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define RETRY_INITIAL_MS 1000
#define RETRY_MAX_MS     60000

void kz_options_init(kz_options *options)
{
    *options = (kz_options){.struct_size = sizeof *options,
                            .fallback = KZ_FALLBACK_FENCED,
                            .backward = KZ_BACKWARD_WAIT,
                            .max_backward_ms = 5000,
                            .max_ahead_ms = 1000,
                            .timeout_ms = 10000};
}

/* A program built with an older header gives a shorter struct: the defaults stand for what it does not know. */
static kz_status read_options(const kz_options *given, kz_options *options, kz_error *err)
{
    kz_options_init(options);
    if (!given)
        return KZ_OK;
    if (given->struct_size < offsetof(kz_options, layout) || given->struct_size > sizeof *options)
        return kz__fail(err, KZ_INVALID,
                        "kz_options of %zu bytes: call kz_options_init first, and build with the header "
                        "of this library",
                        given->struct_size);
    memcpy(options, given, given->struct_size);
    if ((unsigned)options->fallback > KZ_FALLBACK_ANY)
        return kz__fail(err, KZ_INVALID, "fallback %d is none of KZ_FALLBACK_*", (int)options->fallback);
    if ((unsigned)options->backward > KZ_BACKWARD_LOGICAL)
        return kz__fail(err, KZ_INVALID, "backward %d is none of KZ_BACKWARD_*", (int)options->backward);
    if ((unsigned)options->clock > KZ_CLOCK_COARSE)
        return kz__fail(err, KZ_INVALID, "clock %d is none of KZ_CLOCK_*", (int)options->clock);
    if ((unsigned)options->seq_start > KZ_SEQ_RANDOM)
        return kz__fail(err, KZ_INVALID, "seq_start %d is none of KZ_SEQ_*", (int)options->seq_start);
    if (options->max_ahead_ms < 0 || options->max_ahead_ms > 86400000)
        return kz__fail(err, KZ_INVALID, "max_ahead_ms %" PRId64 " must lie between 0 and a day",
                        options->max_ahead_ms);
    const kz_clock *clock = options->use_clock;
    if (clock && (!clock->wall_ns || !clock->boot_ns || !clock->sleep_ns))
        return kz__fail(err, KZ_INVALID, "use_clock lacks one of its three functions");
    return KZ_OK;
}

static kz_status open_source(const char *text, const kz_options *options, kz__source **source, kz_error *err)
{
    if (!text)
        return kz__fail(err, KZ_UNSUPPORTED, "no source given: name one, such as static:7 or env:WORKER_ID");
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status)
        return status;
    const kz__source_ops *ops = kz__source_find(url.scheme);
    if (!ops)
        return kz__fail(err, KZ_UNSUPPORTED, "no source of the kind \"%s:\" in this build (there are %s)", url.scheme,
                        kz__source_schemes());
    kz_layout layout;
    if (options->layout) {
        status = kz_layout_parse(options->layout, &layout, err);
        if (status)
            return status;
        if (layout.flags & KZ_LAYOUT_DECODE_ONLY)
            return kz__fail(err, KZ_UNSUPPORTED, "layout %s can be decoded, not minted", layout.name);
    }
    kz__source_want want = {.layout = options->layout ? &layout : NULL, .fallback = options->fallback};
    return ops->open(source, &url, &want, err);
}

static kz_status start(kz_generator *gen, const kz_options *options, kz_error *err)
{
    void *page;
    kz_status status = kz__page_new(&page, sizeof *gen->hot, err);
    if (status)
        return status;
    kz__hot *hot = gen->hot = page;
    if (getrandom(&hot->random, sizeof hot->random, 0) != sizeof hot->random)
        return kz__fail(err, KZ_SYSTEM, "the kernel gives no random numbers");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&hot->lock, NULL);
    pthread_cond_init(&hot->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);

    hot->alive = gen->started = true;
    hot->reading_ms = hot->high_ms = kz__ms(kz__id_ns(gen));
    hot->keeper = (kz__keeper){.retry_initial_ms = RETRY_INITIAL_MS, .retry_max_ms = RETRY_MAX_MS};
    hot->ticks = options->use_clock                  ? KZ__TICKS_OFF
                 : options->clock == KZ_CLOCK_COARSE ? KZ__TICKS_COARSE
                                                     : kz__precise_ticks();
    kz__tick_rate_init(&hot->rate, hot->ticks);
    status = kz__acquire(gen, err);
    if (status)
        return status;
    if (kz__keeper_due(&hot->keeper) != KZ__NEVER_MS)
        status = kz__keeper_start(gen, err);
    return status;
}

kz_status kz_open(kz_generator **out, const char *url, const kz_options *given, kz_error *err)
{
    if (!out)
        return kz__fail(err, KZ_INVALID, "kz_open needs a place for the generator, not NULL");
    kz_options options;
    kz_status status = read_options(given, &options, err);
    if (status)
        return status;
    kz_generator *gen = calloc(1, sizeof *gen);
    if (!gen)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator");
    gen->policy = (kz__policy){options.backward, options.max_backward_ms, options.max_ahead_ms};
    gen->timeout_ms = options.timeout_ms;
    gen->seq_start = options.seq_start;
    gen->clock = options.use_clock ? *options.use_clock : kz__machine_clock;
    gen->log = options.log;
    gen->log_ctx = options.log_ctx;

    status = open_source(url, &options, &gen->source, err);
    if (status) {
        free(gen);
        return status;
    }
    gen->layout = gen->source->layout;
    gen->slot_bits = kz__slot_bits(&gen->layout);
    bool fits = gen->layout.epoch_ms <= INT64_MAX / KZ__NS_PER_MS;
    gen->epoch_ns = fits ? gen->layout.epoch_ms * KZ__NS_PER_MS : INT64_MAX;
    status = start(gen, &options, err);
    if (status) {
        kz_close(gen);
        return status;
    }
    if (gen->hot->rects[0].rank == KZ__UNFENCED)
        kz__log(gen, KZ_LOG_WARNING, "unfenced IDs: nothing keeps other generators from minting the same ones");
    *out = gen;
    return KZ_OK;
}

void kz_close(kz_generator *gen)
{
    if (!gen)
        return;
    kz__hot *hot = gen->hot;
    bool forked = gen->started && !hot->alive;
    if (gen->started && !forked) {
        kz__keeper_stop(gen);
        kz_error why;
        /* Without a rectangle nothing was used, and there is nothing to give back. */
        if (hot->rect_count && gen->source->ops->release &&
            gen->source->ops->release(gen->source, kz__position(hot), &why))
            kz__log(gen, KZ_LOG_WARNING, "%s", why.message);
        free(hot->rects);
        pthread_cond_destroy(&hot->changed);
        pthread_mutex_destroy(&hot->lock);
    }
    gen->source->ops->close(gen->source, forked);
    kz__page_free(hot, sizeof *hot);
    free(gen);
}

void kz_stats_init(kz_stats *stats)
{
    *stats = (kz_stats){.struct_size = sizeof *stats};
}

static void fill_stats(kz_generator *gen, kz_stats *s)
{
    kz__hot *hot = gen->hot;
    uint64_t ids[KZ__CLASSES];
    memcpy(ids, hot->ids, sizeof ids);
    kz_id position = kz__position(hot);
    if (hot->run_active)
        ids[hot->run.rank] += position - hot->run.first;
    ids[hot->run.rank] -= atomic_load(&hot->own_end) - atomic_load(&hot->own_next);
    s->ids_leased = ids[KZ__LEASED];
    s->ids_fenced = ids[KZ__FENCED];
    s->ids_unfenced = ids[KZ__UNFENCED];
    s->sequence_exhausted = hot->exhausted;
    s->clock_backward = hot->backward;
    s->clock_backward_max_ms = hot->backward_max_ms;
    s->sleeps = hot->sleeps;
    s->rectangles = hot->rect_count;
    s->last = position ? position - 1 : 0;
    int64_t ahead_ms = (int64_t)(s->last >> gen->slot_bits) - kz__ms(kz__id_ns(gen));
    s->ahead_ms = ahead_ms > 0 ? ahead_ms : 0;
    uint64_t end_ms = 0;
    for (size_t i = 0; i < hot->rect_count; i++)
        if (hot->rects[i].end_ms > end_ms)
            end_ms = hot->rects[i].end_ms;
    s->window_end_unix_ms =
        end_ms == kz__end_of_time_ms(&gen->layout) ? INT64_MAX : (int64_t)end_ms + gen->layout.epoch_ms;
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

void kz__log(const kz_generator *gen, kz_log_level level, const char *format, ...)
{
    if (!gen->log)
        return;
    char line[KZ_MESSAGE_SIZE + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    gen->log(gen->log_ctx, level, line);
}
