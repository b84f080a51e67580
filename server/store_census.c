/* The census: how many leases each service has out, for the metrics. The table is walked a page at a time, and whoever
 * wants a lease comes between the pages; all who ask meanwhile share one walk. */
#include "server/store_work.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_LINES    256
#define SERVICES_KEPT 8192 /* beyond that they are counted together */

typedef struct page {
    census_walk *walk;
    size_t lines;
} page;

static service_census *service_of(census_walk *w, const char *name)
{
    if (w->count && strcmp(w->found[w->count - 1].service, name) == 0)
        return &w->found[w->count - 1];
    if (w->count == SERVICES_KEPT)
        return &w->found[w->count - 1];
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        service_census *grown = realloc(w->found, room * sizeof *grown);
        if (!grown)
            return NULL;
        w->found = grown;
        w->room = room;
    }
    service_census *new = &w->found[w->count++];
    *new = (service_census){.oldest_ms = INT64_MAX};
    strcpy(new->service, name);
    return new;
}

/* Nodes are counted in the blocks of the line before: the usual ones, but for those from before a change. */
static bool count_line(void *ctx, const kz_lease_info *info)
{
    page *p = ctx;
    census_walk *w = p->walk;
    strcpy(w->service, info->service);
    w->id = info->id + 1;
    service_census *of = service_of(w, info->service);
    if (!of) {
        w->status = KZ_NO_MEMORY;
        return false;
    }
    if (info->node_bits) {
        of->nodes = UINT64_C(1) << (info->node_bits - 1);
        of->seq_bits = info->seq_bits;
    }
    of->slots_taken += (uint64_t)info->nodes << info->seq_bits;
    if (info->kind == KZ_LINE_LEASE) {
        of->leases++;
        if (info->created_ms && info->created_ms < of->oldest_ms)
            of->oldest_ms = info->created_ms;
    }
    return ++p->lines < PAGE_LINES;
}

static int more_leases_first(const void *a, const void *b)
{
    const service_census *one = a, *other = b;
    if (one->leases != other->leases)
        return one->leases > other->leases ? -1 : 1;
    return strcmp(one->service, other->service);
}

/* The largest by name, the rest as one; a service that is called so is among them. */
static void publish(census_walk *w, store_census *census)
{
    service_census rest = {.service = "other", .oldest_ms = INT64_MAX};
    for (size_t i = 0; i < w->count; i++) {
        uint64_t taken = w->found[i].slots_taken >> w->found[i].seq_bits;
        w->found[i].nodes_free = w->found[i].nodes > taken ? w->found[i].nodes - taken : 0;
    }
    qsort(w->found, w->count, sizeof *w->found, more_leases_first);
    census->count = 0;
    for (size_t i = 0; i < w->count; i++) {
        const service_census *of = &w->found[i];
        if (census->count < CENSUS_MAX && strcmp(of->service, rest.service) != 0) {
            census->services[census->count++] = *of;
            continue;
        }
        rest.leases += of->leases;
        rest.nodes += of->nodes;
        rest.nodes_free += of->nodes_free;
        rest.oldest_ms = of->oldest_ms < rest.oldest_ms ? of->oldest_ms : rest.oldest_ms;
    }
    if (rest.nodes || rest.leases)
        census->services[census->count++] = rest;
}

/* The service that the server mints for is there without a lease too. */
static kz_status begin_walk(kz_source *source, const char *own_service, census_walk *w, store_census *census)
{
    w->begun = true;
    w->count = 0;
    *w->service = '\0';
    w->id = 0;
    w->status = kz_source_health_get(source, &census->health, &w->err);
    strcpy(census->own_service, own_service);
    return w->status;
}

bool census_step(kz_source *source, const char *own_service, census_walk *w, store_census *census)
{
    page p = {.walk = w};
    if (!w->begun && begin_walk(source, own_service, w, census) == KZ_OK)
        return false;
    kz_list_from from = {.service = w->service, .id = w->id};
    char service[KZ_SERVICE_SIZE];
    strcpy(service, w->service);
    from.service = service;
    if (w->status == KZ_OK) {
        kz_status status = kz_source_list_from(source, &from, count_line, &p, &w->err);
        w->status = w->status ? w->status : status;
    }
    if (w->status == KZ_OK && p.lines == PAGE_LINES)
        return false;
    w->begun = false;
    census->status = w->status;
    if (w->status == KZ_OK)
        publish(w, census);
    return true;
}

void census_free(census_walk *walk)
{
    free(walk->found);
}
