/* Measuring: a work is done in short slices, alone or by two threads at once, many times over. */
#include "bench/measure.h"

#include "host/clock.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LINE 64

static int64_t mono_ns(void)
{
    return (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
}

static int64_t wall_ns(void)
{
    return (int64_t)kz__clock_ns(CLOCK_REALTIME);
}

void series_add(series *s, double value)
{
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->values = realloc(s->values, s->room * sizeof *s->values);
        if (!s->values) {
            perror("bench");
            exit(2);
        }
    }
    s->values[s->count++] = value;
}

void series_free(series *s)
{
    free(s->values);
    *s = (series){0};
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double series_quantile(const series *s, double part)
{
    if (!s->count)
        return NAN;
    series sorted = {0};
    for (size_t i = 0; i < s->count; i++)
        series_add(&sorted, s->values[i]);
    qsort(sorted.values, sorted.count, sizeof *sorted.values, ascending);
    double at = part * (double)(sorted.count - 1);
    size_t low = (size_t)at, high = low + 1 < sorted.count ? low + 1 : low;
    double value = sorted.values[low] + (at - (double)low) * (sorted.values[high] - sorted.values[low]);
    series_free(&sorted);
    return value;
}

series series_ratio(const series *a, const series *less, const series *below)
{
    series ratio = {0};
    for (size_t i = 0; i < a->count && i < below->count; i++)
        series_add(&ratio, (a->values[i] - (less ? less->values[i] : 0)) / below->values[i]);
    return ratio;
}

/* Asked once, by the first thread before it is pinned. */
static const cpu_set_t *allowed_cores(void)
{
    static cpu_set_t allowed;
    static bool known;
    if (!known)
        known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    return known ? &allowed : NULL;
}

int cores_allowed(void)
{
    const cpu_set_t *allowed = allowed_cores();
    return allowed ? CPU_COUNT(allowed) : 1;
}

void pin(int core)
{
    const cpu_set_t *allowed = allowed_cores();
    if (!allowed)
        return;
    cpu_set_t chosen = *allowed;
    for (int cpu = 0, seen = 0; core >= 0 && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed))
            continue;
        if (seen++ == core) {
            CPU_ZERO(&chosen);
            CPU_SET(cpu, &chosen);
        }
    }
    /* Where it is refused, or there is one core only, the threads run where they may. */
    sched_setaffinity(0, sizeof chosen, &chosen);
}

/* How often this thread lost its core to another one; its own sleeps do not count. */
static long times_lost_core(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
}

double measure_alone(const work *w, int64_t slice_ns)
{
    static _Alignas(LINE) unsigned char results[CHUNK_BYTES];
    size_t chunk = sizeof results / w->result_bytes, done = 0;
    int64_t timed_ns = 0;
    while (slice_ns > 0) {
        long lost = times_lost_core();
        moment when = {.before_ns = wall_ns()};
        int64_t start_ns = mono_ns();
        w->fill(w->ctx, results, chunk);
        int64_t took_ns = mono_ns() - start_ns;
        when.after_ns = wall_ns();
        slice_ns -= took_ns;
        if (lost == times_lost_core()) {
            timed_ns += took_ns;
            done += chunk;
        }
        if (w->check)
            w->check(w->ctx, results, chunk, when);
    }
    return done ? (double)timed_ns / (double)done : NAN;
}

/* ------------------------------------------------------------------------------------------- two threads */

enum { PAIR_CHUNK = CHUNK_BYTES / sizeof(uint64_t), PAIR_STEP = 64, SPINS = 20000 };

typedef struct side {
    _Alignas(LINE) uint64_t ids[PAIR_CHUNK];
    size_t count;
    int64_t took_ns;
    moment when;
    bool lost_core;
    _Alignas(LINE) _Atomic uint64_t shown; /* the last ID this thread has got */
    uint64_t behind, equal;                /* IDs not above what the other had shown */
} side;

/* One slice of two threads. They meet, fill a chunk until one of them is done, meet again; the first checks. */
typedef struct duel {
    const work *work;
    int64_t slice_ns;
    int order_rounds;
    _Alignas(LINE) atomic_uint arrived;
    _Alignas(LINE) atomic_bool stop;
    bool over;
    int64_t timed_ns;
    size_t done;
    side sides[2];
} duel;

typedef struct seat {
    duel *duel;
    int number;
} seat;

static void meet(duel *d, unsigned *met)
{
    *met += 2;
    atomic_fetch_add(&d->arrived, 1);
    for (unsigned spins = 0; atomic_load(&d->arrived) < *met; spins++)
        if (spins > SPINS)
            sched_yield();
}

static void fill_chunk(duel *d, side *s)
{
    s->count = 0;
    long lost = times_lost_core();
    s->when.before_ns = wall_ns();
    int64_t start_ns = mono_ns();
    while (s->count < PAIR_CHUNK && !atomic_load_explicit(&d->stop, memory_order_relaxed)) {
        d->work->fill(d->work->ctx, s->ids + s->count, PAIR_STEP);
        s->count += PAIR_STEP;
    }
    atomic_store_explicit(&d->stop, true, memory_order_relaxed);
    s->took_ns = mono_ns() - start_ns;
    s->when.after_ns = wall_ns();
    s->lost_core = lost != times_lost_core();
}

/* A thread that lost its core left the other one alone, and the chunk measured something else. */
static bool was_alone(const side *a, const side *b)
{
    int64_t shorter = a->took_ns < b->took_ns ? a->took_ns : b->took_ns;
    return a->lost_core || b->lost_core || !a->count || !b->count || llabs(a->took_ns - b->took_ns) > shorter / 4;
}

static void settle_chunk(duel *d)
{
    side *a = &d->sides[0], *b = &d->sides[1];
    if (d->work->ids)
        check_pair(d->work->ids, (const uint64_t *const[]){a->ids, b->ids}, (size_t[]){a->count, b->count},
                   (moment[]){a->when, b->when});
    if (!was_alone(a, b)) {
        d->timed_ns += a->took_ns + b->took_ns;
        d->done += a->count + b->count;
    }
    d->slice_ns -= a->took_ns > b->took_ns ? a->took_ns : b->took_ns;
    d->over = d->slice_ns <= 0;
    atomic_store(&d->stop, false);
}

static void *fight(void *arg)
{
    seat *at = arg;
    duel *d = at->duel;
    unsigned met = 0;
    pin(at->number);
    while (!d->over) {
        meet(d, &met);
        fill_chunk(d, &d->sides[at->number]);
        meet(d, &met);
        if (at->number == 0)
            settle_chunk(d);
        meet(d, &met);
    }
    return NULL;
}

static void *watch(void *arg)
{
    seat *at = arg;
    duel *d = at->duel;
    side *mine = &d->sides[at->number], *other = &d->sides[!at->number];
    unsigned met = 0;
    pin(at->number);
    meet(d, &met);
    for (int i = 0; i < d->order_rounds; i++) {
        uint64_t shown = atomic_load_explicit(&other->shown, memory_order_acquire), id;
        d->work->fill(d->work->ctx, &id, 1);
        mine->behind += id < shown;
        mine->equal += id == shown;
        atomic_store_explicit(&mine->shown, id, memory_order_release);
    }
    return NULL;
}

static void run_both(duel *d, void *(*body)(void *))
{
    pthread_t threads[2];
    seat seats[2] = {{d, 0}, {d, 1}};
    for (int t = 0; t < 2; t++) {
        if (pthread_create(&threads[t], NULL, body, &seats[t])) {
            fprintf(stderr, "bench: cannot start a thread\n");
            exit(2);
        }
    }
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
}

double measure_pair(const work *w, int64_t slice_ns)
{
    static duel d;
    memset(&d, 0, sizeof d);
    d.work = w;
    d.slice_ns = slice_ns;
    run_both(&d, fight);
    return d.done ? (double)d.timed_ns / (double)d.done : NAN;
}

void check_order_between_threads(const work *w, int rounds)
{
    static duel d;
    memset(&d, 0, sizeof d);
    d.work = w;
    d.order_rounds = rounds;
    run_both(&d, watch);
    for (int t = 0; t < 2; t++) {
        w->ids->disorder += d.sides[t].behind;
        w->ids->twins += d.sides[t].equal;
        w->ids->checked += (uint64_t)rounds;
        uint64_t last = atomic_load(&d.sides[t].shown);
        if (last > w->ids->last)
            w->ids->last = last;
    }
}
