/* Where the master is: sentinels watch Redis servers, promote a replica when the master is gone, and know which one. */
#include "core/error.h"
#include "sources/redis_link.h"

#include <stdio.h>
#include <string.h>

#define LEAST_MS 100

/* Its address, from two texts. False: they are none. */
static bool read_answer(const redisReply *reply, kz__redis_address *address)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return false;
    const redisReply *host = reply->element[0], *port = reply->element[1];
    if (host->type != REDIS_REPLY_STRING || port->type != REDIS_REPLY_STRING || !host->len || !port->len ||
        host->len >= sizeof address->host || port->len >= sizeof address->port ||
        strspn(port->str, "0123456789") != port->len)
        return false;
    snprintf(address->host, sizeof address->host, "%s", host->str);
    snprintf(address->port, sizeof address->port, "%s", port->str);
    snprintf(address->name, sizeof address->name, "%s://%s:%s/%u (%s)", address->tls ? "rediss" : "redis",
             address->host, address->port, address->db, address->master);
    return true;
}

static kz_status ask(const kz__redis_address *sentinel, kz__redis_address *address, kz_error *err)
{
    kz__redis_link *link = NULL;
    redisReply *reply = NULL;
    const char *texts[] = {"SENTINEL", "get-master-addr-by-name", address->master};
    kz_status status = kz__redis_link_new(&link, sentinel, err);
    if (!status)
        status = kz__redis_send(link, &(kz__redis_args){3, texts, NULL}, &reply, err);
    if (!status && reply->type == REDIS_REPLY_NIL)
        status = kz__fail(err, KZ_STORE, "%s knows no master called %s: see \"sentinel monitor\" in its configuration",
                          sentinel->name, address->master);
    else if (!status && reply->type == REDIS_REPLY_ERROR)
        status = kz__fail(err, KZ_STORE,
                          "%s refused: \"%.150s\": is it a sentinel, and does ?sentinel-password= say its password?",
                          sentinel->name, reply->str);
    else if (!status && !read_answer(reply, address))
        status = kz__fail(err, KZ_STORE, "%s does not answer with an address: is it a sentinel?", sentinel->name);
    if (reply)
        freeReplyObject(reply);
    kz__redis_link_free(link);
    return status;
}

kz_status kz__redis_find_master(kz__redis_address *address, kz_error *err)
{
    int64_t count = 1;
    for (const char *at = address->sentinels; (at = strchr(at, ',')); at++)
        count++;
    /* Their part of the time is the same for each, so that one that is silent does not take that of the others. */
    kz__redis_address sentinel = {
        .timeout_ms = address->timeout_ms / count, .tls = address->tls, .insecure = address->insecure};
    strcpy(sentinel.cacert, address->cacert);
    strcpy(sentinel.user, address->sentinel_user);
    strcpy(sentinel.password, address->sentinel_password);
    if (sentinel.timeout_ms < LEAST_MS)
        sentinel.timeout_ms = LEAST_MS;
    kz_error why = {0}, silence = {0};
    for (const char *at = address->sentinels; kz__redis_sentinel_next(&at, &sentinel);) {
        kz_error failure = {0};
        kz_status status = ask(&sentinel, address, &failure);
        if (status == KZ_OK) {
            explicit_bzero(&sentinel, sizeof sentinel);
            return KZ_OK;
        }
        *(status == KZ_UNAVAILABLE ? &silence : &why) = failure;
    }
    explicit_bzero(&sentinel, sizeof sentinel);
    if (why.status)
        return kz__fail(err, why.status, "%s", why.message);
    return kz__fail(err, KZ_UNAVAILABLE, "no sentinel of %s answers (%.150s)", address->sentinels, silence.message);
}
