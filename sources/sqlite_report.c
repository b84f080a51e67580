/* What a lease file tells about itself: the leases, and its health. */
#include "core/error.h"
#include "sources/sqlite_source.h"

#include <stdio.h>
#include <stdlib.h>

static void copy_text(sqlite3_stmt *q, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    snprintf(out, size, "%s", text ? text : "");
}

static kz_status read_lines(kz__sqlite_source *s, kz_lease_info **lines, size_t *count, kz_error *err)
{
    kz__sqlite_transaction t;
    sqlite3_stmt *q;
    size_t room = 0;
    kz_status status = kz__sqlite_meta(s, &t, err);
    if (status || (status = kz__sqlite_use(&s->file, KZ__SQL_LIST, &q, err)))
        return status;
    sqlite3_bind_int64(q, 1, t.now_ms);
    while ((status = kz__sqlite_step(&s->file, q, "cannot be read", err)) == KZ_OK) {
        if (*count == room) {
            room = room ? 2 * room : 64;
            kz_lease_info *grown = realloc(*lines, room * sizeof *grown);
            if (!grown) {
                sqlite3_reset(q);
                return kz__fail(err, KZ_NO_MEMORY, "no memory for a list of %zu leases", room);
            }
            *lines = grown;
        }
        kz_lease_info *info = &(*lines)[(*count)++];
        copy_text(q, 0, info->service, sizeof info->service);
        copy_text(q, 1, info->holder, sizeof info->holder);
        info->id = (uint32_t)sqlite3_column_int64(q, 2);
        info->created_ms = sqlite3_column_int64(q, 3);
        info->expired_ms = sqlite3_column_int64(q, 4);
        info->fallback_expired_ms = sqlite3_column_int64(q, 5);
    }
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

kz_status kz__sqlite_list(void *ctx, kz_lease_visit visit, void *visit_ctx, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz_lease_info *lines = NULL;
    size_t count = 0;
    kz_status status = kz__sqlite_enter(s, err);
    if (status)
        return status;
    status = kz__sqlite_leave(s, 0, read_lines(s, &lines, &count, err));
    for (size_t i = 0; status == KZ_OK && i < count && visit(visit_ctx, &lines[i]); i++)
        ;
    free(lines);
    return status;
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
