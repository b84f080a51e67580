/* What the store's thread does for one request. */
#ifndef KZ_SERVER_STORE_WORK_H
#define KZ_SERVER_STORE_WORK_H

#include "server/store.h"

/* Does a part of the job that takes a moment at most. False: it is not done yet, and wants another turn. */
bool store_work(kz_source *source, store_job *job);

kz_status store_configure(kz_source *source, const service_settings *service, kz_error *err);

/* ---- store_census.c: who has how many leases, counted a page at a time ---- */

typedef struct census_walk {
    char service[KZ_SERVICE_SIZE]; /* where the next page begins */
    uint32_t id;
    bool begun;
    size_t count, room;
    service_census *found; /* in the order of their names */
    kz_status status;
    kz_error err;
} census_walk;

/* One page. True: it is done, and `census` has the result. */
bool census_step(kz_source *source, const char *own_service, census_walk *walk, store_census *census);
void census_free(census_walk *walk);

#endif
