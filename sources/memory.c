/* memory: one lease table for the process, shared by all its generators.
 *
 * A forked child finds no table: its parent's generators give KZ_FORKED there, and a generator it opens anew has a
 * table of the child's own. That table knows nothing of the parent's, so IDs of the two can be equal: memory: is for
 * one process. */
#include "core/error.h"
#include "core/find_block.h"
#include "core/memory_rows.h"
#include "host/page.h"
#include "sources/all.h"
#include "sources/table_source.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct service {
    kz__service facts;
    kz__memory_rows *rows;
} service;

typedef struct table {
    kz__table_time time;
    uint64_t generation;
    kz__place place;   /* nobody else has this table: only its quarantine is in here */
    service *services; /* by name */
    size_t count, room;
} table;

/* The lock, and whether `shared` is this process's: a forked child finds both zeroed. */
typedef struct guard {
    pthread_mutex_t lock;
    bool ours;
} guard;

static guard *guarded;
static table *shared; /* lives as long as the process, since what it granted does */
static kz_status guard_status;
static kz_error guard_error;

typedef struct memory {
    kz__table_source base;
    /* Of the transaction, with the lock held: */
    kz__table_time time;
    kz__memory_rows *rows; /* of its service */
    bool fresh;            /* of one that is not in the table yet */
} memory;

static void make_guard(void)
{
    void *page = NULL;
    guard_status = kz__page_new(&page, sizeof *guarded, &guard_error);
    guarded = page;
}

/* The first service whose name is `name` or behind it. */
static size_t service_from(const char *name)
{
    size_t low = 0, high = shared->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(shared->services[middle].facts.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static service *find_service(const char *name)
{
    size_t at = service_from(name);
    return at < shared->count && strcmp(shared->services[at].facts.name, name) == 0 ? &shared->services[at] : NULL;
}

/* Rows for a service that may be added, and a place for it. */
static kz_status prepare_service(memory *m, kz_error *err)
{
    if (shared->count == shared->room) {
        size_t room = shared->room ? 2 * shared->room : 4;
        service *grown = realloc(shared->services, room * sizeof *grown);
        if (!grown)
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
        shared->services = grown;
        shared->room = room;
    }
    m->rows = kz__memory_rows_new();
    m->fresh = true;
    return m->rows ? KZ_OK : kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
}

static kz_status begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    memory *m = (memory *)base;
    pthread_mutex_lock(&guarded->lock);
    if (!guarded->ours) {
        pthread_mutex_unlock(&guarded->lock);
        return kz__fail(err, KZ_FORKED, "memory: is the parent process's table: open a source of your own");
    }
    m->time = shared->time;
    t->high_ms = shared->time.high_ms;
    t->now_ms = kz__table_time_read(&m->time, &base->clock, "this process", &t->step_ms);
    t->generation = shared->generation;
    t->place = shared->place;
    m->rows = NULL;
    m->fresh = false;
    const service *s = ask->service ? find_service(ask->service) : NULL;
    kz_status status = KZ_OK;
    t->found = s != NULL;
    if (s) {
        t->service = s->facts;
        m->rows = s->rows;
    } else if (ask->service && ask->write) {
        status = prepare_service(m, err);
    }
    if (status)
        pthread_mutex_unlock(&guarded->lock);
    return status;
}

static kz__rows rows(kz__table_source *base)
{
    return kz__memory_rows_use(((memory *)base)->rows);
}

static kz_status commit(kz__table_source *base, kz__transaction *t, kz_error *err)
{
    (void)err;
    memory *m = (memory *)base;
    shared->time = m->time;
    shared->generation = t->generation;
    if (m->rows)
        kz__memory_rows_commit(m->rows);
    if (t->service_write) {
        service *s = &shared->services[service_from(t->service.name)];
        if (!t->found) {
            memmove(s + 1, s, (size_t)(shared->services + shared->count - s) * sizeof *s);
            shared->count++;
        }
        *s = (service){t->service, m->rows};
    }
    pthread_mutex_unlock(&guarded->lock);
    return KZ_OK;
}

static void rollback(kz__table_source *base, kz_status why)
{
    (void)why;
    memory *m = (memory *)base;
    if (m->fresh)
        kz__memory_rows_free(m->rows);
    else if (m->rows)
        kz__memory_rows_rollback(m->rows);
    pthread_mutex_unlock(&guarded->lock);
}

static kz_status page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from, kz_lease_info *lines,
                      size_t room, size_t *count, kz_error *err)
{
    (void)base;
    (void)err;
    for (size_t i = service_from(from->service); i < shared->count && *count < room; i++) {
        const service *s = &shared->services[i];
        kz__rows rows = kz__memory_rows_use(s->rows);
        uint32_t id = strcmp(s->facts.name, from->service) == 0 ? from->id : 0;
        for (const kz__row *row; *count < room && (row = kz__memory_rows_from(s->rows, id)); id = row->node + 1) {
            kz__row twin;
            if (!kz__row_is_listed(&s->facts, row, t->now_ms))
                continue;
            bool found = rows.out_at(rows.ctx, row->lo + kz__service_half(&s->facts), &twin, NULL) == KZ_OK;
            kz__row_line(&s->facts, row, found ? &twin : NULL, t->now_ms, &lines[(*count)++]);
        }
    }
    return KZ_OK;
}

static kz_status health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    (void)err;
    memory *m = (memory *)base;
    strcpy(health->note, "the table is in this process's memory: it ends with the process");
    if (!t->found)
        return KZ_OK;
    const kz__row *row;
    for (size_t at = 0; (row = kz__memory_rows_each(m->rows, &at));) {
        health->leases_out += kz__row_is_listed(&t->service, row, t->now_ms);
        if (row->end_ms <= t->now_ms)
            health->nodes_free += kz__table_blocks_in(&t->service, (kz__range){row->lo, row->hi});
    }
    kz__rows rows = kz__memory_rows_use(m->rows);
    for (kz__range range = {0, 0}; rows.free_after(rows.ctx, range.hi, &range, NULL) == KZ_OK;)
        health->nodes_free += kz__table_blocks_in(&t->service, range);
    return KZ_OK;
}

static const kz__table_store store = {
    .begin = begin, .rows = rows, .commit = commit, .rollback = rollback, .page = page, .health = health};

/* The table of this process, made by the first who asks. */
static kz_status join_table(const kz__table_source *base, kz_error *err)
{
    kz_status status = KZ_OK;
    pthread_mutex_lock(&guarded->lock);
    table *new = guarded->ours ? NULL : calloc(1, sizeof *new);
    if (new) {
        int64_t step_ms, now_ms = kz__table_time_read(&new->time, &base->clock, "this process", &step_ms);
        if (base->params.quarantine)
            kz__place_lost(&new->place, KZ__WHY_EMPTY, -1, now_ms, &new->generation);
        shared = new;
        guarded->ours = true;
    } else if (!guarded->ours) {
        status = kz__fail(err, KZ_NO_MEMORY, "no memory for a lease table");
    }
    pthread_mutex_unlock(&guarded->lock);
    return status;
}

static kz_status memory_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                             kz_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_guard);
    if (guard_status)
        return kz__fail(err, guard_status, "%s", guard_error.message);
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status)
        return status;
    if (*url.body)
        return kz__fail(err, KZ_INVALID, "source memory: takes nothing behind the colon, not \"%s\"", url.body);
    memory *m = calloc(1, sizeof *m);
    if (!m)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_layout layout;
    status = kz__table_source_init(&m->base, &store, "memory:", &url, options, NULL, err);
    if (status == KZ_OK)
        status = join_table(&m->base, err);
    if (status == KZ_OK)
        status = kz__table_source_look(&m->base, &layout, err);
    if (status) {
        free(m);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED};
    *out = m;
    return KZ_OK;
}

static void memory_close(void *ctx, bool forked)
{
    (void)forked;
    free(ctx);
}

const kz_source_ops kz__source_memory = {KZ__TABLE_SOURCE_CALLS, .scheme = "memory", .open = memory_open,
                                         .close = memory_close};
