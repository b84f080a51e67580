/* A generator from the inside. */
#ifndef KZ_LIB_GENERATOR_H
#define KZ_LIB_GENERATOR_H

#include "core/decide.h"
#include "core/keeper.h"
#include "lib/clock.h"
#include "sources/source.h"

#include <pthread.h>
#include <stdatomic.h>

#define KZ__CACHE_LINE 64

/* Values of kz__hot.owner that are no thread. */
enum { KZ__NOBODY = 0, KZ__EVERYBODY = 1 };

/* Everything that decides about IDs, in memory that a forked child finds zeroed: no deadline, no run, nothing held, not
 * alive. lib/mint.c says who writes what, in which order, and why. */
typedef struct kz__hot {
    /* Read by every call. */
    _Alignas(KZ__CACHE_LINE) _Atomic uint64_t deadline; /* in ticks: until then `hi` may be trusted; 0: ask the clock */
    _Atomic uint64_t span;                              /* a deadline further off than this is nonsense */
    _Atomic kz_id hi;                                   /* the end of the run: claims at or past it are void */
    _Atomic uintptr_t owner;                            /* the only thread so far, KZ__NOBODY or KZ__EVERYBODY */
    _Atomic kz_id own_next, own_end;                    /* points the owner has claimed and not handed out yet */
    kz__tick_kind ticks;

    /* The word: the lowest point nobody has claimed. Moved by atomic operations only. */
    _Alignas(KZ__CACHE_LINE) _Atomic kz_id next;

    /* The rest is written under the lock, which is never held while sleeping or in I/O. */
    _Alignas(KZ__CACHE_LINE) pthread_mutex_t lock;
    pthread_cond_t changed; /* holdings changed, the keeper failed, or the keeper is wanted */
    bool alive;             /* false in a forked child */

    bool run_active;
    kz__run run; /* as published; its points below `next` are given */
    kz_id floor; /* while no run is active: the lowest point not given */

    kz__rect *rects;
    size_t rect_count, rect_room;
    int64_t resume_ms, grace_ms;

    int64_t high_ms, reading_ms; /* ID clock: the highest reading, and the last one */
    uint64_t random;
    kz__tick_rate rate;

    uint64_t ids[KZ__CLASSES]; /* of runs that are over */
    uint64_t exhausted, exhausted_last_ms, backward, sleeps;
    int64_t backward_max_ms;

    kz__keeper keeper;
    bool keeper_runs, closing;
    kz_error keeper_error; /* of the last attempt, if keeper.failures */
} kz__hot;

struct kz_generator {
    kz__hot *hot;
    kz__source *source;
    kz_layout layout;
    unsigned slot_bits;
    int64_t epoch_ns; /* of `layout`; an epoch too far off to be written in nanoseconds is as late as can be */
    kz__policy policy;
    int64_t timeout_ms;
    kz_seq_start seq_start;
    kz_clock clock;
    kz_log_fn log;
    void *log_ctx;
    pthread_t keeper_thread;
    bool started; /* `hot` was set up; if it is not alive then, this is a forked child */
};

/* Ends the run: no claim on it succeeds any more, and what it has left is at or above `floor`. Called with the lock
 * held, by the next minter and by whoever changes what is held. */
void kz__freeze(kz__hot *hot);

/* The lowest point not given, while no call is under way. Called with the lock held. */
kz_id kz__position(const kz__hot *hot);

/* ID time now, in nanoseconds since the epoch. */
static inline int64_t kz__id_ns(const kz_generator *gen)
{
    return gen->clock.wall_ns(gen->clock.ctx) - gen->epoch_ns;
}

/* Milliseconds, rounded down also before the epoch. */
static inline int64_t kz__ms(int64_t ns)
{
    return ns / KZ__NS_PER_MS - (ns % KZ__NS_PER_MS < 0);
}

/* lib/keeper_thread.c */
kz_status kz__acquire(kz_generator *gen, kz_error *err); /* asks the source once; called without the lock */
kz_status kz__keeper_start(kz_generator *gen, kz_error *err);
void kz__keeper_stop(kz_generator *gen);

void kz__log(const kz_generator *gen, kz_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
