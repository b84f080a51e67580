/* The search for a block to grant. */
#ifndef KZ_CORE_FIND_BLOCK_H
#define KZ_CORE_FIND_BLOCK_H

#include "core/table.h"

typedef struct kz__block {
    uint64_t lo;
    bool found, twin; /* is the twin free too? */
} kz__block;

/* A wholly free block of 2^height slots in the lower half that is not set aside, at or after `from`, going round once;
 * one with a free twin if there is one among the first KZ__SEARCH_BLOCKS. High blocks keep to their part. */
kz_status kz__find_block(const kz__rows *rows, const kz__service *service, unsigned height, uint64_t from,
                         kz__block *out, kz_error *err);

/* Counts usual blocks that could be granted with a twin by a table whose time is `at_ms`, outside of `part`, from the
 * cursor on, going round once, up to `wanted`. *end is behind the last of them, and above the lower half if the search
 * went round. */
kz_status kz__count_blocks(const kz__rows *rows, const kz__service *service, kz__range part, uint64_t wanted,
                           int64_t at_ms, uint64_t *count, uint64_t *end, kz_error *err);

/* The half of the leased slots that high blocks go into; empty if they may go anywhere. */
kz__range kz__service_part(const kz__service *service);

static inline unsigned kz__service_slot_bits(const kz__service *service)
{
    return (unsigned)service->node_bits + service->seq_bits;
}

/* The first slot of the twins. */
static inline uint64_t kz__service_half(const kz__service *service)
{
    return UINT64_C(1) << (kz__service_slot_bits(service) - 1);
}

/* Aligned blocks of the service's usual size in the lower half's part of a free range. */
uint64_t kz__table_blocks_in(const kz__service *service, kz__range range);

#endif
