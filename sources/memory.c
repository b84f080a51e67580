/* memory: one lease table for the process, shared by all its generators.
 *
 * A forked child finds no table: its parent's generators give KZ_FORKED there, and a generator it opens anew has a
 * table of the child's own. That table knows nothing of the parent's, so IDs of the two can be equal: memory: is for
 * one process. */
#include "core/error.h"
#include "core/find_block.h"
#include "core/memory_rows.h"
#include "lib/page.h"
#include "sources/all.h"
#include "sources/lease_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct service {
    kz__service facts;
    kz__memory_rows *rows;
} service;

typedef struct table {
    kz__table_time time;
    uint64_t generation;
    int64_t embargo_ms;
    service *services;
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
    kz__table_params params;
    kz_source_options options;
    kz_clock clock;
    kz_grant grant;
} memory;

static const char boot[] = "this process";

static void make_guard(void)
{
    void *page = NULL;
    guard_status = kz__page_new(&page, sizeof *guarded, &guard_error);
    guarded = page;
}

/* Reads the table's time, with the lock held. */
static int64_t read_time(const memory *source, int64_t *step_ms)
{
    return kz__table_time_read(&shared->time, &source->clock, boot, step_ms);
}

/* Locks the table. A child that uses its parent's source finds none. */
static kz_status enter(kz_error *err)
{
    pthread_mutex_lock(&guarded->lock);
    if (guarded->ours)
        return KZ_OK;
    pthread_mutex_unlock(&guarded->lock);
    return kz__fail(err, KZ_FORKED, "memory: is the parent process's table: open a source of your own");
}

static kz_status leave(const memory *source, int64_t step_ms, kz_status status)
{
    pthread_mutex_unlock(&guarded->lock);
    kz__table_step_log(&source->options, "memory:", step_ms);
    return status;
}

static service *find_service(const char *name)
{
    for (size_t i = 0; i < shared->count; i++)
        if (strcmp(shared->services[i].facts.name, name) == 0)
            return &shared->services[i];
    return NULL;
}

static void drop_last_service(void)
{
    kz__memory_rows_free(shared->services[--shared->count].rows);
}

static kz_status add_service(const memory *source, const char *name, service **out, kz_error *err)
{
    if (shared->count == shared->room) {
        size_t room = shared->room ? 2 * shared->room : 4;
        service *grown = realloc(shared->services, room * sizeof *grown);
        if (!grown)
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
        shared->services = grown;
        shared->room = room;
    }
    service *new = &shared->services[shared->count];
    kz_status status = kz__service_init(&new->facts, name, &source->params.layout, source->params.lease_ms, err);
    if (status)
        return status;
    new->rows = kz__memory_rows_new();
    if (!new->rows)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
    shared->count++;
    kz__rows rows = kz__memory_rows_use(new->rows);
    status = kz__table_create(&rows, &new->facts, err);
    if (status)
        drop_last_service();
    else
        *out = new;
    return status;
}

/* Asks the rules about one service: its facts as they stand, and the table's time. */
static kz__service facts_now(const service *s, int64_t high_ms)
{
    kz__service facts = s->facts;
    facts.high_ms = high_ms;
    facts.generation = shared->generation;
    facts.embargo_ms = shared->embargo_ms;
    return facts;
}

/* Keeps or undoes what the rules did. A sweep that found no node free is kept, else the next call would repeat it. */
static void settle(service *s, const kz__service *facts, kz_status status)
{
    if (status && status != KZ_NO_FREE_NODE) {
        kz__memory_rows_rollback(s->rows);
        return;
    }
    kz__memory_rows_commit(s->rows);
    s->facts = *facts;
    shared->generation = facts->generation;
}

static kz_status memory_acquire(void *ctx, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    memory *source = ctx;
    const char *name;
    kz_status status = kz__table_service(&source->params, request->service, &name, err);
    if (status || (status = enter(err)))
        return status;
    int64_t step_ms, now_ms = read_time(source, &step_ms);
    service *s = find_service(name);
    bool created = !s;
    status = created ? add_service(source, name, &s, err) : kz__table_layout_check(&source->params, &s->facts, err);
    if (status)
        return leave(source, step_ms, status);
    kz__rows rows = kz__memory_rows_use(s->rows);
    kz__service facts = facts_now(s, now_ms);
    status = kz__table_acquire_for(&rows, &facts, request, now_ms, &source->grant, err);
    settle(s, &facts, status);
    if (status == KZ_OK)
        kz__grant_copy(grant, &source->grant);
    else if (created)
        drop_last_service();
    return leave(source, step_ms, status);
}

static kz_status memory_release(void *ctx, const kz_release *release, kz_error *err)
{
    memory *source = ctx;
    const char *name;
    kz_status status = kz__table_service(&source->params, release->service, &name, err);
    if (status || (status = enter(err)))
        return status;
    int64_t step_ms, now_ms = read_time(source, &step_ms);
    service *s = find_service(name);
    if (!s) {
        status = kz__release_check(release, now_ms, err);
        if (status == KZ_OK)
            status = kz__fail(err, KZ_NOT_FOUND, "there is no service %s", name);
        return leave(source, step_ms, status);
    }
    kz__rows rows = kz__memory_rows_use(s->rows);
    kz__service facts = facts_now(s, now_ms);
    status = kz__table_release_signed(&rows, &facts, release, now_ms, err);
    settle(s, &facts, status);
    return leave(source, step_ms, status);
}

static kz_status memory_configure(void *ctx, const kz_service_settings *settings, kz_error *err)
{
    memory *source = ctx;
    const char *name;
    kz_status status = kz__table_service(&source->params, settings->service, &name, err);
    if (status || (status = enter(err)))
        return status;
    service *s = find_service(name);
    bool created = !s;
    if (created && (status = add_service(source, name, &s, err)))
        return leave(source, 0, status);
    kz__rows rows = kz__memory_rows_use(s->rows);
    kz__service wanted, facts = facts_now(s, s->facts.high_ms);
    status = kz__service_with(&facts, settings, &wanted, err);
    if (status == KZ_OK)
        status = kz__service_adopt(&facts, &wanted, err);
    /* The sum changes before the first grant only. */
    if (status == KZ_OK && kz__service_slot_bits(&facts) != kz__service_slot_bits(&s->facts))
        status = kz__table_create(&rows, &facts, err);
    settle(s, &facts, status);
    if (status && created)
        drop_last_service();
    return leave(source, 0, status);
}

static kz_status memory_now(void *ctx, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    memory *source = ctx;
    kz_status status = enter(err);
    if (status)
        return status;
    int64_t step_ms;
    *source_ms = read_time(source, &step_ms);
    *generation = shared->generation;
    return leave(source, step_ms, KZ_OK);
}

static bool is_lease_out(const kz__service *facts, const kz__row *row, int64_t now_ms)
{
    return row->lo < kz__service_half(facts) && !row->released && row->end_ms > now_ms;
}

static kz_lease_info line_of(const service *s, const kz__row *row, int64_t now_ms)
{
    kz_lease_info info = {
        .id = row->node, .created_ms = row->start_ms, .expired_ms = row->end_ms, .fallback_expired_ms = row->end_ms};
    strcpy(info.service, s->facts.name);
    strcpy(info.holder, row->holder);
    kz__rows rows = kz__memory_rows_use(s->rows);
    kz__row twin;
    if (rows.out_at(rows.ctx, row->lo + kz__service_half(&s->facts), &twin, NULL) == KZ_OK && !twin.released &&
        twin.end_ms > now_ms && strcmp(twin.secret, row->secret) == 0)
        info.fallback_expired_ms = twin.end_ms;
    return info;
}

/* The first service whose name is `name` or behind it. */
static const service *service_from(const char *name)
{
    const service *first = NULL;
    for (size_t i = 0; i < shared->count; i++) {
        const service *s = &shared->services[i];
        if (strcmp(s->facts.name, name) >= 0 && (!first || strcmp(s->facts.name, first->facts.name) < 0))
            first = s;
    }
    return first;
}

/* Fills a page, with the lock held. `at` moves on to where the next begins. */
static size_t read_page(kz_lease_info lines[static KZ__LIST_PAGE], kz__list_place *at, int64_t now_ms)
{
    size_t count = 0;
    for (const service *s; count < KZ__LIST_PAGE && (s = service_from(at->service));) {
        if (strcmp(s->facts.name, at->service) != 0)
            *at = kz__list_place_of(s->facts.name, 0);
        const kz__row *row = kz__memory_rows_from(s->rows, at->id);
        if (row && is_lease_out(&s->facts, row, now_ms))
            lines[count++] = line_of(s, row, now_ms);
        if (row)
            at->id = row->node + 1;
        else
            kz__list_place_next_service(at);
    }
    return count;
}

/* Page by page, so that the caller is not called with the lock held. */
static kz_status memory_list(void *ctx, const kz_list_from *from, kz_lease_visit visit, void *visit_ctx, kz_error *err)
{
    memory *source = ctx;
    kz_lease_info lines[KZ__LIST_PAGE];
    kz__list_place at = kz__list_place_of(from ? from->service : "", from ? from->id : 0);
    size_t count;
    do {
        kz_status status = enter(err);
        if (status)
            return status;
        int64_t step_ms, now_ms = read_time(source, &step_ms);
        count = read_page(lines, &at, now_ms);
        leave(source, step_ms, KZ_OK);
        for (size_t i = 0; i < count; i++)
            if (!visit(visit_ctx, &lines[i]))
                return KZ_OK;
    } while (count == KZ__LIST_PAGE);
    return KZ_OK;
}

static kz_status memory_health(void *ctx, const char *asked, kz_source_health *health, kz_error *err)
{
    memory *source = ctx;
    const char *name;
    kz_status status = kz__table_service(&source->params, asked, &name, err);
    if (status || (status = enter(err)))
        return status;
    int64_t step_ms, now_ms = read_time(source, &step_ms);
    *health = (kz_source_health){.source_ms = now_ms,
                                 .generation = shared->generation,
                                 .note = "the table is in this process's memory: it ends with the process",
                                 .layout = source->params.layout,
                                 .lease_ms = source->params.lease_ms,
                                 .nodes_free = UINT64_C(1) << (source->params.layout.node_bits - 1)};
    const service *s = find_service(name);
    if (!s)
        return leave(source, step_ms, KZ_OK);
    health->nodes_free = 0;
    health->lease_ms = s->facts.lease_ms;
    kz__service_layout(&s->facts, &health->layout);
    const kz__row *row;
    uint64_t half = kz__service_half(&s->facts);
    for (size_t at = 0; (row = kz__memory_rows_each(s->rows, &at));) {
        health->leases_out += is_lease_out(&s->facts, row, now_ms);
        if (row->lo < half && row->end_ms <= now_ms)
            health->nodes_free += kz__table_blocks_in(&s->facts, (kz__range){row->lo, row->hi});
    }
    kz__rows rows = kz__memory_rows_use(s->rows);
    kz__range range = {0, 0};
    while (rows.free_after(rows.ctx, range.hi, &range, NULL) == KZ_OK)
        health->nodes_free += kz__table_blocks_in(&s->facts, range);
    return leave(source, step_ms, KZ_OK);
}

/* The table of this process, made by the first who asks. */
static kz_status join_table(memory *source, kz_layout *layout, kz_error *err)
{
    pthread_mutex_lock(&guarded->lock);
    int64_t step_ms = 0;
    kz_status status = KZ_OK;
    if (!guarded->ours) {
        table *new = calloc(1, sizeof *new);
        if (!new) {
            status = kz__fail(err, KZ_NO_MEMORY, "no memory for a lease table");
        } else {
            shared = new;
            guarded->ours = true;
            int64_t now_ms = read_time(source, &step_ms);
            if (source->params.quarantine)
                shared->embargo_ms = now_ms + KZ__TWIN_LEASES * source->params.lease_ms;
        }
    }
    *layout = source->params.layout;
    const service *s = status ? NULL : find_service(source->params.service);
    if (s) {
        status = kz__table_layout_check(&source->params, &s->facts, err);
        kz__service_layout(&s->facts, layout);
    }
    return leave(source, step_ms, status);
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
    memory *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    source->clock = *options->clock;
    source->options = *options;
    kz_layout layout = {0};
    status = kz__table_params_read(&url, options, NULL, &source->params, err);
    if (status == KZ_OK)
        status = join_table(source, &layout, err);
    if (status) {
        free(source);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED};
    *out = source;
    return KZ_OK;
}

static void memory_close(void *ctx, bool forked)
{
    (void)forked;
    free(ctx);
}

const kz_source_ops kz__source_memory = {.struct_size = sizeof(kz_source_ops),
                                         .scheme = "memory",
                                         .open = memory_open,
                                         .acquire = memory_acquire,
                                         .release = memory_release,
                                         .now = memory_now,
                                         .list = memory_list,
                                         .health = memory_health,
                                         .configure = memory_configure,
                                         .close = memory_close};
