/* The search for a block to grant. */
#ifndef KZ_CORE_FIND_BLOCK_H
#define KZ_CORE_FIND_BLOCK_H

#include "core/table.h"

typedef struct kz__place {
    uint64_t lo;
    bool found, twin; /* is the twin free too? */
} kz__place;

/* A wholly free block of 2^height slots in the lower half, at or after `from`, going round once; one with a free twin
 * if there is one among the first KZ__SEARCH_BLOCKS. */
kz_status kz__find_block(const kz__rows *rows, const kz__service *service, unsigned height, uint64_t from,
                         kz__place *out, kz_error *err);

static inline unsigned kz__service_slot_bits(const kz__service *service)
{
    return (unsigned)service->node_bits + service->seq_bits;
}

/* The first slot of the twins. */
static inline uint64_t kz__service_half(const kz__service *service)
{
    return UINT64_C(1) << (kz__service_slot_bits(service) - 1);
}

#endif
