/* The smallest point held at or above a floor. */
#include "core/plane.h"
#include "core/rules.h"

static bool live_at(const kz__rect *r, uint64_t ms)
{
    return r->start_ms <= ms && (ms < r->end_ms || (!KZ__RULE(HALF_OPEN) && ms == r->end_ms) || !KZ__RULE(ONLY_INSIDE));
}

/* The first point of this millisecond at or above `slot`, among the best class that is live then. */
static bool run_in_ms(const kz__rect *rects, size_t count, unsigned slot_bits, uint64_t ms, uint64_t slot, kz__run *run)
{
    unsigned best = KZ__CLASSES;
    for (size_t i = 0; i < count; i++)
        if (rects[i].rank < best && live_at(&rects[i], ms))
            best = rects[i].rank;

    const kz__rect *found = NULL;
    uint64_t lowest = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const kz__rect *r = &rects[i];
        if (r->rank != best || !live_at(r, ms) || slot >= r->slot + (UINT64_C(1) << r->height))
            continue;
        uint64_t candidate = slot > r->slot ? slot : r->slot;
        if (candidate < lowest) {
            lowest = candidate;
            found = r;
        }
    }
    if (!found)
        return false;
    kz_id base = ms << slot_bits;
    *run = (kz__run){.ms = ms,
                     .first = base + lowest,
                     .end = base + found->slot + (UINT64_C(1) << found->height),
                     .block = base + found->slot,
                     .rank = found->rank};
    return true;
}

/* The first millisecond after `ms` in which anything is held. */
static bool next_live_ms(const kz__rect *rects, size_t count, uint64_t ms, uint64_t *next)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        uint64_t candidate = rects[i].start_ms > ms ? rects[i].start_ms : ms + 1;
        if (candidate >= rects[i].end_ms || (any && candidate >= *next))
            continue;
        *next = candidate;
        any = true;
    }
    return any;
}

bool kz__successor(const kz__rect *rects, size_t count, unsigned slot_bits, kz_id floor, kz__run *run)
{
    uint64_t ms = floor >> slot_bits;
    uint64_t slot = floor & ((UINT64_C(1) << slot_bits) - 1);
    if (run_in_ms(rects, count, slot_bits, ms, slot, run))
        return true;
    return next_live_ms(rects, count, ms, &ms) && run_in_ms(rects, count, slot_bits, ms, 0, run);
}

uint64_t kz__end_of_time_ms(const kz_layout *layout)
{
    unsigned slot_bits = kz__slot_bits(layout);
    uint64_t end_ms = UINT64_C(1) << layout->time_bits;
    uint64_t safe_ms = (UINT64_MAX - UINT32_MAX) >> slot_bits;
    /* No clock here reads beyond the year 2262, and sums with an epoch must not overflow. */
    uint64_t clock_ms = INT64_MAX / 1000000;
    if (safe_ms > clock_ms)
        safe_ms = clock_ms;
    return end_ms < safe_ms ? end_ms : safe_ms;
}
