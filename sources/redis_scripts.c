/* Running scripts on a Redis server, and reading what they answer. */
#include "sources/redis_scripts.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/table.h"
#include "sources/redis_lua_acquire.h"
#include "sources/redis_lua_table.h"
#include "sources/tsid_lua.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES_MAX 5

static const char *const pieces[KZ__REDIS_SCRIPTS][PIECES_MAX] = {
    [KZ__REDIS_ACQUIRE] = {lua_begin, lua_space, lua_new, lua_acquire, lua_grant},
    [KZ__REDIS_CONFIGURE] = {lua_begin, lua_new, lua_configure},
    [KZ__REDIS_LOOK] = {lua_begin, lua_space, lua_candidates, lua_look},
    [KZ__REDIS_RELEASE] = {lua_begin, lua_space, lua_candidates, lua_release},
    [KZ__REDIS_NOW] = {lua_begin, lua_now},
    [KZ__REDIS_ADOPT] = {lua_begin, lua_adopt},
    [KZ__REDIS_LIST] = {lua_begin, lua_space, lua_list},
    [KZ__TSID_CLAIM] = {tsid_begin, tsid_claim},
    [KZ__TSID_KEEP] = {tsid_begin, tsid_keep},
    [KZ__TSID_RELEASE] = {tsid_begin, tsid_release},
    [KZ__TSID_LIST] = {tsid_begin, tsid_list},
};

/* The scripts in one piece, with the hash that Redis knows them by. */
static struct {
    char *text;
    char sha1[41];
} scripts[KZ__REDIS_SCRIPTS];

static void join_scripts(void)
{
    for (size_t i = 0; i < KZ__REDIS_SCRIPTS; i++) {
        size_t size = 1;
        for (size_t p = 0; p < PIECES_MAX && pieces[i][p]; p++)
            size += strlen(pieces[i][p]);
        char *text = calloc(1, size);
        uint8_t hash[KZ__SHA1_SIZE];
        if (!text)
            continue;
        for (size_t p = 0; p < PIECES_MAX && pieces[i][p]; p++)
            strcat(text, pieces[i][p]);
        kz__sha1(text, size - 1, hash);
        for (size_t b = 0; b < sizeof hash; b++)
            snprintf(scripts[i].sha1 + 2 * b, 3, "%02x", hash[b]);
        scripts[i].text = text;
    }
}

const char *kz__redis_text(const redisReply *reply, size_t index)
{
    if (reply->type != REDIS_REPLY_ARRAY || index >= reply->elements)
        return NULL;
    const redisReply *element = reply->element[index];
    bool whole = element->type == REDIS_REPLY_STRING && strlen(element->str) == element->len;
    return whole ? element->str : NULL;
}

bool kz__redis_number(const redisReply *reply, size_t index, int64_t min, int64_t max, int64_t *number)
{
    const char *text = kz__redis_text(reply, index);
    if (!text || !*text || strspn(text, "-0123456789") != strlen(text))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end || value < min || value > max)
        return false;
    *number = value;
    return true;
}

bool kz__redis_said(const redisReply *reply, const char *word)
{
    const char *text = kz__redis_text(reply, 0);
    return text && strcmp(text, word) == 0;
}

/* The answers that any script may give. */
static kz_status understand(const kz__redis_link *link, const kz__redis_place *place, const redisReply *reply,
                            kz_error *err)
{
    const char *name = kz__redis_link_name(link);
    const char *first = kz__redis_text(reply, 1), *second = kz__redis_text(reply, 2);
    if (!kz__redis_text(reply, 0))
        return kz__redis_unexpected(link, "a script", reply, err);
    if (kz__redis_said(reply, "NAME") && first)
        return kz__fail(err, KZ_MISMATCH,
                        "%s: the keys of service %s belong to service %.63s: choose another ?prefix=", name,
                        place->service, first);
    if (kz__redis_said(reply, "BACK") && first && second)
        return kz__fail(err, KZ_STORE,
                        "%s: the lease table of service %s went back in time (generation %.20s after %.20s): it was "
                        "flushed, or an older copy was restored. Stop all its users, wait until their leases have "
                        "ended, start again; ?amnesia=quarantine waits by itself",
                        name, place->service, first, second);
    if (kz__redis_said(reply, "HEADLESS"))
        return kz__fail(err, KZ_STORE,
                        "%s: service %s has leases but no settings, so keys were lost: set maxmemory-policy noeviction "
                        "there, and start with another ?prefix= when all leases have ended",
                        name, place->service);
    return KZ_OK;
}

static bool has_tag(const char *prefix)
{
    const char *open = strchr(prefix, '{'), *close = open ? strchr(open, '}') : NULL;
    return close && close > open + 1;
}

/* A user who may not ask gets to know by the first script's failure. */
kz_status kz__redis_check_cluster(kz__redis_link *link, const char *prefix, kz_error *err)
{
    redisReply *reply = NULL;
    kz_status status =
        kz__redis_send(link, &(kz__redis_args){2, (const char *[]){"INFO", "cluster"}, NULL}, &reply, err);
    if (status)
        return status;
    if (reply->type == REDIS_REPLY_STRING) {
        if (strstr(reply->str, "cluster_enabled:1") && !has_tag(prefix))
            status = kz__fail(err, KZ_INVALID,
                              "%s is a cluster, where all keys that are used together must be on one node: add "
                              "?prefix={tag}: with a tag of your choice",
                              kz__redis_link_name(link));
    } else if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOPERM", 6) != 0) {
        status = kz__redis_unexpected(link, "INFO", reply, err);
    }
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_eval(kz__redis_link *link, kz__redis_script script, int key_count, const char *const *keys,
                         int count, const char *const *args, redisReply **out, kz_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, join_scripts);
    if (!scripts[script].text)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a script");

    char keys_text[12];
    snprintf(keys_text, sizeof keys_text, "%d", key_count);
    const char *texts[KZ__REDIS_ARGS_MAX] = {"EVALSHA", scripts[script].sha1, keys_text};
    int used = 3;
    if (key_count + count > KZ__REDIS_ARGS_MAX - used)
        return kz__fail(err, KZ_INVALID, "too many arguments for a script");
    for (int i = 0; i < key_count; i++)
        texts[used++] = keys[i];
    for (int i = 0; i < count; i++)
        texts[used++] = args[i];

    redisReply *reply = NULL;
    kz_status status = kz__redis_send(link, &(kz__redis_args){used, texts, NULL}, &reply, err);
    if (!status && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        freeReplyObject(reply);
        reply = NULL;
        texts[0] = "EVAL";
        texts[1] = scripts[script].text;
        status = kz__redis_send(link, &(kz__redis_args){used, texts, NULL}, &reply, err);
    }
    if (!status)
        *out = reply;
    return status;
}

kz_status kz__redis_run(kz__redis_link *link, kz__redis_script script, const kz__redis_place *place, int count,
                        const char *const *args, redisReply **out, kz_error *err)
{
    char service_key[KZ__REDIS_PREFIX_MAX + KZ_SERVICE_SIZE + 32], services_key[KZ__REDIS_PREFIX_MAX + 32];
    bool usual = strcmp(place->service, "default") == 0;
    snprintf(service_key, sizeof service_key, "%s%s%slease:service", place->prefix, usual ? "" : place->service,
             usual ? "" : ":");
    snprintf(services_key, sizeof services_key, "%slease:services", place->prefix);
    const char *texts[KZ__REDIS_ARGS_MAX] = {place->service};
    if (count > KZ__REDIS_ARGS_MAX - 1)
        return kz__fail(err, KZ_INVALID, "too many arguments for a script");
    for (int i = 0; i < count; i++)
        texts[1 + i] = args[i];

    redisReply *reply = NULL;
    const char *keys[] = {service_key, services_key};
    kz_status status = kz__redis_eval(link, script, 2, keys, 1 + count, texts, &reply, err);
    if (status)
        return status;
    status = understand(link, place, reply, err);
    if (status)
        freeReplyObject(reply);
    else
        *out = reply;
    return status;
}
