/* Acquire, release and the time, in Redis: the questions that the scripts are asked, and their answers, of which
 * nothing is believed unchecked. */
#include "core/error.h"
#include "core/release.h"
#include "host/clock.h"
#include "host/random.h"
#include "sources/redis_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many services are remembered, those that were used last. */
#define SEEN_MAX 1024

kz__redis_seen *kz__redis_seen_of(kz__redis *source, const char *service, kz_error *err)
{
    kz__redis_seen **at = &source->seen, *s;
    size_t others = 0;
    while (*at && strcmp((*at)->service, service) != 0 && ((*at)->next || others + 1 < SEEN_MAX)) {
        at = &(*at)->next;
        others++;
    }
    /* Found, or else the one that was used longest ago, where there are enough. */
    s = *at ? *at : calloc(1, sizeof *s);
    if (!s) {
        kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
        return NULL;
    }
    *at = *at ? s->next : NULL;
    if (strcmp(s->service, service) != 0) {
        *s = (kz__redis_seen){.born = "0"};
        snprintf(s->service, sizeof s->service, "%s", service);
    }
    s->next = source->seen;
    source->seen = s;
    return s;
}

void kz__redis_call_of(kz__redis_call *call, kz__redis_script script, const kz__redis *source, const char *service)
{
    int64_t wall_ms = source->clock.wall_ns(source->clock.ctx) / KZ__NS_PER_MS;
    kz__redis_call_table(call, script, source->prefix, service, wall_ms);
}

static void log_place(const kz__redis *source, int64_t until_ms)
{
    char line[KZ_MESSAGE_SIZE], until[KZ_TIME_TEXT_SIZE];
    if (!source->options.log)
        return;
    kz_time_text(until_ms, until);
    snprintf(line, sizeof line,
             "%s: the server was restarted or another one took over, and it may have forgotten the last grants: the "
             "nodes that those can have got are set aside until %s",
             kz__redis_link_name(source->link), until);
    source->options.log(source->options.log_ctx, KZ_LOG_WARNING, line);
}

bool kz__redis_read_head(kz__redis *source, const redisReply *reply, kz__redis_seen *seen, int64_t *source_ms)
{
    int64_t now_ms, generation, aside_ms;
    const char *born = kz__redis_text(reply, 3);
    if (!kz__redis_said(reply, "OK") || !kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &now_ms) ||
        !kz__redis_number(reply, 2, 0, KZ__REDIS_NUMBER_MAX, &generation) || !born ||
        strlen(born) >= sizeof seen->born || !kz__redis_number(reply, 4, 0, KZ__REDIS_NUMBER_MAX, &aside_ms))
        return false;
    *source_ms = now_ms;
    seen->generation = generation;
    strcpy(seen->born, born);
    if (aside_ms > source->aside_ms)
        log_place(source, aside_ms);
    source->aside_ms = aside_ms;
    return true;
}

/* Before the leases: the word, time, generation, birth, change of place; request, epoch, time bits, count. */
#define ANSWER_HEAD  9
#define ANSWER_LEASE 8

static bool read_lease(const redisReply *reply, size_t at, kz_lease *lease)
{
    int64_t id, node_bits, seq_bits;
    const char *secret = kz__redis_text(reply, at + 7);
    if (!kz__redis_number(reply, at, 0, UINT32_MAX, &id) ||
        !kz__redis_number(reply, at + 1, 0, KZ__REDIS_NUMBER_MAX, &lease->created_ms) ||
        !kz__redis_number(reply, at + 2, lease->created_ms, KZ__REDIS_NUMBER_MAX, &lease->expired_ms) ||
        !kz__redis_number(reply, at + 3, 0, KZ__REDIS_NUMBER_MAX, &lease->fallback_created_ms) ||
        !kz__redis_number(reply, at + 4, lease->fallback_created_ms, KZ__REDIS_NUMBER_MAX,
                          &lease->fallback_expired_ms) ||
        !kz__redis_number(reply, at + 5, 1, 32, &node_bits) || !kz__redis_number(reply, at + 6, 0, 63, &seq_bits) ||
        id >> (node_bits - 1) || !secret || !*secret || strlen(secret) >= sizeof lease->secret)
        return false;
    lease->id = (uint32_t)id;
    lease->node_bits = (uint8_t)node_bits;
    lease->seq_bits = (uint8_t)seq_bits;
    strcpy(lease->secret, secret);
    return true;
}

static bool read_grant(kz__redis *source, const redisReply *reply, const char *request, kz__redis_seen *seen,
                       kz_grant *grant)
{
    int64_t epoch_ms, time_bits, count;
    const char *answered = kz__redis_text(reply, 5);
    if (!answered || strcmp(answered, request) != 0 ||
        !kz__redis_number(reply, 6, -KZ__REDIS_NUMBER_MAX, KZ__REDIS_NUMBER_MAX, &epoch_ms) ||
        !kz__redis_number(reply, 7, 1, 63, &time_bits) || !kz__redis_number(reply, 8, 1, KZ_GRANT_LEASES_MAX, &count) ||
        reply->elements != ANSWER_HEAD + (size_t)count * ANSWER_LEASE)
        return false;
    for (size_t i = 0; i < (size_t)count; i++) {
        kz_lease *lease = &grant->leases[i];
        if (!read_lease(reply, ANSWER_HEAD + i * ANSWER_LEASE, lease) ||
            time_bits + lease->node_bits + lease->seq_bits > 64)
            return false;
        lease->epoch_ms = epoch_ms;
        lease->time_bits = (uint8_t)time_bits;
        lease->reserved_bits = (uint8_t)(64 - time_bits - lease->node_bits - lease->seq_bits);
    }
    if (!kz__redis_read_head(source, reply, seen, &grant->source_ms))
        return false;
    grant->count = (size_t)count;
    grant->generation = (uint64_t)seen->generation;
    return true;
}

/* Why nothing was granted. */
static kz_status not_granted(kz__redis *source, const kz_acquire *request, const char *service, const redisReply *reply,
                             kz_error *err)
{
    int64_t n = 0;
    if (kz__redis_said(reply, "MISMATCH"))
        return kz__redis_mismatch(source, service, reply, err);
    const char *name = kz__redis_link_name(source->link);
    bool number = kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &n);
    const char *why = kz__redis_text(reply, 2);
    bool reserved = why && *why == KZ__WHY_RESERVED;
    if (number && kz__redis_said(reply, "NOFREE") && n)
        return kz__fail(err, KZ_NO_FREE_NODE,
                        "service %s has no machine ID free: some are set aside for another %" PRId64 " ms, since %s",
                        service, n, reserved ? "they are reserved" : "the store may have forgotten leases");
    if (kz__redis_said(reply, "NOFREE"))
        return kz__fail(err, KZ_NO_FREE_NODE,
                        "service %s has no machine ID free: wait for leases to end, or give it more node bits",
                        service);
    if (number && kz__redis_said(reply, "CONFLICT"))
        return kz__fail(err, KZ_CONFLICT,
                        "this request asked for %" PRId64 " per ms before, and for %" PRIu32
                        " now: use a new request ID",
                        n, request->throughput_per_ms);
    if (number && kz__redis_said(reply, "INVALID"))
        return kz__fail(err, KZ_INVALID, "a throughput of %" PRIu32 " per ms: service %s grants 1 to %" PRId64,
                        request->throughput_per_ms, service, n);
    if (number && kz__redis_said(reply, "TOOMANY"))
        return kz__fail(err, KZ_INVALID,
                        "a throughput of %" PRIu32 " per ms needs %" PRId64 " leases of service %s, or one higher than "
                        "it has, but one request gets %d at most: ask for less, or give the service more sequence bits",
                        request->throughput_per_ms, n, service, KZ_GRANT_LEASES_MAX);
    if (number && why && kz__redis_said(reply, "ASIDE"))
        return kz__fail(
            err, KZ_UNAVAILABLE,
            "%s: %s, and leases it may have forgotten can last for another %" PRId64
            " ms: nothing is granted until then",
            name, *why == KZ__WHY_EMPTY ? "the store was found empty" : "it was restarted or another one took over", n);
    if (number && kz__redis_said(reply, "BEHIND"))
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is %" PRId64 " ms behind what it has answered before: nothing is granted until "
                        "it has caught up; set that machine's clock",
                        name, n);
    return kz__redis_unexpected(source->link, "acquire", reply, err);
}

/* One acquire with `count` secrets. The reply says "SECRETS" and how many if those are too few. */
static kz_status ask(kz__redis *source, const kz_acquire *request, const char *id, const kz__redis_seen *seen,
                     size_t count, redisReply **reply, kz_error *err)
{
    char secrets[KZ_GRANT_LEASES_MAX][KZ_SECRET_SIZE], holder[KZ_HOLDER_SIZE] = "";
    kz_status status = kz__secrets_draw(secrets, count, err);
    if (status)
        return status;
    if (request->holder)
        snprintf(holder, sizeof holder, "%s", request->holder);
    kz__redis_call call;
    kz__redis_call_of(&call, KZ__REDIS_ACQUIRE, source, seen->service);
    kz__redis_add_opening(&call, source, seen);
    kz__redis_add(&call, id);
    kz__redis_add_number(&call, request->throughput_per_ms);
    kz__redis_add(&call, holder);
    for (size_t i = 0; i < count; i++)
        kz__redis_add(&call, secrets[i]);
    status = kz__redis_run(source->link, &call, reply, err);
    explicit_bzero(secrets, count * sizeof secrets[0]);
    return status;
}

kz_status kz__redis_acquire(void *self, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__redis_ready(source, request->service, &service, err);
    if (status)
        return status;
    kz__redis_seen *seen = kz__redis_seen_of(source, service, err);
    kz_grant *got = calloc(1, sizeof *got);
    if (!seen || !got) {
        free(got);
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a grant");
    }
    uint64_t wanted = ((uint64_t)request->throughput_per_ms >> source->layout.seq_bits) + 1;
    size_t count = wanted > KZ_GRANT_LEASES_MAX ? KZ_GRANT_LEASES_MAX : (size_t)wanted;
    char id[KZ__REDIS_REQUEST_SIZE];
    kz__redis_request_text(request, id);
    redisReply *reply = NULL;
    status = ask(source, request, id, seen, count, &reply, err);
    if (!status && kz__redis_said(reply, "SECRETS")) {
        freeReplyObject(reply);
        reply = NULL;
        status = ask(source, request, id, seen, KZ_GRANT_LEASES_MAX, &reply, err);
    }
    if (!status && !kz__redis_said(reply, "OK"))
        status = not_granted(source, request, service, reply, err);
    else if (!status && !read_grant(source, reply, id, seen, got))
        status = kz__redis_unexpected(source->link, "acquire", reply, err);
    if (!status)
        kz__grant_copy(grant, got);
    if (reply)
        freeReplyObject(reply);
    free(got);
    return status;
}

/* Finds the secret that the release is signed with, among those that the number may mean. */
static kz_status find_secret(kz__redis *source, const kz_release *release, const char *service, const redisReply *reply,
                             const char **secret, kz_error *err)
{
    int64_t now_ms;
    if (!kz__redis_said(reply, "OK") || !kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &now_ms))
        return kz__redis_unexpected(source->link, "release", reply, err);
    kz_status status = kz__release_check(release, now_ms, err);
    if (status)
        return status;
    for (size_t i = 2; i < reply->elements; i++) {
        *secret = kz__redis_text(reply, i);
        if (!*secret)
            return kz__redis_unexpected(source->link, "release", reply, err);
        if (kz__release_signed_with(release, *secret))
            return KZ_OK;
    }
    if (reply->elements == 2)
        return kz__fail(err, KZ_NOT_FOUND, "node %" PRIu32 " of service %s is not leased", release->id, service);
    return kz__fail(err, KZ_FORBIDDEN, "node %" PRIu32 " of service %s is not held with that secret", release->id,
                    service);
}

static kz_status release_with(kz__redis *source, const kz_release *release, const char *service, const char *secret,
                              kz_error *err)
{
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_RELEASE, source, service);
    kz__redis_add_number(&call, release->id);
    kz__redis_add(&call, secret);
    kz__redis_add_number(&call, release->timestamp_ms);
    kz_status status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    if (kz__redis_said(reply, "NOTFOUND"))
        status =
            kz__fail(err, KZ_NOT_FOUND, "node %" PRIu32 " of service %s was released meanwhile", release->id, service);
    else if (!kz__redis_said(reply, "OK"))
        status = kz__redis_unexpected(source->link, "release", reply, err);
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_release(void *self, const kz_release *release, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL, *secret = NULL;
    kz_status status = kz__redis_ready(source, release->service, &service, err);
    if (status)
        return status;
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_LOOK, source, service);
    kz__redis_add_number(&call, release->id);
    status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    status = find_secret(source, release, service, reply, &secret, err);
    if (!status)
        status = release_with(source, release, service, secret, err);
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_now(void *self, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__redis_ready(source, NULL, &service, err);
    kz__redis_seen *seen = status ? NULL : kz__redis_seen_of(source, service, err);
    if (!seen)
        return status ? status : KZ_NO_MEMORY;
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_NOW, source, service);
    kz__redis_add_number(&call, seen->generation);
    kz__redis_add(&call, seen->born);
    status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    if (!kz__redis_read_head(source, reply, seen, source_ms))
        status = kz__redis_unexpected(source->link, "now", reply, err);
    else
        *generation = (uint64_t)seen->generation;
    freeReplyObject(reply);
    return status;
}
