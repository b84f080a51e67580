/* An open lease file as a source, from the inside. */
#ifndef KZ_SOURCES_SQLITE_SOURCE_H
#define KZ_SOURCES_SQLITE_SOURCE_H

#include "sources/sqlite_file.h"
#include "sources/table_source.h"

#include <pthread.h>

typedef struct kz__sqlite_source {
    kz__table_source base;
    kz__sqlite file;
    kz__table_time time;  /* as the transaction will write it */
    uint64_t generation;  /* as it was written last */
    pthread_mutex_t lock; /* held in a transaction, and from the first to the last of a group */
    struct kz__sqlite_source *next;
} kz__sqlite_source;

/* sources/sqlite_fork.c: every call is made between enter and leave. Enter locks the source, with its file open; leave
 * is told what happened. */
kz_status kz__sqlite_prepare_for_fork(kz_error *err);
void kz__sqlite_enlist(kz__sqlite_source *s);
void kz__sqlite_delist(kz__sqlite_source *s);
kz_status kz__sqlite_enter(kz__sqlite_source *s, kz_error *err);
kz_status kz__sqlite_leave(kz__sqlite_source *s, kz_status status);
void kz__sqlite_hang_up(kz__sqlite_source *s); /* closes the connection, if it is this process's */

/* sources/sqlite_report.c */
kz_status kz__sqlite_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                          kz_lease_info *lines, size_t room, size_t *count, kz_error *err);
kz_status kz__sqlite_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err);

#endif
