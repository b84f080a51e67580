/* An open lease file as a source, from the inside. */
#ifndef KZ_SOURCES_SQLITE_SOURCE_H
#define KZ_SOURCES_SQLITE_SOURCE_H

#include "sources/lease_table.h"
#include "sources/sqlite_file.h"

#include <pthread.h>

typedef struct kz__sqlite_source {
    kz__sqlite file;
    kz__table_params params;
    kz_source_options options;
    kz_clock clock;
    pthread_mutex_t lock;
    bool grouped; /* inside a transaction of several calls; the lock is held from its first to its last */
    struct kz__sqlite_source *next;
    kz_grant grant;
} kz__sqlite_source;

typedef struct kz__sqlite_transaction {
    kz__table_time time;
    int64_t now_ms, step_ms, embargo_ms;
    uint64_t generation;
    kz__service service;
} kz__sqlite_transaction;

/* sources/sqlite_fork.c: every call is made between enter and leave. Enter locks the source, with its file open; leave
 * gives the status back. */
kz_status kz__sqlite_prepare_for_fork(kz_error *err);
void kz__sqlite_enlist(kz__sqlite_source *s);
void kz__sqlite_delist(kz__sqlite_source *s);
kz_status kz__sqlite_enter(kz__sqlite_source *s, kz_error *err);
kz_status kz__sqlite_leave(kz__sqlite_source *s, int64_t step_ms, kz_status status);
void kz__sqlite_hang_up(kz__sqlite_source *s); /* closes the connection, if it is this process's */

/* sources/sqlite.c: reads the table's time, and a service (KZ_NOT_FOUND: there is none of that name). */
kz_status kz__sqlite_meta(kz__sqlite_source *s, kz__sqlite_transaction *t, kz_error *err);
kz_status kz__sqlite_service(kz__sqlite_source *s, const char *name, kz__sqlite_transaction *t, kz_error *err);

/* sources/sqlite_report.c */
kz_status kz__sqlite_list(void *ctx, const kz_list_from *from, kz_lease_visit visit, void *visit_ctx, kz_error *err);
kz_status kz__sqlite_health(void *ctx, const char *asked, kz_source_health *health, kz_error *err);

#endif
