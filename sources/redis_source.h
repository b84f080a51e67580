/* What the files of the Redis source share. */
#ifndef KZ_SOURCES_REDIS_SOURCE_H
#define KZ_SOURCES_REDIS_SOURCE_H

#include "core/place.h"
#include "sources/redis_scripts.h"
#include "sources/table_params.h"

/* A server whose clock is further behind the highest time it answered grants nothing. */
#define KZ__REDIS_BEHIND_MS 1000

/* One whose clock is further ahead needs ours to say the same. */
#define KZ__REDIS_AHEAD_MS 86400000

/* The time alone is written down no more often than this. */
#define KZ__REDIS_LIGHT_MS 1000

/* KZ__ERA, as scripts count. */
#define KZ__REDIS_ERA INT64_C(4294967296)

#define KZ__REDIS_LIST_SERVICES 256 /* services that one script of a listing looks at */

/* A lease that another provider wrote there counts as out for so much longer: its holders go by their own clocks. */
#define KZ__REDIS_FOREIGN_MS 30000

/* The last state of a service's table that this source has seen: a store that shows an earlier one went back in time.
 */
typedef struct kz__redis_seen {
    struct kz__redis_seen *next;
    int64_t generation;
    char born[32];
    char service[KZ_SERVICE_SIZE];
} kz__redis_seen;

typedef struct kz__redis {
    kz__redis_link *link;
    kz__table_params params;
    char prefix[KZ__REDIS_PREFIX_MAX + 1];
    bool ready;       /* the server was looked at, and the service agrees with what is wanted */
    kz_layout layout; /* the service's, as far as known */
    kz__redis_seen *seen;
    kz_source_options options; /* its log is used; the clock is `clock` */
    kz_clock clock;
    int64_t aside_ms; /* until when a change of place counts, as it was logged last; 0: not */
} kz__redis;

/* The settings of a service as the store has them. */
typedef struct kz__redis_settings {
    bool exists;
    int64_t source_ms, generation, lease_ms, leases_out, leases_ended;
    int64_t foreign, foreign_node, foreign_until_ms; /* numbers that another provider holds, and one of them */
    kz_layout layout;
    kz__aside asides[KZ__ASIDES];
} kz__redis_settings;

/* Begins every call: `service` is what `asked` means, and the server and the source's own service are looked at once,
 * as soon as it can be reached. */
kz_status kz__redis_ready(kz__redis *source, const char *asked, const char **service, kz_error *err);

/* Reads the settings. With `adopt` the layout wanted must be the service's (KZ_MISMATCH), or becomes it if nothing was
 * granted yet. */
kz_status kz__redis_settings_read(kz__redis *source, const char *service, bool adopt, kz__redis_settings *settings,
                                  kz_error *err);

/* KZ_MISMATCH, from the script's answer "MISMATCH". */
kz_status kz__redis_mismatch(const kz__redis *source, const char *service, const redisReply *reply, kz_error *err);

/* What was seen of a service; NULL: no memory. */
kz__redis_seen *kz__redis_seen_of(kz__redis *source, const char *service, kz_error *err);

/* Begins a call of a script of the lease table. */
void kz__redis_call_of(kz__redis_call *call, kz__redis_script script, const kz__redis *source, const char *service);

/* What "OK" is followed by: the time, the generation and the birth of the table; until when a change of place counts,
 * which is logged when it is new. */
bool kz__redis_read_head(kz__redis *source, const redisReply *reply, kz__redis_seen *seen, int64_t *source_ms);

/* What the scripts that may make a service begin with: the settings of a new one, and what was seen before. */
void kz__redis_add_opening(kz__redis_call *call, const kz__redis *source, const kz__redis_seen *seen);

/* KZ_INVALID: more slots than Lua can count. */
kz_status kz__redis_slots_check(const kz_layout *layout, kz_error *err);

/* Whether what was granted survives a crash of the server, and if not, why and what to do. `instead`: what else helps
 * where it forgets everything, as the end of a sentence. */
kz_status kz__redis_durable(kz__redis_link *link, const char *instead, bool *durable, char *note, size_t room,
                            kz_error *err);

kz_status kz__redis_acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err);
kz_status kz__redis_release(void *source, const kz_release *release, kz_error *err);
kz_status kz__redis_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err);
kz_status kz__redis_list(void *source, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err);
kz_status kz__redis_configure(void *source, const kz_service_settings *settings, kz_error *err);
kz_status kz__redis_health(void *source, const char *service, kz_source_health *health, kz_error *err);

#endif
