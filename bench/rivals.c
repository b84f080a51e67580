/* What ours is measured against: the bare operations, and the generator of the textbooks. */
#include "bench/rivals.h"

void fill_with_clock(void *ctx, void *results, size_t count)
{
    (void)ctx;
    uint64_t *ns = results;
    for (size_t i = 0; i < count; i++) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        ns[i] = (uint64_t)t.tv_nsec;
    }
}

void fill_with_xadd(void *shared, void *results, size_t count)
{
    shared_word *word = shared;
    uint64_t *ids = results;
    for (size_t i = 0; i < count; i++)
        ids[i] = 1 + atomic_fetch_add_explicit(&word->value, 1, memory_order_acq_rel);
}

void fill_with_ticks(void *shared, void *results, size_t count)
{
    kz__tick_kind kind = ((shared_word *)shared)->ticks;
    uint64_t *ticks = results;
    for (size_t i = 0; i < count; i++)
        ticks[i] = kz__ticks(kind);
}

/* The reading decides whether the addition is made, as it does in a generator. */
void fill_with_ticks_and_xadd(void *shared, void *results, size_t count)
{
    shared_word *word = shared;
    kz__tick_kind kind = word->ticks;
    uint64_t *ids = results;
    for (size_t i = 0; i < count; i++)
        if (kz__ticks(kind) != UINT64_MAX)
            ids[i] = 1 + atomic_fetch_add_explicit(&word->value, 1, memory_order_acq_rel);
}

void textbook_init(textbook *g, int64_t epoch_ms, unsigned node_bits, unsigned seq_bits)
{
    *g = (textbook){.epoch_ms = epoch_ms, .slot_bits = node_bits + seq_bits, .seq_bits = seq_bits};
    pthread_mutex_init(&g->lock, NULL);
}

static int64_t sleep_past(int64_t ms)
{
    for (;;) {
        int64_t wall_ns = (int64_t)kz__clock_ns(CLOCK_REALTIME);
        int64_t left_ns = (ms + 1) * KZ__NS_PER_MS - wall_ns;
        if (left_ns <= 0)
            return wall_ns / KZ__NS_PER_MS;
        struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &left, NULL);
    }
}

uint64_t textbook_next(textbook *g)
{
    pthread_mutex_lock(&g->lock);
    int64_t ms = (int64_t)(kz__clock_ns(CLOCK_REALTIME) / KZ__NS_PER_MS);
    if (ms > g->last_ms) {
        g->seq = 0;
    } else {
        ms = g->last_ms;
        g->seq = (g->seq + 1) & ((UINT64_C(1) << g->seq_bits) - 1);
        if (g->seq == 0)
            ms = sleep_past(ms);
    }
    g->last_ms = ms;
    uint64_t id = (uint64_t)(ms - g->epoch_ms) << g->slot_bits | g->seq;
    pthread_mutex_unlock(&g->lock);
    return id;
}

void fill_with_textbook(void *generator, void *results, size_t count)
{
    uint64_t *ids = results;
    for (size_t i = 0; i < count; i++)
        ids[i] = textbook_next(generator);
}
