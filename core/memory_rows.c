/* The rows of one service of a lease table, in memory: one ordered index, used four times, and free ranges in order.
 *
 * Every write notes how it is undone. A rollback needs no memory: nothing shrinks before the commit. */
#include "core/memory_rows.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

#define NONE         UINT32_MAX
#define ROOM_AT_ONCE 64
#define LEVELS       8

/* What the rows are in order of. Twins are in the first two only. */
enum { BY_LO, BY_END, BY_NODE, BY_REQUEST, ORDERS };

/* The next entry in each order, on each level: a skip list for each order. */
typedef struct entry {
    uint32_t next[ORDERS][LEVELS]; /* next[0][0] also chains unused entries */
    kz__row row;
} entry;

typedef enum undo_kind { UNDO_FREE_ADD, UNDO_FREE_REMOVE, UNDO_OUT_ADD, UNDO_OUT_REMOVE, UNDO_OUT_UPDATE } undo_kind;

typedef struct undo {
    undo_kind kind;
    uint32_t entry;
    kz__range range;
    int64_t end_ms;
    bool released;
} undo;

struct kz__memory_rows {
    entry *entries;
    size_t entry_count, entry_room;
    uint32_t unused;
    uint32_t first[ORDERS][LEVELS];
    kz__range *ranges; /* free, in order */
    size_t range_count, range_room;
    undo *undos;
    size_t undo_count, undo_room;
};

static kz_status no_memory(kz_error *err)
{
    return kz__fail(err, KZ_NO_MEMORY, "no memory for the lease table");
}

static bool make_room(void **array, size_t *room, size_t wanted, size_t item)
{
    if (wanted <= *room)
        return true;
    size_t more = *room ? *room * 2 : ROOM_AT_ONCE;
    while (more < wanted)
        more *= 2;
    void *grown = realloc(*array, more * item);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

static bool is_twin(const kz__row *row)
{
    return row->lo >> (row->node_bits + row->seq_bits - 1);
}

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

/* ---- the index ---- */

/* A place in one of the orders. */
typedef struct key {
    uint64_t parts[3];
} key;

static key key_of_request(const uint8_t *request, uint64_t lo)
{
    key k = {{0, 0, lo}};
    memcpy(k.parts, request, KZ_REQUEST_ID_SIZE);
    return k;
}

static key key_of(int order, const kz__row *row)
{
    switch (order) {
    case BY_LO:
        return (key){{row->lo}};
    case BY_END:
        return (key){{(uint64_t)row->end_ms ^ UINT64_C(1) << 63, row->lo}};
    case BY_NODE:
        return (key){{row->node}};
    default:
        return key_of_request(row->request, row->lo);
    }
}

static bool is_before(key a, key b)
{
    for (int i = 0; i < 2; i++)
        if (a.parts[i] != b.parts[i])
            return a.parts[i] < b.parts[i];
    return a.parts[2] < b.parts[2];
}

/* An entry is always on the same levels: one in four of each is on the next too. */
static int levels_of(uint32_t at)
{
    return 1 + __builtin_ctzll(mix(at) | UINT64_C(1) << (2 * LEVELS - 1)) / 2;
}

/* The first entry at or behind a key, or NONE; `links` gets the link to such a one on each level. */
static uint32_t find(kz__memory_rows *m, int order, key from, uint32_t *links[static LEVELS])
{
    uint32_t *at = m->first[order];
    for (int level = LEVELS - 1; level >= 0; level--) {
        while (at[level] != NONE && is_before(key_of(order, &m->entries[at[level]].row), from))
            at = m->entries[at[level]].next[order];
        links[level] = &at[level];
    }
    return *links[0];
}

/* The row there, or NULL. */
static const kz__row *look(const kz__memory_rows *m, int order, key from)
{
    uint32_t *links[LEVELS], at = find((kz__memory_rows *)m, order, from, links);
    return at == NONE ? NULL : &m->entries[at].row;
}

static void put_in(kz__memory_rows *m, int order, uint32_t at)
{
    uint32_t *links[LEVELS];
    find(m, order, key_of(order, &m->entries[at].row), links);
    for (int level = 0; level < levels_of(at); level++) {
        m->entries[at].next[order][level] = *links[level];
        *links[level] = at;
    }
}

static void take_out(kz__memory_rows *m, int order, uint32_t at)
{
    uint32_t *links[LEVELS];
    find(m, order, key_of(order, &m->entries[at].row), links);
    for (int level = 0; level < levels_of(at); level++)
        *links[level] = m->entries[at].next[order][level];
}

static void link_entry(kz__memory_rows *m, uint32_t at)
{
    for (int order = 0; order < (is_twin(&m->entries[at].row) ? BY_NODE : ORDERS); order++)
        put_in(m, order, at);
}

static void unlink_entry(kz__memory_rows *m, uint32_t at)
{
    for (int order = 0; order < (is_twin(&m->entries[at].row) ? BY_NODE : ORDERS); order++)
        take_out(m, order, at);
}

/* A row's end is moved. */
static void end_entry(kz__memory_rows *m, uint32_t at, int64_t end_ms, bool released)
{
    take_out(m, BY_END, at);
    m->entries[at].row.end_ms = end_ms;
    m->entries[at].row.released = released;
    put_in(m, BY_END, at);
}

static uint32_t entry_at(kz__memory_rows *m, uint64_t lo)
{
    uint32_t *links[LEVELS], at = find(m, BY_LO, (key){{lo}}, links);
    return at != NONE && m->entries[at].row.lo == lo ? at : NONE;
}

static void recycle(kz__memory_rows *m, uint32_t at)
{
    m->entries[at].next[0][0] = m->unused;
    m->unused = at;
}

static bool note(kz__memory_rows *m, undo what)
{
    if (!make_room((void **)&m->undos, &m->undo_room, m->undo_count + 1, sizeof *m->undos))
        return false;
    m->undos[m->undo_count++] = what;
    return true;
}

/* ---- free ranges ---- */

/* The first free range with hi > slot. */
static size_t range_after(const kz__memory_rows *m, uint64_t slot)
{
    size_t low = 0, high = m->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->ranges[middle].hi > slot)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void range_in(kz__memory_rows *m, kz__range range)
{
    size_t at = range_after(m, range.lo);
    memmove(&m->ranges[at + 1], &m->ranges[at], (m->range_count - at) * sizeof *m->ranges);
    m->ranges[at] = range;
    m->range_count++;
}

static void range_out(kz__memory_rows *m, size_t at)
{
    m->range_count--;
    memmove(&m->ranges[at], &m->ranges[at + 1], (m->range_count - at) * sizeof *m->ranges);
}

static kz_status free_after(void *ctx, uint64_t from, kz__range *range, kz_error *err)
{
    (void)err;
    kz__memory_rows *m = ctx;
    size_t at = range_after(m, from);
    if (at == m->range_count)
        return KZ_NOT_FOUND;
    *range = m->ranges[at];
    return KZ_OK;
}

static kz_status free_ending(void *ctx, uint64_t slot, kz__range *range, kz_error *err)
{
    (void)err;
    kz__memory_rows *m = ctx;
    size_t at = range_after(m, slot);
    if (!at || m->ranges[at - 1].hi != slot)
        return KZ_NOT_FOUND;
    *range = m->ranges[at - 1];
    return KZ_OK;
}

static kz_status free_add(void *ctx, kz__range range, kz_error *err)
{
    kz__memory_rows *m = ctx;
    if (!make_room((void **)&m->ranges, &m->range_room, m->range_count + 1, sizeof *m->ranges) ||
        !note(m, (undo){.kind = UNDO_FREE_ADD, .range = range}))
        return no_memory(err);
    range_in(m, range);
    return KZ_OK;
}

static kz_status free_remove(void *ctx, uint64_t lo, kz_error *err)
{
    kz__memory_rows *m = ctx;
    size_t at = range_after(m, lo);
    if (at == m->range_count || m->ranges[at].lo != lo)
        return kz__fail(err, KZ_STORE, "the lease table contradicts itself: no free range begins there");
    if (!note(m, (undo){.kind = UNDO_FREE_REMOVE, .range = m->ranges[at]}))
        return no_memory(err);
    range_out(m, at);
    return KZ_OK;
}

/* ---- rows that are out ---- */

static kz_status copy_if(bool found, const kz__row *from, kz__row *row)
{
    if (!found)
        return KZ_NOT_FOUND;
    *row = *from;
    return KZ_OK;
}

static kz_status out_ended(void *ctx, int64_t ms, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__memory_rows *m = ctx;
    const kz__row *first = m->first[BY_END][0] == NONE ? NULL : &m->entries[m->first[BY_END][0]].row;
    return copy_if(first && first->end_ms <= ms, first, row);
}

static kz_status out_at(void *ctx, uint64_t lo, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__row *found = look(ctx, BY_LO, (key){{lo}});
    return copy_if(found && found->lo == lo, found, row);
}

static kz_status out_by_node(void *ctx, uint32_t node, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__row *found = look(ctx, BY_NODE, (key){{node}});
    return copy_if(found && found->node == node, found, row);
}

static kz_status out_by_request(void *ctx, const uint8_t *request, uint64_t from, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__row *found = look(ctx, BY_REQUEST, key_of_request(request, from));
    return copy_if(found && memcmp(found->request, request, sizeof found->request) == 0, found, row);
}

static kz_status out_add(void *ctx, const kz__row *row, kz_error *err)
{
    kz__memory_rows *m = ctx;
    if (entry_at(m, row->lo) != NONE)
        return kz__fail(err, KZ_STORE, "the lease table contradicts itself: a block is granted that is out");
    uint32_t at = m->unused != NONE ? m->unused : (uint32_t)m->entry_count;
    if (!make_room((void **)&m->entries, &m->entry_room, (size_t)at + 1, sizeof *m->entries) ||
        !note(m, (undo){.kind = UNDO_OUT_ADD, .entry = at}))
        return no_memory(err);
    if (at == m->entry_count)
        m->entry_count++;
    else
        m->unused = m->entries[at].next[0][0];
    m->entries[at].row = *row;
    link_entry(m, at);
    return KZ_OK;
}

static kz_status out_update(void *ctx, const kz__row *row, kz_error *err)
{
    kz__memory_rows *m = ctx;
    uint32_t at = entry_at(m, row->lo);
    if (at == NONE)
        return kz__fail(err, KZ_STORE, "the lease table contradicts itself: a block that is not out is released");
    const kz__row *mine = &m->entries[at].row;
    if (!note(m, (undo){.kind = UNDO_OUT_UPDATE, .entry = at, .end_ms = mine->end_ms, .released = mine->released}))
        return no_memory(err);
    end_entry(m, at, row->end_ms, row->released);
    return KZ_OK;
}

/* The entry itself is kept until the commit, for the case that it must come back. */
static kz_status out_remove(void *ctx, uint64_t lo, kz_error *err)
{
    kz__memory_rows *m = ctx;
    uint32_t at = entry_at(m, lo);
    if (at == NONE)
        return kz__fail(err, KZ_STORE, "the lease table contradicts itself: a block that is not out has ended");
    if (!note(m, (undo){.kind = UNDO_OUT_REMOVE, .entry = at}))
        return no_memory(err);
    unlink_entry(m, at);
    return KZ_OK;
}

void kz__memory_rows_commit(kz__memory_rows *m)
{
    for (size_t i = 0; i < m->undo_count; i++)
        if (m->undos[i].kind == UNDO_OUT_REMOVE)
            recycle(m, m->undos[i].entry);
    m->undo_count = 0;
}

void kz__memory_rows_keep_last(kz__memory_rows *m)
{
    m->undo_count--;
}

void kz__memory_rows_rollback(kz__memory_rows *m)
{
    while (m->undo_count) {
        const undo *u = &m->undos[--m->undo_count];
        switch (u->kind) {
        case UNDO_FREE_ADD:
            range_out(m, range_after(m, u->range.lo));
            break;
        case UNDO_FREE_REMOVE:
            range_in(m, u->range);
            break;
        case UNDO_OUT_ADD:
            unlink_entry(m, u->entry);
            recycle(m, u->entry);
            break;
        case UNDO_OUT_REMOVE:
            link_entry(m, u->entry);
            break;
        case UNDO_OUT_UPDATE:
            end_entry(m, u->entry, u->end_ms, u->released);
            break;
        }
    }
}

kz__memory_rows *kz__memory_rows_new(void)
{
    kz__memory_rows *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->unused = NONE;
    memset(m->first, 0xff, sizeof m->first);
    return m;
}

void kz__memory_rows_free(kz__memory_rows *m)
{
    if (!m)
        return;
    free(m->entries);
    free(m->ranges);
    free(m->undos);
    free(m);
}

kz__rows kz__memory_rows_use(kz__memory_rows *memory)
{
    return (kz__rows){.ctx = memory,
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

const kz__row *kz__memory_rows_from(const kz__memory_rows *memory, uint32_t node)
{
    return look(memory, BY_NODE, (key){{node}});
}

const kz__row *kz__memory_rows_each(const kz__memory_rows *memory, size_t *at)
{
    uint32_t next = *at ? memory->entries[*at - 1].next[BY_LO][0] : memory->first[BY_LO][0];
    *at = (size_t)next + 1;
    return next == NONE ? NULL : &memory->entries[next].row;
}
