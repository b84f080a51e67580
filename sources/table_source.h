/* The one flow of every lease table: acquire, release, configure, now, list, health and groups, over a store.
 *
 * A store is rows in a transaction: it ends in a kz__table_store, and its source in a kz_source_ops with
 * KZ__TABLE_SOURCE_CALLS. Its own struct begins with a kz__table_source, which the flow gets as its ctx. */
#ifndef KZ_SOURCES_TABLE_SOURCE_H
#define KZ_SOURCES_TABLE_SOURCE_H

#include "core/find_block.h"
#include "core/place.h"
#include "sources/table_params.h"
#include "sources/table_time.h"

/* What a transaction is for, so that a far store can bring what the rules will want in one trip. */
typedef struct kz__table_ask {
    const char *service;       /* NULL: only the time is wanted */
    const kz_acquire *acquire; /* or NULL: its request's rows, the ended rows, free space */
    const kz_release *release; /* or NULL: its number's rows, and their twins */
    bool write;                /* false: a look, which locks nobody out and is never committed */
} kz__table_ask;

/* A transaction. begin fills it, the flow changes it, commit writes it. */
typedef struct kz__transaction {
    unsigned attempt;                /* 0; then how often somebody was faster */
    int64_t now_ms;                  /* the table's time, at or above high_ms. commit writes it as the highest */
    int64_t high_ms;                 /* the highest time that was written before */
    int64_t step_ms;                 /* the wall clock was set by this much since then; 0: it was not */
    uint64_t generation;             /* of the whole table */
    kz__place place;                 /* as it is kept. commit writes it */
    char place_name[KZ__PLACE_SIZE]; /* by begin: which copy of the store this is now; "": it cannot forget */
    unsigned place_passed;           /* by begin: how many took over since place.name; 0: it cannot tell */
    uint64_t place_generation;       /* by the flow: what a table that forgot what a caller holds goes on with */
    bool moved;                      /* by the flow: the place has changed, and what that led to is kept in any case */
    bool found;                      /* there is a service of that name */
    bool service_write;              /* by the flow: commit writes the service, which is new if it was not found */
    kz__service service;             /* as it is kept: high_ms and generation are the table's, and the flow's to set */
} kz__transaction;

typedef struct kz__table_source kz__table_source;

/* What a store does. After begin has given KZ_OK, either commit or rollback follows, and both end the transaction
 * whatever they give. Between begin and commit nothing may block on anything but the store: no other library, no lock
 * that a fork could leave locked. */
typedef struct kz__table_store {
    /* KZ_UNAVAILABLE: not now. A far store waits here when attempt > 0, and gives that once its time is over. */
    kz_status (*begin)(kz__table_source *s, const kz__table_ask *ask, kz__transaction *t, kz_error *err);
    /* The rows of the service that begin was asked for; none, if it was not found. */
    kz__rows (*rows)(kz__table_source *s);
    /* Makes rows, service, time and generation durable. KZ_AGAIN, from here or from the rows: somebody was faster,
     * nothing is written, the flow begins anew. Within a group: nothing is durable yet, and it cannot be undone any
     * more. */
    kz_status (*commit)(kz__table_source *s, kz__transaction *t, kz_error *err);
    /* `why` is what failed, KZ_OK after a look. */
    void (*rollback)(kz__table_source *s, kz_status why);
    /* Forgets services with the settings of `like`, but not the default nor one of its name, all of whose rows ended
     * before `before_ms`; *left is how many services there are then. NULL: there is no limit to them. */
    kz_status (*forget)(kz__table_source *s, const kz__service *like, int64_t before_ms, size_t *left, kz_error *err);
    /* In a look. The leases that are out, in the order of service and id, from there on: `room` of them, or as many as
     * there are. */
    kz_status (*page)(kz__table_source *s, const kz__transaction *t, const kz_list_from *from, kz_lease_info *lines,
                      size_t room, size_t *count, kz_error *err);
    /* In a look. Fills durable and note; for a service that was found leases_out and nodes_free too. NULL: nothing is
     * promised, and kz__table_source_count counts. */
    kz_status (*health)(kz__table_source *s, const kz__transaction *t, kz_source_health *health, kz_error *err);
    /* Acquires and releases between these become durable together. group_commit ends the group whatever it gives;
     * KZ_AGAIN: somebody was faster. NULL: the store has no groups. */
    kz_status (*group_begin)(kz__table_source *s, kz_error *err);
    kz_status (*group_commit)(kz__table_source *s, kz_error *err);
} kz__table_store;

struct kz__table_source {
    const kz__table_store *store;
    const char *name; /* for the log */
    kz__table_params params;
    kz_source_options options; /* its clock is `clock` */
    kz_clock clock;
    bool grouped;               /* between group_begin and group_commit */
    int64_t step_ms;            /* a step of the wall clock, to be logged when nothing is locked any more */
    char news[KZ_MESSAGE_SIZE]; /* and what a change of place led to */
    int64_t full_ms;            /* by the boot clock: when there was no room for another service; 0: never */
    kz_grant grant;
    uint8_t seq_bits; /* of the smallest blocks seen so far */
    size_t secret_count;
    char secrets[KZ_GRANT_LEASES_MAX][KZ_SECRET_SIZE];
};

/* Reads the URL's parameters (and those in `more`), and copies the options. */
kz_status kz__table_source_init(kz__table_source *s, const kz__table_store *store, const char *name, const kz__url *url,
                                const kz_source_options *options, const char *const *more, kz_error *err);

/* Looks at the table for the first time, so that what is wrong with it is said at the start: the layout of the service,
 * or the one it would get. */
kz_status kz__table_source_look(kz__table_source *s, kz_layout *layout, kz_error *err);

/* All of an open for a table that is found without an address: what is behind the colon must be empty. */
kz_status kz__table_source_open(void **out, size_t size, const kz__table_store *store, const char *name,
                                const char *url, const kz_source_options *options, uint32_t flags,
                                kz_source_facts *facts, kz_error *err);
void kz__table_source_close(void *ctx, bool forked); /* frees it */

kz_status kz__table_source_acquire(void *ctx, const kz_acquire *request, kz_grant *grant, kz_error *err);
kz_status kz__table_source_release(void *ctx, const kz_release *release, kz_error *err);
kz_status kz__table_source_configure(void *ctx, const kz_service_settings *settings, kz_error *err);
kz_status kz__table_source_reserve(void *ctx, const kz_reservation *reservation, kz_error *err);
kz_status kz__table_source_now(void *ctx, int64_t *source_ms, uint64_t *generation, kz_error *err);
kz_status kz__table_source_list(void *ctx, const kz_list_from *from, kz_lease_visit visit, void *visit_ctx,
                                kz_error *err);
kz_status kz__table_source_health(void *ctx, const char *service, kz_source_health *health, kz_error *err);
kz_status kz__table_source_group_begin(void *ctx, kz_error *err);
kz_status kz__table_source_group_commit(void *ctx, kz_error *err);

#define KZ__TABLE_SOURCE_CALLS                                                                                         \
    .struct_size = sizeof(kz_source_ops), .acquire = kz__table_source_acquire, .release = kz__table_source_release,    \
    .now = kz__table_source_now, .list = kz__table_source_list, .health = kz__table_source_health,                     \
    .group_begin = kz__table_source_group_begin, .group_commit = kz__table_source_group_commit,                        \
    .configure = kz__table_source_configure, .reserve = kz__table_source_reserve

/* Counts what is held and what could be granted now, row by row. Nothing for a service that was not found. */
kz_status kz__table_source_count(kz__table_source *s, const kz__transaction *t, kz_source_health *health,
                                 kz_error *err);

/* Puts the lines of what is reserved into a page of leases, where they belong; a full page loses as many at its end. */
void kz__page_add_reserved(const kz__service *service, const kz_list_from *from, int64_t now_ms, kz_lease_info *lines,
                           size_t room, size_t *count);

/* A line of a listing. `twin` is the row at the lease's first slot in the fallback half, or NULL. */
bool kz__row_is_listed(const kz__service *service, const kz__row *row, int64_t now_ms);
void kz__row_line(const kz__service *service, const kz__row *row, const kz__row *twin, int64_t now_ms,
                  kz_lease_info *line);

#endif
