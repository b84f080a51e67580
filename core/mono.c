/* Strictly increasing nanoseconds. */
#include "core/mono.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

void kz__mono_init(kz__mono_word *word, int64_t last_ns)
{
    atomic_init(&word->last_ns, last_ns);
    atomic_init(&word->owner, KZ__MONO_NOBODY);
    atomic_init(&word->given_ns, last_ns);
    atomic_init(&word->reach_ns, last_ns);
}

kz_status kz__mono_claim_as(kz__mono_word *word, uintptr_t self, int64_t wall_ns, int64_t *unix_ns)
{
    uintptr_t owner = atomic_load_explicit(&word->owner, memory_order_relaxed);
    if (owner == KZ__MONO_NOBODY && atomic_compare_exchange_strong(&word->owner, &owner, self))
        owner = self;
    if (owner != self)
        return kz__mono_claim_one(word, wall_ns, unix_ns);
    int64_t first_ns, reach_ns;
    kz_status status = kz__mono_claim(word, wall_ns, KZ__MONO_REACH_NS, &first_ns, &reach_ns);
    if (status)
        return status;
    atomic_store_explicit(&word->reach_ns, reach_ns, memory_order_relaxed);
    atomic_store_explicit(&word->given_ns, first_ns, memory_order_relaxed);
    *unix_ns = first_ns;
    return KZ_OK;
}

kz_status kz_mono_new(kz_mono **mono, int64_t last_ns, kz_error *err)
{
    if (last_ns < 0)
        return kz__fail(err, KZ_INVALID, "the last value %" PRId64 " is negative; 0 stands for none", last_ns);
    kz_mono *made = aligned_alloc(KZ__CACHE_LINE, sizeof *made);
    if (!made)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator of nanoseconds");
    kz__mono_init(&made->word, last_ns);
    *mono = made;
    return KZ_OK;
}

kz_status kz_mono_next_at(kz_mono *mono, int64_t now_ns, int64_t *unix_ns)
{
    return kz__mono_claim_one(&mono->word, now_ns, unix_ns);
}

void kz_mono_free(kz_mono *mono)
{
    free(mono);
}
