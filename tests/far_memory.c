/* A far store that is memory: it tells little at a time, and refuses some commits. */
#include "tests/far_memory.h"
#include "core/error.h"
#include "sources/far_table.h"
#include "sources/memory_page.h"
#include "sources/table_time.h"
#include "tests/random.h"
#include "tests/test.h"

#include <stdlib.h>

enum { PAGE_MAX = 64, SERVICES_MAX = 16 };

/* ------------------------------------------------------------------------------------------------- answers */

static int by_end(const void *a, const void *b)
{
    const kz__row *x = a, *y = b;
    if (x->end_ms != y->end_ms)
        return x->end_ms < y->end_ms ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void tell_ended(kz__memory_rows *store, size_t page, kz__part *part, const kz__part_question *question)
{
    kz__row *rows = NULL;
    const kz__row *row;
    size_t count = 0, at = 0;
    while ((row = kz__memory_rows_each(store, &at)))
        if (row->end_ms <= question->ms &&
            (row->end_ms > question->after_ms || (row->end_ms == question->after_ms && row->lo > question->from))) {
            rows = realloc(rows, (count + 1) * sizeof *rows);
            rows[count++] = *row;
        }
    if (count)
        qsort(rows, count, sizeof *rows, by_end);
    size_t told = count < page ? count : page;
    for (size_t i = 0; i < told; i++)
        assert_ok(kz__part_tell_row(part, &rows[i], NULL));
    if (told < count)
        kz__part_know_ended(part, rows[told - 1].end_ms, rows[told - 1].lo);
    else
        kz__part_know_ended(part, question->ms, UINT64_MAX);
    free(rows);
}

static void tell_free(kz__memory_rows *store, size_t page, kz__part *part, uint64_t from)
{
    kz__rows rows = kz__memory_rows_use(store);
    kz__range ranges[PAGE_MAX];
    size_t count = 0;
    bool last = false;
    for (uint64_t at = from; count < page; at = ranges[count++].hi)
        if (rows.free_after(store, at, &ranges[count], NULL)) {
            last = true;
            break;
        }
    assert_ok(kz__part_tell_free(part, from, ranges, count, last, NULL));
}

void far_memory_tell(kz__memory_rows *store, size_t page, kz__part *part, const kz__part_question *question)
{
    kz__rows rows = kz__memory_rows_use(store);
    const kz__row *row;
    kz__row found;
    size_t at = 0;
    switch (question->kind) {
    case KZ__PART_FREE:
        tell_free(store, page, part, question->from);
        break;
    case KZ__PART_ENDED:
        tell_ended(store, page, part, question);
        break;
    case KZ__PART_AT:
        for (size_t i = 0; i < question->slot_count; i++) {
            if (rows.out_at(store, question->slots[i], &found, NULL) == KZ_OK)
                assert_ok(kz__part_tell_row(part, &found, NULL));
            assert_ok(kz__part_know_at(part, question->slots[i], NULL));
        }
        break;
    case KZ__PART_REQUEST:
        while ((row = kz__memory_rows_each(store, &at)))
            if (memcmp(row->request, question->request, sizeof row->request) == 0)
                assert_ok(kz__part_tell_row(part, row, NULL));
        assert_ok(kz__part_know_request(part, question->request, NULL));
        break;
    }
}

/* ------------------------------------------------------------------------------------------------- changes */

static kz_status store_row(void *ctx, const kz__part_change *change, kz_error *err)
{
    (void)err;
    kz__rows rows = kz__memory_rows_use(ctx);
    kz__row row;
    const kz__row *other;
    size_t at = 0;
    if (!change->row)
        return KZ_OK;
    kz_status there = rows.out_at(ctx, change->row->lo, &row, NULL);
    assert_int_equal(there == KZ_OK, change->gone || change->had);
    if (there == KZ_OK)
        assert_ok(rows.out_remove(ctx, row.lo, NULL));
    if (change->gone)
        return KZ_OK;
    while ((other = kz__memory_rows_each(ctx, &at)))
        assert_true(other->hi <= change->row->lo || other->lo >= change->row->hi);
    return rows.out_add(ctx, change->row, NULL);
}

/* Ranges that go away or are written over. */
static kz_status store_range_gone(void *ctx, const kz__part_change *change, kz_error *err)
{
    (void)err;
    kz__rows rows = kz__memory_rows_use(ctx);
    kz__range old;
    if (!change->range)
        return KZ_OK;
    kz_status there = rows.free_ending(ctx, change->range->hi, &old, NULL);
    assert_int_equal(there == KZ_OK, change->gone || change->had);
    return there ? KZ_OK : rows.free_remove(ctx, old.lo, NULL);
}

static kz_status store_range(void *ctx, const kz__part_change *change, kz_error *err)
{
    (void)err;
    return change->gone || !change->range ? KZ_OK : kz__memory_rows_use(ctx).free_add(ctx, *change->range, NULL);
}

void far_memory_apply(kz__memory_rows *store, kz__part *part)
{
    assert_ok(kz__part_changes(part, store_row, store, NULL));
    assert_ok(kz__part_changes(part, store_range_gone, store, NULL));
    assert_ok(kz__part_changes(part, store_range, store, NULL));
    kz__memory_rows_commit(store);
}

/* -------------------------------------------------------------------------------------------------- source */

typedef struct stored {
    kz__service facts;
    uint64_t heights;
    kz__memory_rows *rows;
} stored;

static struct {
    kz__table_time time;
    uint64_t generation;
    stored services[SERVICES_MAX]; /* by name */
    size_t count;
    uint64_t random;
} table;

typedef struct far_source {
    kz__far far;
    kz__table_time time;
} far_source;

static stored *find(const char *name)
{
    for (size_t i = 0; i < table.count; i++)
        if (strcmp(table.services[i].facts.name, name) == 0)
            return &table.services[i];
    return NULL;
}

static kz_status begin(kz__far *f, const kz__table_ask *ask, bool further, kz__transaction *t, kz__far_service *service,
                       kz_error *err)
{
    far_source *source = (far_source *)f;
    if (!further) {
        source->time = table.time;
        t->high_ms = table.time.high_ms;
        t->now_ms = kz__table_time_read(&source->time, &f->base.clock, "this process", &t->step_ms);
        t->generation = table.generation;
    }
    const stored *s = ask->service ? find(ask->service) : NULL;
    if (!s)
        return KZ_OK;
    service->found = true;
    service->service = s->facts;
    return kz__part_begin(service->part, s->heights, err);
}

static kz_status ask(kz__far *f, kz__far_service *service, const kz__part_question *question, kz_error *err)
{
    (void)f;
    (void)err;
    far_memory_tell(find(service->name)->rows, 1 + test_random(&table.random) % 4, service->part, question);
    return KZ_OK;
}

static kz_status commit(kz__far *f, const kz__transaction *t, kz__far_service *services, size_t count, kz_error *err)
{
    (void)err;
    if (test_random(&table.random) % 5 == 0)
        return KZ_AGAIN;
    for (size_t i = 0; i < count; i++) {
        stored *s = find(services[i].name);
        if (!s && !services[i].write)
            continue;
        if (!s) {
            assert_true(table.count < SERVICES_MAX);
            size_t at = table.count++;
            for (; at && strcmp(table.services[at - 1].facts.name, services[i].name) > 0; at--)
                table.services[at] = table.services[at - 1];
            s = &table.services[at];
            *s = (stored){.rows = kz__memory_rows_new()};
        }
        if (services[i].write)
            s->facts = services[i].service;
        s->heights = kz__part_heights(services[i].part);
        far_memory_apply(s->rows, services[i].part);
    }
    table.time = ((far_source *)f)->time;
    table.generation = t->generation;
    return KZ_OK;
}

static void rollback(kz__far *f)
{
    (void)f;
}

static const kz__far_store far_store = {.begin = begin, .ask = ask, .commit = commit, .rollback = rollback};

static kz_status page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from, kz_lease_info *lines,
                      size_t room, size_t *count, kz_error *err)
{
    (void)base;
    (void)err;
    for (size_t i = 0; i < table.count && *count < room; i++)
        if (strcmp(table.services[i].facts.name, from->service) >= 0)
            kz__memory_page(&table.services[i].facts, table.services[i].rows, from, t->now_ms, lines, room, count);
    return KZ_OK;
}

static const kz__table_store store = {KZ__FAR_CALLS, .page = page};

static void far_close(void *ctx, bool forked)
{
    (void)forked;
    kz__far_free(ctx);
    free(ctx);
}

static kz_status far_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                          kz_error *err)
{
    far_source *source = calloc(1, sizeof *source);
    kz__url url;
    kz_layout layout;
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = kz__far_init(&source->far, &far_store, &store, "far:", &url, options, NULL, err);
    if (status == KZ_OK)
        status = kz__table_source_look(&source->far.base, &layout, err);
    if (status) {
        far_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = KZ_SOURCE_SAME_HOST};
    *out = source;
    return KZ_OK;
}

void far_memory_forget(void)
{
    for (size_t i = 0; i < table.count; i++)
        kz__memory_rows_free(table.services[i].rows);
    uint64_t random = table.random;
    memset(&table, 0, sizeof table);
    table.random = random;
}

const kz_source_ops far_memory_source = {KZ__TABLE_SOURCE_CALLS, .scheme = "far", .open = far_open, .close = far_close};
