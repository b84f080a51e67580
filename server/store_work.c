/* What the store's thread does for one request, over the library's calls. */
#include "server/store_work.h"

#include <stdlib.h>
#include <string.h>

#define RELEASE_TRIES 16  /* services in one turn of a release that names none */
#define RELEASE_LINES 256 /* lines looked at in one turn, where the store cannot look by node */

static bool collect(void *ctx, const kz_lease_info *info)
{
    store_job *job = ctx;
    if ((job->lease_count & (job->lease_count - 1)) == 0) {
        size_t room = job->lease_count ? 2 * job->lease_count : 1;
        kz_lease_info *grown = realloc(job->leases, room * sizeof *grown);
        if (!grown) {
            job->status = KZ_NO_MEMORY;
            return false;
        }
        job->leases = grown;
    }
    job->leases[job->lease_count++] = *info;
    return job->lease_count != job->lease_limit;
}

/* Services that have a node out, from one on. */
typedef struct holders {
    uint32_t id;
    size_t lines, count;
    char last[KZ_SERVICE_SIZE];
    char names[RELEASE_TRIES][KZ_SERVICE_SIZE];
} holders;

static bool note_holder(void *ctx, const kz_lease_info *info)
{
    holders *h = ctx;
    strcpy(h->last, info->service);
    if (info->id == h->id && info->kind == KZ_LINE_LEASE)
        strcpy(h->names[h->count++], info->service);
    return ++h->lines < RELEASE_LINES && h->count < RELEASE_TRIES;
}

/* A wrong signature says more than no such lease. True: there is nothing more to try. */
static bool try_release(kz_source *source, store_job *job, const char *service)
{
    kz_error err = {0};
    job->release.service = service;
    kz_status status = kz_source_release(source, &job->release, &err);
    if (status != KZ_NOT_FOUND || job->status == KZ_OK) {
        job->status = status;
        job->err = err;
    }
    if (status == KZ_OK)
        strcpy(job->service, service); /* whose it was */
    return status != KZ_FORBIDDEN && status != KZ_NOT_FOUND;
}

/* A release that names no service: each that has the node out is tried, and the signature decides. A lease that has
 * ended is not listed, but may have a twin to give back: for that the default is tried first. Some services in each
 * turn, so that others are served between them. */
static bool release_somewhere(kz_source *source, store_job *job)
{
    holders found = {.id = job->release.id};
    kz_error err = {0};
    if (!*job->from_service && try_release(source, job, "default"))
        return true;
    kz_list_from from = {.service = job->from_service, .id = job->release.id, .only_id = true};
    kz_status listed = kz_source_list_from(source, &from, note_holder, &found, &err);
    if (listed) {
        job->status = listed;
        job->err = err;
        return true;
    }
    bool over = found.lines < RELEASE_LINES && found.count < RELEASE_TRIES, hit = false;
    kz_status status = kz_source_group_begin(source, &err); /* one lock for all of them */
    for (size_t i = 0; i < found.count && !status && !hit; i++)
        hit = strcmp(found.names[i], "default") != 0 && try_release(source, job, found.names[i]);
    if (status == KZ_OK)
        status = kz_source_group_commit(source, &err);
    if (status == KZ_AGAIN) /* another server was faster */
        return false;
    if (status) {
        job->status = status;
        job->err = err;
    }
    if (status || hit)
        return true;
    strcpy(job->from_service, found.last);
    strcat(job->from_service, "\x01"); /* behind it, and before any other */
    return over;
}

kz_status store_configure(kz_source *source, const service_settings *service, kz_error *err)
{
    kz_layout layout;
    kz_status status = *service->layout ? kz_layout_parse(service->layout, &layout, err) : KZ_OK;
    if (status)
        return status;
    kz_service_settings wanted = {.service = service->name,
                                  .layout = *service->layout ? &layout : NULL,
                                  .lease_ms = service->lease_ms,
                                  .max_throughput = service->max_throughput,
                                  .high_blocks = service->high_blocks ? 1 : -1};
    return kz_source_configure(source, &wanted, err);
}

bool store_work(kz_source *source, store_job *job)
{
    switch (job->kind) {
    case STORE_ACQUIRE:
        job->acquire.service = job->service;
        job->acquire.holder = job->holder;
        job->status = kz_source_acquire(source, &job->acquire, job->grant, &job->err);
        return true;
    case STORE_RELEASE:
        job->release.signature = job->signature;
        if (!*job->service)
            return release_somewhere(source, job);
        job->release.service = job->service;
        job->status = kz_source_release(source, &job->release, &job->err);
        return true;
    case STORE_LIST: {
        kz_list_from from = {.service = job->service, .id = job->from_id};
        kz_status status = kz_source_list_from(source, &from, collect, job, &job->err);
        job->status = job->status ? job->status : status;
        return true;
    }
    case STORE_CONFIGURE:
        job->status = store_configure(source, &job->configure, &job->err);
        return true;
    case STORE_NOW:
        job->status = kz_source_now(source, &job->source_ms, &job->generation, &job->err);
        return true;
    case STORE_HEALTH:
        job->status = kz_source_health_get(source, &job->health, &job->err);
        return true;
    case STORE_CENSUS:
        break;
    }
    return true;
}
