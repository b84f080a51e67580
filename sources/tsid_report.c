/* The TSID slots, looked at from outside: who holds which, and what the server can promise. */
#include "core/error.h"
#include "sources/tsid.h"

#include <stdio.h>
#include <string.h>

/* Before the slots: the word, the time, how many are free. */
#define ANSWER_HEAD 3
#define ANSWER_SLOT 4

static kz_status survey(kz__tsid *source, redisReply **reply, int64_t *now_ms, int64_t *free_nodes, kz_error *err)
{
    kz__redis_call call;
    redisReply *got = NULL;
    kz__redis_call_slots(&call, KZ__TSID_LIST, source->prefix);
    kz_status status = kz__redis_run(source->link, &call, &got, err);
    if (status)
        return status;
    if (kz__redis_said(got, "OK") && kz__redis_number(got, 1, 0, KZ__REDIS_NUMBER_MAX, now_ms) &&
        kz__redis_number(got, 2, 0, KZ__TSID_NODES, free_nodes) && (got->elements - ANSWER_HEAD) % ANSWER_SLOT == 0) {
        *reply = got;
        return KZ_OK;
    }
    status = kz__redis_unexpected(source->link, "a listing", got, err);
    freeReplyObject(got);
    return status;
}

static bool read_slot(const redisReply *reply, size_t at, kz_lease_info *info)
{
    int64_t node;
    const char *holder = kz__redis_text(reply, at + 3);
    if (!kz__redis_number(reply, at, 0, KZ__TSID_NODES - 1, &node) ||
        !kz__redis_number(reply, at + 1, 0, KZ__REDIS_NUMBER_MAX, &info->created_ms) ||
        !kz__redis_number(reply, at + 2, 0, KZ__REDIS_NUMBER_MAX, &info->expired_ms) || !holder)
        return false;
    if (!info->expired_ms)
        info->expired_ms = INT64_MAX;
    info->fallback_created_ms = info->fallback_expired_ms = info->expired_ms;
    info->id = (uint32_t)node;
    info->nodes = 1;
    snprintf(info->holder, sizeof info->holder, "%s", holder);
    strcpy(info->service, "default");
    return true;
}

/* Is the slot's line before the one to begin with? There is one service. */
static bool is_before(const kz_lease_info *info, const kz_list_from *from)
{
    int order = from ? strcmp(info->service, from->service) : 1;
    return order < 0 || (order == 0 && info->id < from->id);
}

kz_status kz__tsid_list(void *self, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err)
{
    kz__tsid *source = self;
    redisReply *reply = NULL;
    int64_t now_ms, free_nodes;
    kz_status status = kz__tsid_reached(source, err);
    if (!status)
        status = survey(source, &reply, &now_ms, &free_nodes, err);
    if (status)
        return status;
    bool more = true;
    for (size_t at = ANSWER_HEAD; !status && more && at < reply->elements; at += ANSWER_SLOT) {
        kz_lease_info info = {0};
        if (read_slot(reply, at, &info))
            more = is_before(&info, from) || visit(ctx, &info);
        else
            status = kz__redis_unexpected(source->link, "a listing", reply, err);
    }
    freeReplyObject(reply);
    return status;
}

kz_status kz__tsid_health(void *self, const char *service, kz_source_health *health, kz_error *err)
{
    (void)service;
    kz__tsid *source = self;
    kz_source_health h = {.layout = source->layout, .lease_ms = source->ttl_ms, .nodes_free = KZ__TSID_NODES};
    redisReply *reply = NULL;
    int64_t free_nodes;
    if (source->dev) {
        h.source_ms = source->clock->wall_ns(source->clock->ctx) / 1000000;
        snprintf(h.note, sizeof h.note,
                 "DEV MODE: %s could not be reached, a random node (%u) is used and IDs are NOT unique among several "
                 "instances. Start Redis, and leave out ?dev=1 and KAZAHANA_ALLOW_DEV in production",
                 kz__redis_link_name(source->link), source->dev_node);
        *health = h;
        return KZ_OK;
    }
    kz_status status = survey(source, &reply, &h.source_ms, &free_nodes, err);
    if (status)
        return status;
    h.leases_out = (reply->elements - ANSWER_HEAD) / ANSWER_SLOT;
    h.nodes_free = (uint64_t)free_nodes;
    freeReplyObject(reply);
    status = kz__redis_durable(source->link, "", &h.durable, h.note, sizeof h.note, err);
    if (!status)
        *health = h;
    return status;
}
