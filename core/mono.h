/* The step that both generators of increasing nanoseconds take. */
#ifndef KZ_CORE_MONO_H
#define KZ_CORE_MONO_H

#include <kazahana.h>

#include <stdatomic.h>

#define KZ__CACHE_LINE 64

/* The last value given, on a cache line of its own. It only grows, and every value is given to whoever put it there. */
typedef struct kz__mono_word {
    _Alignas(KZ__CACHE_LINE) _Atomic int64_t last_ns;
} kz__mono_word;

/* next = max(now, last + 1). The time is read once, before: a lost race needs no newer one, only last + 1. Relaxed
 * order is enough, because the word is all there is and its changes have one order that every thread sees. */
static inline kz_status kz__mono_step(kz__mono_word *word, int64_t wall_ns, int64_t *unix_ns)
{
    int64_t last_ns = atomic_load_explicit(&word->last_ns, memory_order_relaxed);
    int64_t next_ns;
    do {
        if (last_ns == INT64_MAX)
            return KZ_OVERFLOW;
        next_ns = wall_ns > last_ns ? wall_ns : last_ns + 1;
    } while (!atomic_compare_exchange_weak_explicit(&word->last_ns, &last_ns, next_ns, memory_order_relaxed,
                                                    memory_order_relaxed));
    *unix_ns = next_ns;
    return KZ_OK;
}

#endif
