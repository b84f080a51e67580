/* A lease table in a store across a network, written as four functions over what core/part knows.
 *
 * How a far store is written. Its struct begins with a kz__far and its source opens with kz__far_init; the calls are
 * KZ__TABLE_SOURCE_CALLS, as for every table. It knows no rule: it brings rows, and takes their net change.
 *
 *   begin     one trip: locks (or notes the revision that commit will compare), reads the time, the service, and with
 *             kz__part_tell_... and kz__part_know_... all that the rules are likely to ask for: the ended rows and the
 *             free ranges beside them, those at the cursor and at its twin, the rows of the request.
 *   ask       one trip for a question that the part could not answer. Told the same way, and as of the same state.
 *   commit    one trip: kz__part_changes of each service, the services that are to be written, time and generation,
 *             all or nothing. KZ_AGAIN: somebody was faster, nothing is written. KZ_UNAVAILABLE: it is not known
 *             whether it was written; the request ID makes it safe to ask again.
 *   rollback  forgets the transaction. Also called after any of the others failed.
 *
 * Groups (many operations in one commit) are made here: the store sees one begin, further begins for the other
 * services, and one commit. The time of a group is that of its first begin. */
#ifndef KZ_SOURCES_FAR_TABLE_H
#define KZ_SOURCES_FAR_TABLE_H

#include "core/part.h"
#include "sources/table_source.h"

/* A service in the transaction under way. */
typedef struct kz__far_service {
    char name[KZ_SERVICE_SIZE];
    bool found;          /* the store has it. Then begin fills `service`, and tells the part */
    bool write;          /* commit stores `service`, and the part's heights with it */
    kz__service service; /* as it is to be; time, generation and place are the table's */
    kz__part *part;
} kz__far_service;

typedef struct kz__far kz__far;

typedef struct kz__far_store {
    /* Fills now_ms (of the store's clock, by kz__far_time), high_ms, generation and place of `t`, and the service if
     * one is asked for and there. `further`: the transaction is open already, and only the service is wanted. In a look
     * nothing is locked and the part is not told anything. */
    kz_status (*begin)(kz__far *f, const kz__table_ask *ask, bool further, kz__transaction *t, kz__far_service *service,
                       kz_error *err);
    kz_status (*ask)(kz__far *f, kz__far_service *service, const kz__part_question *question, kz_error *err);
    kz_status (*commit)(kz__far *f, const kz__transaction *t, kz__far_service *services, size_t count, kz_error *err);
    void (*rollback)(kz__far *f);
} kz__far_store;

struct kz__far {
    kz__table_source base;
    const kz__far_store *far;
    bool open;                 /* there is a transaction in the store */
    kz_error failed;           /* it can only be rolled back, and this is why */
    kz__transaction so_far;    /* of a group: time, generation and place after its last operation */
    kz__far_service *services; /* of the transaction: `count` of them; the others are kept for their memory */
    size_t count, room;
    kz__far_service *service; /* of the operation under way; NULL: none */
};

/* Reads the URL's parameters, as kz__table_source_init does. `page` and `health` are the store's own. */
kz_status kz__far_init(kz__far *f, const kz__far_store *far, const kz__table_store *store, const char *name,
                       const kz__url *url, const kz_source_options *options, const char *const *more, kz_error *err);
void kz__far_free(kz__far *f);

/* The calls of kz__table_store that are made here. */
kz_status kz__far_begin(kz__table_source *base, const kz__table_ask *ask, kz__transaction *t, kz_error *err);
kz__rows kz__far_rows(kz__table_source *base);
kz_status kz__far_commit(kz__table_source *base, kz__transaction *t, kz_error *err);
void kz__far_rollback(kz__table_source *base, kz_status why);
kz_status kz__far_group_begin(kz__table_source *base, kz_error *err);
kz_status kz__far_group_commit(kz__table_source *base, kz_error *err);

#define KZ__FAR_CALLS                                                                                                  \
    .begin = kz__far_begin, .rows = kz__far_rows, .commit = kz__far_commit, .rollback = kz__far_rollback,              \
    .group_begin = kz__far_group_begin, .group_commit = kz__far_group_commit

#endif
