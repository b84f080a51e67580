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

void kz__tick_rate_init(kz__tick_rate *rate, kz__tick_kind kind)
{
    *rate = (kz__tick_rate){.kind = kind};
    if (kind == KZ__TICKS_CPU) {
        rate->base_ns = (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
        rate->base_ticks = kz__ticks(kind);
    } else if (kind != KZ__TICKS_OFF) {
        rate->per_ms = (uint64_t)KZ__NS_PER_MS;
        rate->span = rate->per_ms;
    }
}

void kz__tick_rate_measure(kz__tick_rate *rate)
{
    enum { FIRST_NS = 2000000, AGAIN_NS = 1000000000, SLACK_TICKS = 4000 };
    if (rate->kind != KZ__TICKS_CPU)
        return;
    uint64_t before = kz__ticks(rate->kind);
    if (rate->per_ms && before - rate->base_ticks < rate->per_ms * (AGAIN_NS / KZ__NS_PER_MS))
        return;
    int64_t now_ns = (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
    uint64_t after = kz__ticks(rate->kind);
    int64_t elapsed_ns = now_ns - rate->base_ns;
    /* A pair that was torn apart by a preemption measures nothing; the next call tries again. */
    if (after - before > SLACK_TICKS || elapsed_ns < FIRST_NS)
        return;
    rate->per_ms = (uint64_t)((double)(before - rate->base_ticks) * (double)KZ__NS_PER_MS / (double)elapsed_ns);
    rate->span = rate->per_ms;
    rate->base_ticks = before;
    rate->base_ns = now_ns;
}
