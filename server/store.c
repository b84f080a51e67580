/* The store's thread: the only one that talks to the lease table. */
#include "server/store.h"
#include "server/store_work.h"

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

/* One piece of work for all who ask for the same. Its job stands in the queue for them. */
typedef struct shared {
    store_job job;
    bool queued;
    store_job *waiting, *served; /* those who came before it was begun are served by it */
} shared;

struct store {
    kz_source *source;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    store_job *first, **last;
    size_t waiting; /* all who do */
    bool closing;
    store_counts counts;
    shared shared[SHARED_KINDS];
    char *service; /* that the health is of */
    census_walk walk;
    store_census counted; /* the thread's own, until it is done; then */
    store_census census;
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
    if (kind == STORE_ACQUIRE)
        job->grant = calloc(1, sizeof *job->grant);
    if (!job->grant && kind == STORE_ACQUIRE) {
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

static void refuse(store_job *job, const char *why)
{
    job->status = job->err.status = KZ_UNAVAILABLE;
    snprintf(job->err.message, sizeof job->err.message, "%s", why);
}

/* True: it is done. */
static bool run_job(store *s, store_job *job)
{
    if (now_ns() - job->queued_ns <= WAIT_MAX_NS)
        return store_work(s->source, job);
    refuse(job, "the store is too slow: it did not get to this within 10 s");
    return true;
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

static void append(store *s, store_job *job)
{
    job->next = NULL;
    *s->last = job;
    s->last = &job->next;
}

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
    return first;
}

/* Whoever asked has gone. A lease that nobody hears of would only keep its node from others. */
static void refuse_all(store *s)
{
    for (size_t i = 0; i < SHARED_KINDS; i++) {
        store_job **end = &s->shared[i].waiting;
        while (*end)
            end = &(*end)->next;
        *end = s->shared[i].served;
    }
    store_job *lists[SHARED_KINDS + 1] = {s->first};
    for (size_t i = 0; i < SHARED_KINDS; i++)
        lists[i + 1] = s->shared[i].waiting;
    for (size_t i = 0; i <= SHARED_KINDS; i++)
        for (store_job *job = lists[i], *next; job; job = next) {
            next = job->next;
            if (!job->done) /* stands for those in another list */
                continue;
            refuse(job, "the server ends");
            job->done(job);
        }
}

/* A chain is done, or its one job wants another turn. The lock is held; the answers leave without it. */
static void finish(store *s, store_job *chain, int64_t ended_ns)
{
    for (store_job *job = chain; job; job = job->next) {
        count(s, job, ended_ns);
        s->waiting--;
    }
    pthread_mutex_unlock(&s->lock);
    for (store_job *job = chain, *next; job; job = next) {
        next = job->next;
        job->done(job);
    }
    pthread_mutex_lock(&s->lock);
}

/* The lock is held, but not while it works. */
static void run_shared(store *s, shared *of)
{
    if (!of->served) {
        of->served = of->waiting;
        of->waiting = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    of->job.status = KZ_OK;
    bool over = of->job.kind == STORE_CENSUS ? census_step(s->source, s->service, &s->walk, &s->counted)
                                             : store_work(s->source, &of->job);
    pthread_mutex_lock(&s->lock);
    store_job *served = over ? of->served : NULL;
    if (over && of->job.kind == STORE_CENSUS) {
        s->census = s->counted;
        of->job.status = s->counted.status;
        of->job.err = s->walk.err;
    }
    for (store_job *job = served; job; job = job->next) {
        job->status = of->job.status;
        job->err = of->job.err;
        job->health = of->job.health;
        job->source_ms = of->job.source_ms;
        job->generation = of->job.generation;
    }
    if (over)
        of->served = NULL;
    of->queued = !over || of->waiting;
    if (of->queued)
        append(s, &of->job);
    if (over)
        finish(s, served, now_ns());
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
        if (!chain->done) {
            run_shared(s, &s->shared[chain->kind - STORE_SHARED]);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        bool over = true;
        if (chain->next)
            run_group(s, chain);
        else
            over = run_job(s, chain);
        int64_t ended_ns = now_ns(); /* of all: none is answered before the group is durable */
        pthread_mutex_lock(&s->lock);
        if (over)
            finish(s, chain, ended_ns);
        else
            append(s, chain);
    }
    pthread_mutex_unlock(&s->lock);
    refuse_all(s);
    return NULL;
}

bool store_submit(store *s, store_job *job)
{
    job->queued_ns = now_ns();
    pthread_mutex_lock(&s->lock);
    bool taken = s->waiting < QUEUE_MAX && !s->closing;
    if (taken && job->kind >= STORE_SHARED) {
        shared *of = &s->shared[job->kind - STORE_SHARED];
        job->next = of->waiting;
        of->waiting = job;
        if (!of->queued)
            append(s, &of->job);
        of->queued = true;
    } else if (taken) {
        append(s, job);
    }
    s->waiting += taken;
    if (taken)
        pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return taken;
}

const char *store_url(const store *s)
{
    return kz_source_url(s->source);
}

void store_census_get(store *s, store_census *census)
{
    pthread_mutex_lock(&s->lock);
    *census = s->census;
    pthread_mutex_unlock(&s->lock);
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
        status = store_configure(s->source, &services[i], err);
        counts_of(&s->counts, services[i].name, true);
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    s->service = strdup(options->service);
    for (size_t i = 0; i < SHARED_KINDS; i++)
        s->shared[i].job.kind = (store_kind)(STORE_SHARED + i);
    if (status == KZ_OK && !s->service)
        status = KZ_NO_MEMORY;
    if (status == KZ_OK && pthread_create(&s->thread, NULL, work, s))
        status = KZ_SYSTEM;
    if (status) {
        kz_source_close(s->source);
        free(s->service);
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
    census_free(&s->walk);
    free(s->service);
    free(s);
}
