/* The plane of IDs: points, the rectangles a generator holds, and the one question asked of them.
 *
 * A point is an ID: (id_ms, slot), the time field and the low bits (node and sequence together). A rectangle is a block
 * of slots times a half-open span of ID time. `id_ms` counts milliseconds from the layout's epoch. */
#ifndef KZ_CORE_PLANE_H
#define KZ_CORE_PLANE_H

#include <kazahana.h>

/* In a millisecond only the best class that is live then counts, so that a fallback never competes with a lease. */
typedef enum kz__class { KZ__LEASED, KZ__FENCED, KZ__UNFENCED, KZ__CLASSES } kz__class;

typedef struct kz__rect {
    uint64_t slot;     /* the block's first slot; a multiple of its size */
    uint64_t start_ms; /* ID time; the point at end_ms belongs to somebody else */
    uint64_t end_ms;
    uint8_t height; /* the block has 1 << height slots */
    uint8_t rank;   /* a kz__class */
} kz__rect;

/* Consecutive points of one block in one millisecond: what a minter can hand out by counting. */
typedef struct kz__run {
    uint64_t ms;
    kz_id first;
    kz_id end;   /* the block's end in that millisecond, which is not ours */
    kz_id block; /* the block's first point in that millisecond */
    uint8_t rank;
} kz__run;

/* The run that starts at the smallest held point at or above `floor`. False: nothing held is that high. */
bool kz__successor(const kz__rect *rects, size_t count, unsigned slot_bits, kz_id floor, kz__run *run);

/* The end of ID time for a layout. Short of the field's own end by a hair where an ID fills all 64 bits: minters
 * overshoot a run's end by counting, and that must never wrap round to zero. */
uint64_t kz__end_of_time_ms(const kz_layout *layout);

static inline unsigned kz__slot_bits(const kz_layout *layout)
{
    return (unsigned)layout->node_bits + layout->seq_bits;
}

#endif
