/* Acquire, in Redis: the question that the script is asked, and its answer, of which nothing is believed unchecked. */
#include "core/error.h"
#include "sources/redis_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before the leases: the word, time, generation, birth, request, epoch, time bits, count. */
#define ANSWER_HEAD  8
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

static bool read_grant(const redisReply *reply, const char *request, kz__redis_seen *seen, kz_grant *grant)
{
    int64_t epoch_ms, time_bits, count;
    const char *answered = kz__redis_text(reply, 4);
    if (!answered || strcmp(answered, request) != 0 ||
        !kz__redis_number(reply, 5, -KZ__REDIS_NUMBER_MAX, KZ__REDIS_NUMBER_MAX, &epoch_ms) ||
        !kz__redis_number(reply, 6, 1, 63, &time_bits) || !kz__redis_number(reply, 7, 1, KZ_GRANT_LEASES_MAX, &count) ||
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
    if (!kz__redis_read_head(reply, seen, &grant->source_ms))
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
    if (number && kz__redis_said(reply, "EMBARGO"))
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: the store was found empty, and leases it may have forgotten can last for another %" PRId64
                        " ms: nothing is granted until then",
                        name, n);
    if (number && kz__redis_said(reply, "BEHIND"))
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is %" PRId64 " ms behind what it has answered before: nothing is granted until "
                        "it has caught up; set that machine's clock",
                        name, n);
    return kz__redis_unexpected(source->link, "acquire", reply, err);
}

#define REQUEST_TEXT_SIZE (2 * KZ_REQUEST_ID_SIZE + 1)

/* In hex; empty for none. */
static void request_text(const kz_acquire *request, char text[static REQUEST_TEXT_SIZE])
{
    static const uint8_t none[KZ_REQUEST_ID_SIZE];
    *text = '\0';
    for (size_t i = 0; memcmp(request->request_id, none, sizeof none) != 0 && i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", request->request_id[i]);
}

#define ARGS_REQUEST KZ__REDIS_OPENING_ARGS
#define ARGS_SECRETS (ARGS_REQUEST + 3)

/* One acquire with `count` secrets. The reply says "SECRETS" and how many if those are too few. */
static kz_status ask(kz__redis *source, const kz_acquire *request, const kz__redis_seen *seen, size_t count,
                     redisReply **reply, kz_error *err)
{
    char(*secrets)[KZ_SECRET_SIZE] = calloc(count, sizeof *secrets);
    if (!secrets)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for secrets");
    kz_status status = kz__secrets_draw(secrets, count, err);
    char asked[KZ__REDIS_DIGITS], holder[KZ_HOLDER_SIZE] = "", id[REQUEST_TEXT_SIZE];
    request_text(request, id);
    if (request->holder)
        snprintf(holder, sizeof holder, "%s", request->holder);
    kz__redis_opening opening;
    const char *args[ARGS_SECRETS + KZ_GRANT_LEASES_MAX];
    kz__redis_opening_fill(source, seen, &opening, args);
    args[ARGS_REQUEST] = id;
    args[ARGS_REQUEST + 1] = kz__redis_digits(asked, request->throughput_per_ms);
    args[ARGS_REQUEST + 2] = holder;
    for (size_t i = 0; i < count; i++)
        args[ARGS_SECRETS + i] = secrets[i];
    kz__redis_place place = {source->prefix, seen->service};
    if (!status)
        status = kz__redis_run(source->link, KZ__REDIS_ACQUIRE, &place, (int)(ARGS_SECRETS + count), args, reply, err);
    explicit_bzero(secrets, count * sizeof *secrets);
    free(secrets);
    return status;
}

kz_status kz__redis_acquire(void *self, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__table_service(&source->params, request->service, &service, err);
    if (!status)
        status = kz__redis_ready(source, err);
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
    char id[REQUEST_TEXT_SIZE];
    request_text(request, id);
    redisReply *reply = NULL;
    status = ask(source, request, seen, count, &reply, err);
    if (!status && kz__redis_said(reply, "SECRETS")) {
        freeReplyObject(reply);
        reply = NULL;
        status = ask(source, request, seen, KZ_GRANT_LEASES_MAX, &reply, err);
    }
    if (!status && !kz__redis_said(reply, "OK"))
        status = not_granted(source, request, service, reply, err);
    else if (!status && !read_grant(reply, id, seen, got))
        status = kz__redis_unexpected(source->link, "acquire", reply, err);
    if (!status)
        kz__grant_copy(grant, got);
    if (reply)
        freeReplyObject(reply);
    free(got);
    return status;
}
