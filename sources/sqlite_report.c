/* What a lease file tells about itself: the leases, and its health. */
#include "core/error.h"
#include "sources/sqlite_source.h"

#include <stdio.h>

static void copy_text(sqlite3_stmt *q, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    snprintf(out, size, "%s", text ? text : "");
}

static kz_status add_reserved(kz__sqlite *file, const kz__transaction *t, const kz_list_from *from,
                              kz_lease_info *lines, size_t room, size_t *count, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(file, KZ__SQL_SERVICE_RESERVED, &q, err);
    if (status)
        return status;
    sqlite3_bind_text(q, 1, from->service, -1, SQLITE_TRANSIENT);
    while ((status = kz__sqlite_step(file, q, "cannot be read", err)) == KZ_OK) {
        char aside[KZ__ASIDE_TEXT_MAX];
        kz__service service = {.node_bits = (uint8_t)sqlite3_column_int(q, 1),
                               .seq_bits = (uint8_t)sqlite3_column_int(q, 2)};
        copy_text(q, 0, service.name, sizeof service.name);
        copy_text(q, 3, aside, sizeof aside);
        if (kz__aside_parse(aside, service.asides, NULL) == KZ_OK)
            kz__page_add_reserved(&service, from, t->now_ms, lines, room, count);
    }
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

kz_status kz__sqlite_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                          kz_lease_info *lines, size_t room, size_t *count, kz_error *err)
{
    kz__sqlite *file = &((kz__sqlite_source *)base)->file;
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(file, from->only_id ? KZ__SQL_LIST_NODE : KZ__SQL_LIST, &q, err);
    if (status)
        return status;
    sqlite3_bind_int64(q, 1, t->now_ms);
    sqlite3_bind_text(q, 2, from->service, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(q, 3, from->id);
    sqlite3_bind_int64(q, 4, (int64_t)room);
    while ((status = kz__sqlite_step(file, q, "cannot be read", err)) == KZ_OK) {
        kz_lease_info *line = &lines[(*count)++];
        *line = (kz_lease_info){.id = (uint32_t)sqlite3_column_int64(q, 2),
                                .nodes = 1,
                                .node_bits = (uint8_t)sqlite3_column_int(q, 3),
                                .seq_bits = (uint8_t)sqlite3_column_int(q, 4),
                                .created_ms = sqlite3_column_int64(q, 5),
                                .expired_ms = sqlite3_column_int64(q, 6),
                                .fallback_created_ms = sqlite3_column_int64(q, 7),
                                .fallback_expired_ms = sqlite3_column_int64(q, 8)};
        copy_text(q, 0, line->service, sizeof line->service);
        copy_text(q, 1, line->holder, sizeof line->holder);
    }
    return status == KZ_NOT_FOUND ? add_reserved(file, t, from, lines, room, count, err) : status;
}

/* Counts what is held and what could be granted now. */
static kz_status count_nodes(kz__sqlite *file, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    sqlite3_stmt *q;
    kz__rows rows = kz__sqlite_rows(file);
    kz__range range = {0, 0};
    kz_status status;
    while ((status = rows.free_after(rows.ctx, range.hi, &range, err)) == KZ_OK)
        health->nodes_free += kz__table_blocks_in(&t->service, range);
    if (status != KZ_NOT_FOUND || (status = kz__sqlite_use(file, KZ__SQL_OUT_RESTING, &q, err)))
        return status;
    sqlite3_bind_int64(q, 1, file->service);
    sqlite3_bind_int64(q, 2, t->now_ms);
    while ((status = kz__sqlite_step(file, q, "cannot be read", err)) == KZ_OK) {
        range = (kz__range){(uint64_t)sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1)};
        health->nodes_free += kz__table_blocks_in(&t->service, range);
    }
    if (status != KZ_NOT_FOUND || (status = kz__sqlite_use(file, KZ__SQL_OUT_COUNT, &q, err)))
        return status;
    sqlite3_bind_int64(q, 1, file->service);
    sqlite3_bind_int64(q, 2, t->now_ms);
    if ((status = kz__sqlite_step(file, q, "cannot be read", err)))
        return status;
    health->leases_out = (uint64_t)sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return KZ_OK;
}

kz_status kz__sqlite_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    kz__sqlite *file = &((kz__sqlite_source *)base)->file;
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(file, KZ__SQL_SYNCHRONOUS, &q, err);
    if (status || (status = kz__sqlite_step(file, q, "cannot be read", err)))
        return status;
    health->durable = sqlite3_column_int(q, 0) >= 2;
    sqlite3_reset(q);
    if (kz__sqlite_is_remote(file->path)) {
        health->durable = false;
        snprintf(health->note, sizeof health->note,
                 "%s is on a network file system, where locks and syncs cannot be relied on: it must be on a local "
                 "disk; for several machines use kazahana serve",
                 file->path);
    }
    return t->found ? count_nodes(file, t, health, err) : KZ_OK;
}
