/* Running scripts on a Redis server, and reading what they answer. */
#ifndef KZ_SOURCES_REDIS_SCRIPTS_H
#define KZ_SOURCES_REDIS_SCRIPTS_H

#include "sources/redis_link.h"

typedef enum kz__redis_script {
    KZ__REDIS_ACQUIRE,
    KZ__REDIS_CONFIGURE,
    KZ__REDIS_LOOK,
    KZ__REDIS_RELEASE,
    KZ__REDIS_NOW,
    KZ__REDIS_ADOPT,
    KZ__REDIS_LIST,
    KZ__TSID_CLAIM,
    KZ__TSID_KEEP,
    KZ__TSID_RELEASE,
    KZ__TSID_LIST,
    KZ__REDIS_SCRIPTS
} kz__redis_script;

#define KZ__REDIS_ARGS_MAX 320

/* What a call is about: the keys that its script starts from. */
typedef struct kz__redis_place {
    const char *prefix, *service;
} kz__redis_place;

/* Runs a script, whatever it answers. */
kz_status kz__redis_eval(kz__redis_link *link, kz__redis_script script, int key_count, const char *const *keys,
                         int count, const char *const *args, redisReply **reply, kz_error *err);

/* Runs a script of the lease table; its first argument is always the service. KZ_OK: an array of texts, the first of
 * which is "OK" or a word that is the caller's to understand. */
kz_status kz__redis_run(kz__redis_link *link, kz__redis_script script, const kz__redis_place *place, int count,
                        const char *const *args, redisReply **reply, kz_error *err);

/* All keys of a script must be on one node: KZ_INVALID if this is a cluster and the prefix has no {tag}. */
kz_status kz__redis_check_cluster(kz__redis_link *link, const char *prefix, kz_error *err);

/* Is this what the script said first? */
bool kz__redis_said(const redisReply *reply, const char *word);

/* An element of the answer: NULL or false if it is not there or not a number. */
const char *kz__redis_text(const redisReply *reply, size_t index);
bool kz__redis_number(const redisReply *reply, size_t index, int64_t min, int64_t max, int64_t *number);

#endif
