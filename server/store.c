/* The store's thread: the only one that talks to the lease table. */
#include "server/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUEUE_MAX   4096
#define GROUP_TRIES 100 /* when other servers use the table too */
#define GROUP_MAX   64  /* jobs made durable together */
/* In the queue. A store that hangs keeps each job for seconds, and those behind it for the sum of them. */
#define WAIT_MAX_NS INT64_C(10000000000)

const double store_bucket_s[9] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5};

struct store {
    kz_source *source;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    store_job *first, **last;
    size_t waiting;
    bool closing;
    store_counts counts;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

store_job *store_job_new(store_kind kind)
{
    store_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->kind = kind;
    if (kind == STORE_ACQUIRE || kind == STORE_NOW)
        job->grant = calloc(1, sizeof *job->grant);
    if (!job->grant && (kind == STORE_ACQUIRE || kind == STORE_NOW)) {
        free(job);
        return NULL;
    }
    return job;
}

void store_job_free(store_job *job)
{
    if (!job)
        return;
    free(job->grant);
    free(job->leases);
    free(job);
}

/* ------------------------------------------------------------------------------------------------------- the work */

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

typedef struct found {
    kz_lease_info line;
    bool any;
} found;

static bool take_one(void *ctx, const kz_lease_info *info)
{
    found *f = ctx;
    f->line = *info;
    f->any = true;
    return false;
}

/* The first lease from there on. */
static kz_status look(store *s, const char *service, uint32_t id, found *f, kz_error *err)
{
    f->any = false;
    return kz_source_list_from(s->source, &(kz_list_from){service, id}, take_one, f, err);
}

/* A release that names no service: each that has the node out is tried, and the signature decides. A lease that has
 * ended is not listed, but may have a twin to give back: for that the default is tried first. */
static kz_status release_somewhere(store *s, store_job *job)
{
    job->release.service = "default";
    kz_status status = kz_source_release(s->source, &job->release, &job->err);
    char service[KZ_SERVICE_SIZE] = "";
    uint32_t from_id = 0;
    while (status == KZ_FORBIDDEN || status == KZ_NOT_FOUND) {
        kz_error err;
        found next = {0}, lease = {0};
        kz_status listed = look(s, service, from_id, &next, &err);
        if (!listed && next.any)
            listed = look(s, next.line.service, job->release.id, &lease, &err);
        if (listed) {
            job->err = err;
            return listed;
        }
        if (!next.any)
            return status;
        strcpy(service, next.line.service);
        from_id = UINT32_MAX; /* the next service */
        if (!lease.any || lease.line.id != job->release.id || strcmp(lease.line.service, service) != 0)
            continue;
        job->release.service = service;
        kz_status other = kz_source_release(s->source, &job->release, &err);
        /* A wrong signature says more than no such lease. */
        if (other != KZ_NOT_FOUND) {
            status = other;
            job->err = err;
        }
    }
    if (status == KZ_OK)
        strcpy(job->service, job->release.service); /* whose it was */
    return status;
}

static kz_status configure(store *s, const service_settings *service, kz_error *err)
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
    return kz_source_configure(s->source, &wanted, err);
}

static void refuse(store_job *job, const char *why)
{
    job->status = job->err.status = KZ_UNAVAILABLE;
    snprintf(job->err.message, sizeof job->err.message, "%s", why);
}

static void run_job(store *s, store_job *job)
{
    if (now_ns() - job->queued_ns > WAIT_MAX_NS) {
        refuse(job, "the store is too slow: it did not get to this within 10 s");
        return;
    }
    switch (job->kind) {
    case STORE_ACQUIRE:
        job->acquire.service = job->service;
        job->acquire.holder = job->holder;
        job->status = kz_source_acquire(s->source, &job->acquire, job->grant, &job->err);
        break;
    case STORE_RELEASE:
        job->release.service = job->service;
        job->release.signature = job->signature;
        job->status =
            *job->service ? kz_source_release(s->source, &job->release, &job->err) : release_somewhere(s, job);
        break;
    case STORE_NOW:
        job->status = kz_source_now(s->source, &job->grant->source_ms, &job->grant->generation, &job->err);
        break;
    case STORE_LIST: {
        kz_list_from from = {job->service, job->from_id};
        kz_status status = kz_source_list_from(s->source, &from, collect, job, &job->err);
        job->status = job->status ? job->status : status;
        break;
    }
    case STORE_HEALTH:
        job->status = kz_source_health_get(s->source, &job->health, &job->err);
        break;
    case STORE_CONFIGURE:
        job->status = configure(s, &job->configure, &job->err);
        break;
    }
}

static bool can_be_grouped(const store_job *job)
{
    return job->kind == STORE_ACQUIRE || (job->kind == STORE_RELEASE && *job->service);
}

/* A chain of jobs in one transaction. If it cannot be made durable, none of their answers counts; if another server was
 * faster, all of it is made anew. */
static void run_group(store *s, store_job *first)
{
    kz_error err = {0};
    kz_status status = KZ_AGAIN;
    for (int tries = 0; status == KZ_AGAIN && tries < GROUP_TRIES; tries++) {
        status = kz_source_group_begin(s->source, &err);
        for (store_job *job = first; job && status == KZ_OK; job = job->next)
            run_job(s, job);
        if (status == KZ_OK)
            status = kz_source_group_commit(s->source, &err);
    }
    if (status == KZ_AGAIN)
        status = KZ_UNAVAILABLE;
    for (store_job *job = first; job && status; job = job->next) {
        job->status = status;
        job->err = err;
    }
}

/* --------------------------------------------------------------------------------------------------- the accounts */

static service_counts *counts_find(store_counts *c, const char *service)
{
    for (size_t i = 0; i < c->service_count; i++)
        if (strcmp(c->services[i].service, service) == 0)
            return &c->services[i];
    return NULL;
}

/* Anybody can ask for a service of any name, and names become labels: one that the store has never had a lease or a
 * setting of gets no line of its own. */
static service_counts *counts_of(store_counts *c, const char *service, bool exists)
{
    service_counts *of = counts_find(c, service);
    if (!of && (!exists || c->service_count >= COUNTED_MAX)) {
        service = "other";
        of = counts_find(c, service);
    }
    if (!of) {
        of = &c->services[c->service_count++];
        strcpy(of->service, service);
    }
    return of;
}

static void count_used(service_counts *of, const usage *used)
{
    of->used.ids += (uint64_t)used->ids;
    of->used.fenced += (uint64_t)used->fenced;
    of->used.unfenced += (uint64_t)used->unfenced;
    of->used.exhausted += (uint64_t)used->exhausted;
    of->used.clock_back += (uint64_t)used->clock_back;
}

static void count(store *s, const store_job *job, int64_t ended_ns)
{
    store_counts *c = &s->counts;
    bool refused = job->status == KZ_NO_FREE_NODE || job->status == KZ_INVALID || job->status == KZ_CONFLICT ||
                   job->status == KZ_NOT_FOUND || job->status == KZ_FORBIDDEN;
    if (job->kind == STORE_ACQUIRE || job->kind == STORE_RELEASE) {
        service_counts *of = counts_of(c, *job->service ? job->service : "default", job->status == KZ_OK);
        if (job->kind == STORE_ACQUIRE)
            ++*(job->status == KZ_OK ? &of->acquired : refused ? &of->acquire_refused : &of->acquire_failed);
        else
            ++*(job->status == KZ_OK ? &of->released : refused ? &of->release_refused : &of->release_failed);
        if (job->status == KZ_OK) /* else the client tells it again */
            count_used(of, &job->used);
    }
    if (job->kind == STORE_CONFIGURE && job->status == KZ_OK)
        counts_of(c, job->configure.name, true);
    double took_s = (double)(ended_ns - job->queued_ns) / 1e9;
    size_t bucket = 0;
    while (bucket < 9 && took_s > store_bucket_s[bucket])
        bucket++;
    c->latency_buckets[bucket]++;
    c->latency_sum_s += took_s;
    c->latency_count++;
}

void store_counts_get(store *s, store_counts *counts)
{
    pthread_mutex_lock(&s->lock);
    *counts = s->counts;
    counts->queue_now = s->waiting;
    pthread_mutex_unlock(&s->lock);
}

/* ----------------------------------------------------------------------------------------------------- the thread */

/* The next job, with those behind it that can go into the same transaction. The lock is held. */
static store_job *take(store *s)
{
    store_job *first = s->first, *end = first;
    size_t taken = 1;
    while (can_be_grouped(first) && end->next && can_be_grouped(end->next) && taken < GROUP_MAX) {
        end = end->next;
        taken++;
    }
    s->first = end->next;
    end->next = NULL;
    if (!s->first)
        s->last = &s->first;
    s->waiting -= taken;
    return first;
}

/* Whoever asked has gone. A lease that nobody hears of would only keep its node from others. */
static void refuse_all(store *s)
{
    for (store_job *job = s->first, *next; job; job = next) {
        next = job->next;
        refuse(job, "the server ends");
        job->done(job);
    }
}

static void *work(void *arg)
{
    store *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        if (!s->first) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        store_job *chain = take(s);
        pthread_mutex_unlock(&s->lock);
        if (chain->next)
            run_group(s, chain);
        else
            run_job(s, chain);
        int64_t ended_ns = now_ns(); /* of all: none is answered before the group is durable */
        pthread_mutex_lock(&s->lock);
        for (store_job *job = chain; job; job = job->next)
            count(s, job, ended_ns);
        pthread_mutex_unlock(&s->lock);
        for (store_job *job = chain, *next; job; job = next) {
            next = job->next;
            job->done(job);
        }
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    refuse_all(s);
    return NULL;
}

bool store_submit(store *s, store_job *job)
{
    job->next = NULL;
    job->queued_ns = now_ns();
    pthread_mutex_lock(&s->lock);
    bool taken = s->waiting < QUEUE_MAX && !s->closing;
    if (taken) {
        *s->last = job;
        s->last = &job->next;
        s->waiting++;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return taken;
}

kz_status store_open(store **out, const char *url, const kz_options *options, const service_settings *services,
                     size_t service_count, kz_error *err)
{
    store *s = calloc(1, sizeof *s);
    kz_status status = s ? kz_source_open(&s->source, url, options, err) : KZ_NO_MEMORY;
    if (status) {
        free(s);
        return status;
    }
    counts_of(&s->counts, "default", true);
    for (size_t i = 0; i < service_count && status == KZ_OK; i++) {
        status = configure(s, &services[i], err);
        counts_of(&s->counts, services[i].name, true);
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    if (status == KZ_OK && pthread_create(&s->thread, NULL, work, s))
        status = KZ_SYSTEM;
    if (status) {
        kz_source_close(s->source);
        free(s);
        return status;
    }
    *out = s;
    return KZ_OK;
}

void store_close(store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    kz_source_close(s->source);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
