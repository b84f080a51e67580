/* What the files of the TSID source share. */
#ifndef KZ_SOURCES_TSID_H
#define KZ_SOURCES_TSID_H

#include "core/idclock.h"
#include "sources/redis_source.h"

#define KZ__TSID_NODES     1024
#define KZ__TSID_NODE_BITS 10
#define KZ__TSID_TOKEN     KZ__REDIS_REQUEST_SIZE
#define KZ__TSID_KEY       (KZ__REDIS_PREFIX_MAX + 32)

/* A slot: node `node` for [start_ms, end_ms), under a token that nobody else has. It is the lease's secret too. */
typedef struct kz__tsid_slot {
    uint32_t node;
    int64_t start_ms, end_ms;
    char token[KZ__TSID_TOKEN];
    char value[KZ_HOLDER_SIZE + KZ__TSID_TOKEN + 64]; /* what its key says */
} kz__tsid_slot;

typedef struct kz__tsid {
    kz__redis_link *link;
    kz_layout layout;
    char prefix[KZ__REDIS_PREFIX_MAX + 1];
    int64_t ttl_ms, refresh_ms;
    const kz_clock *clock;
    kz_log_fn log;
    void *log_ctx;
    bool dev;                      /* Redis could not be reached, and a random node is used */
    uint32_t dev_node;             /* that one */
    char dev_why[KZ_MESSAGE_SIZE]; /* why it could not be reached */
    bool has_slot;
    kz__tsid_slot slot; /* the last one that was claimed or refreshed here: the one that is looked at */
    kz__line line;      /* the highest time answered so far: Redis' clock may be set back, its answers must not be */
    bool line_set;
} kz__tsid;

/* One line to whoever opened the source. */
void kz__tsid_log(const kz__tsid *source, kz_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* IDs a millisecond of one node. */
static inline uint32_t kz__tsid_throughput(const kz_layout *layout)
{
    return layout->seq_bits < 32 ? UINT32_C(1) << layout->seq_bits : UINT32_MAX;
}

/* KZ_UNAVAILABLE in dev mode: there is no table to look at. */
kz_status kz__tsid_reached(const kz__tsid *source, kz_error *err);

kz_status kz__tsid_acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err);
kz_status kz__tsid_release(void *source, const kz_release *release, kz_error *err);
kz_status kz__tsid_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err);
kz_status kz__tsid_list(void *source, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err);
kz_status kz__tsid_health(void *source, const char *service, kz_source_health *health, kz_error *err);

#endif
