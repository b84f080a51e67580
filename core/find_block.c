/* The search for a block to grant. */
#include "core/find_block.h"

static uint64_t align_up(uint64_t slot, uint64_t size)
{
    return (slot + size - 1) & ~(size - 1);
}

/* The last answer of free_after, which stands for every slot from `from` up to the range's end. */
typedef struct lookup {
    bool known, none;
    uint64_t from;
    kz__range range;
} lookup;

static kz_status free_after(const kz__rows *rows, lookup *last, uint64_t from, kz__range *range, kz_error *err)
{
    if (!last->known || from < last->from || (!last->none && from >= last->range.hi)) {
        kz_status status = rows->free_after(rows->ctx, from, &last->range, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
        last->known = true;
        last->none = status == KZ_NOT_FOUND;
        last->from = from;
    }
    if (last->none)
        return KZ_NOT_FOUND;
    *range = last->range;
    return KZ_OK;
}

typedef struct search {
    const kz__rows *rows;
    uint64_t size, half;
    unsigned height;
    lookup lower, upper;
    size_t looked;
    kz__place best;
} search;

/* The first wholly free aligned block in [*at, limit). */
static kz_status next_block(search *s, uint64_t *at, uint64_t limit, kz_error *err)
{
    while (*at + s->size <= limit) {
        kz__range range;
        kz_status status = free_after(s->rows, &s->lower, *at, &range, err);
        if (status)
            return status;
        if (range.lo > *at)
            *at = align_up(range.lo, s->size);
        if (*at + s->size > limit)
            break;
        if (*at + s->size <= range.hi)
            return KZ_OK;
        if (range.hi > *at)
            *at = align_up(range.hi, s->size);
    }
    return KZ_NOT_FOUND;
}

static kz_status twin_is_free(search *s, uint64_t lo, bool *is_free, kz_error *err)
{
    kz__range range;
    kz_status status = free_after(s->rows, &s->upper, lo + s->half, &range, err);
    *is_free = status == KZ_OK && range.lo <= lo + s->half && range.hi >= lo + s->half + s->size;
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

/* Looks through [at, limit) until a block with a free twin is found, or enough without. */
static kz_status look(search *s, uint64_t at, uint64_t limit, bool *done, kz_error *err)
{
    for (*done = false; !*done; at += s->size) {
        kz_status status = next_block(s, &at, limit, err);
        if (status)
            return status == KZ_NOT_FOUND ? KZ_OK : status;
        bool twin;
        status = twin_is_free(s, at, &twin, err);
        if (status)
            return status;
        s->looked++;
        if (twin || !s->best.found) {
            /* A release names a number, so a number that is out at another height cannot be out again. */
            kz__row other;
            status = s->rows->out_by_node(s->rows->ctx, (uint32_t)(at >> s->height), &other, err);
            if (status == KZ_NOT_FOUND)
                s->best = (kz__place){.lo = at, .found = true, .twin = twin};
            else if (status)
                return status;
        }
        *done = s->best.found && (s->best.twin || s->looked >= KZ__SEARCH_BLOCKS);
    }
    return KZ_OK;
}

kz_status kz__find_block(const kz__rows *rows, const kz__service *service, unsigned height, uint64_t from,
                         kz__place *out, kz_error *err)
{
    search s = {.rows = rows, .size = UINT64_C(1) << height, .half = kz__service_half(service), .height = height};
    uint64_t start = from < s.half ? align_up(from, s.size) : 0;
    bool done;
    kz_status status = look(&s, start, s.half, &done, err);
    if (status == KZ_OK && !done)
        status = look(&s, 0, start < s.half ? start : s.half, &done, err);
    *out = s.best;
    return status;
}
