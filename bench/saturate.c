/* As many IDs as the layout has, for a while: how many came, and what the waiting cost. */
#include "bench/saturate.h"

#include "host/clock.h"

#include <sys/resource.h>

enum { STEP = 512 };

/* User and system time of this thread. */
static int64_t cpu_ns(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

/* IDs by the millisecond they show: in all, in the first one and in the one that is last so far. */
typedef struct tally {
    uint64_t first_ms, last_ms;
    size_t all, in_first, in_last;
} tally;

static void count_id(tally *t, uint64_t ms)
{
    if (!t->all++)
        t->first_ms = t->last_ms = ms;
    if (ms != t->last_ms)
        t->in_last = 0;
    t->last_ms = ms;
    t->in_last++;
    t->in_first += ms == t->first_ms;
}

/* Most steps lie in one millisecond, and are counted at once: this is done while the CPU time runs. */
static void count_step(tally *t, const uint64_t *ids, unsigned time_shift)
{
    uint64_t ms = ids[0] >> time_shift;
    if (t->all && ms == t->last_ms && ms != t->first_ms && ms == ids[STEP - 1] >> time_shift) {
        t->all += STEP;
        t->in_last += STEP;
        return;
    }
    for (size_t i = 0; i < STEP; i++)
        count_id(t, ids[i] >> time_shift);
}

/* Of the milliseconds in between, since the first and the last were cut. */
static double share_of(const tally *t, unsigned seq_bits)
{
    if (t->last_ms - t->first_ms < 2)
        return 0;
    double room = (double)(t->last_ms - t->first_ms - 1) * (double)(UINT64_C(1) << seq_bits);
    return (double)(t->all - t->in_first - t->in_last) / room;
}

saturation saturate(const work *w, unsigned seq_bits, int64_t for_ns)
{
    uint64_t ids[STEP];
    tally t = {0};
    int64_t start_ns = (int64_t)kz__clock_ns(CLOCK_MONOTONIC), cpu_start_ns = cpu_ns(), now_ns = start_ns;
    while (now_ns - start_ns < for_ns) {
        moment when = {.before_ns = (int64_t)kz__clock_ns(CLOCK_REALTIME)};
        w->fill(w->ctx, ids, STEP);
        when.after_ns = (int64_t)kz__clock_ns(CLOCK_REALTIME);
        check_alone(w->ids, ids, STEP, when);
        count_step(&t, ids, w->ids->time_shift);
        now_ns = (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
    }
    double used_ns = (double)(cpu_ns() - cpu_start_ns);
    return (saturation){.share = share_of(&t, seq_bits), .cpu_ns = used_ns / (double)t.all};
}

double sleep_cpu_ns(int sleeps)
{
    int64_t start_ns = cpu_ns();
    for (int i = 0; i < sleeps; i++)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = KZ__NS_PER_MS}, NULL);
    return (double)(cpu_ns() - start_ns) / sleeps;
}
