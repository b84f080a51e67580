/* The machine's clocks, and the tick counter that says cheaply that a millisecond may be over. */
#include "host/clock.h"

#include <errno.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifdef KZ_TEST_HOOKS
uint64_t kz__ticks_told;
#endif

static int64_t wall_ns(void *ctx)
{
    (void)ctx;
    return (int64_t)kz__clock_ns(CLOCK_REALTIME);
}

static int64_t boot_ns(void *ctx)
{
    (void)ctx;
    return (int64_t)kz__clock_ns(CLOCK_BOOTTIME);
}

static void sleep_ns(void *ctx, int64_t ns)
{
    (void)ctx;
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

const kz_clock kz__machine_clock = {.wall_ns = wall_ns, .boot_ns = boot_ns, .sleep_ns = sleep_ns};

kz__tick_kind kz__precise_ticks(void)
{
#if defined(__x86_64__)
    /* Only a counter that runs at one rate in every power state is worth reading. */
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & (1u << 8) ? KZ__TICKS_CPU : KZ__TICKS_CLOCK;
#elif defined(__aarch64__)
    return KZ__TICKS_CPU;
#else
    return KZ__TICKS_CLOCK;
#endif
}

/* Slowest and fastest counters there are: 1 MHz (arm64) and 20 GHz, in ticks of a millisecond. */
#define SLOWEST_PER_MS 1000
#define FASTEST_PER_MS 20000000
/* A counter that counts at one rate is never off by more than this from one measurement to the next, in a hundred. */
#define OFF_PERCENT 1

void kz__tick_rate_note(kz__tick_rate *rate, uint64_t ticks, int64_t boot_ns)
{
    enum { FIRST_NS = 2000000 };
    int64_t elapsed_ns = boot_ns - rate->base_ns;
    if (elapsed_ns >= 0 && elapsed_ns < FIRST_NS)
        return;
    double per_ms = (double)(ticks - rate->base_ticks) * (double)KZ__NS_PER_MS / (double)elapsed_ns;
    double known = (double)rate->per_ms;
    bool sound = elapsed_ns > 0 && per_ms >= SLOWEST_PER_MS && per_ms <= FASTEST_PER_MS;
    bool agrees =
        !rate->per_ms || (per_ms > known * (1 - OFF_PERCENT / 100.) && per_ms < known * (1 + OFF_PERCENT / 100.));
    /* The counter was reset, or it stood still while the machine slept, or this is another machine: begin anew. Until
     * then every call asks the clock. */
    rate->per_ms = sound && agrees ? (uint64_t)per_ms : 0;
    rate->span = rate->per_ms;
    rate->base_ticks = ticks;
    rate->base_ns = boot_ns;
}

void kz__tick_rate_init(kz__tick_rate *rate, kz__tick_kind kind)
{
    *rate = (kz__tick_rate){.kind = kind};
    if (kind == KZ__TICKS_CPU) {
        rate->base_ns = (int64_t)kz__clock_ns(CLOCK_BOOTTIME);
        rate->base_ticks = kz__ticks(kind);
    } else if (kind != KZ__TICKS_OFF) {
        rate->per_ms = (uint64_t)KZ__NS_PER_MS;
        rate->span = rate->per_ms;
    }
}

void kz__tick_rate_measure(kz__tick_rate *rate)
{
    enum { AGAIN_MS = 1000, SLACK_TICKS = 4000 };
    if (rate->kind != KZ__TICKS_CPU)
        return;
    uint64_t before = kz__ticks(rate->kind);
    if (rate->per_ms && before - rate->base_ticks < rate->per_ms * AGAIN_MS)
        return;
    int64_t boot_ns = (int64_t)kz__clock_ns(CLOCK_BOOTTIME);
    uint64_t after = kz__ticks(rate->kind);
    /* A pair that was torn apart by a preemption measures nothing; the next call tries again. */
    if (after - before <= SLACK_TICKS)
        kz__tick_rate_note(rate, before, boot_ns);
}
