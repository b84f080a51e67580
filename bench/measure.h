/* Measuring: a work is done in short slices, alone or by two threads at once, many times over. */
#ifndef KZ_BENCH_MEASURE_H
#define KZ_BENCH_MEASURE_H

#include "bench/check.h"

/* Results are kept in a buffer that stays in the nearest cache, and are checked while no time is taken. */
#define CHUNK_BYTES 16384

/* Something that is done over and over. */
typedef struct work {
    const char *name;
    size_t result_bytes;
    void (*fill)(void *ctx, void *results, size_t count);
    void (*check)(void *ctx, const void *results, size_t count, moment when); /* NULL: the results are no IDs */
    void *ctx;
    ledger *ids; /* two threads: where their IDs are checked */
} work;

/* One figure for each round. */
typedef struct series {
    double *values;
    size_t count, room;
} series;

void series_add(series *s, double value);
void series_free(series *s);

/* The value that `part` (0 to 1) of the figures lie below. NaN if there are none. */
double series_quantile(const series *s, double part);

/* A series of its own: a[i] / below[i], or (a[i] - less[i]) / below[i]. */
series series_ratio(const series *a, const series *less, const series *below);

/* How many cores this process may use. */
int cores_allowed(void);

/* Keeps the calling thread on the first or second core this process may use; anywhere again with -1. */
void pin(int core);

/* Nanoseconds for one operation of a thread, over about `slice_ns`. Chunks in which a thread was pushed off its core
 * are checked but do not count; NaN if none is left. */
double measure_alone(const work *w, int64_t slice_ns);
double measure_pair(const work *w, int64_t slice_ns);

/* Two threads, untimed: is each ID above what the other thread had got before the call began? */
void check_order_between_threads(const work *w, int rounds);

#endif
