/* Running the scripts of sources/lua on a Redis server, and reading what they answer. */
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
} kz__redis_script;

#define KZ__REDIS_ARGS_MAX    320
#define KZ__REDIS_NUMBERS_MAX 16
#define KZ__REDIS_KEY_SIZE    (KZ__REDIS_PREFIX_MAX + KZ_SERVICE_SIZE + 32)

/* Lua counts in doubles. */
#define KZ__REDIS_NUMBER_MAX (INT64_C(1) << 52)

/* A script and its arguments, put together one by one. The texts must live until it has run; numbers are copied. */
typedef struct kz__redis_call {
    kz__redis_script script;
    const char *service; /* NULL: a script of the TSID slots */
    int count, number_count;
    const char *texts[KZ__REDIS_ARGS_MAX];
    char first[KZ_SERVICE_SIZE + 24], keys[2][KZ__REDIS_KEY_SIZE], numbers[KZ__REDIS_NUMBERS_MAX][24];
} kz__redis_call;

/* Begins a call. A script of the lease table has the service and our clock as its first argument. */
void kz__redis_call_table(kz__redis_call *call, kz__redis_script script, const char *prefix, const char *service,
                          int64_t wall_ms);
void kz__redis_call_slots(kz__redis_call *call, kz__redis_script script, const char *prefix);
void kz__redis_add(kz__redis_call *call, const char *text);
void kz__redis_add_number(kz__redis_call *call, int64_t number);
void kz__redis_add_layout(kz__redis_call *call, const kz_layout *layout); /* epoch, time, node and sequence bits */

/* Runs it. KZ_OK: an array of texts, the first of which is "OK" or a word that is the caller's to understand; what any
 * script may say is understood here. */
kz_status kz__redis_run(kz__redis_link *link, kz__redis_call *call, redisReply **reply, kz_error *err);

/* "<prefix><service>:<rest>", or "<prefix><rest>" for the service "default". */
void kz__redis_key(char key[static KZ__REDIS_KEY_SIZE], const char *prefix, const char *service, const char *rest);

/* All keys of a script must be on one node: KZ_INVALID if this is a cluster and the prefix has no {tag}. */
kz_status kz__redis_check_cluster(kz__redis_link *link, const char *prefix, kz_error *err);

/* Is this what the script said first? */
bool kz__redis_said(const redisReply *reply, const char *word);

/* An element of the answer: NULL or false if it is not there or not a number. */
const char *kz__redis_text(const redisReply *reply, size_t index);
bool kz__redis_number(const redisReply *reply, size_t index, int64_t min, int64_t max, int64_t *number);

/* The request's ID in hex; empty for none. */
#define KZ__REDIS_REQUEST_SIZE (2 * KZ_REQUEST_ID_SIZE + 1)
void kz__redis_request_text(const kz_acquire *request, char text[static KZ__REDIS_REQUEST_SIZE]);

#endif
