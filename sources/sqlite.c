/* sqlite:/path/leases.db: a lease table in a file, for any number of processes on one host. */
#include "sources/sqlite.h"
#include "core/error.h"
#include "host/clock.h"
#include "sources/sqlite_source.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MIN_MS 1000
#define TIMEOUT_MAX_MS 60000

static kz_status run(kz__sqlite_source *s, kz__sqlite_name name, const char *doing, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, name, &q, err);
    return status ? status : kz__sqlite_run(&s->file, q, doing, err);
}

static void roll_back(kz__sqlite_source *s)
{
    if (s->file.db && !sqlite3_get_autocommit(s->file.db))
        run(s, KZ__SQL_ROLLBACK, "cannot be rolled back", NULL);
}

static kz_status read_meta(kz__sqlite_source *s, kz__transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_META_READ, &q, err);
    if (status == KZ_OK)
        status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status == KZ_NOT_FOUND)
        return kz__fail(err, KZ_STORE, "lease file %s: its time is missing: it was tampered with", s->file.path);
    if (status)
        return status;
    s->time = (kz__table_time){.high_ms = sqlite3_column_int64(q, 0),
                               .boot_ms = sqlite3_column_int64(q, 4),
                               .wall_ms = sqlite3_column_int64(q, 5)};
    const char *boot = (const char *)sqlite3_column_text(q, 3);
    snprintf(s->time.boot, sizeof s->time.boot, "%s", boot ? boot : "");
    t->high_ms = s->time.high_ms;
    t->generation = (uint64_t)sqlite3_column_int64(q, 1);
    const char *place = (const char *)sqlite3_column_text(q, 2);
    status = kz__place_parse(place ? place : "", &t->place, err);
    sqlite3_reset(q);
    if (status)
        return status;
    kz__sqlite_place_now(&s->file, t->generation, &t->place, t->place_name);
    char mine[KZ__BOOT_NAME_SIZE];
    kz__boot_name(mine);
    t->now_ms = kz__table_time_read(&s->time, &s->base.clock, mine, &t->step_ms);
    return KZ_OK;
}

static kz_status write_meta(kz__sqlite_source *s, const kz__transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_META_WRITE, &q, err);
    if (status)
        return status;
    sqlite3_bind_int64(q, 1, t->now_ms);
    sqlite3_bind_int64(q, 2, (int64_t)t->generation);
    sqlite3_bind_text(q, 3, s->time.boot, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(q, 4, s->time.boot_ms);
    sqlite3_bind_int64(q, 5, s->time.wall_ms);
    char place[KZ__PLACE_TEXT_SIZE];
    kz__place_text(&t->place, place);
    sqlite3_bind_text(q, 6, place, -1, SQLITE_TRANSIENT);
    return kz__sqlite_run(&s->file, q, "cannot be written", err);
}

/* The number that a new service will have. */
static kz_status next_service(kz__sqlite_source *s, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_NEXT, &q, err);
    if (status || (status = kz__sqlite_step(&s->file, q, "cannot be read", err)))
        return status;
    s->file.service = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return KZ_OK;
}

static kz_status read_service(kz__sqlite_source *s, const char *name, kz__transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_READ, &q, err);
    if (status)
        return status;
    sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT);
    status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status)
        return status == KZ_NOT_FOUND ? next_service(s, err) : status;
    s->file.service = sqlite3_column_int64(q, 0);
    t->found = true;
    t->service = (kz__service){.epoch_ms = sqlite3_column_int64(q, 1),
                               .reserved_bits = (uint8_t)sqlite3_column_int(q, 2),
                               .time_bits = (uint8_t)sqlite3_column_int(q, 3),
                               .node_bits = (uint8_t)sqlite3_column_int(q, 4),
                               .seq_bits = (uint8_t)sqlite3_column_int(q, 5),
                               .high_blocks = sqlite3_column_int(q, 6),
                               .max_throughput = (uint32_t)sqlite3_column_int64(q, 7),
                               .lease_ms = sqlite3_column_int64(q, 8),
                               .granted = sqlite3_column_int(q, 9),
                               .cursor = (uint64_t)sqlite3_column_int64(q, 10),
                               .refused_ms = sqlite3_column_int64(q, 11),
                               .settled_ms = sqlite3_column_int64(q, 12),
                               .part = sqlite3_column_int(q, 13) & 1};
    snprintf(t->service.name, sizeof t->service.name, "%s", name);
    const char *aside = (const char *)sqlite3_column_text(q, 14);
    status = kz__aside_parse(aside ? aside : "", t->service.asides, err);
    sqlite3_reset(q);
    if (status)
        return status;
    unsigned bits = (unsigned)t->service.node_bits + t->service.seq_bits;
    if (!t->service.node_bits || bits + t->service.time_bits + t->service.reserved_bits != 64)
        return kz__fail(err, KZ_STORE, "lease file %s: the layout of service %s makes no sense", s->file.path, name);
    return KZ_OK;
}

static kz_status write_service(kz__sqlite_source *s, const kz__service *is, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_WRITE, &q, err);
    if (status)
        return status;
    const int64_t values[] = {is->epoch_ms,    is->reserved_bits,  is->time_bits, is->node_bits, is->seq_bits,
                              is->high_blocks, is->max_throughput, is->lease_ms,  is->granted,   (int64_t)is->cursor,
                              is->refused_ms,  is->settled_ms,     is->part};
    char aside[KZ__ASIDE_TEXT_MAX];
    kz__aside_text(is->asides, is->high_ms, aside);
    sqlite3_bind_int64(q, 1, s->file.service);
    sqlite3_bind_text(q, 2, is->name, -1, SQLITE_TRANSIENT);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sqlite3_bind_int64(q, (int)i + 3, values[i]);
    sqlite3_bind_text(q, 16, aside, -1, SQLITE_TRANSIENT);
    return kz__sqlite_run(&s->file, q, "cannot be written", err);
}

static kz_status forget_idle(kz__sqlite_source *s, kz__sqlite_name name, const kz__service *like, int64_t before_ms,
                             kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, name, &q, err);
    if (status)
        return status;
    const int64_t values[] = {like->epoch_ms, like->reserved_bits, like->time_bits,      like->node_bits,
                              like->seq_bits, like->high_blocks,   like->max_throughput, like->lease_ms};
    sqlite3_bind_int64(q, 1, before_ms);
    sqlite3_bind_text(q, 2, like->name, -1, SQLITE_TRANSIENT);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sqlite3_bind_int64(q, (int)i + 3, values[i]);
    return kz__sqlite_run(&s->file, q, "cannot be written", err);
}

/* Its rows last: they tell whether a service is idle. */
static kz_status forget(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left, kz_error *err)
{
    kz__sqlite_source *s = (kz__sqlite_source *)base;
    sqlite3_stmt *q;
    kz_status status = forget_idle(s, KZ__SQL_IDLE_FREE, like, before_ms, err);
    if (status == KZ_OK)
        status = forget_idle(s, KZ__SQL_IDLE_SERVICE, like, before_ms, err);
    if (status == KZ_OK && sqlite3_changes(s->file.db))
        status = run(s, KZ__SQL_IDLE_OUT, "cannot be written", err);
    if (status == KZ_OK)
        status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_COUNT, &q, err);
    if (status == KZ_OK)
        status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status)
        return status;
    *left = (size_t)sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    return KZ_OK;
}

/* Within a group a transaction is a part of one, which can be undone by itself. */
static void end(kz__sqlite_source *s, kz_status status)
{
    if (!s->base.grouped) {
        roll_back(s);
        kz__sqlite_leave(s, status);
        return;
    }
    run(s, KZ__SQL_SAVEPOINT_UNDO, "cannot be rolled back", NULL);
    run(s, KZ__SQL_SAVEPOINT_KEEP, "cannot be written", NULL);
}

static kz_status begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err)
{
    kz__sqlite_source *s = (kz__sqlite_source *)base;
    kz_status status = base->grouped ? KZ_OK : kz__sqlite_enter(s, err);
    if (status)
        return status;
    if (base->grouped)
        status = run(s, KZ__SQL_SAVEPOINT, "cannot be written", err);
    else if (ask->write)
        status = run(s, KZ__SQL_BEGIN, "cannot be locked", err);
    if (status == KZ_OK)
        status = read_meta(s, t, err);
    if (status == KZ_OK && ask->service)
        status = read_service(s, ask->service, t, err);
    if (status)
        end(s, status);
    return status;
}

static kz__rows rows(kz__table_source *base)
{
    return kz__sqlite_rows(&((kz__sqlite_source *)base)->file);
}

/* It counts if a newcomer would find it. */
static kz_status committed(kz__sqlite_source *s, kz_error *err)
{
    kz_status status = kz__sqlite_still_there(&s->file, err);
    if (status == KZ_OK) {
        kz__sqlite_raise_mark(&s->file, s->generation);
        kz__sqlite_tidy(&s->file);
    }
    return kz__sqlite_leave(s, status);
}

static kz_status commit(kz__table_source *base, kz__transaction *t, kz_error *err)
{
    kz__sqlite_source *s = (kz__sqlite_source *)base;
    kz_status status = t->service_write ? write_service(s, &t->service, err) : KZ_OK;
    if (status == KZ_OK)
        status = write_meta(s, t, err);
    if (status == KZ_OK)
        status = run(s, base->grouped ? KZ__SQL_SAVEPOINT_KEEP : KZ__SQL_COMMIT, "cannot be written", err);
    s->generation = t->generation;
    if (status)
        end(s, status);
    else if (!base->grouped)
        status = committed(s, err);
    return status;
}

static void rollback(kz__table_source *base, kz_status why)
{
    end((kz__sqlite_source *)base, why);
}

static kz_status group_begin(kz__table_source *base, kz_error *err)
{
    kz__sqlite_source *s = (kz__sqlite_source *)base;
    kz_status status = kz__sqlite_enter(s, err);
    if (status)
        return status;
    status = run(s, KZ__SQL_BEGIN, "cannot be locked", err);
    return status ? kz__sqlite_leave(s, status) : KZ_OK;
}

static kz_status group_commit(kz__table_source *base, kz_error *err)
{
    kz__sqlite_source *s = (kz__sqlite_source *)base;
    kz_status status = run(s, KZ__SQL_COMMIT, "cannot be written", err);
    if (status) {
        roll_back(s);
        return kz__sqlite_leave(s, status);
    }
    return committed(s, err);
}

static const kz__table_store store = {.begin = begin,
                                      .rows = rows,
                                      .commit = commit,
                                      .rollback = rollback,
                                      .forget = forget,
                                      .page = kz__sqlite_page,
                                      .health = kz__sqlite_health,
                                      .group_begin = group_begin,
                                      .group_commit = group_commit};

/* The path does not depend on the folder the process is in later. */
static kz_status set_path(kz__sqlite_source *s, const char *body, kz_error *err)
{
    char folder[PATH_MAX] = "";
    if (!*body || body[strlen(body) - 1] == '/')
        return kz__fail(err, KZ_INVALID, "source sqlite: names no file: write sqlite:/path/leases.db");
    if (*body != '/' && !getcwd(folder, sizeof folder))
        return kz__fail(err, KZ_SYSTEM, "source sqlite:%s: the folder this process is in cannot be told", body);
    if (asprintf(&s->file.path, "%s%s%s", folder, *folder ? "/" : "", body) < 0) {
        s->file.path = NULL;
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    }
    return KZ_OK;
}

static void sqlite_close(void *ctx, bool forked)
{
    kz__sqlite_source *s = ctx;
    pthread_mutex_lock(&s->lock);
    /* What a fork did not close is the parent's, and is left alone. */
    if (!forked)
        kz__sqlite_hang_up(s);
    pthread_mutex_unlock(&s->lock);
    kz__sqlite_delist(s);
    free(s->file.path);
    free(s);
}

static kz_status sqlite_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                             kz_error *err)
{
    kz__url url;
    kz_status status = kz__sqlite_prepare_for_fork(err);
    if (status || (status = kz__url_parse(text, &url, err)))
        return status;
    kz__sqlite_source *s = calloc(1, sizeof *s);
    if (!s)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    pthread_mutex_init(&s->lock, NULL);
    s->file.mark = -1;
    int64_t timeout_ms = options->timeout_ms < 0 ? TIMEOUT_MAX_MS : options->timeout_ms;
    s->file.timeout_ms = timeout_ms < TIMEOUT_MIN_MS   ? TIMEOUT_MIN_MS
                         : timeout_ms > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS
                                                       : (int)timeout_ms;
    kz__sqlite_enlist(s);
    kz_layout layout;
    status = set_path(s, url.body, err);
    if (status == KZ_OK)
        status = kz__table_source_init(&s->base, &store, s->file.path, &url, options, NULL, err);
    const kz__table_params *params = &s->base.params;
    s->file.must_exist = !params->create;
    if (status == KZ_OK && params->quarantine)
        s->file.lost_ms = s->base.clock.wall_ns(s->base.clock.ctx) / KZ__NS_PER_MS;
    if (status == KZ_OK)
        status = kz__table_source_look(&s->base, &layout, err);
    if (status) {
        sqlite_close(s, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = KZ_SOURCE_SAME_HOST};
    *out = s;
    return KZ_OK;
}

const kz_source_ops kz__source_sqlite = {KZ__TABLE_SOURCE_CALLS, .scheme = "sqlite", .open = sqlite_open,
                                         .close = sqlite_close};
