/* A generator from the inside. */
#ifndef KZ_LIB_GENERATOR_H
#define KZ_LIB_GENERATOR_H

#include "core/decide.h"
#include "core/idclock.h"
#include "core/keeper.h"
#include "host/clock.h"
#include "lib/source.h"

#include <pthread.h>
#include <stdatomic.h>

/* Two lines of 64 bytes: processors like to fetch them in pairs. */
#define KZ__CACHE_LINE 128

/* Values of kz__hot.owner that are no thread. */
enum { KZ__NOBODY = 0, KZ__EVERYBODY = 1 };

/* As many different threads can be the owner in turn. Each has a place of its own for good: one that was held up while
 * it was the owner must not write into another's. */
enum { KZ__OWN_PLACES = 16 };

typedef struct kz__own {
    _Atomic kz_id next, end; /* points its thread has claimed and not handed out yet, while it is the owner */
} kz__own;

/* Everything that decides about IDs, in memory that a forked child finds zeroed: no deadline, no run, nothing held, not
 * alive. lib/mint.c says who writes what, in which order, and why. */
typedef struct kz__hot {
    /* Read by every call. */
    _Alignas(KZ__CACHE_LINE) _Atomic uint64_t deadline; /* in ticks: until then `hi` may be trusted; 0: ask the clock */
    _Atomic uint64_t span;                              /* a deadline further off than this is nonsense */
    _Atomic kz_id hi;                                   /* the end of the run: claims at or past it are void */
    _Atomic uintptr_t owner; /* the only thread that mints, with the number of its place; or one of the two above */
    kz__tick_kind ticks;

    /* The word: the lowest point nobody has claimed. Moved by atomic operations only. */
    _Alignas(KZ__CACHE_LINE) _Atomic kz_id next;

    /* What belongs to the owner. */
    _Alignas(KZ__CACHE_LINE) kz__own own[KZ__OWN_PLACES];

    /* The rest is written under the lock, which is never held while sleeping or in I/O. */
    _Alignas(KZ__CACHE_LINE) pthread_mutex_t lock;
    pthread_cond_t changed;                /* what is held changed, the keeper failed, or the keeper is wanted */
    bool alive;                            /* false in a forked child */
    uintptr_t own_threads[KZ__OWN_PLACES]; /* whose place each one is; 0: nobody's yet */
    uintptr_t looker;                      /* the last thread that came here ... */
    unsigned looks;                        /* ... and how often in a row, while everybody was the owner */

    bool run_active;
    kz__run run; /* as published; its points below `next` are given */
    kz_id floor; /* while no run is active: the lowest point not given */

    kz__rect *rects; /* what is held, made from keeper.held */
    size_t rect_count, rect_room;
    int64_t resume_ms, grace_ms;

    kz__idclock idclock;         /* unset: the wall clock */
    int64_t high_ms, reading_ms; /* ID clock: the highest reading, and the last one */
    uint64_t random[2];          /* two states, so that a request ID has 128 bits of chance */
    kz__tick_rate rate;

    uint64_t ids[KZ__CLASSES]; /* of runs that are over */
    uint64_t unspent;          /* points of the run being ended that its owner did not hand out */
    uint64_t use_ms, use_ids;  /* the millisecond of the last run, and how many IDs it gave */
    uint32_t use_peak;         /* the most in one millisecond since the last handover */
    uint64_t exhausted, exhausted_last_ms, backward, sleeps;
    int64_t backward_max_ms;

    kz__keeper keeper;
    bool keeper_runs;
    uint64_t keeper_calls; /* how often something wanted the keeper's attention */
    kz_error keeper_error; /* of the last attempt, while keeper.failures */
    uint64_t acquired, released, acquire_failures;
    kz_usage told; /* the keeper's: what the source was told of */
} kz__hot;

/* What kz_share promises of the page. */
_Static_assert(offsetof(kz__hot, deadline) == offsetof(kz_page, deadline), "deadline");
_Static_assert(offsetof(kz__hot, span) == offsetof(kz_page, span), "span");
_Static_assert(offsetof(kz__hot, hi) == offsetof(kz_page, hi), "hi");
_Static_assert(offsetof(kz__hot, next) == offsetof(kz_page, next), "next");
_Static_assert(offsetof(kz_page, deadline) == 0 && offsetof(kz_page, span) == 8 && offsetof(kz_page, hi) == 16 &&
                   offsetof(kz_page, next) == 128,
               "the page is read by programs in other languages");
_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "atomics without a lock of their own");

struct kz_generator {
    kz__hot *hot;
    kz_source *source; /* NULL in a simulation */
    kz_source_facts facts;
    kz_layout layout;
    bool wall_clock;   /* IDs take their time from the wall clock, not from the source */
    bool layout_known; /* by a lease, the options, or because IDs were minted in it */
    unsigned slot_bits;
    int64_t epoch_ns; /* of `layout`; an epoch too far off to be written in nanoseconds is as late as can be */
    kz__policy policy;
    kz_fallback fallback;
    kz_options options; /* its texts belong to the generator */
    char holder[KZ_HOLDER_SIZE];
    kz_clock clock;
    pthread_t keeper_thread;
    kz__rect *rects_memory; /* what hot->rects and hot->keeper.held point to: a child finds those zeroed */
    kz__held *held_memory;
    kz_grant *answer;         /* the keeper's, too large for a stack */
    kz__seen seen;            /* of the source, by this process and those it was forked from */
    bool inherited;           /* the source's handle is the parent process's */
    struct kz__shared *share; /* lib/shared.c: opened for several; NULL: for one */
    bool shared;  /* others claim on the page by themselves: everybody is the owner, and the page outlives this */
    bool started; /* `hot` was set up; if it is not alive then, this is a forked child */
};

/* Sets up `hot`, which is zeroed, at the start and again in a child. */
kz_status kz__generator_init(kz_generator *gen, kz_error *err);

/* The same as kz_open up to the first lease, without a source or a thread: for a simulation, which does what the keeper
 * wants by itself. */
kz_status kz__generator_new(kz_generator **gen, const kz_options *options, const kz_source_facts *facts, kz_error *err);

/* Takes a layout, before anything was minted in another. */
void kz__generator_set_layout(kz_generator *gen, const kz_layout *layout);

/* ------------------------------------------------------------------------------------------------ lib/mint.c */

/* Ends the run: no claim on it succeeds any more, and what it has left is at or above `floor`. Called with the lock
 * held, by the next minter and by whoever changes what is held. */
void kz__freeze(kz__hot *hot);

/* Points that the owner has claimed and nobody has got. */
uint64_t kz__unspent(const kz__hot *hot);

/* The lowest point not given, while no call is under way. Called with the lock held. */
kz_id kz__position(const kz__hot *hot);

/* Chance that no ID hangs on: jitter, and where a sequence begins. */
uint64_t kz__draw(kz__hot *hot);
/* The ID of a request, which does matter: the same one gets the same leases. */
void kz__draw_request(kz__hot *hot, uint64_t id[static 2]);

#ifdef KZ_TEST_HOOKS
extern void (*kz__hold_up)(void); /* called where a thread may be held up to the worst effect */
extern unsigned kz__alone_looks;
#endif

/* ID time now, in nanoseconds since the epoch. Called with the lock held. */
static inline int64_t kz__id_ns(const kz_generator *gen)
{
    const kz__idclock *idclock = &gen->hot->idclock;
    int64_t unix_ns = idclock->set ? kz__idclock_read(idclock, gen->clock.boot_ns(gen->clock.ctx))
                                   : gen->clock.wall_ns(gen->clock.ctx);
    return unix_ns - gen->epoch_ns;
}

/* Milliseconds, rounded down also before the epoch. */
static inline int64_t kz__ms(int64_t ns)
{
    return ns / KZ__NS_PER_MS - (ns % KZ__NS_PER_MS < 0);
}

/* --------------------------------------------------------------------------------------------- lib/keeping.c */

/* What the keeper wants done now, with all that is needed to do it. */
typedef struct kz__errand {
    kz__task task;
    kz_acquire acquire;
    kz_release release;
    char signature[KZ_SIGNATURE_SIZE];
} kz__errand;

/* Decides, and for a release gives the lease up: from then on nothing is minted from it. Takes the lock. */
void kz__keeping_plan(kz_generator *gen, kz__errand *errand);

/* Reports the outcome of an errand: `grant` for KZ__ACQUIRE and KZ__SYNC (of which only the time counts), or a failure.
 * Returns what the caller of kz_open should see. Takes the lock. */
kz_status kz__keeping_done(kz_generator *gen, const kz__errand *errand, kz_status status, const kz_grant *grant,
                           kz_error *err);

/* Makes the rectangles anew from what the keeper holds. The lock is held. */
kz_status kz__keeping_rebuild(kz_generator *gen, kz_error *err);

/* --------------------------------------------------------------------------------------- lib/keeper_thread.c */

kz_status kz__keeper_run_once(kz_generator *gen, int64_t *until_boot_ms, bool *stopped, kz_error *err);
kz_status kz__keeper_start(kz_generator *gen, kz_error *err);
void kz__keeper_stop(kz_generator *gen);
/* Wakes the keeper: what it wants to do may have changed. The lock is held. */
static inline void kz__keeper_call(kz__hot *hot)
{
    hot->keeper_calls++;
    pthread_cond_broadcast(&hot->changed);
}
/* In a child whose source can grant it a place of its own: starts anew. The lock is held. */
kz_status kz__keeper_revive(kz_generator *gen, kz_error *err);

/* ---------------------------------------------------------------------------------------------- lib/shared.c */

/* One of those who opened it together closes it. True if that was the last. */
bool kz__share_leave(kz_generator *gen);
/* It is closed. */
void kz__share_end(struct kz__shared *share);

void kz__log(const kz_generator *gen, kz_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
