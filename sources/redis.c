/* redis://, rediss:// and redis+sentinel://: a lease table in Redis. The rules run there, as scripts; here are the
 * questions and answers. */
#include "core/error.h"
#include "sources/all.h"
#include "sources/redis_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kz__redis_digits(char text[static KZ__REDIS_DIGITS], int64_t number)
{
    snprintf(text, KZ__REDIS_DIGITS, "%" PRId64, number);
    return text;
}

static kz_layout layout_of(int64_t epoch_ms, int64_t time_bits, int64_t node_bits, int64_t seq_bits)
{
    kz__service service = {.epoch_ms = epoch_ms,
                           .time_bits = (uint8_t)time_bits,
                           .node_bits = (uint8_t)node_bits,
                           .seq_bits = (uint8_t)seq_bits};
    kz_layout layout;
    kz__service_layout(&service, &layout);
    return layout;
}

bool kz__redis_read_layout(const redisReply *reply, size_t at, kz_layout *layout)
{
    int64_t epoch_ms, time_bits, node_bits, seq_bits;
    if (!kz__redis_number(reply, at, -KZ__REDIS_NUMBER_MAX, KZ__REDIS_NUMBER_MAX, &epoch_ms) ||
        !kz__redis_number(reply, at + 1, 1, 63, &time_bits) || !kz__redis_number(reply, at + 2, 1, 32, &node_bits) ||
        !kz__redis_number(reply, at + 3, 0, 32, &seq_bits) || time_bits + node_bits + seq_bits > 64)
        return false;
    *layout = layout_of(epoch_ms, time_bits, node_bits, seq_bits);
    return true;
}

/* The script found that the layout wanted is not the service's: the words are those of every lease table. */
kz_status kz__redis_mismatch(const kz__redis *source, const char *service, const redisReply *reply, kz_error *err)
{
    kz_layout stored;
    kz__service facts;
    if (!kz__redis_read_layout(reply, 1, &stored))
        return kz__redis_unexpected(source->link, "the service's settings", reply, err);
    kz_status status = kz__service_init(&facts, service, &stored, source->params.lease_ms, err);
    facts.granted = true;
    if (!status)
        status = kz__table_layout_check(&source->params, &facts, err);
    return status ? status : kz__redis_unexpected(source->link, "the service's settings", reply, err);
}

kz_status kz__redis_settings_read(kz__redis *source, const char *service, bool adopt, kz__redis_settings *settings,
                                  kz_error *err)
{
    const kz_layout *wanted = &source->params.layout;
    char epoch[KZ__REDIS_DIGITS], time[KZ__REDIS_DIGITS], node[KZ__REDIS_DIGITS], seq[KZ__REDIS_DIGITS];
    const char *args[] = {adopt ? "1" : "0", kz__redis_digits(epoch, wanted->epoch_ms),
                          kz__redis_digits(time, wanted->time_bits), kz__redis_digits(node, wanted->node_bits),
                          kz__redis_digits(seq, wanted->seq_bits)};
    redisReply *reply = NULL;
    kz__redis_place place = {source->prefix, service};
    kz_status status = kz__redis_run(source->link, KZ__REDIS_ADOPT, &place, 5, args, &reply, err);
    if (status)
        return status;
    kz__redis_settings s = {.layout = *wanted};
    if (kz__redis_said(reply, "NONE") && kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &s.source_ms))
        *settings = s;
    else if (kz__redis_said(reply, "MISMATCH"))
        status = kz__redis_mismatch(source, service, reply, err);
    else if (kz__redis_said(reply, "OK") && kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &s.source_ms) &&
             kz__redis_number(reply, 2, 0, KZ__REDIS_NUMBER_MAX, &s.generation) &&
             kz__redis_read_layout(reply, 4, &s.layout) &&
             kz__redis_number(reply, 8, 1, KZ__REDIS_NUMBER_MAX, &s.lease_ms) &&
             kz__redis_number(reply, 9, 0, KZ__REDIS_NUMBER_MAX, &s.leases_out) &&
             kz__redis_number(reply, 10, 0, KZ__REDIS_NUMBER_MAX, &s.leases_ended)) {
        s.exists = true;
        *settings = s;
    } else {
        status = kz__redis_unexpected(source->link, "the service's settings", reply, err);
    }
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_ready(kz__redis *source, kz_error *err)
{
    if (source->ready)
        return KZ_OK;
    kz_status status = kz__redis_check_cluster(source->link, source->prefix, err);
    kz__redis_settings settings;
    if (!status)
        status = kz__redis_settings_read(source, source->params.service, source->params.layout_given, &settings, err);
    if (status)
        return status;
    source->ready = true;
    source->layout = settings.layout;
    return KZ_OK;
}

kz__redis_seen *kz__redis_seen_of(kz__redis *source, const char *service, kz_error *err)
{
    for (kz__redis_seen *s = source->seen; s; s = s->next)
        if (strcmp(s->service, service) == 0)
            return s;
    kz__redis_seen *s = calloc(1, sizeof *s);
    if (!s) {
        kz__fail(err, KZ_NO_MEMORY, "no memory for a service");
        return NULL;
    }
    snprintf(s->service, sizeof s->service, "%s", service);
    strcpy(s->born, "0");
    s->next = source->seen;
    source->seen = s;
    return s;
}

bool kz__redis_read_head(const redisReply *reply, kz__redis_seen *seen, int64_t *source_ms)
{
    int64_t now_ms, generation;
    const char *born = kz__redis_text(reply, 3);
    if (!kz__redis_said(reply, "OK") || !kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &now_ms) ||
        !kz__redis_number(reply, 2, 0, KZ__REDIS_NUMBER_MAX, &generation) || !born || strlen(born) >= sizeof seen->born)
        return false;
    *source_ms = now_ms;
    seen->generation = generation;
    strcpy(seen->born, born);
    return true;
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
        return kz__fail(err, KZ_NOT_FOUND, "machine ID %" PRIu32 " of service %s is not out", release->id, service);
    return kz__fail(err, KZ_FORBIDDEN, "machine ID %" PRIu32 " of service %s is not held with that secret", release->id,
                    service);
}

static kz_status redis_release(void *self, const kz_release *release, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__table_service(&source->params, release->service, &service, err);
    if (!status)
        status = kz__redis_ready(source, err);
    if (status)
        return status;
    char id[KZ__REDIS_DIGITS], timestamp[KZ__REDIS_DIGITS];
    kz__redis_digits(id, release->id);
    kz__redis_digits(timestamp, release->timestamp_ms);
    kz__redis_place place = {source->prefix, service};
    redisReply *looked = NULL, *released = NULL;
    status = kz__redis_run(source->link, KZ__REDIS_LOOK, &place, 1, (const char *[]){id}, &looked, err);
    if (status)
        return status;
    const char *secret = NULL;
    status = find_secret(source, release, service, looked, &secret, err);
    if (!status)
        status = kz__redis_run(source->link, KZ__REDIS_RELEASE, &place, 3, (const char *[]){id, secret, timestamp},
                               &released, err);
    if (!status && kz__redis_said(released, "NOTFOUND"))
        status = kz__fail(err, KZ_NOT_FOUND, "machine ID %" PRIu32 " of service %s was released meanwhile", release->id,
                          service);
    else if (!status && !kz__redis_said(released, "OK"))
        status = kz__redis_unexpected(source->link, "release", released, err);
    if (released)
        freeReplyObject(released);
    freeReplyObject(looked);
    return status;
}

static kz_status redis_now(void *self, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__redis *source = self;
    kz_status status = kz__redis_ready(source, err);
    kz__redis_seen *seen = status ? NULL : kz__redis_seen_of(source, source->params.service, err);
    if (!seen)
        return status ? status : KZ_NO_MEMORY;
    char last[KZ__REDIS_DIGITS];
    redisReply *reply = NULL;
    kz__redis_place place = {source->prefix, source->params.service};
    const char *args[] = {kz__redis_digits(last, seen->generation), seen->born};
    status = kz__redis_run(source->link, KZ__REDIS_NOW, &place, 2, args, &reply, err);
    if (status)
        return status;
    if (!kz__redis_read_head(reply, seen, source_ms))
        status = kz__redis_unexpected(source->link, "now", reply, err);
    else
        *generation = (uint64_t)seen->generation;
    freeReplyObject(reply);
    return status;
}

/* In a forked child too: nothing of it says anything to the server. */
static void redis_close(void *self, bool forked)
{
    kz__redis *source = self;
    (void)forked;
    if (!source)
        return;
    kz__redis_link_free(source->link);
    for (kz__redis_seen *s = source->seen; s;) {
        kz__redis_seen *next = s->next;
        free(s);
        s = next;
    }
    free(source);
}

static kz_status read_url(kz__redis *source, const char *text, const kz_source_options *options, bool tls,
                          kz_error *err)
{
    static const char *const more[] = {"prefix", "cacert", "insecure", NULL};
    kz__url url;
    kz__redis_address address;
    kz_status status = kz__redis_url_parse(text, &url, err);
    if (!status)
        status = kz__table_params_read(&url, options, more, &source->params, err);
    if (!status)
        status = kz__redis_slots_check(&source->params.layout, err);
    if (!status)
        status = kz__redis_prefix_read(&url, source->prefix, err);
    if (!status)
        status = kz__redis_address_read(&url, tls, options->timeout_ms, &address, err);
    if (!status)
        status = kz__redis_link_new(&source->link, &address, err);
    explicit_bzero(&url, sizeof url);
    explicit_bzero(&address, sizeof address);
    return status;
}

static kz_status redis_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                            kz_error *err)
{
    kz__redis *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_status status = read_url(source, url, options, strncmp(url, "rediss:", 7) == 0, err);
    source->layout = source->params.layout;
    if (!status) {
        kz_error reason;
        status = kz__redis_ready(source, &reason);
        /* A server that is down now may be up for the first acquire: whoever opens decides how long to wait. */
        if (status == KZ_UNAVAILABLE)
            status = KZ_OK;
        else if (status && err)
            *err = reason;
    }
    if (status) {
        redis_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = source->layout};
    *out = source;
    return KZ_OK;
}

/* They differ in their URLs only, and the URL is read when it is opened. */
#define REDIS_OPS(name)                                                                                                \
    {                                                                                                                  \
        .struct_size = sizeof(kz_source_ops), .scheme = name, .open = redis_open, .acquire = kz__redis_acquire,        \
        .release = redis_release, .now = redis_now, .list = kz__redis_list, .health = kz__redis_health,                \
        .configure = kz__redis_configure, .close = redis_close                                                         \
    }

const kz_source_ops kz__source_redis = REDIS_OPS("redis"), kz__source_rediss = REDIS_OPS("rediss"),
                    kz__source_redis_sentinel = REDIS_OPS("redis+sentinel");
