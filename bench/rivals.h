/* What ours is measured against: the bare operations, and the generator of the textbooks. */
#ifndef KZ_BENCH_RIVALS_H
#define KZ_BENCH_RIVALS_H

#include "bench/measure.h"

#include "host/clock.h"

#include <pthread.h>
#include <stdatomic.h>

/* One clock_gettime(CLOCK_REALTIME) for each result. */
void fill_with_clock(void *ctx, void *results, size_t count);

/* A word that two threads share, and the ticks that are read before it is moved. */
typedef struct shared_word {
    _Alignas(64) _Atomic uint64_t value;
    _Alignas(64) kz__tick_kind ticks;
} shared_word;

/* One atomic addition for each result. */
void fill_with_xadd(void *shared, void *results, size_t count);

/* One reading of the ticks for each result; and with an addition after it, which is what no generator that looks at the
 * time and shares a word can go below. */
void fill_with_ticks(void *shared, void *results, size_t count);
void fill_with_ticks_and_xadd(void *shared, void *results, size_t count);

/* A mutex round a clock reading and a counter; when the counter is used up it sleeps to the next millisecond. */
typedef struct textbook {
    pthread_mutex_t lock;
    int64_t epoch_ms, last_ms;
    unsigned slot_bits, seq_bits;
    uint64_t seq;
} textbook;

void textbook_init(textbook *g, int64_t epoch_ms, unsigned node_bits, unsigned seq_bits);
uint64_t textbook_next(textbook *g);
void fill_with_textbook(void *generator, void *results, size_t count);

#endif
