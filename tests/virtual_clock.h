/* A clock in virtual time: sleeping moves it and takes no time. Its wall clock can be set by hand or by a script. */
#ifndef KZ_TESTS_VIRTUAL_CLOCK_H
#define KZ_TESTS_VIRTUAL_CLOCK_H

#include <kazahana.h>

#include <stdatomic.h>

#define VIRTUAL_MS INT64_C(1000000)

/* 2026-01-01, where the layouts of most tests begin. */
#define VIRTUAL_EPOCH_MS INT64_C(1767225600000)

/* When the boot clock reaches `at_boot_ns`, the wall clock is moved by `by_ns`. */
typedef struct virtual_step {
    int64_t at_boot_ns, by_ns;
} virtual_step;

typedef struct virtual_clock {
    _Atomic int64_t wall_ns, boot_ns; /* atomic because a keeper's thread reads them too */
    _Atomic int64_t slept_ns;
    _Atomic unsigned sleeps;
    bool stands;               /* the wall clock does not move while its user sleeps */
    const virtual_step *steps; /* in order of time */
    size_t step_count;
    kz_clock clock; /* what to hand to the library */
} virtual_clock;

static inline int64_t virtual_wall(void *ctx)
{
    return atomic_load(&((virtual_clock *)ctx)->wall_ns);
}

static inline int64_t virtual_boot(void *ctx)
{
    return atomic_load(&((virtual_clock *)ctx)->boot_ns);
}

/* Time passes. */
static inline void virtual_advance(virtual_clock *v, int64_t ns)
{
    if (!v->stands)
        v->wall_ns += ns;
    v->boot_ns += ns;
    for (; v->step_count && v->steps->at_boot_ns <= v->boot_ns; v->steps++, v->step_count--)
        v->wall_ns += v->steps->by_ns;
}

static inline void virtual_sleep(void *ctx, int64_t ns)
{
    virtual_clock *v = ctx;
    v->sleeps++;
    v->slept_ns += ns;
    virtual_advance(v, ns);
}

/* Somebody sets the wall clock; no time passes. */
static inline void virtual_set(virtual_clock *v, int64_t unix_ms)
{
    v->wall_ns = unix_ms * VIRTUAL_MS;
}

static inline void virtual_step_by(virtual_clock *v, int64_t ms)
{
    v->wall_ns += ms * VIRTUAL_MS;
}

static inline void virtual_begin(virtual_clock *v, int64_t unix_ms)
{
    *v = (virtual_clock){0};
    v->wall_ns = unix_ms * VIRTUAL_MS;
    v->boot_ns = 1000 * VIRTUAL_MS;
    v->clock = (kz_clock){.wall_ns = virtual_wall, .boot_ns = virtual_boot, .sleep_ns = virtual_sleep, .ctx = v};
}

#endif
