/* The harness for libraries in C. */
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 2 };

typedef struct turn {
    const peer *peer;
    void *ids;
    int threads;
    int64_t start_ns, end_ns, end_ms;
} turn;

static atomic_int arrived;

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *take(void *arg)
{
    turn *t = arg;
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < t->threads)
        ;
    t->start_ns = clock_ns(CLOCK_MONOTONIC);
    t->peer->fill(t->ids, t->peer->count);
    t->end_ns = clock_ns(CLOCK_MONOTONIC);
    t->end_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    return NULL;
}

static size_t count_disorder(const peer *p, const unsigned char *ids)
{
    size_t disorder = 0;
    for (size_t i = 1; i < p->count; i++)
        disorder += p->compare(ids + (i - 1) * p->id_bytes, ids + i * p->id_bytes) >= 0;
    return disorder;
}

/* The time of both must be the same one to four fifths. */
static double time_of_one(const turn *turns, int threads)
{
    int64_t first_ns = turns[0].start_ns, last_ns = turns[0].end_ns, took_ns = 0;
    for (int t = 0; t < threads; t++) {
        first_ns = turns[t].start_ns < first_ns ? turns[t].start_ns : first_ns;
        last_ns = turns[t].end_ns > last_ns ? turns[t].end_ns : last_ns;
        took_ns += turns[t].end_ns - turns[t].start_ns;
    }
    bool together = (double)took_ns > 0.8 * (double)(last_ns - first_ns) * threads;
    return together ? (double)took_ns / threads / (double)turns[0].peer->count : NAN;
}

static void answer(const peer *p, int threads)
{
    size_t all = p->count * (size_t)threads, twins = 0, disorder = 0;
    unsigned char *ids = malloc(all * p->id_bytes);
    turn turns[THREADS_MAX];
    pthread_t started[THREADS_MAX];
    if (!ids)
        exit(1);
    memset(ids, 0, all * p->id_bytes);
    atomic_store(&arrived, 0);
    for (int t = 0; t < threads; t++)
        turns[t] = (turn){.peer = p, .ids = ids + (size_t)t * p->count * p->id_bytes, .threads = threads};
    /* Alone, it is the thread that opened it, as in a program that has no other. */
    if (threads == 1)
        take(&turns[0]);
    for (int t = 0; t < threads && threads > 1; t++)
        if (pthread_create(&started[t], NULL, take, &turns[t]))
            exit(1);
    for (int t = 0; t < threads && threads > 1; t++)
        pthread_join(started[t], NULL);
    long long ahead_ms = 0, old_ms = 0;
    for (int t = 0; t < threads && p->unix_ms; t++) {
        disorder += count_disorder(p, turns[t].ids);
        const unsigned char *last = (unsigned char *)turns[t].ids + (p->count - 1) * p->id_bytes;
        long long by_ms = p->unix_ms(last) - turns[t].end_ms;
        ahead_ms = by_ms > ahead_ms ? by_ms : ahead_ms;
        old_ms = -by_ms > old_ms ? -by_ms : old_ms;
    }
    qsort(ids, all, p->id_bytes, p->compare);
    for (size_t i = 1; i < all; i++)
        twins += p->compare(ids + (i - 1) * p->id_bytes, ids + i * p->id_bytes) == 0;
    printf("%.3f %zu %zu %lld %lld\n", time_of_one(turns, threads), twins, disorder, ahead_ms, old_ms);
    fflush(stdout);
    free(ids);
}

int serve(const peer *peers, size_t peer_count)
{
    char name[64];
    int threads;
    while (scanf("%63s %d", name, &threads) == 2) {
        size_t i = 0;
        while (i < peer_count && strcmp(peers[i].name, name))
            i++;
        if (i == peer_count || threads < 1 || threads > THREADS_MAX)
            return 2;
        answer(&peers[i], threads);
    }
    return 0;
}
