/* The harness for libraries in C. */
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 2, LOAD_MAX = 64, LOAD_MS = 500, FORK_IDS = 1000, LATER_US = 100000 };

typedef struct turn {
    const peer *peer;
    void *ids;
    int threads;
    int64_t start_ns, end_ns, end_ms, oldest_ms;
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

/* Looks at the clock before each ID. A thread that is held up afterwards does not matter that way. */
static void *find_oldest(void *arg)
{
    turn *t = arg;
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + LOAD_MS * INT64_C(1000000);
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        int64_t before_ms = clock_ns(CLOCK_REALTIME) / 1000000;
        t->peer->fill(t->ids, 1);
        int64_t old_ms = before_ms - t->peer->unix_ms(t->ids);
        t->oldest_ms = old_ms > t->oldest_ms ? old_ms : t->oldest_ms;
    }
    return NULL;
}

static void answer_age(const peer *p)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN), threads = 2 * processors < LOAD_MAX ? 2 * processors : LOAD_MAX;
    pthread_t started[LOAD_MAX];
    turn turns[LOAD_MAX];
    uint64_t ids[LOAD_MAX][2];
    int64_t oldest_ms = 0;
    for (long t = 0; t < threads; t++) {
        turns[t] = (turn){.peer = p, .ids = ids[t]};
        if (pthread_create(&started[t], NULL, find_oldest, &turns[t]))
            exit(1);
    }
    for (long t = 0; t < threads; t++) {
        pthread_join(started[t], NULL);
        oldest_ms = turns[t].oldest_ms > oldest_ms ? turns[t].oldest_ms : oldest_ms;
    }
    printf("%lld\n", (long long)oldest_ms);
    fflush(stdout);
}

/* What a child found; it writes nothing when it gets no IDs. */
typedef struct child {
    uint64_t ids[2 * FORK_IDS]; /* room for IDs of 128 bits */
    int64_t old_ms;
} child;

static void take_as_child(const peer *p, int to)
{
    static child found;
    uint64_t late[2];
    if (!freopen("/dev/null", "w", stderr))
        _exit(1);
    alarm(5); /* where time stands still it may wait for ever */
    p->fill(found.ids, FORK_IDS);
    usleep(LATER_US);
    int64_t now_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    p->fill(late, 1);
    found.old_ms = now_ms - p->unix_ms(late);
    _exit(write(to, &found, sizeof found) != sizeof found);
}

static void answer_fork(const peer *p)
{
    static child found;
    static uint64_t ours[2 * FORK_IDS];
    int ends[2], twins = 0;
    if (pipe(ends))
        exit(1);
    pid_t pid = fork();
    if (pid == 0)
        take_as_child(p, ends[1]);
    p->fill(ours, FORK_IDS);
    close(ends[1]);
    size_t got = 0;
    for (ssize_t more; got < sizeof found && (more = read(ends[0], (char *)&found + got, sizeof found - got)) > 0;)
        got += (size_t)more;
    close(ends[0]);
    waitpid(pid, NULL, 0);
    bool any = got == sizeof found;
    for (size_t i = 0; any && i < FORK_IDS; i++)
        twins += bsearch((char *)found.ids + i * p->id_bytes, ours, FORK_IDS, p->id_bytes, p->compare) != NULL;
    printf("%d %d %lld\n", any ? FORK_IDS : 0, twins, any ? (long long)found.old_ms : 0);
    fflush(stdout);
}

int serve(const peer *peers, size_t peer_count)
{
    char name[64], what[16];
    while (scanf("%63s %15s", name, what) == 2) {
        size_t i = 0;
        while (i < peer_count && strcmp(peers[i].name, name))
            i++;
        int threads = atoi(what);
        if (i < peer_count && peers[i].unix_ms && strcmp(what, "age") == 0)
            answer_age(&peers[i]);
        else if (i < peer_count && peers[i].unix_ms && strcmp(what, "fork") == 0)
            answer_fork(&peers[i]);
        else if (i < peer_count && threads >= 1 && threads <= THREADS_MAX)
            answer(&peers[i], threads);
        else
            return 2;
    }
    return 0;
}
