/* What a lease file tells about itself: the leases, and its health. */
#include "core/error.h"
#include "sources/sqlite_source.h"

#include <stdio.h>
#include <string.h>

static void copy_text(sqlite3_stmt *q, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    snprintf(out, size, "%s", text ? text : "");
}

/* The first service whose name is that or behind it. */
static kz_status find_service(kz__sqlite_source *s, const char *name, int64_t *service, kz__list_place *at,
                              kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_FROM, &q, err);
    if (status)
        return status;
    sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT);
    status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status)
        return status;
    char found[KZ_SERVICE_SIZE];
    copy_text(q, 1, found, sizeof found);
    *service = sqlite3_column_int64(q, 0);
    if (strcmp(found, name) != 0)
        *at = kz__list_place_of(found, 0);
    sqlite3_reset(q);
    return KZ_OK;
}

/* Adds lines of one service to the page. */
static kz_status read_lines(kz__sqlite_source *s, int64_t service, const kz__list_place *at, int64_t now_ms,
                            kz_lease_info *lines, size_t *count, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_LIST, &q, err);
    if (status)
        return status;
    sqlite3_bind_int64(q, 1, now_ms);
    sqlite3_bind_int64(q, 2, service);
    sqlite3_bind_int64(q, 3, at->id);
    sqlite3_bind_int64(q, 4, (int64_t)(KZ__LIST_PAGE - *count));
    while ((status = kz__sqlite_step(&s->file, q, "cannot be read", err)) == KZ_OK) {
        kz_lease_info *info = &lines[(*count)++];
        strcpy(info->service, at->service);
        copy_text(q, 0, info->holder, sizeof info->holder);
        info->id = (uint32_t)sqlite3_column_int64(q, 1);
        info->created_ms = sqlite3_column_int64(q, 2);
        info->expired_ms = sqlite3_column_int64(q, 3);
        info->fallback_expired_ms = sqlite3_column_int64(q, 4);
    }
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

/* A page of lines, over as many services as it takes. `at` moves on to where the next begins. */
static kz_status read_page(kz__sqlite_source *s, kz__list_place *at, kz_lease_info *lines, size_t *count, kz_error *err)
{
    kz__sqlite_transaction t;
    int64_t service;
    *count = 0;
    kz_status status = kz__sqlite_meta(s, &t, err);
    while (status == KZ_OK && (status = find_service(s, at->service, &service, at, err)) == KZ_OK) {
        status = read_lines(s, service, at, t.now_ms, lines, count, err);
        if (status == KZ_OK && *count == KZ__LIST_PAGE) {
            at->id = lines[*count - 1].id + 1;
            return KZ_OK;
        }
        kz__list_place_next_service(at);
    }
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

/* Page by page, so that the caller is not called with the lock held. */
kz_status kz__sqlite_list(void *ctx, const kz_list_from *from, kz_lease_visit visit, void *visit_ctx, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz_lease_info lines[KZ__LIST_PAGE];
    kz__list_place at = kz__list_place_of(from ? from->service : "", from ? from->id : 0);
    size_t count;
    do {
        kz_status status = kz__sqlite_enter(s, err);
        if (status)
            return status;
        status = kz__sqlite_leave(s, 0, read_page(s, &at, lines, &count, err));
        if (status)
            return status;
        for (size_t i = 0; i < count; i++)
            if (!visit(visit_ctx, &lines[i]))
                return KZ_OK;
    } while (count == KZ__LIST_PAGE);
    return KZ_OK;
}

/* Counts what is held and what could be granted now. */
static kz_status count_nodes(kz__sqlite_source *s, const kz__sqlite_transaction *t, kz_source_health *health,
                             kz_error *err)
{
    sqlite3_stmt *q;
    kz__rows rows = kz__sqlite_rows(&s->file);
    kz__range range = {0, 0};
    kz_status status;
    while ((status = rows.free_after(rows.ctx, range.hi, &range, err)) == KZ_OK)
        health->nodes_free += kz__table_blocks_in(&t->service, range);
    if (status != KZ_NOT_FOUND || (status = kz__sqlite_use(&s->file, KZ__SQL_OUT_RESTING, &q, err)))
        return status;
    sqlite3_bind_int64(q, 1, s->file.service);
    sqlite3_bind_int64(q, 2, t->now_ms);
    while ((status = kz__sqlite_step(&s->file, q, "cannot be read", err)) == KZ_OK) {
        range = (kz__range){(uint64_t)sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1)};
        health->nodes_free += kz__table_blocks_in(&t->service, range);
    }
    if (status != KZ_NOT_FOUND || (status = kz__sqlite_use(&s->file, KZ__SQL_OUT_COUNT, &q, err)))
        return status;
    sqlite3_bind_int64(q, 1, s->file.service);
    sqlite3_bind_int64(q, 2, t->now_ms);
    if ((status = kz__sqlite_step(&s->file, q, "cannot be read", err)))
        return status;
    health->leases_out = (uint64_t)sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return KZ_OK;
}

static kz_status read_health(kz__sqlite_source *s, const char *name, kz_source_health *health, kz_error *err)
{
    kz__sqlite_transaction t;
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_meta(s, &t, err);
    if (status || (status = kz__sqlite_use(&s->file, KZ__SQL_SYNCHRONOUS, &q, err)) ||
        (status = kz__sqlite_step(&s->file, q, "cannot be read", err)))
        return status;
    health->durable = sqlite3_column_int(q, 0) >= 2;
    sqlite3_reset(q);
    health->source_ms = t.now_ms;
    health->generation = t.generation;
    if (kz__sqlite_is_remote(s->file.path)) {
        health->durable = false;
        snprintf(health->note, sizeof health->note,
                 "%s is on a network file system, where locks and syncs cannot be relied on: it must be on a local "
                 "disk; for several machines use kazahana serve",
                 s->file.path);
    }
    status = kz__sqlite_service(s, name, &t, err);
    if (status == KZ_OK) {
        health->lease_ms = t.service.lease_ms;
        kz__service_layout(&t.service, &health->layout);
        return count_nodes(s, &t, health, err);
    }
    health->nodes_free = UINT64_C(1) << (health->layout.node_bits - 1);
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

kz_status kz__sqlite_health(void *ctx, const char *asked, kz_source_health *health, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    const char *name;
    kz_status status = kz__table_service(&s->params, asked, &name, err);
    if (status || (status = kz__sqlite_enter(s, err)))
        return status;
    kz_source_health found = {.layout = s->params.layout, .lease_ms = s->params.lease_ms};
    status = kz__sqlite_leave(s, 0, read_health(s, name, &found, err));
    if (status == KZ_OK)
        *health = found;
    return status;
}
