/* sqlite:/path/leases.db: a lease table in a file, for any number of processes on one host. */
#include "sources/sqlite.h"
#include "core/error.h"
#include "lib/clock.h"
#include "sources/sqlite_source.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MIN_MS 1000
#define TIMEOUT_MAX_MS 60000

kz_status kz__sqlite_meta(kz__sqlite_source *s, kz__sqlite_transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_META_READ, &q, err);
    if (status == KZ_OK)
        status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status == KZ_NOT_FOUND)
        return kz__fail(err, KZ_STORE, "lease file %s: its time is missing: it was tampered with", s->file.path);
    if (status)
        return status;
    t->time = (kz__table_time){.high_ms = sqlite3_column_int64(q, 0),
                               .boot_ms = sqlite3_column_int64(q, 4),
                               .wall_ms = sqlite3_column_int64(q, 5)};
    const char *boot = (const char *)sqlite3_column_text(q, 3);
    snprintf(t->time.boot, sizeof t->time.boot, "%s", boot ? boot : "");
    t->generation = (uint64_t)sqlite3_column_int64(q, 1);
    t->embargo_ms = sqlite3_column_int64(q, 2);
    sqlite3_reset(q);
    char mine[KZ__BOOT_NAME_SIZE];
    kz__boot_name(mine);
    t->now_ms = kz__table_time_read(&t->time, &s->clock, mine, &t->step_ms);
    return KZ_OK;
}

static kz_status write_meta(kz__sqlite_source *s, const kz__sqlite_transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_META_WRITE, &q, err);
    if (status)
        return status;
    sqlite3_bind_int64(q, 1, t->time.high_ms);
    sqlite3_bind_int64(q, 2, (int64_t)t->generation);
    sqlite3_bind_text(q, 3, t->time.boot, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(q, 4, t->time.boot_ms);
    sqlite3_bind_int64(q, 5, t->time.wall_ms);
    return kz__sqlite_run(&s->file, q, "cannot be written", err);
}

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

/* Enters the source and its transaction; within a group, a part of one that can be undone by itself. */
static kz_status begin(kz__sqlite_source *s, kz__sqlite_transaction *t, kz_error *err)
{
    t->step_ms = 0;
    if (s->grouped) {
        kz_status status = run(s, KZ__SQL_SAVEPOINT, "cannot be written", err);
        return status ? status : kz__sqlite_meta(s, t, err);
    }
    kz_status status = kz__sqlite_enter(s, err);
    if (status)
        return status;
    status = run(s, KZ__SQL_BEGIN, "cannot be locked", err);
    if (status == KZ_OK)
        status = kz__sqlite_meta(s, t, err);
    if (status) {
        roll_back(s);
        return kz__sqlite_leave(s, 0, status);
    }
    return KZ_OK;
}

/* Makes it durable if `status` is KZ_OK, undoes it otherwise. */
static kz_status finish(kz__sqlite_source *s, const kz__sqlite_transaction *t, kz_status status, kz_error *err)
{
    if (status == KZ_OK)
        status = write_meta(s, t, err);
    if (s->grouped) {
        if (status)
            run(s, KZ__SQL_SAVEPOINT_UNDO, "cannot be rolled back", NULL);
        kz_status kept = run(s, KZ__SQL_SAVEPOINT_KEEP, "cannot be written", status ? NULL : err);
        return status ? status : kept;
    }
    if (status == KZ_OK)
        status = run(s, KZ__SQL_COMMIT, "cannot be written", err);
    if (status)
        roll_back(s);
    return kz__sqlite_leave(s, status ? 0 : t->step_ms, status);
}

kz_status kz__sqlite_service(kz__sqlite_source *s, const char *name, kz__sqlite_transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_READ, &q, err);
    if (status)
        return status;
    sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT);
    status = kz__sqlite_step(&s->file, q, "cannot be read", err);
    if (status)
        return status;
    s->file.service = sqlite3_column_int64(q, 0);
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
                               .high_ms = t->time.high_ms,
                               .generation = t->generation,
                               .embargo_ms = t->embargo_ms};
    snprintf(t->service.name, sizeof t->service.name, "%s", name);
    sqlite3_reset(q);
    unsigned bits = (unsigned)t->service.node_bits + t->service.seq_bits;
    if (!t->service.node_bits || bits + t->service.time_bits + t->service.reserved_bits != 64)
        return kz__fail(err, KZ_STORE, "lease file %s: the layout of service %s makes no sense", s->file.path, name);
    return KZ_OK;
}

static kz_status add_service(kz__sqlite_source *s, const char *name, kz__sqlite_transaction *t, kz_error *err)
{
    kz__service *service = &t->service;
    kz_status status = kz__service_init(service, name, &s->params.layout, s->params.lease_ms, err);
    sqlite3_stmt *q;
    if (status || (status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_ADD, &q, err)))
        return status;
    const int64_t values[] = {service->epoch_ms, service->reserved_bits,  service->time_bits,      service->node_bits,
                              service->seq_bits, service->high_blocks,    service->max_throughput, service->lease_ms,
                              service->granted,  (int64_t)service->cursor};
    sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sqlite3_bind_int64(q, (int)i + 2, values[i]);
    status = kz__sqlite_run(&s->file, q, "cannot be written", err);
    if (status)
        return status;
    s->file.service = sqlite3_last_insert_rowid(s->file.db);
    service->high_ms = t->time.high_ms;
    service->generation = t->generation;
    service->embargo_ms = t->embargo_ms;
    kz__rows rows = kz__sqlite_rows(&s->file);
    return kz__table_create(&rows, service, err);
}

static kz_status write_service(kz__sqlite_source *s, kz__sqlite_transaction *t, kz_error *err)
{
    sqlite3_stmt *q;
    kz_status status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_WRITE, &q, err);
    if (status)
        return status;
    sqlite3_bind_int64(q, 1, s->file.service);
    sqlite3_bind_int(q, 2, t->service.granted);
    sqlite3_bind_int64(q, 3, (int64_t)t->service.cursor);
    t->generation = t->service.generation;
    t->time.high_ms = t->service.high_ms;
    return kz__sqlite_run(&s->file, q, "cannot be written", err);
}

static kz_status sqlite_acquire(void *ctx, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz__sqlite_transaction t;
    const char *name;
    kz_status status = kz__table_service(&s->params, request->service, &name, err);
    if (status || (status = begin(s, &t, err)))
        return status;
    status = kz__sqlite_service(s, name, &t, err);
    if (status == KZ_OK)
        status = kz__table_layout_check(&s->params, &t.service, err);
    else if (status == KZ_NOT_FOUND)
        status = add_service(s, name, &t, err);
    if (status)
        return finish(s, &t, status, err);
    kz__rows rows = kz__sqlite_rows(&s->file);
    kz_status answer = kz__table_acquire_for(&rows, &t.service, request, t.now_ms, &s->grant, err);
    /* A sweep that found no node free is kept, else the next call would repeat it. */
    kz_error *about = answer ? NULL : err;
    status = answer == KZ_NO_FREE_NODE ? KZ_OK : answer;
    if (status == KZ_OK)
        status = write_service(s, &t, about);
    status = finish(s, &t, status, about);
    if (answer || status)
        return answer ? answer : status;
    kz__grant_copy(grant, &s->grant);
    return KZ_OK;
}

static kz_status sqlite_release(void *ctx, const kz_release *release, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz__sqlite_transaction t;
    const char *name;
    kz_status status = kz__table_service(&s->params, release->service, &name, err);
    if (status || (status = begin(s, &t, err)))
        return status;
    status = kz__release_check(release, t.now_ms, err);
    if (status == KZ_OK)
        status = kz__sqlite_service(s, name, &t, err);
    if (status == KZ_NOT_FOUND)
        status = kz__fail(err, KZ_NOT_FOUND, "there is no service %s", name);
    if (status == KZ_OK) {
        kz__rows rows = kz__sqlite_rows(&s->file);
        status = kz__table_release_signed(&rows, &t.service, release, t.now_ms, err);
    }
    if (status == KZ_OK)
        status = write_service(s, &t, err);
    return finish(s, &t, status, err);
}

static kz_status sqlite_group_begin(void *ctx, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz_status status = kz__sqlite_enter(s, err);
    if (status)
        return status;
    status = run(s, KZ__SQL_BEGIN, "cannot be locked", err);
    if (status)
        return kz__sqlite_leave(s, 0, status);
    s->grouped = true;
    return KZ_OK;
}

static kz_status sqlite_group_commit(void *ctx, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    s->grouped = false;
    kz_status status = run(s, KZ__SQL_COMMIT, "cannot be written", err);
    if (status)
        roll_back(s);
    return kz__sqlite_leave(s, 0, status);
}

static kz_status set_service(kz__sqlite_source *s, kz__sqlite_transaction *t, const kz__service *wanted, kz_error *err)
{
    unsigned before = (unsigned)t->service.node_bits + t->service.seq_bits;
    kz_status status = kz__service_adopt(&t->service, wanted, err);
    sqlite3_stmt *q;
    if (status || (status = kz__sqlite_use(&s->file, KZ__SQL_SERVICE_SET, &q, err)))
        return status;
    const kz__service *is = &t->service;
    const int64_t values[] = {s->file.service, is->epoch_ms,    is->reserved_bits,  is->time_bits, is->node_bits,
                              is->seq_bits,    is->high_blocks, is->max_throughput, is->lease_ms};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        sqlite3_bind_int64(q, (int)i + 1, values[i]);
    status = kz__sqlite_run(&s->file, q, "cannot be written", err);
    if (status || before == (unsigned)is->node_bits + is->seq_bits)
        return status;
    /* Nothing was granted yet, so the space can be made anew. */
    kz__rows rows = kz__sqlite_rows(&s->file);
    return kz__table_create(&rows, &t->service, err);
}

static kz_status sqlite_configure(void *ctx, const kz_service_settings *settings, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz__sqlite_transaction t;
    kz__service wanted;
    const char *name;
    kz_status status = kz__table_service(&s->params, settings->service, &name, err);
    if (status || (status = begin(s, &t, err)))
        return status;
    status = kz__sqlite_service(s, name, &t, err);
    if (status == KZ_NOT_FOUND)
        status = add_service(s, name, &t, err);
    if (status == KZ_OK)
        status = kz__service_with(&t.service, settings, &wanted, err);
    if (status == KZ_OK)
        status = set_service(s, &t, &wanted, err);
    return finish(s, &t, status, err);
}

/* A time that was answered is a time that must not come again, so it is written. */
static kz_status sqlite_now(void *ctx, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__sqlite_source *s = ctx;
    kz__sqlite_transaction t;
    kz_status status = begin(s, &t, err);
    if (status == KZ_OK)
        status = finish(s, &t, KZ_OK, err);
    if (status)
        return status;
    *source_ms = t.now_ms;
    *generation = t.generation;
    return KZ_OK;
}

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

/* Opens the file now, so that what is wrong with it is said at the start. */
static kz_status look_at(kz__sqlite_source *s, kz_layout *layout, kz_error *err)
{
    kz__sqlite_transaction t;
    kz_status status = kz__sqlite_enter(s, err);
    if (status)
        return status;
    *layout = s->params.layout;
    status = kz__sqlite_meta(s, &t, err);
    if (status == KZ_OK)
        status = kz__sqlite_service(s, s->params.service, &t, err);
    if (status == KZ_OK) {
        status = kz__table_layout_check(&s->params, &t.service, err);
        kz__service_layout(&t.service, layout);
    } else if (status == KZ_NOT_FOUND) {
        status = KZ_OK;
    }
    return kz__sqlite_leave(s, 0, status);
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
    s->clock = *options->clock;
    s->options = *options;
    int64_t timeout_ms = options->timeout_ms < 0 ? TIMEOUT_MAX_MS : options->timeout_ms;
    s->file.timeout_ms = timeout_ms < TIMEOUT_MIN_MS   ? TIMEOUT_MIN_MS
                         : timeout_ms > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS
                                                       : (int)timeout_ms;
    kz__sqlite_enlist(s);
    kz_layout layout = {0};
    status = kz__table_params_read(&url, options, NULL, &s->params, err);
    if (status == KZ_OK)
        status = set_path(s, url.body, err);
    if (status == KZ_OK && s->params.quarantine)
        s->file.embargo_ms = s->clock.wall_ns(s->clock.ctx) / KZ__NS_PER_MS + KZ__TWIN_LEASES * s->params.lease_ms;
    if (status == KZ_OK)
        status = look_at(s, &layout, err);
    if (status) {
        sqlite_close(s, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = KZ_SOURCE_SAME_HOST};
    *out = s;
    return KZ_OK;
}

const kz_source_ops kz__source_sqlite = {.struct_size = sizeof(kz_source_ops),
                                         .scheme = "sqlite",
                                         .open = sqlite_open,
                                         .acquire = sqlite_acquire,
                                         .release = sqlite_release,
                                         .now = sqlite_now,
                                         .list = kz__sqlite_list,
                                         .health = kz__sqlite_health,
                                         .group_begin = sqlite_group_begin,
                                         .group_commit = sqlite_group_commit,
                                         .configure = sqlite_configure,
                                         .close = sqlite_close};
