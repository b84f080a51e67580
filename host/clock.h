/* The machine's clocks, and the tick counter that says cheaply that a millisecond may be over. */
#ifndef KZ_HOST_CLOCK_H
#define KZ_HOST_CLOCK_H

#include <kazahana.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define KZ__NS_PER_MS INT64_C(1000000)

/* The wall clock may jump; the boot clock never does, and goes on while the machine sleeps. */
extern const kz_clock kz__machine_clock;

/* Where ticks come from. They are a hint: order and uniqueness never depend on them. */
typedef enum kz__tick_kind {
    KZ__TICKS_OFF,    /* no hint: every call asks the clock (an injected one, say) */
    KZ__TICKS_CPU,    /* the processor's counter */
    KZ__TICKS_CLOCK,  /* CLOCK_MONOTONIC, where the counter cannot be trusted */
    KZ__TICKS_COARSE, /* CLOCK_MONOTONIC_COARSE, good to one tick of the kernel */
    KZ__TICKS_TOLD,   /* what a simulation says; only with KZ_TEST_HOOKS */
} kz__tick_kind;

#ifdef KZ_TEST_HOOKS
extern uint64_t kz__ticks_told;
#endif

typedef struct kz__tick_rate {
    kz__tick_kind kind;
    uint64_t per_ms; /* 0 until measured */
    uint64_t span;   /* a deadline further away than this is nonsense (the counter was reset, say) */
    uint64_t base_ticks;
    int64_t base_ns;
} kz__tick_rate;

void kz__tick_rate_init(kz__tick_rate *rate, kz__tick_kind kind);

/* What the counter and the boot clock read at one moment: a rate follows from two of them. One that makes no sense, or
 * contradicts the one before, is thrown away with it. */
void kz__tick_rate_note(kz__tick_rate *rate, uint64_t ticks, int64_t boot_ns);

/* Notes both if that is due: at the start, and once in a while, for the machine may be another one since. By the boot
 * clock, which goes on while the machine sleeps, as most counters do. */
void kz__tick_rate_measure(kz__tick_rate *rate);

/* The best kind for a precise clock on this processor. */
kz__tick_kind kz__precise_ticks(void);

static inline uint64_t kz__clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t kz__ticks(kz__tick_kind kind)
{
    if (kind == KZ__TICKS_COARSE)
        return kz__clock_ns(CLOCK_MONOTONIC_COARSE);
#ifdef KZ_TEST_HOOKS
    if (kind == KZ__TICKS_TOLD)
        return kz__ticks_told;
#endif
#if defined(__x86_64__)
    if (kind == KZ__TICKS_CPU)
        return __rdtsc();
#elif defined(__aarch64__)
    if (kind == KZ__TICKS_CPU) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return kz__clock_ns(CLOCK_MONOTONIC);
}

#endif
