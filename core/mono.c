/* Strictly increasing nanoseconds. */
#include "core/mono.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdlib.h>

struct kz_mono {
    kz__mono_word word; /* never negative, so that a clock before 1970 counts as 0 */
};

kz_status kz_mono_new(kz_mono **mono, int64_t last_ns, kz_error *err)
{
    if (last_ns < 0)
        return kz__fail(err, KZ_INVALID, "the last value %" PRId64 " is negative; 0 stands for none", last_ns);
    kz_mono *made = aligned_alloc(KZ__CACHE_LINE, sizeof *made);
    if (!made)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator of nanoseconds");
    atomic_init(&made->word.last_ns, last_ns);
    *mono = made;
    return KZ_OK;
}

kz_status kz_mono_next_at(kz_mono *mono, int64_t now_ns, int64_t *unix_ns)
{
    return kz__mono_step(&mono->word, now_ns, unix_ns);
}

void kz_mono_free(kz_mono *mono)
{
    free(mono);
}
