/* What the files of the etcd source share. */
#ifndef KZ_SOURCES_ETCD_SOURCE_H
#define KZ_SOURCES_ETCD_SOURCE_H

#include "core/memory_rows.h"
#include "sources/etcd_link.h"
#include "sources/far_table.h"

#define KZ__ETCD_PREFIX_MAX 128

typedef struct kz__etcd {
    kz__far far;
    kz__etcd_link *link;
    char name[300]; /* for messages */
    char prefix[KZ__ETCD_PREFIX_MAX + 1];
    int64_t revision;        /* all reads of the attempt are of this one */
    int64_t head_revision;   /* of the header key: nobody wrote since. 0: there is none yet */
    int64_t began_ms;        /* this attempt */
    bool repeatable;         /* a commit whose end is not known may be begun anew: its request's rows tell */
    kz__memory_rows *listed; /* the rows of one service, for a listing's next pages */
    char listed_service[KZ_SERVICE_SIZE];
    int64_t listed_revision;
} kz__etcd;

extern const kz__far_store kz__etcd_store;

/* See kz__table_store. */
kz_status kz__etcd_count(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                         kz_error *err);
kz_status kz__etcd_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                        kz_lease_info *lines, size_t room, size_t *count, kz_error *err);
kz_status kz__etcd_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err);

#endif
