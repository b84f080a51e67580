/* memory: one lease table for the process, shared by all its generators.
 *
 * A forked child finds no table: its parent's generators give KZ_FORKED there, and a generator it opens anew has a
 * table of the child's own. That table knows nothing of the parent's, so IDs of the two can be equal: memory: is for
 * one process. */
#include "core/error.h"
#include "host/page.h"
#include "sources/all.h"
#include "sources/memory_page.h"

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

static const char boot[] = "this process";

typedef struct memory {
    kz__table_source base;
    bool joined; /* it has found a table, or made it */
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

/* The table of this process, made by the first who opens it. The lock is held. */
static kz_status make_table(const kz__table_source *base, kz_error *err)
{
    int64_t step_ms;
    table *new = calloc(1, sizeof *new);
    if (!new)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a lease table");
    int64_t now_ms = kz__table_time_read(&new->time, &base->clock, boot, &step_ms);
    if (base->params.quarantine)
        kz__place_lost(&new->place, KZ__WHY_EMPTY, -1, now_ms, &new->generation);
    shared = new;
    guarded->ours = true;
    return KZ_OK;
}

/* Locks the table. A child that uses its parent's source finds none. */
static kz_status enter(memory *m, kz_error *err)
{
    kz_status status = KZ_OK;
    pthread_mutex_lock(&guarded->lock);
    if (!guarded->ours)
        status = m->joined
                     ? kz__fail(err, KZ_FORKED, "memory: is the parent process's table: open a source of your own")
                     : make_table(&m->base, err);
    if (status)
        pthread_mutex_unlock(&guarded->lock);
    m->joined = true;
    return status;
}

static kz_status begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    memory *m = (memory *)base;
    kz_status status = enter(m, err);
    if (status)
        return status;
    m->time = shared->time;
    t->high_ms = shared->time.high_ms;
    t->now_ms = kz__table_time_read(&m->time, &base->clock, boot, &t->step_ms);
    t->generation = shared->generation;
    t->place = shared->place;
    m->rows = NULL;
    m->fresh = false;
    const service *s = ask->service ? find_service(ask->service) : NULL;
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

static bool is_idle(const service *s, const kz__service *like, int64_t before_ms)
{
    const kz__row *row;
    if (!kz__service_is_like(&s->facts, like))
        return false;
    if (kz__aside_at(s->facts.asides, 0, KZ__ALL_SLOTS, KZ__WHY_RESERVED, before_ms))
        return false;
    for (size_t at = 0; (row = kz__memory_rows_each(s->rows, &at));)
        if (row->end_ms >= before_ms)
            return false;
    return true;
}

static kz_status forget(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left, kz_error *err)
{
    (void)base;
    (void)err;
    size_t kept = 0;
    for (size_t i = 0; i < shared->count; i++) {
        if (is_idle(&shared->services[i], like, before_ms))
            kz__memory_rows_free(shared->services[i].rows);
        else
            shared->services[kept++] = shared->services[i];
    }
    *left = shared->count = kept;
    return KZ_OK;
}

static kz_status page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from, kz_lease_info *lines,
                      size_t room, size_t *count, kz_error *err)
{
    (void)base;
    (void)err;
    for (size_t i = service_from(from->service); i < shared->count && *count < room; i++) {
        const service *s = &shared->services[i];
        kz__memory_page(&s->facts, s->rows, from, t->now_ms, lines, room, count);
        kz__page_add_reserved(&s->facts, from, t->now_ms, lines, room, count);
    }
    return KZ_OK;
}

static kz_status health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    strcpy(health->note, "the table is in this process's memory: it ends with the process");
    return kz__table_source_count(base, t, health, err);
}

static const kz__table_store store = {.begin = begin,
                                      .rows = rows,
                                      .commit = commit,
                                      .rollback = rollback,
                                      .forget = forget,
                                      .page = page,
                                      .health = health};

static kz_status memory_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                             kz_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_guard);
    if (guard_status)
        return kz__fail(err, guard_status, "%s", guard_error.message);
    return kz__table_source_open(out, sizeof(memory), &store, "memory:", text, options,
                                 KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED, facts, err);
}

const kz_source_ops kz__source_memory = {KZ__TABLE_SOURCE_CALLS, .scheme = "memory", .open = memory_open,
                                         .close = kz__table_source_close};
