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
    const kz__service *service;
    int64_t at_ms; /* what is set aside then is passed over */
    uint64_t size, half;
    unsigned height;
    lookup lower, upper;
} search;

static search search_of(const kz__rows *rows, const kz__service *service, unsigned height, int64_t at_ms)
{
    return (search){.rows = rows,
                    .service = service,
                    .at_ms = at_ms,
                    .size = UINT64_C(1) << height,
                    .half = kz__service_half(service),
                    .height = height};
}

/* The first aligned block in [*at, limit) that is wholly free and may be granted. */
static kz_status next_block(search *s, uint64_t *at, uint64_t limit, kz_error *err)
{
    while (*at + s->size <= limit) {
        kz__range range;
        uint64_t past;
        if (!kz__may_grant(s->service->asides, *at, *at + s->size, s->at_ms, &past)) {
            if (past >= limit)
                break;
            *at = align_up(past, s->size);
            continue;
        }
        kz_status status = free_after(s->rows, &s->lower, *at, &range, err);
        if (status)
            return status;
        if (range.lo <= *at && *at + s->size <= range.hi)
            return KZ_OK;
        *at = align_up(range.lo > *at ? range.lo : range.hi, s->size);
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

/* A release names a number, so a number that is out at another height cannot be out again. */
static kz_status number_is_free(const search *s, uint64_t lo, bool *is_free, kz_error *err)
{
    kz__row other;
    kz_status status = s->rows->out_by_node(s->rows->ctx, (uint32_t)(lo >> s->height), &other, err);
    *is_free = status == KZ_NOT_FOUND;
    return *is_free ? KZ_OK : status;
}

/* Looks through [at, limit) until a block with a free twin is found, or enough without. */
static kz_status look(search *s, uint64_t at, uint64_t limit, size_t *looked, kz__block *best, kz_error *err)
{
    for (; !(best->found && (best->twin || *looked >= KZ__SEARCH_BLOCKS)); at += s->size) {
        kz_status status = next_block(s, &at, limit, err);
        if (status)
            return status == KZ_NOT_FOUND ? KZ_OK : status;
        bool twin, number = false;
        status = twin_is_free(s, at, &twin, err);
        if (status == KZ_OK && (twin || !best->found))
            status = number_is_free(s, at, &number, err);
        if (status)
            return status;
        ++*looked;
        if (number)
            *best = (kz__block){.lo = at, .found = true, .twin = twin};
    }
    return KZ_OK;
}

kz__range kz__service_part(const kz__service *service)
{
    uint64_t quarter = kz__service_half(service) / 2;
    if (!service->parted || !service->high_blocks)
        return (kz__range){0, 0};
    return (kz__range){service->part * quarter, (service->part + 1u) * quarter};
}

kz_status kz__find_block(const kz__rows *rows, const kz__service *service, unsigned height, uint64_t from,
                         kz__block *out, kz_error *err)
{
    search s = search_of(rows, service, height, service->high_ms);
    kz__range within = kz__service_part(service);
    if (height == service->seq_bits || !within.hi)
        within = (kz__range){0, s.half};
    uint64_t start = from >= within.lo && from < within.hi ? align_up(from, s.size) : within.lo;
    size_t looked = 0;
    *out = (kz__block){0};
    kz_status status = look(&s, start, within.hi, &looked, out, err);
    if (status == KZ_OK)
        status = look(&s, within.lo, start < within.hi ? start : within.hi, &looked, out, err);
    return status;
}

kz_status kz__count_blocks(const kz__rows *rows, const kz__service *service, kz__range part, uint64_t wanted,
                           int64_t at_ms, uint64_t *count, uint64_t *end, kz_error *err)
{
    search s = search_of(rows, service, service->seq_bits, at_ms);
    uint64_t start = service->cursor < s.half ? align_up(service->cursor, s.size) : 0;
    *count = 0;
    for (int round = 0; round < 2; round++) {
        uint64_t limit = round ? start : s.half;
        for (uint64_t at = round ? 0 : start; *count < wanted; at += s.size) {
            kz_status status = next_block(&s, &at, limit, err);
            if (status == KZ_NOT_FOUND)
                break;
            bool twin = false, number = false;
            if (status == KZ_OK)
                status = twin_is_free(&s, at, &twin, err);
            if (status == KZ_OK && twin)
                status = number_is_free(&s, at, &number, err);
            if (status)
                return status;
            *count += number && !(part.lo < at + s.size && at < part.hi);
            *end = at + s.size + (round ? s.half : 0);
        }
    }
    return KZ_OK;
}

uint64_t kz__table_blocks_in(const kz__service *service, kz__range range)
{
    unsigned height = service->seq_bits;
    uint64_t half = UINT64_C(1) << (service->node_bits + height - 1);
    uint64_t lo = (range.lo + (UINT64_C(1) << height) - 1) >> height;
    uint64_t hi = (range.hi < half ? range.hi : half) >> height;
    return lo < hi ? hi - lo : 0;
}
