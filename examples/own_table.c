/* A lease table of one's own, inside the library: a toy that keeps its records in a plain array.
 *
 * The rules are core/table's, the calls sources/table_source's. The rows of a service are core/memory_rows, filled from
 * the array when a transaction begins, and written back when it is committed. What is left for a store is this file. It
 * passes the suite that every table must pass, tests/test_contract.c. */
#include "sources/memory_page.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A row that is out; or a free range, of which lo and hi count only. */
typedef struct record {
    char service[KZ_SERVICE_SIZE];
    bool free;
    kz__row row;
} record;

/* The table. A real one is on a disk, and has an answer for when it is full. */
static struct {
    pthread_mutex_t lock;
    kz__table_time time;
    uint64_t generation;
    kz__service services[256]; /* in order of name */
    size_t service_count, record_count;
    record records[20000];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct own {
    kz__table_source base; /* what the flow knows of it; the rest is of the transaction */
    kz__table_time time;
    kz__memory_rows *rows;
} own;

static kz__memory_rows *load(const char *service)
{
    kz__memory_rows *memory = kz__memory_rows_new();
    kz__rows rows = kz__memory_rows_use(memory);
    for (const record *r = table.records; r < table.records + table.record_count; r++)
        if (strcmp(r->service, service) == 0 &&
            (r->free ? rows.free_add(memory, (kz__range){r->row.lo, r->row.hi}, NULL)
                     : rows.out_add(memory, &r->row, NULL)))
            abort(); /* no memory */
    kz__memory_rows_commit(memory);
    return memory;
}

static void add(const char *service, bool free, const kz__row *row)
{
    record *new = &table.records[table.record_count++];
    strcpy(new->service, service);
    new->free = free;
    new->row = *row;
}

static void save(const char *service, kz__memory_rows *memory)
{
    for (size_t i = table.record_count; i-- > 0;)
        if (strcmp(table.records[i].service, service) == 0)
            table.records[i] = table.records[--table.record_count];
    const kz__row *row;
    for (size_t at = 0; (row = kz__memory_rows_each(memory, &at));)
        add(service, false, row);
    kz__rows rows = kz__memory_rows_use(memory);
    for (kz__range range = {0, 0}; rows.free_after(memory, range.hi, &range, NULL) == KZ_OK;)
        add(service, true, &(kz__row){.lo = range.lo, .hi = range.hi});
}

/* A service begins with its name. */
static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static kz__service *find(const char *name)
{
    return name ? bsearch(name, table.services, table.service_count, sizeof table.services[0], by_name) : NULL;
}

static kz_status begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    (void)err;
    own *o = (own *)base;
    pthread_mutex_lock(&table.lock);
    o->time = table.time;
    t->high_ms = table.time.high_ms;
    t->now_ms = kz__table_time_read(&o->time, &base->clock, "this process", &t->step_ms);
    t->generation = table.generation;
    t->found = find(ask->service);
    if (t->found)
        t->service = *find(ask->service);
    o->rows = load(t->service.name);
    return KZ_OK;
}

static kz__rows rows(kz__table_source *base)
{
    return kz__memory_rows_use(((own *)base)->rows);
}

static void rollback(kz__table_source *base, kz_status why)
{
    (void)why;
    kz__memory_rows_free(((own *)base)->rows);
    pthread_mutex_unlock(&table.lock);
}

static kz_status commit(kz__table_source *base, kz__transaction *t, kz_error *err)
{
    (void)err;
    own *o = (own *)base;
    table.time = o->time;
    table.generation = t->generation;
    if (t->service_write) {
        *(t->found ? find(t->service.name) : &table.services[table.service_count++]) = t->service;
        qsort(table.services, table.service_count, sizeof table.services[0], by_name);
        save(t->service.name, o->rows);
    }
    rollback(base, KZ_OK);
    return KZ_OK;
}

static kz_status page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from, kz_lease_info *lines,
                      size_t room, size_t *count, kz_error *err)
{
    (void)err;
    for (size_t i = 0; i < table.service_count; i++) {
        const kz__service *s = &table.services[i];
        kz__memory_rows_free(((own *)base)->rows);
        ((own *)base)->rows = load(s->name);
        if (strcmp(s->name, from->service) >= 0)
            kz__memory_page(s, ((own *)base)->rows, from, t->now_ms, lines, room, count);
    }
    return KZ_OK;
}

static const kz__table_store store = {
    .begin = begin, .rows = rows, .commit = commit, .rollback = rollback, .page = page};

static kz_status own_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                          kz_error *err)
{
    return kz__table_source_open(out, sizeof(own), &store, "own:", url, options, KZ_SOURCE_SAME_HOST, facts, err);
}

const kz_source_ops own_table_ops = {KZ__TABLE_SOURCE_CALLS, .scheme = "own", .open = own_open,
                                     .close = kz__table_source_close};
