/* The rows of a lease table in SQLite, inside the caller's transaction. */
#include "core/error.h"
#include "sources/sqlite_file.h"

#include <stdio.h>
#include <string.h>

/* In the order of the table's columns. */
enum {
    COLUMN_SERVICE,
    COLUMN_LO,
    COLUMN_HI,
    COLUMN_START,
    COLUMN_END,
    COLUMN_NODE,
    COLUMN_NODE_BITS,
    COLUMN_SEQ_BITS,
    COLUMN_TWIN,
    COLUMN_RELEASED,
    COLUMN_ASKED,
    COLUMN_REQUEST,
    COLUMN_SECRET,
    COLUMN_HOLDER
};

/* A statement with the service bound, and one number behind it. */
static kz_status prepare(kz__sqlite *file, kz__sqlite_name name, int64_t number, sqlite3_stmt **statement,
                         kz_error *err)
{
    kz_status status = kz__sqlite_use(file, name, statement, err);
    if (status)
        return status;
    sqlite3_bind_int64(*statement, 1, file->service);
    sqlite3_bind_int64(*statement, 2, number);
    return KZ_OK;
}

static kz_status read_range(kz__sqlite *file, kz__sqlite_name name, uint64_t slot, kz__range *range, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(file, name, (int64_t)slot, &statement, err);
    if (status == KZ_OK)
        status = kz__sqlite_step(file, statement, "cannot be read", err);
    if (status)
        return status;
    *range = (kz__range){(uint64_t)sqlite3_column_int64(statement, 0), (uint64_t)sqlite3_column_int64(statement, 1)};
    sqlite3_reset(statement);
    return KZ_OK;
}

static kz_status free_after(void *ctx, uint64_t from, kz__range *range, kz_error *err)
{
    return read_range(ctx, KZ__SQL_FREE_AFTER, from, range, err);
}

static kz_status free_ending(void *ctx, uint64_t slot, kz__range *range, kz_error *err)
{
    return read_range(ctx, KZ__SQL_FREE_ENDING, slot, range, err);
}

/* Runs a write that must concern exactly one row. */
static kz_status write_one(kz__sqlite *file, sqlite3_stmt *statement, kz_error *err)
{
    kz_status status = kz__sqlite_run(file, statement, "cannot be written", err);
    if (status == KZ_OK && sqlite3_changes(file->db) != 1)
        return kz__fail(err, KZ_STORE, "lease file %s: it contradicts itself: a row that must be there is not",
                        file->path);
    return status;
}

static kz_status free_add(void *ctx, kz__range range, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_FREE_ADD, (int64_t)range.lo, &statement, err);
    if (status)
        return status;
    sqlite3_bind_int64(statement, 3, (int64_t)range.hi);
    return write_one(ctx, statement, err);
}

static kz_status free_remove(void *ctx, uint64_t lo, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_FREE_REMOVE, (int64_t)lo, &statement, err);
    return status ? status : write_one(ctx, statement, err);
}

static void copy_text(sqlite3_stmt *statement, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    snprintf(out, size, "%s", text ? text : "");
}

/* Steps to one row of `out` and takes it over. */
static kz_status read_row(kz__sqlite *file, sqlite3_stmt *statement, kz__row *row, kz_error *err)
{
    kz_status status = kz__sqlite_step(file, statement, "cannot be read", err);
    if (status)
        return status;
    *row = (kz__row){.lo = (uint64_t)sqlite3_column_int64(statement, COLUMN_LO),
                     .hi = (uint64_t)sqlite3_column_int64(statement, COLUMN_HI),
                     .start_ms = sqlite3_column_int64(statement, COLUMN_START),
                     .end_ms = sqlite3_column_int64(statement, COLUMN_END),
                     .node = (uint32_t)sqlite3_column_int64(statement, COLUMN_NODE),
                     .node_bits = (uint8_t)sqlite3_column_int(statement, COLUMN_NODE_BITS),
                     .seq_bits = (uint8_t)sqlite3_column_int(statement, COLUMN_SEQ_BITS),
                     .released = sqlite3_column_int(statement, COLUMN_RELEASED),
                     .asked = (uint32_t)sqlite3_column_int64(statement, COLUMN_ASKED)};
    const void *request = sqlite3_column_blob(statement, COLUMN_REQUEST);
    if (sqlite3_column_bytes(statement, COLUMN_REQUEST) == KZ_REQUEST_ID_SIZE)
        memcpy(row->request, request, KZ_REQUEST_ID_SIZE);
    copy_text(statement, COLUMN_SECRET, row->secret, sizeof row->secret);
    copy_text(statement, COLUMN_HOLDER, row->holder, sizeof row->holder);
    sqlite3_reset(statement);
    return KZ_OK;
}

static kz_status read_row_by(kz__sqlite *file, kz__sqlite_name name, int64_t number, kz__row *row, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(file, name, number, &statement, err);
    return status ? status : read_row(file, statement, row, err);
}

static kz_status out_ended(void *ctx, int64_t ms, kz__row *row, kz_error *err)
{
    return read_row_by(ctx, KZ__SQL_OUT_ENDED, ms, row, err);
}

static kz_status out_at(void *ctx, uint64_t lo, kz__row *row, kz_error *err)
{
    return read_row_by(ctx, KZ__SQL_OUT_AT, (int64_t)lo, row, err);
}

static kz_status out_by_node(void *ctx, uint32_t node, kz__row *row, kz_error *err)
{
    return read_row_by(ctx, KZ__SQL_OUT_BY_NODE, node, row, err);
}

static kz_status out_by_request(void *ctx, const uint8_t *request, uint64_t from, kz__row *row, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_OUT_BY_REQUEST, 0, &statement, err);
    if (status)
        return status;
    sqlite3_bind_blob(statement, 2, request, KZ_REQUEST_ID_SIZE, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, 3, (int64_t)from);
    return read_row(ctx, statement, row, err);
}

static kz_status out_add(void *ctx, const kz__row *row, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_OUT_ADD, (int64_t)row->lo, &statement, err);
    if (status)
        return status;
    bool twin = row->lo >> (row->node_bits + row->seq_bits - 1);
    sqlite3_bind_int64(statement, COLUMN_HI + 1, (int64_t)row->hi);
    sqlite3_bind_int64(statement, COLUMN_START + 1, row->start_ms);
    sqlite3_bind_int64(statement, COLUMN_END + 1, row->end_ms);
    sqlite3_bind_int64(statement, COLUMN_NODE + 1, row->node);
    sqlite3_bind_int(statement, COLUMN_NODE_BITS + 1, row->node_bits);
    sqlite3_bind_int(statement, COLUMN_SEQ_BITS + 1, row->seq_bits);
    sqlite3_bind_int(statement, COLUMN_TWIN + 1, twin);
    sqlite3_bind_int(statement, COLUMN_RELEASED + 1, row->released);
    sqlite3_bind_int64(statement, COLUMN_ASKED + 1, row->asked);
    sqlite3_bind_blob(statement, COLUMN_REQUEST + 1, row->request, KZ_REQUEST_ID_SIZE, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, COLUMN_SECRET + 1, row->secret, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, COLUMN_HOLDER + 1, row->holder, -1, SQLITE_TRANSIENT);
    return write_one(ctx, statement, err);
}

static kz_status out_update(void *ctx, const kz__row *row, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_OUT_UPDATE, (int64_t)row->lo, &statement, err);
    if (status)
        return status;
    sqlite3_bind_int64(statement, 3, row->end_ms);
    sqlite3_bind_int(statement, 4, row->released);
    return write_one(ctx, statement, err);
}

static kz_status out_remove(void *ctx, uint64_t lo, kz_error *err)
{
    sqlite3_stmt *statement;
    kz_status status = prepare(ctx, KZ__SQL_OUT_REMOVE, (int64_t)lo, &statement, err);
    return status ? status : write_one(ctx, statement, err);
}

kz__rows kz__sqlite_rows(kz__sqlite *file)
{
    return (kz__rows){.ctx = file,
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
