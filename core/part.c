/* The part of a far table that came over the wire: what is known of it, and what changed. */
#include "core/part.h"
#include "core/error.h"
#include "core/find_block.h"
#include "core/memory_rows.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_SLOT UINT64_MAX

/* Every free range with from < hi <= to is known. */
typedef struct span {
    uint64_t from, to;
} span;

typedef struct list {
    void *items;
    size_t count, room;
} list;

struct kz__part {
    kz__part_ask ask;
    void *ctx;
    kz__memory_rows *was, *is; /* as told, and as the rules left it */
    kz__rows was_rows, is_rows;
    uint64_t heights;
    bool all;
    int64_t ended_ms; /* rows up to (ended_ms, ended_lo) are known */
    uint64_t ended_lo;
    list spans;    /* of `span`, in order, apart from each other */
    list at;       /* of uint64_t: slots where no row begins */
    list requests; /* of uint8_t[KZ_REQUEST_ID_SIZE] */
};

static kz_status no_memory(kz_error *err)
{
    return kz__fail(err, KZ_NO_MEMORY, "no memory for the lease table");
}

/* Makes room for one more item and counts it; NULL: no memory. */
static void *append(list *l, size_t size)
{
    if (l->count == l->room) {
        size_t room = l->room ? 2 * l->room : 32;
        void *grown = realloc(l->items, room * size);
        if (!grown)
            return NULL;
        l->items = grown;
        l->room = room;
    }
    return (char *)l->items + size * l->count++;
}

kz__part *kz__part_new(kz__part_ask ask, void *ctx)
{
    kz__part *part = calloc(1, sizeof *part);
    if (part) {
        part->ask = ask;
        part->ctx = ctx;
    }
    return part;
}

void kz__part_free(kz__part *part)
{
    if (!part)
        return;
    kz__memory_rows_free(part->was);
    kz__memory_rows_free(part->is);
    free(part->spans.items);
    free(part->at.items);
    free(part->requests.items);
    free(part);
}

kz_status kz__part_begin(kz__part *part, uint64_t heights, kz_error *err)
{
    kz__memory_rows_free(part->was);
    kz__memory_rows_free(part->is);
    part->was = kz__memory_rows_new();
    part->is = kz__memory_rows_new();
    if (!part->was || !part->is)
        return no_memory(err);
    part->was_rows = kz__memory_rows_use(part->was);
    part->is_rows = kz__memory_rows_use(part->is);
    part->heights = heights;
    part->all = false;
    part->ended_ms = INT64_MIN;
    part->ended_lo = 0;
    part->spans.count = part->at.count = part->requests.count = 0;
    return KZ_OK;
}

uint64_t kz__part_heights(const kz__part *part)
{
    return part->heights;
}

void kz__part_know_all(kz__part *part)
{
    part->all = true;
}

/* -------------------------------------------------------------------------------------------- what is known */

/* Where the knowledge of free ranges with hi > slot ends; `slot` itself: there is none. */
static uint64_t known_to(const kz__part *part, uint64_t slot)
{
    const span *spans = part->spans.items;
    if (part->all)
        return EVERY_SLOT;
    for (size_t i = 0; i < part->spans.count; i++)
        if (spans[i].from <= slot && slot < spans[i].to)
            return spans[i].to;
    return slot;
}

/* Enters a span as one with those that it touches. */
static kz_status add_span(kz__part *part, span whole, kz_error *err)
{
    span *spans = part->spans.items;
    size_t kept = 0;
    for (size_t i = 0; i < part->spans.count; i++) {
        if (spans[i].to < whole.from || whole.to < spans[i].from) {
            spans[kept++] = spans[i];
            continue;
        }
        whole.from = spans[i].from < whole.from ? spans[i].from : whole.from;
        whole.to = spans[i].to > whole.to ? spans[i].to : whole.to;
    }
    part->spans.count = kept;
    span *place = append(&part->spans, sizeof whole);
    if (!place)
        return no_memory(err);
    *place = whole;
    return KZ_OK;
}

static bool row_is_told(kz__part *part, uint64_t lo)
{
    kz__row row;
    return part->was_rows.out_at(part->was, lo, &row, NULL) == KZ_OK;
}

kz_status kz__part_tell_row(kz__part *part, const kz__row *row, kz_error *err)
{
    if (row_is_told(part, row->lo))
        return KZ_OK;
    kz_status status = part->was_rows.out_add(part->was, row, err);
    if (status == KZ_OK)
        status = part->is_rows.out_add(part->is, row, err);
    if (status == KZ_OK) {
        kz__memory_rows_commit(part->was);
        kz__memory_rows_keep_last(part->is);
    }
    return status;
}

kz_status kz__part_tell_free(kz__part *part, uint64_t from, const kz__range *ranges, size_t count, bool last,
                             kz_error *err)
{
    for (size_t i = 0; i < count; i++) {
        /* What was told before may have been changed since. */
        if (known_to(part, ranges[i].hi - 1) >= ranges[i].hi)
            continue;
        kz_status status = part->was_rows.free_add(part->was, ranges[i], err);
        if (status == KZ_OK)
            status = part->is_rows.free_add(part->is, ranges[i], err);
        if (status)
            return status;
        kz__memory_rows_commit(part->was);
        kz__memory_rows_keep_last(part->is);
    }
    uint64_t to = last ? EVERY_SLOT : count ? ranges[count - 1].hi : from;
    return to > from ? add_span(part, (span){from, to}, err) : KZ_OK;
}

void kz__part_know_ended(kz__part *part, int64_t end_ms, uint64_t lo)
{
    if (end_ms < part->ended_ms || (end_ms == part->ended_ms && lo <= part->ended_lo))
        return;
    part->ended_ms = end_ms;
    part->ended_lo = lo;
}

kz_status kz__part_know_at(kz__part *part, uint64_t slot, kz_error *err)
{
    if (row_is_told(part, slot))
        return KZ_OK;
    uint64_t *place = append(&part->at, sizeof slot);
    if (!place)
        return no_memory(err);
    *place = slot;
    return KZ_OK;
}

kz_status kz__part_know_request(kz__part *part, const uint8_t *request, kz_error *err)
{
    uint8_t *place = append(&part->requests, KZ_REQUEST_ID_SIZE);
    if (!place)
        return no_memory(err);
    memcpy(place, request, KZ_REQUEST_ID_SIZE);
    return KZ_OK;
}

static bool knows_at(kz__part *part, uint64_t slot)
{
    kz__range range;
    if (part->all || row_is_told(part, slot))
        return true;
    if (part->is_rows.free_after(part->is, slot, &range, NULL) == KZ_OK && range.lo <= slot)
        return true; /* what is free is not out */
    const uint64_t *at = part->at.items;
    for (size_t i = 0; i < part->at.count; i++)
        if (at[i] == slot)
            return true;
    return false;
}

static bool knows_request(const kz__part *part, const uint8_t *request)
{
    const uint8_t *known = part->requests.items;
    for (size_t i = 0; i < part->requests.count; i++)
        if (memcmp(known + i * KZ_REQUEST_ID_SIZE, request, KZ_REQUEST_ID_SIZE) == 0)
            return true;
    return part->all;
}

/* ---------------------------------------------------------------------------------------------- questions */

static kz_status unanswered(kz_error *err)
{
    return kz__fail(err, KZ_STORE, "the store did not answer a question of the lease table");
}

static kz_status free_after(void *ctx, uint64_t from, kz__range *range, kz_error *err)
{
    kz__part *part = ctx;
    for (;;) {
        uint64_t to = known_to(part, from);
        if (to == from) {
            kz__part_question question = {.kind = KZ__PART_FREE, .from = from};
            kz_status status = part->ask(part->ctx, part, &question, err);
            if (status)
                return status;
            if ((to = known_to(part, from)) == from)
                return unanswered(err);
        }
        kz_status status = part->is_rows.free_after(part->is, from, range, err);
        if (status == KZ_OK && range->hi <= to)
            return KZ_OK;
        if (to == EVERY_SLOT)
            return status;
        from = to;
    }
}

static kz_status free_ending(void *ctx, uint64_t slot, kz__range *range, kz_error *err)
{
    kz__part *part = ctx;
    if (slot && known_to(part, slot - 1) == slot - 1) {
        kz__range any;
        kz_status status = free_after(part, slot - 1, &any, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
    }
    return part->is_rows.free_ending(part->is, slot, range, err);
}

static kz_status free_add(void *ctx, kz__range range, kz_error *err)
{
    kz__part *part = ctx;
    return part->is_rows.free_add(part->is, range, err);
}

static kz_status free_remove(void *ctx, uint64_t lo, kz_error *err)
{
    kz__part *part = ctx;
    return part->is_rows.free_remove(part->is, lo, err);
}

static bool ended_known(const kz__part *part, int64_t end_ms, uint64_t lo)
{
    return part->all || end_ms < part->ended_ms || (end_ms == part->ended_ms && lo <= part->ended_lo);
}

static kz_status out_ended(void *ctx, int64_t ms, kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    for (;;) {
        kz_status status = part->is_rows.out_ended(part->is, ms, row, err);
        if (ended_known(part, ms, EVERY_SLOT) || (status == KZ_OK && ended_known(part, row->end_ms, row->lo)))
            return status;
        kz__part_question question = {
            .kind = KZ__PART_ENDED, .ms = ms, .after_ms = part->ended_ms, .from = part->ended_lo};
        status = part->ask(part->ctx, part, &question, err);
        if (status)
            return status;
        if (part->ended_ms == question.after_ms && part->ended_lo == question.from)
            return unanswered(err);
    }
}

/* Asks for the rows at these slots, as far as they are not known. */
static kz_status want_at(kz__part *part, const uint64_t *slots, size_t count, kz_error *err)
{
    kz__part_question question = {.kind = KZ__PART_AT};
    for (size_t i = 0; i < count; i++)
        if (!knows_at(part, slots[i]))
            question.slots[question.slot_count++] = slots[i];
    kz_status status = question.slot_count ? part->ask(part->ctx, part, &question, err) : KZ_OK;
    for (size_t i = 0; status == KZ_OK && i < question.slot_count; i++)
        if (!knows_at(part, question.slots[i]))
            status = unanswered(err);
    return status;
}

static kz_status out_at(void *ctx, uint64_t lo, kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    kz_status status = want_at(part, &lo, 1, err);
    return status ? status : part->is_rows.out_at(part->is, lo, row, err);
}

static size_t slots_of_node(uint32_t node, uint64_t heights, uint64_t limit, uint64_t slots[static KZ__PART_SLOTS])
{
    size_t count = 0;
    for (unsigned height = 0; height < 62 && (node || !count); height++)
        if (heights >> height & 1 && (uint64_t)node <= (limit - 1) >> height)
            slots[count++] = (uint64_t)node << height;
    return count;
}

static kz_status out_by_node(void *ctx, uint32_t node, kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    kz_status status = part->is_rows.out_by_node(part->is, node, row, err);
    if (status != KZ_NOT_FOUND)
        return status;
    uint64_t slots[KZ__PART_SLOTS];
    size_t count = slots_of_node(node, part->heights, UINT64_C(1) << 62, slots);
    status = want_at(part, slots, count, err);
    return status ? status : part->is_rows.out_by_node(part->is, node, row, err);
}

kz_status kz__part_want_node(kz__part *part, const kz__service *service, uint32_t node, kz_error *err)
{
    uint64_t slots[KZ__PART_SLOTS], half = kz__service_half(service);
    size_t count = slots_of_node(node, UINT64_MAX, half, slots);
    for (size_t i = 0; i < count; i++)
        slots[count + i] = slots[i] + half;
    return want_at(part, slots, 2 * count, err);
}

static kz_status out_by_request(void *ctx, const uint8_t *request, uint64_t from, kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    if (!knows_request(part, request)) {
        kz__part_question question = {.kind = KZ__PART_REQUEST};
        memcpy(question.request, request, sizeof question.request);
        kz_status status = part->ask(part->ctx, part, &question, err);
        if (status)
            return status;
        if (!knows_request(part, request))
            return unanswered(err);
    }
    return part->is_rows.out_by_request(part->is, request, from, row, err);
}

static kz_status out_add(void *ctx, const kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    part->heights |= UINT64_C(1) << row->seq_bits;
    return part->is_rows.out_add(part->is, row, err);
}

static kz_status out_update(void *ctx, const kz__row *row, kz_error *err)
{
    kz__part *part = ctx;
    return part->is_rows.out_update(part->is, row, err);
}

static kz_status out_remove(void *ctx, uint64_t lo, kz_error *err)
{
    kz__part *part = ctx;
    return part->is_rows.out_remove(part->is, lo, err);
}

kz__rows kz__part_rows(kz__part *part)
{
    return (kz__rows){.ctx = part,
                      .free_after = free_after,
                      .free_ending = free_ending,
                      .free_add = free_add,
                      .free_remove = free_remove,
                      .out_ended = out_ended,
                      .out_at = out_at,
                      .out_by_node = out_by_node,
                      .out_by_request = out_by_request,
                      .out_add = out_add,
                      .out_update = out_update,
                      .out_remove = out_remove};
}

/* ------------------------------------------------------------------------------------------------ changes */

void kz__part_keep(kz__part *part)
{
    kz__memory_rows_commit(part->is);
}

void kz__part_undo(kz__part *part)
{
    kz__memory_rows_rollback(part->is);
}

static bool same_row(const kz__row *a, const kz__row *b)
{
    return a->hi == b->hi && a->start_ms == b->start_ms && a->end_ms == b->end_ms && a->released == b->released &&
           strcmp(a->secret, b->secret) == 0;
}

/* The rows of `some` that `other` has not; with `had`, those that it has otherwise. */
static kz_status rows_apart(kz__memory_rows *some, kz__memory_rows *other, bool gone, bool had, kz__part_each each,
                            void *ctx, kz_error *err)
{
    kz__rows rows = kz__memory_rows_use(other);
    size_t at = 0;
    const kz__row *row;
    kz__row same;
    kz_status status = KZ_OK;
    while (status == KZ_OK && (row = kz__memory_rows_each(some, &at))) {
        bool there = rows.out_at(other, row->lo, &same, err) == KZ_OK;
        if (there == had && !(there && same_row(row, &same)))
            status = each(ctx, &(kz__part_change){.row = row, .gone = gone, .had = had}, err);
    }
    return status;
}

static kz_status ranges_apart(kz__memory_rows *some, kz__memory_rows *other, bool gone, kz__part_each each, void *ctx,
                              kz_error *err)
{
    kz__rows rows = kz__memory_rows_use(some), others = kz__memory_rows_use(other);
    kz__range range, same;
    kz_status status = KZ_OK;
    for (uint64_t from = 0; status == KZ_OK && rows.free_after(some, from, &range, err) == KZ_OK; from = range.hi) {
        bool had = others.free_ending(other, range.hi, &same, err) == KZ_OK;
        if (had ? !gone && same.lo != range.lo : true)
            status = each(ctx, &(kz__part_change){.range = &range, .gone = gone, .had = had}, err);
    }
    return status;
}

kz_status kz__part_changes(kz__part *part, kz__part_each each, void *ctx, kz_error *err)
{
    kz_status status = rows_apart(part->was, part->is, true, false, each, ctx, err);
    if (status == KZ_OK)
        status = ranges_apart(part->was, part->is, true, each, ctx, err);
    if (status == KZ_OK)
        status = rows_apart(part->is, part->was, false, true, each, ctx, err);
    if (status == KZ_OK)
        status = rows_apart(part->is, part->was, false, false, each, ctx, err);
    if (status == KZ_OK)
        status = ranges_apart(part->is, part->was, false, each, ctx, err);
    return status;
}
