/* Running the scripts of sources/lua on a Redis server, and reading what they answer. */
#include "sources/redis_scripts.h"
#include "core/error.h"
#include "core/table.h"
#include "sources/redis_lua.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT(name)                                                                                                   \
    {                                                                                                                  \
        lua_##name, lua_##name##_sha1                                                                                  \
    }
static const struct {
    const char *text, *sha1;
} scripts[] = {
    [KZ__REDIS_ACQUIRE] = SCRIPT(acquire), [KZ__REDIS_CONFIGURE] = SCRIPT(configure),
    [KZ__REDIS_LOOK] = SCRIPT(look),       [KZ__REDIS_RELEASE] = SCRIPT(release),
    [KZ__REDIS_NOW] = SCRIPT(now),         [KZ__REDIS_ADOPT] = SCRIPT(adopt),
    [KZ__REDIS_LIST] = SCRIPT(list),       [KZ__TSID_CLAIM] = SCRIPT(tsid_claim),
    [KZ__TSID_KEEP] = SCRIPT(tsid_keep),   [KZ__TSID_RELEASE] = SCRIPT(tsid_release),
    [KZ__TSID_LIST] = SCRIPT(tsid_list),
};

/* ------------------------------------------------------------------------------------------------- the question */

void kz__redis_add(kz__redis_call *call, const char *text)
{
    assert(call->count < KZ__REDIS_ARGS_MAX);
    call->texts[call->count++] = text;
}

void kz__redis_add_number(kz__redis_call *call, int64_t number)
{
    assert(call->number_count < KZ__REDIS_NUMBERS_MAX);
    char *text = call->numbers[call->number_count++];
    snprintf(text, sizeof call->numbers[0], "%" PRId64, number);
    kz__redis_add(call, text);
}

void kz__redis_add_layout(kz__redis_call *call, const kz_layout *layout)
{
    kz__redis_add_number(call, layout->epoch_ms);
    kz__redis_add_number(call, layout->time_bits);
    kz__redis_add_number(call, layout->node_bits);
    kz__redis_add_number(call, layout->seq_bits);
}

static void begin(kz__redis_call *call, kz__redis_script script, int keys)
{
    call->script = script;
    call->count = call->number_count = 0;
    call->service = NULL;
    kz__redis_add(call, "EVALSHA");
    kz__redis_add(call, scripts[script].sha1);
    kz__redis_add_number(call, keys);
    for (int i = 0; i < keys; i++)
        kz__redis_add(call, call->keys[i]);
}

void kz__redis_key(char key[static KZ__REDIS_KEY_SIZE], const char *prefix, const char *service, const char *rest)
{
    bool usual = strcmp(service, "default") == 0;
    snprintf(key, KZ__REDIS_KEY_SIZE, "%s%s%s%s", prefix, usual ? "" : service, usual ? "" : ":", rest);
}

void kz__redis_call_table(kz__redis_call *call, kz__redis_script script, const char *prefix, const char *service,
                          int64_t wall_ms)
{
    begin(call, script, 2);
    kz__redis_key(call->keys[0], prefix, service, "lease:service");
    kz__redis_key(call->keys[1], prefix, "default", "lease:services");
    call->service = service;
    snprintf(call->first, sizeof call->first, "%s %" PRId64, service, wall_ms);
    kz__redis_add(call, call->first);
}

void kz__redis_call_slots(kz__redis_call *call, kz__redis_script script, const char *prefix)
{
    begin(call, script, 1);
    snprintf(call->keys[0], sizeof call->keys[0], "%ssys:tsid:floor", prefix);
}

void kz__redis_request_text(const kz_acquire *request, char text[static KZ__REDIS_REQUEST_SIZE])
{
    static const uint8_t none[KZ_REQUEST_ID_SIZE];
    *text = '\0';
    for (size_t i = 0; memcmp(request->request_id, none, sizeof none) != 0 && i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", request->request_id[i]);
}

/* --------------------------------------------------------------------------------------------------- the answer */

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
static kz_status understand(kz__redis_link *link, const char *service, const redisReply *reply, kz_error *err)
{
    const char *name = kz__redis_link_name(link);
    const char *first = kz__redis_text(reply, 1), *second = kz__redis_text(reply, 2);
    if (!kz__redis_text(reply, 0))
        return kz__redis_unexpected(link, "a script", reply, err);
    if (kz__redis_said(reply, "NAME") && first)
        return kz__fail(err, KZ_MISMATCH,
                        "%s: the keys of service %s belong to service %.63s: choose another ?prefix=", name, service,
                        first);
    if (kz__redis_said(reply, "BACK") && first && second)
        return kz__fail(err, KZ_STORE,
                        "%s: the lease table of service %s went back in time (generation %.20s after %.20s): it was "
                        "flushed, or an older copy was restored. Stop all its users, wait until their leases have "
                        "ended, start again; ?amnesia=quarantine waits by itself",
                        name, service, first, second);
    if (kz__redis_said(reply, "NOSERVICE"))
        return kz__fail(err, KZ_NOT_FOUND, "%s: there is no service %s, and create=no says not to make one", name,
                        service);
    if (kz__redis_said(reply, "AHEAD") && first)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is %.20s ms ahead of what it has answered before, and this machine's does not "
                        "say the same: time never goes back, so nothing is done until one of the clocks is set right",
                        name, first);
    if (kz__redis_said(reply, "HEADLESS"))
        return kz__fail(err, KZ_STORE,
                        "%s: service %s has leases but no settings, so keys were lost: set maxmemory-policy noeviction "
                        "there, and start with another ?prefix= when all leases have ended",
                        name, service);
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

kz_status kz__redis_run(kz__redis_link *link, kz__redis_call *call, redisReply **out, kz_error *err)
{
    redisReply *reply = NULL;
    kz__redis_args args = {call->count, call->texts, NULL};
    kz_status status = kz__redis_send(link, &args, &reply, err);
    if (!status && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        freeReplyObject(reply);
        reply = NULL;
        call->texts[0] = "EVAL";
        call->texts[1] = scripts[call->script].text;
        status = kz__redis_send(link, &args, &reply, err);
    }
    if (!status)
        status = understand(link, call->service, reply, err);
    if (!status)
        *out = reply;
    else if (reply)
        freeReplyObject(reply);
    return status;
}
