/* Claiming, keeping and giving back TSID slots: the questions that the scripts are asked, and their answers.
 *
 * An acquire that succeeds a lease makes its window longer, as long as the key still holds the lease's token; any other
 * claims a slot. The answer is the whole window from the claim on, so it does not matter whether one before was lost.
 */
#include "core/error.h"
#include "core/plane.h"
#include "core/release.h"
#include "host/clock.h"
#include "host/random.h"
#include "sources/tsid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A claim is for a short while, so that programs that crash as soon as they are up do not fill the table for a day. One
 * that has lived for a minute gets the whole time. */
#define FIRST_TTL_MS   INT64_C(300000)
#define FIRST_LIFE_MS  INT64_C(60000)
#define MARGIN_MAX_MS  INT64_C(1000)
#define MARGIN_PART    20
#define RENEW_PART(ms) ((ms) / 10 * 9)

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* By how much a key outlives its window. */
static int64_t margin_ms(int64_t ttl_ms)
{
    return smaller(MARGIN_MAX_MS, ttl_ms / MARGIN_PART);
}

static int64_t boot_ns(const kz__tsid *source)
{
    return source->clock->boot_ns(source->clock->ctx);
}

/* A time that Redis answered, or where the boot clock has carried the one before, if that is later. */
static int64_t onward_ms(kz__tsid *source, int64_t redis_ms)
{
    int64_t boot = boot_ns(source);
    int64_t carried_ms =
        source->line_set ? kz__line_read(&source->line, boot, KZ__DRIFT_PPM) / KZ__NS_PER_MS : INT64_MIN;
    if (redis_ms < carried_ms)
        return carried_ms;
    source->line = (kz__line){redis_ms * KZ__NS_PER_MS, boot};
    source->line_set = true;
    return redis_ms;
}

/* A slot that is over before it can be used: Redis' clock was set back by more than a slot lasts, and IDs only go up.
 * Redis has it written down as ours, and asking again makes it longer. */
static kz_status check_ahead(const kz__tsid *source, const kz__tsid_slot *slot, int64_t redis_ms, int64_t now_ms,
                             kz_error *err)
{
    if (slot->end_ms > now_ms)
        return KZ_OK;
    return kz__fail(err, KZ_UNAVAILABLE,
                    "the clock of %s is %" PRId64 " ms behind the time that it answered before, which is more than a "
                    "slot lasts: no ID can be made until it has come near that time. Set it right, or start again",
                    kz__redis_link_name(source->link), now_ms - redis_ms);
}

static void fill_grant(const kz_layout *layout, const kz__tsid_slot *slot, int64_t source_ms, int64_t renew_after_ms,
                       kz_grant *grant)
{
    /* One by one: a whole grant is too large for the stack. */
    grant->source_ms = source_ms;
    grant->generation = 0;
    grant->resume = 0;
    grant->grace_ms = 0;
    grant->renew_after_ms = renew_after_ms;
    grant->count = 1;
    kz_lease *lease = &grant->leases[0];
    *lease = (kz_lease){.id = slot->node,
                        .created_ms = slot->start_ms,
                        .expired_ms = slot->end_ms,
                        .fallback_created_ms = slot->end_ms,
                        .fallback_expired_ms = slot->end_ms,
                        .epoch_ms = layout->epoch_ms,
                        .reserved_bits = (uint8_t)(64 - layout->time_bits - kz__slot_bits(layout)),
                        .time_bits = layout->time_bits,
                        .node_bits = layout->node_bits,
                        .seq_bits = layout->seq_bits};
    strcpy(lease->secret, slot->token);
}

/* What the key of a slot says: whose it is, and for people, who that is. */
static void write_value(kz__tsid_slot *slot, const char *holder)
{
    snprintf(slot->value, sizeof slot->value, "kazahana %s %" PRId64 " %s", slot->token, slot->start_ms, holder);
}

/* ------------------------------------------------------------------------------------------------------ claiming */

/* The request's ID is random and the same when it is repeated, which is all that a token has to be. */
static kz_status token_of(const kz_acquire *request, char token[static KZ__TSID_TOKEN], kz_error *err)
{
    char secret[1][KZ_SECRET_SIZE];
    kz__redis_request_text(request, token);
    if (*token)
        return KZ_OK;
    kz_status status = kz__secrets_draw(secret, 1, err);
    if (!status)
        snprintf(token, KZ__TSID_TOKEN, "%s", secret[0]);
    return status;
}

static kz_status all_taken(const kz__tsid *source, int64_t fenced, kz_error *err)
{
    const char *name = kz__redis_link_name(source->link);
    char waiting[64] = "";
    if (fenced)
        snprintf(waiting, sizeof waiting, ", %" PRId64 " of them by windows that have not ended", fenced);
    return kz__fail(
        err, KZ_NO_FREE_NODE,
        "all %d TSID nodes are in use%s: \"kazahana leases --from %s\" shows by whom and until when. Stale "
        "ones end by themselves; one whose process is gone for certain is freed by DEL %ssys:tsid:node:N and "
        "HDEL %ssys:tsid:floor N",
        KZ__TSID_NODES, waiting, name, source->prefix, source->prefix);
}

static kz_status read_claim(kz__tsid *source, const redisReply *reply, kz__tsid_slot *slot, int64_t *now_ms,
                            kz_error *err)
{
    int64_t node, fenced;
    if (kz__redis_said(reply, "FULL") && kz__redis_number(reply, 1, 0, KZ__TSID_NODES, &fenced))
        return all_taken(source, fenced, err);
    if (!kz__redis_said(reply, "OK") || !kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, now_ms) ||
        !kz__redis_number(reply, 2, 0, KZ__TSID_NODES - 1, &node) ||
        !kz__redis_number(reply, 3, 0, KZ__REDIS_NUMBER_MAX, &slot->start_ms) ||
        !kz__redis_number(reply, 4, slot->start_ms, KZ__REDIS_NUMBER_MAX, &slot->end_ms))
        return kz__redis_unexpected(source->link, "a claim", reply, err);
    slot->node = (uint32_t)node;
    return KZ_OK;
}

static kz_status claim(kz__tsid *source, const kz_acquire *request, const char *holder, kz_grant *grant, kz_error *err)
{
    kz__tsid_slot slot = {0};
    int64_t ttl_ms = smaller(source->ttl_ms, FIRST_TTL_MS), window_ms = ttl_ms - margin_ms(ttl_ms), redis_ms = 0;
    kz_status status = token_of(request, slot.token, err);
    if (status)
        return status;
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_slots(&call, KZ__TSID_CLAIM, source->prefix);
    kz__redis_add(&call, slot.token);
    kz__redis_add_number(&call, window_ms);
    kz__redis_add_number(&call, margin_ms(ttl_ms));
    kz__redis_add(&call, holder);
    status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    status = read_claim(source, reply, &slot, &redis_ms, err);
    freeReplyObject(reply);
    if (status)
        return status;
    write_value(&slot, holder);
    source->slot = slot;
    source->has_slot = true;
    int64_t now_ms = onward_ms(source, redis_ms);
    status = check_ahead(source, &slot, redis_ms, now_ms, err);
    if (status)
        return status;
    int64_t life_ms = source->ttl_ms > ttl_ms ? FIRST_LIFE_MS : source->refresh_ms;
    int64_t renew_ms = smaller(smaller(life_ms, source->refresh_ms), RENEW_PART(window_ms));
    fill_grant(&source->layout, &slot, now_ms, renew_ms, grant);
    kz__tsid_log(source, KZ_LOG_INFO, "TSID node %" PRIu32 " (range 0-%d): slot %ssys:tsid:node:%" PRIu32 " of %s",
                 slot.node, KZ__TSID_NODES - 1, source->prefix, slot.node, kz__redis_link_name(source->link));
    return KZ_OK;
}

/* ------------------------------------------------------------------------------------------------------- keeping */

/* Asks whether the slot is still held under its token, and with a `ttl_ms` for a window that lasts so much longer.
 * KZ_LOST: it is not. */
static kz_status keep(kz__tsid *source, kz__tsid_slot *slot, int64_t ttl_ms, int64_t *redis_ms, kz_error *err)
{
    char until[KZ_TIME_TEXT_SIZE];
    int64_t margin_now_ms = margin_ms(ttl_ms ? ttl_ms : source->ttl_ms);
    kz__redis_call call;
    redisReply *reply = NULL;
    kz_error why;
    kz__redis_call_slots(&call, KZ__TSID_KEEP, source->prefix);
    kz__redis_add_number(&call, slot->node);
    kz__redis_add(&call, slot->token);
    kz__redis_add(&call, slot->value);
    kz__redis_add_number(&call, slot->end_ms);
    kz__redis_add_number(&call, ttl_ms ? ttl_ms - margin_now_ms : 0);
    kz__redis_add_number(&call, margin_now_ms);
    kz_time_text(slot->end_ms, until);
    kz_status status = kz__redis_run(source->link, &call, &reply, &why);
    if (status)
        return kz__fail(err, status, "slot %ssys:tsid:node:%" PRIu32 ", ours until %s, could not be %s: %s",
                        source->prefix, slot->node, until, ttl_ms ? "refreshed" : "looked at", why.message);
    int64_t end_ms;
    if (kz__redis_said(reply, "LOST")) {
        status = kz__fail(err, KZ_LOST,
                          "slot %ssys:tsid:node:%" PRIu32 " of %s, ours until %s, was deleted, taken by somebody else "
                          "or not refreshed in time",
                          source->prefix, slot->node, kz__redis_link_name(source->link), until);
    } else if (!kz__redis_said(reply, "OK") || !kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, redis_ms) ||
               !kz__redis_number(reply, 2, slot->end_ms, KZ__REDIS_NUMBER_MAX, &end_ms)) {
        status = kz__redis_unexpected(source->link, "a refresh", reply, err);
    } else {
        slot->end_ms = end_ms;
    }
    freeReplyObject(reply);
    return status;
}

static kz_status refresh(kz__tsid *source, const kz_lease *lease, const char *holder, kz_grant *grant, kz_error *err)
{
    kz__tsid_slot slot = {.node = lease->id, .start_ms = lease->created_ms, .end_ms = lease->expired_ms};
    if (lease->id >= KZ__TSID_NODES || strlen(lease->secret) >= sizeof slot.token || lease->expired_ms < 0 ||
        lease->expired_ms > KZ__REDIS_NUMBER_MAX)
        return kz__fail(err, KZ_LOST, "node %" PRIu32 " is no lease of %s", lease->id,
                        kz__redis_link_name(source->link));
    strcpy(slot.token, lease->secret);
    write_value(&slot, holder);
    int64_t redis_ms, window_ms = source->ttl_ms - margin_ms(source->ttl_ms);
    kz_status status = keep(source, &slot, source->ttl_ms, &redis_ms, err);
    if (status == KZ_LOST)
        source->has_slot = false;
    if (status)
        return status;
    source->slot = slot;
    source->has_slot = true;
    int64_t now_ms = onward_ms(source, redis_ms);
    status = check_ahead(source, &slot, redis_ms, now_ms, err);
    if (!status)
        fill_grant(&source->layout, &slot, now_ms, smaller(source->refresh_ms, RENEW_PART(window_ms)), grant);
    return status;
}

/* Without Redis, for development only: a node by chance, for ever, by the clock of this machine. */
static void grant_by_chance(const kz__tsid *source, kz_grant *grant)
{
    kz__tsid_slot slot = {.node = source->dev_node, .start_ms = source->layout.epoch_ms, .end_ms = INT64_MAX};
    fill_grant(&source->layout, &slot, source->clock->wall_ns(source->clock->ctx) / KZ__NS_PER_MS, 0, grant);
    kz__tsid_log(source, KZ_LOG_WARNING,
                 "DEV MODE: %s. Using random TSID node %" PRIu32 ": IDs are NOT guaranteed to be unique when several "
                 "instances run. Never use this in production",
                 source->dev_why, source->dev_node);
}

kz_status kz__tsid_acquire(void *self, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__tsid *source = self;
    const char *holder = request->holder ? request->holder : "";
    uint32_t most = kz__tsid_throughput(&source->layout);
    if (request->throughput_per_ms < 1 || request->throughput_per_ms > most)
        return kz__fail(err, KZ_INVALID, "a throughput of %" PRIu32 " per ms: a TSID node gives 1 to %" PRIu32,
                        request->throughput_per_ms, most);
    if (strlen(holder) >= KZ_HOLDER_SIZE)
        return kz__fail(err, KZ_INVALID, "a holder's description has at most %d bytes, not %zu", KZ_HOLDER_SIZE - 1,
                        strlen(holder));
    if (!source->dev)
        return request->holds ? refresh(source, request->holds, holder, grant, err)
                              : claim(source, request, holder, grant, err);
    grant_by_chance(source, grant);
    return KZ_OK;
}

static kz_status read_time(kz__tsid *source, int64_t *redis_ms, kz_error *err)
{
    redisReply *reply = NULL;
    int64_t s, us;
    kz_status status = kz__redis_send(source->link, &(kz__redis_args){1, (const char *[]){"TIME"}, NULL}, &reply, err);
    if (status)
        return status;
    if (kz__redis_number(reply, 0, 0, KZ__REDIS_NUMBER_MAX / 1000, &s) && kz__redis_number(reply, 1, 0, 999999, &us))
        *redis_ms = s * 1000 + us / 1000;
    else
        status = kz__redis_unexpected(source->link, "TIME", reply, err);
    freeReplyObject(reply);
    return status;
}

/* The time; the same step checks that the slot is still ours: who takes a key that was deleted may know nothing of
 * floors. */
kz_status kz__tsid_now(void *self, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__tsid *source = self;
    int64_t redis_ms;
    kz_status status = kz__tsid_reached(source, err);
    if (!status)
        status = source->has_slot ? keep(source, &source->slot, 0, &redis_ms, err) : read_time(source, &redis_ms, err);
    if (status == KZ_LOST)
        source->has_slot = false;
    if (status)
        return status;
    *source_ms = onward_ms(source, redis_ms);
    *generation = 0;
    return KZ_OK;
}

/* --------------------------------------------------------------------------------------------------- giving back */

/* The token that the release is signed with: that of the slot we know of, or else of whoever has the node. */
static kz_status find_token(kz__tsid *source, const kz_release *release, char token[static KZ__TSID_TOKEN],
                            kz_error *err)
{
    char key[KZ__TSID_KEY];
    redisReply *reply = NULL;
    const kz__tsid_slot *slot = source->has_slot ? &source->slot : NULL;
    if (slot && slot->node == release->id && kz__release_signed_with(release, slot->token)) {
        strcpy(token, slot->token);
        return KZ_OK;
    }
    snprintf(key, sizeof key, "%ssys:tsid:node:%" PRIu32, source->prefix, release->id);
    kz_status status =
        kz__redis_send(source->link, &(kz__redis_args){2, (const char *[]){"MGET", key}, NULL}, &reply, err);
    if (status)
        return status;
    const char *value = kz__redis_text(reply, 0);
    if (reply->type != REDIS_REPLY_ARRAY)
        status = kz__redis_unexpected(source->link, "MGET", reply, err);
    else if (!value || sscanf(value, "kazahana %32[0-9a-f] ", token) != 1 || !kz__release_signed_with(release, token))
        status = kz__fail(err, KZ_NOT_FOUND, "slot %s is not held by that lease", key);
    freeReplyObject(reply);
    return status;
}

kz_status kz__tsid_release(void *self, const kz_release *release, kz_error *err)
{
    kz__tsid *source = self;
    if (source->dev)
        return KZ_OK;
    char token[KZ__TSID_TOKEN] = "";
    kz_status status = release->signature && release->timestamp_ms >= 0 && release->timestamp_ms < KZ__REDIS_NUMBER_MAX
                           ? find_token(source, release, token, err)
                           : kz__fail(err, KZ_INVALID, "a release is signed and has a time");
    if (status)
        return status;
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_slots(&call, KZ__TSID_RELEASE, source->prefix);
    kz__redis_add_number(&call, release->id);
    kz__redis_add(&call, token);
    kz__redis_add_number(&call, release->timestamp_ms);
    status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    if (kz__redis_said(reply, "NOTFOUND"))
        status = kz__fail(err, KZ_NOT_FOUND, "slot %ssys:tsid:node:%" PRIu32 " has changed hands meanwhile",
                          source->prefix, release->id);
    else if (!kz__redis_said(reply, "OK"))
        status = kz__redis_unexpected(source->link, "a release", reply, err);
    if (status != KZ_STORE && source->has_slot && strcmp(source->slot.token, token) == 0)
        source->has_slot = false;
    freeReplyObject(reply);
    return status;
}
