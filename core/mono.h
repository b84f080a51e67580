/* The step that both generators of increasing nanoseconds take, and the protocol between their threads.
 *
 * Values are claimed by raising `last_ns`. It only grows, and what it passed belongs to whoever raised it.
 *
 * The first thread to call is the owner: it claims the next microsecond at once and gives from that by itself, which
 * spares it an atomic operation for each value. When a second thread comes, it makes everybody the owner, for good, and
 * then claims; from there on each value is a claim of its own. What the first had left is lost, and values stay ahead
 * of the clock by that much, a microsecond at most, until the clock has caught up.
 *
 * Why values increase. Whatever the owner may still give was passed by `last_ns`, so every claim is above it. A call
 * that begins after a claim of another thread has ended sees that `owner` is everybody, because this was written before
 * the claim, and does not touch what was left. A thread that claims for itself while the second one comes either claims
 * before it, and the second gets a larger value, or after it, and then has seen the change by its next call. */
#ifndef KZ_CORE_MONO_H
#define KZ_CORE_MONO_H

#include <kazahana.h>

#include <stdatomic.h>

/* Two lines of 64 bytes: processors like to fetch them in pairs. */
#define KZ__CACHE_LINE 128

/* Values of `owner` that are no thread. */
enum { KZ__MONO_NOBODY = 0, KZ__MONO_EVERYBODY = 1 };

/* How much the owner claims: some dozens of calls. */
#define KZ__MONO_REACH_NS 1000

/* Changed by every call of many threads, and hardly ever: a cache line for each. */
typedef struct kz__mono_word {
    _Alignas(KZ__CACHE_LINE) _Atomic int64_t last_ns; /* the highest value claimed; never negative */
    _Alignas(KZ__CACHE_LINE) _Atomic uintptr_t owner;
    _Atomic int64_t given_ns, reach_ns; /* the owner's: the last value it gave, and the last that it may give */
} kz__mono_word;

struct kz_mono {
    kz__mono_word word;
};

void kz__mono_init(kz__mono_word *word, int64_t last_ns);

/* next = max(now, last + 1) and `more` values behind it, up to `reach_ns`. The time is read once, before: a lost race
 * needs no newer one, only last + 1. Acquire and release, so that whoever claims above another has seen whom that one
 * made the owner. */
static inline kz_status kz__mono_claim(kz__mono_word *word, int64_t wall_ns, int64_t more, int64_t *unix_ns,
                                       int64_t *reach_ns)
{
    int64_t last_ns = atomic_load_explicit(&word->last_ns, memory_order_relaxed);
    int64_t first, reach;
    do {
        if (last_ns == INT64_MAX)
            return KZ_OVERFLOW;
        first = wall_ns > last_ns ? wall_ns : last_ns + 1;
        reach = first <= INT64_MAX - more ? first + more : first;
    } while (!atomic_compare_exchange_weak_explicit(&word->last_ns, &last_ns, reach, memory_order_acq_rel,
                                                    memory_order_relaxed));
    *unix_ns = first;
    *reach_ns = reach;
    return KZ_OK;
}

/* A claim of one value, by a caller that is no thread or one of many. */
static inline kz_status kz__mono_claim_one(kz__mono_word *word, int64_t wall_ns, int64_t *unix_ns)
{
    int64_t reach_ns;
    /* Looked at before it is written, so that all processors can keep a copy of its line. */
    if (atomic_load_explicit(&word->owner, memory_order_acquire) != KZ__MONO_EVERYBODY)
        atomic_store(&word->owner, KZ__MONO_EVERYBODY);
    return kz__mono_claim(word, wall_ns, 0, unix_ns, &reach_ns);
}

/* What thread `self` does when it has nothing left, or is the first or the second to come. */
kz_status kz__mono_claim_as(kz__mono_word *word, uintptr_t self, int64_t wall_ns, int64_t *unix_ns);

/* The next value for thread `self`, a number that no other living thread has. */
static inline kz_status kz__mono_step(kz__mono_word *word, uintptr_t self, int64_t wall_ns, int64_t *unix_ns)
{
    int64_t reach_ns;
    uintptr_t owner = atomic_load_explicit(&word->owner, memory_order_acquire);
    if (owner == KZ__MONO_EVERYBODY)
        return kz__mono_claim(word, wall_ns, 0, unix_ns, &reach_ns);
    if (owner == self) {
        int64_t given_ns = atomic_load_explicit(&word->given_ns, memory_order_relaxed);
        reach_ns = atomic_load_explicit(&word->reach_ns, memory_order_relaxed);
        if (given_ns < reach_ns && wall_ns <= reach_ns) {
            int64_t next_ns = wall_ns > given_ns ? wall_ns : given_ns + 1;
            atomic_store_explicit(&word->given_ns, next_ns, memory_order_relaxed);
            *unix_ns = next_ns;
            return KZ_OK;
        }
    }
    return kz__mono_claim_as(word, self, wall_ns, unix_ns);
}

/* core/monouuid.c */
kz_status kz__monouuid_step(kz_monouuid *gen, uintptr_t self, int64_t wall_ns, kz_uuid *uuid);

#endif
