/* The rows of one service of a lease table, in memory: chains by hash, a heap by end, leases and free ranges in order.
 *
 * Every write notes how it is undone. A rollback needs no memory: nothing shrinks before the commit. */
#include "core/memory_rows.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

#define NONE         UINT32_MAX
#define ROOM_AT_ONCE 64
#define LEVELS       8

enum { BY_LO, BY_NODE, BY_REQUEST, CHAINS };

typedef struct entry {
    kz__row row;
    uint32_t next[CHAINS]; /* in its chain; next[BY_LO] also chains unused entries */
    uint32_t higher[LEVELS];
    uint32_t heap_at; /* NONE: not out */
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
    uint32_t *heads[CHAINS]; /* buckets, a power of two */
    size_t buckets;
    uint32_t *heap; /* entries by (end, lo) */
    size_t heap_count;
    uint32_t numbered[LEVELS]; /* leases by number: a skip list */
    kz__range *ranges;         /* free, in order */
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

static uint64_t hash_request(const uint8_t *request)
{
    uint64_t parts[2];
    memcpy(parts, request, sizeof parts);
    return mix(parts[0] ^ mix(parts[1]));
}

static uint64_t hash_of(const kz__row *row, int chain)
{
    return chain == BY_LO ? mix(row->lo) : chain == BY_NODE ? mix(row->node) : hash_request(row->request);
}

static void chain_in(kz__memory_rows *m, uint32_t at)
{
    entry *e = &m->entries[at];
    for (int chain = 0; chain < (is_twin(&e->row) ? BY_NODE : CHAINS); chain++) {
        uint32_t *head = &m->heads[chain][hash_of(&e->row, chain) & (m->buckets - 1)];
        e->next[chain] = *head;
        *head = at;
    }
}

static void chain_out(kz__memory_rows *m, uint32_t at)
{
    entry *e = &m->entries[at];
    for (int chain = 0; chain < (is_twin(&e->row) ? BY_NODE : CHAINS); chain++) {
        uint32_t *link = &m->heads[chain][hash_of(&e->row, chain) & (m->buckets - 1)];
        while (*link != at)
            link = &m->entries[*link].next[chain];
        *link = e->next[chain];
    }
}

static bool ends_before(const kz__memory_rows *m, uint32_t a, uint32_t b)
{
    const kz__row *x = &m->entries[a].row, *y = &m->entries[b].row;
    return x->end_ms != y->end_ms ? x->end_ms < y->end_ms : x->lo < y->lo;
}

static void heap_put(kz__memory_rows *m, size_t place, uint32_t at)
{
    m->heap[place] = at;
    m->entries[at].heap_at = (uint32_t)place;
}

/* Moves an entry to where its end belongs. */
static void heap_settle(kz__memory_rows *m, uint32_t at)
{
    size_t place = m->entries[at].heap_at;
    while (place && ends_before(m, at, m->heap[(place - 1) / 2])) {
        heap_put(m, place, m->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (size_t child; (child = 2 * place + 1) < m->heap_count; place = child) {
        if (child + 1 < m->heap_count && ends_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!ends_before(m, m->heap[child], at))
            break;
        heap_put(m, place, m->heap[child]);
    }
    heap_put(m, place, at);
}

/* A number is always on the same levels: one in four of each is on the next too. */
static int levels_of(uint32_t node)
{
    return 1 + __builtin_ctzll(mix(node) | UINT64_C(1) << (2 * LEVELS - 1)) / 2;
}

/* On each level the link to the first lease whose number is `node` or above. */
static void numbered_from(kz__memory_rows *m, uint32_t node, uint32_t *links[static LEVELS])
{
    uint32_t *at = m->numbered;
    for (int level = LEVELS - 1; level >= 0; level--) {
        while (at[level] != NONE && m->entries[at[level]].row.node < node)
            at = m->entries[at[level]].higher;
        links[level] = &at[level];
    }
}

static void number_in(kz__memory_rows *m, uint32_t at)
{
    entry *e = &m->entries[at];
    uint32_t *links[LEVELS];
    numbered_from(m, e->row.node, links);
    for (int level = 0; level < levels_of(e->row.node); level++) {
        e->higher[level] = *links[level];
        *links[level] = at;
    }
}

static void number_out(kz__memory_rows *m, uint32_t at)
{
    const entry *e = &m->entries[at];
    uint32_t *links[LEVELS];
    numbered_from(m, e->row.node, links);
    for (int level = 0; level < levels_of(e->row.node); level++)
        *links[level] = e->higher[level];
}

static void link_entry(kz__memory_rows *m, uint32_t at)
{
    chain_in(m, at);
    if (!is_twin(&m->entries[at].row))
        number_in(m, at);
    heap_put(m, m->heap_count++, at);
    heap_settle(m, at);
}

static void unlink_entry(kz__memory_rows *m, uint32_t at)
{
    chain_out(m, at);
    if (!is_twin(&m->entries[at].row))
        number_out(m, at);
    size_t place = m->entries[at].heap_at;
    uint32_t last = m->heap[--m->heap_count];
    if (last != at) {
        heap_put(m, place, last);
        heap_settle(m, last);
    }
    m->entries[at].heap_at = NONE;
}

static void recycle(kz__memory_rows *m, uint32_t at)
{
    m->entries[at].next[BY_LO] = m->unused;
    m->unused = at;
}

/* Room for one more entry in the entries, the heap and, at two to a bucket, the chains. */
static bool grow(kz__memory_rows *m)
{
    size_t room = m->entry_room ? m->entry_room * 2 : ROOM_AT_ONCE;
    entry *entries = realloc(m->entries, room * sizeof *entries);
    if (entries)
        m->entries = entries;
    uint32_t *heap = realloc(m->heap, room * sizeof *heap);
    if (heap)
        m->heap = heap;
    uint32_t *buckets = malloc(CHAINS * room * sizeof *buckets);
    if (!entries || !heap || !buckets) {
        free(buckets);
        return false;
    }
    free(m->heads[0]);
    memset(buckets, 0xff, CHAINS * room * sizeof *buckets);
    for (size_t chain = 0; chain < CHAINS; chain++)
        m->heads[chain] = buckets + chain * room;
    m->buckets = room;
    m->entry_room = room;
    for (size_t i = 0; i < m->heap_count; i++)
        chain_in(m, m->heap[i]);
    return true;
}

static bool note(kz__memory_rows *m, undo what)
{
    if (!make_room((void **)&m->undos, &m->undo_room, m->undo_count + 1, sizeof *m->undos))
        return false;
    m->undos[m->undo_count++] = what;
    return true;
}

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

static uint32_t entry_at(const kz__memory_rows *m, uint64_t lo)
{
    if (!m->buckets)
        return NONE;
    uint32_t at = m->heads[BY_LO][mix(lo) & (m->buckets - 1)];
    while (at != NONE && m->entries[at].row.lo != lo)
        at = m->entries[at].next[BY_LO];
    return at;
}

static kz_status out_ended(void *ctx, int64_t ms, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__memory_rows *m = ctx;
    if (!m->heap_count || m->entries[m->heap[0]].row.end_ms > ms)
        return KZ_NOT_FOUND;
    *row = m->entries[m->heap[0]].row;
    return KZ_OK;
}

static kz_status out_at(void *ctx, uint64_t lo, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__memory_rows *m = ctx;
    uint32_t at = entry_at(m, lo);
    if (at == NONE)
        return KZ_NOT_FOUND;
    *row = m->entries[at].row;
    return KZ_OK;
}

static kz_status out_by_node(void *ctx, uint32_t node, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__memory_rows *m = ctx;
    uint32_t at = m->buckets ? m->heads[BY_NODE][mix(node) & (m->buckets - 1)] : NONE;
    while (at != NONE && m->entries[at].row.node != node)
        at = m->entries[at].next[BY_NODE];
    if (at == NONE)
        return KZ_NOT_FOUND;
    *row = m->entries[at].row;
    return KZ_OK;
}

static kz_status out_by_request(void *ctx, const uint8_t *request, uint64_t from, kz__row *row, kz_error *err)
{
    (void)err;
    const kz__memory_rows *m = ctx;
    const kz__row *first = NULL;
    uint32_t at = m->buckets ? m->heads[BY_REQUEST][hash_request(request) & (m->buckets - 1)] : NONE;
    for (; at != NONE; at = m->entries[at].next[BY_REQUEST]) {
        const kz__row *candidate = &m->entries[at].row;
        if (candidate->lo >= from && (!first || candidate->lo < first->lo) &&
            memcmp(candidate->request, request, sizeof candidate->request) == 0)
            first = candidate;
    }
    if (!first)
        return KZ_NOT_FOUND;
    *row = *first;
    return KZ_OK;
}

static kz_status out_add(void *ctx, const kz__row *row, kz_error *err)
{
    kz__memory_rows *m = ctx;
    if (entry_at(m, row->lo) != NONE)
        return kz__fail(err, KZ_STORE, "the lease table contradicts itself: a block is granted that is out");
    if (m->unused == NONE && m->entry_count == m->entry_room && !grow(m))
        return no_memory(err);
    uint32_t at = m->unused != NONE ? m->unused : (uint32_t)m->entry_count;
    if (!note(m, (undo){.kind = UNDO_OUT_ADD, .entry = at}))
        return no_memory(err);
    if (at == m->entry_count)
        m->entry_count++;
    else
        m->unused = m->entries[at].next[BY_LO];
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
    kz__row *mine = &m->entries[at].row;
    if (!note(m, (undo){.kind = UNDO_OUT_UPDATE, .entry = at, .end_ms = mine->end_ms, .released = mine->released}))
        return no_memory(err);
    mine->end_ms = row->end_ms;
    mine->released = row->released;
    heap_settle(m, at);
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
            m->entries[u->entry].row.end_ms = u->end_ms;
            m->entries[u->entry].row.released = u->released;
            heap_settle(m, u->entry);
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
    memset(m->numbered, 0xff, sizeof m->numbered);
    return m;
}

void kz__memory_rows_free(kz__memory_rows *m)
{
    if (!m)
        return;
    free(m->entries);
    free(m->heads[0]);
    free(m->heap);
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

const kz__row *kz__memory_rows_from(kz__memory_rows *memory, uint32_t node)
{
    uint32_t *links[LEVELS];
    numbered_from(memory, node, links);
    return *links[0] == NONE ? NULL : &memory->entries[*links[0]].row;
}

const kz__row *kz__memory_rows_each(const kz__memory_rows *memory, size_t *at)
{
    return *at < memory->heap_count ? &memory->entries[memory->heap[(*at)++]].row : NULL;
}
