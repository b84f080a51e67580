/* The store's thread: the only one that talks to the lease table. Requests wait in a queue; whatever waits together is
 * made durable together, and each answer leaves only after its own grant is. */
#ifndef KZ_SERVER_STORE_H
#define KZ_SERVER_STORE_H

#include "server/settings.h"

typedef struct store store;

typedef enum store_kind {
    STORE_ACQUIRE,
    STORE_RELEASE,
    STORE_LIST,
    STORE_CONFIGURE,
    /* The same for all who ask: those who wait together get one answer. */
    STORE_NOW,
    STORE_HEALTH,
    STORE_CENSUS, /* the answer is store_census_get's */
} store_kind;
#define STORE_SHARED STORE_NOW /* the first of those */
#define SHARED_KINDS (STORE_CENSUS + 1 - STORE_SHARED)

/* What a client did since its last report, by its own account. */
typedef struct usage {
    int64_t ids, fenced, unfenced, exhausted, clock_back;
} usage;
#define USED_MAX (INT64_C(1) << 53) /* in one report */

/* One request and its answer. The caller owns it until `done` was called, from the store's thread. */
typedef struct store_job {
    store_kind kind;
    /* Empty with STORE_RELEASE: every service is tried, the signature decides. With STORE_LIST: where it begins. */
    char service[KZ_SERVICE_SIZE];
    char from_service[KZ_SERVICE_SIZE + 1]; /* STORE_RELEASE without a service: where it goes on */
    uint32_t from_id;                       /* STORE_LIST */
    size_t lease_limit;                     /* STORE_LIST: lines wanted; 0: all */
    char holder[KZ_HOLDER_SIZE];
    kz_acquire acquire;
    kz_release release;
    char signature[KZ_SIGNATURE_SIZE];
    service_settings configure; /* STORE_CONFIGURE */
    usage used;                 /* STORE_ACQUIRE, STORE_RELEASE */
    /* the answer */
    kz_status status;
    kz_error err;
    kz_grant *grant;   /* STORE_ACQUIRE; freed with store_job_free */
    int64_t source_ms; /* STORE_NOW */
    uint64_t generation;
    kz_source_health health; /* STORE_HEALTH */
    kz_lease_info *leases;   /* STORE_LIST */
    size_t lease_count;
    int64_t queued_ns; /* when it came, by CLOCK_MONOTONIC */
    void (*done)(struct store_job *job);
    void *app, *reply; /* the caller's */
    struct store_job *next;
} store_job;

store_job *store_job_new(store_kind kind);
void store_job_free(store_job *job);

/* Tells the store each service's settings: one that has granted leases with another layout is KZ_MISMATCH. The health
 * is that of options->service. */
kz_status store_open(store **s, const char *url, const kz_options *options, const service_settings *services,
                     size_t service_count, kz_error *err);
/* Its URL, which may hold a password. */
const char *store_url(const store *s);
/* False: the queue is full (nothing was taken; answer 503 with Retry-After). */
bool store_submit(store *s, store_job *job);
/* Ends what is being done, refuses what waits for its turn (KZ_UNAVAILABLE), then closes. */
void store_close(store *s);

typedef struct service_counts {
    char service[KZ_SERVICE_SIZE];
    uint64_t acquired, acquire_refused, acquire_failed, released, release_refused, release_failed;
    struct {
        uint64_t ids, fenced, unfenced, exhausted, clock_back;
    } used; /* of clients, as they told */
} service_counts;

/* What the last census found, in the order of size. */
#define CENSUS_MAX 100 /* services with a line of their own; the rest are "other" */
typedef struct service_census {
    char service[KZ_SERVICE_SIZE];
    uint64_t leases;
    int64_t oldest_ms;          /* when the oldest of them began; INT64_MAX: not known */
    uint64_t nodes, nodes_free; /* that can be leased, and those that are not out */
    uint64_t slots_taken;       /* while counting */
    uint8_t seq_bits;
} service_census;

typedef struct store_census {
    kz_status status;
    size_t count;
    service_census services[CENSUS_MAX + 1];
    char own_service[KZ_SERVICE_SIZE]; /* that the server mints for, */
    kz_source_health health;           /* and its health */
} store_census;
void store_census_get(store *s, store_census *census);

#define COUNTED_MAX 100 /* services with a line of their own: those that came first */
_Static_assert(COUNTED_MAX > SERVICES_MAX, "the default and all of the file");

/* For metrics; thread-safe. */
typedef struct store_counts {
    service_counts services[COUNTED_MAX + 1]; /* one more, "other", for all that have no line of their own */
    size_t service_count;
    uint64_t queue_now;
    uint64_t latency_count; /* of jobs */
    double latency_sum_s;
    uint64_t latency_buckets[10]; /* 0.5, 1, 2, 5, 10, 20, 50, 100, 500 ms, more */
} store_counts;
void store_counts_get(store *s, store_counts *counts);
extern const double store_bucket_s[9];

#endif
