/* The lease table in Redis, looked at from outside: who holds what, and what the server can promise. */
#include "core/error.h"
#include "core/find_block.h"
#include "core/values.h"
#include "sources/redis_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "256"
#define LINE 9 /* texts of a line in a listing */

static kz_status command(kz__redis_link *link, int count, const char *const *texts, redisReply **reply, kz_error *err)
{
    return kz__redis_send(link, &(kz__redis_args){count, texts, NULL}, reply, err);
}

/* ---- who holds what ---- */

static bool read_line(const redisReply *reply, size_t at, kz_lease_info *info)
{
    int64_t id, node_bits, seq_bits;
    const char *holder = kz__redis_text(reply, at + 7);
    if (!kz__redis_number(reply, at, 0, UINT32_MAX, &id) || !kz__redis_number(reply, at + 1, 1, 63, &node_bits) ||
        !kz__redis_number(reply, at + 2, 0, 63, &seq_bits) ||
        !kz__redis_number(reply, at + 3, 0, KZ__REDIS_NUMBER_MAX, &info->created_ms) ||
        !kz__redis_number(reply, at + 4, 0, KZ__REDIS_NUMBER_MAX, &info->expired_ms) ||
        !kz__redis_number(reply, at + 5, 0, KZ__REDIS_NUMBER_MAX, &info->fallback_created_ms) ||
        !kz__redis_number(reply, at + 6, 0, KZ__REDIS_NUMBER_MAX, &info->fallback_expired_ms) || !holder)
        return false;
    info->id = (uint32_t)id;
    info->nodes = 1;
    info->node_bits = (uint8_t)node_bits;
    info->seq_bits = (uint8_t)seq_bits;
    snprintf(info->holder, sizeof info->holder, "%s", holder);
    return true;
}

/* Where a listing goes on. Behind a service stands its name and a byte that none has. */
typedef struct place {
    char service[KZ_SERVICE_SIZE + 1];
    uint32_t id;
} place;

/* A page from `at` on, which moves on; to "" after the last. */
static kz_status list_page(kz__redis *source, place *at, kz_lease_visit visit, void *ctx, bool *enough, kz_error *err)
{
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_LIST, source, source->params.service);
    kz__redis_add(&call, at->service);
    kz__redis_add_number(&call, at->id);
    kz__redis_add_number(&call, KZ__LIST_PAGE);
    kz_status status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    int64_t id = 0;
    const char *onward = kz__redis_text(reply, 1);
    /* Only onward, or it would go on for ever. */
    if (!kz__redis_said(reply, "OK") || !onward || strlen(onward) > KZ_SERVICE_SIZE || (reply->elements - 3) % LINE ||
        !kz__redis_number(reply, 2, 0, UINT32_MAX, &id) ||
        (*onward && strcmp(onward, at->service) <= 0 && (strcmp(onward, at->service) < 0 || id <= at->id)))
        status = kz__redis_unexpected(source->link, "a listing", reply, err);
    for (size_t line = 3; !status && !*enough && line < reply->elements; line += LINE) {
        kz_lease_info info = {0};
        const char *service = kz__redis_text(reply, line);
        if (!service || kz__service_name_check(service, NULL) || !read_line(reply, line + 1, &info)) {
            status = kz__redis_unexpected(source->link, "a listing", reply, err);
        } else {
            strcpy(info.service, service);
            *enough = !visit(ctx, &info);
        }
    }
    if (!status) {
        strcpy(at->service, onward);
        at->id = (uint32_t)id;
    }
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_list(void *self, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err)
{
    kz__redis *source = self;
    const char *own;
    place at = {.id = from ? from->id : 0};
    bool enough = false;
    kz_status status = kz__redis_ready(source, NULL, &own, err);
    if (from)
        snprintf(at.service, sizeof at.service, "%s", from->service);
    do {
        if (!status)
            status = list_page(source, &at, visit, ctx, &enough, err);
    } while (!status && !enough && *at.service);
    return status;
}

/* ---- what it can promise ---- */

/* Usual blocks in a free range that is not set aside. */
static uint64_t grantable(const kz__service *facts, const kz__redis_settings *settings, kz__range range)
{
    uint64_t blocks = 0, size = UINT64_C(1) << facts->seq_bits;
    while (range.lo < range.hi) {
        uint64_t past, stop = range.hi;
        /* Up to where something begins that is set aside; then behind it. */
        for (size_t i = 0; i < KZ__ASIDES; i++)
            if (kz__aside_in_force(&settings->asides[i], settings->source_ms) && settings->asides[i].lo > range.lo &&
                settings->asides[i].lo < stop)
                stop = settings->asides[i].lo;
        if (kz__may_grant(settings->asides, range.lo, range.lo + size, settings->source_ms, &past))
            blocks += kz__table_blocks_in(facts, (kz__range){range.lo, past = stop});
        range.lo = past;
    }
    return blocks;
}

/* Usual blocks in the free ranges of the lower half. */
static kz_status count_free(kz__redis *source, const char *service, const kz__redis_settings *settings,
                            uint64_t *free_blocks, kz_error *err)
{
    char key[KZ__REDIS_KEY_SIZE], cursor[32] = "0";
    kz__redis_key(key, source->prefix, service, "lease:free");
    kz__service facts = {.node_bits = settings->layout.node_bits, .seq_bits = settings->layout.seq_bits};
    kz_status status = KZ_OK;
    *free_blocks = 0;
    do {
        redisReply *reply = NULL;
        const char *texts[] = {"ZSCAN", key, cursor, "COUNT", PAGE};
        status = command(source->link, 5, texts, &reply, err);
        if (status)
            return status;
        const char *next = kz__redis_text(reply, 0);
        if (!next || strlen(next) >= sizeof cursor || reply->elements != 2 ||
            reply->element[1]->type != REDIS_REPLY_ARRAY) {
            status = kz__redis_unexpected(source->link, "ZSCAN", reply, err);
        } else {
            snprintf(cursor, sizeof cursor, "%s", next);
            for (size_t i = 0; i < reply->element[1]->elements; i += 2) {
                kz__range range;
                const char *member = kz__redis_text(reply->element[1], i);
                if (member && sscanf(member, "%" SCNu64 ":%" SCNu64, &range.lo, &range.hi) == 2)
                    *free_blocks += grantable(&facts, settings, range);
            }
        }
        freeReplyObject(reply);
    } while (!status && strcmp(cursor, "0") != 0);
    return status;
}

typedef struct durability {
    bool known; /* the server let us ask */
    char appendonly[8], appendfsync[16], policy[32], maxmemory[24];
    bool cluster, replicas, is_replica, sentinels;
} durability;

static void copy_setting(const redisReply *reply, const char *name, char *text, size_t room)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const char *key = kz__redis_text(reply, i), *value = kz__redis_text(reply, i + 1);
        if (key && value && strcmp(key, name) == 0)
            snprintf(text, room, "%s", value);
    }
}

/* Not every user may ask for these, and that is no failure: then nothing is known. */
static kz_status read_durability(kz__redis_link *link, durability *d, kz_error *err)
{
    *d = (durability){.known = true, .sentinels = kz__redis_link_has_sentinels(link)};
    struct {
        const char *name;
        char *text;
        size_t room;
    } settings[] = {{"appendonly", d->appendonly, sizeof d->appendonly},
                    {"appendfsync", d->appendfsync, sizeof d->appendfsync},
                    {"maxmemory-policy", d->policy, sizeof d->policy},
                    {"maxmemory", d->maxmemory, sizeof d->maxmemory}};
    redisReply *reply = NULL;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        kz_status status = command(link, 3, (const char *[]){"CONFIG", "GET", settings[i].name}, &reply, err);
        if (status)
            return status;
        if (reply->type == REDIS_REPLY_ARRAY)
            copy_setting(reply, settings[i].name, settings[i].text, settings[i].room);
        d->known &= *settings[i].text != '\0';
        freeReplyObject(reply);
    }
    kz_status status = command(link, 1, (const char *[]){"INFO"}, &reply, err);
    if (status)
        return status;
    const char *info = reply->type == REDIS_REPLY_STRING ? reply->str : "";
    const char *slaves = strstr(info, "connected_slaves:");
    d->known &= slaves != NULL;
    d->replicas = slaves && atoi(slaves + strlen("connected_slaves:")) > 0;
    d->is_replica = strstr(info, "role:slave") != NULL;
    d->cluster = strstr(info, "cluster_enabled:1") != NULL;
    freeReplyObject(reply);
    return KZ_OK;
}

static bool judge(const durability *d, const char *instead, char *note, size_t room)
{
    if (!d->known)
        snprintf(note, room,
                 "its settings cannot be seen (CONFIG and INFO are not allowed to this user): a grant is "
                 "safe only with appendonly yes, appendfsync always and without asynchronous failover");
    else if (d->is_replica)
        snprintf(note, room, "this is a replica and takes no writes: name the master");
    else if (strcmp(d->appendonly, "yes") != 0)
        snprintf(note, room,
                 "appendonly is %s: a crash forgets leases that are out, and IDs can repeat. Set "
                 "appendonly yes and appendfsync always%s",
                 d->appendonly, instead);
    else if (strcmp(d->appendfsync, "always") != 0)
        snprintf(note, room,
                 "appendfsync is %s: a crash can forget the last leases granted, and IDs can repeat. Set "
                 "appendfsync always",
                 d->appendfsync);
    else if (strcmp(d->policy, "noeviction") != 0 && strcmp(d->maxmemory, "0") != 0)
        snprintf(note, room, "maxmemory-policy is %s: leases can be evicted. Set noeviction", d->policy);
    else if (d->sentinels)
        snprintf(
            note, room,
            "sentinels watch it, and a failover is asynchronous: it can forget the last leases granted. What they can "
            "have been is set aside then, up to a quarter of the nodes. Set min-replicas-to-write 1 and "
            "min-replicas-max-lag 1 there, so that a replaced master stops granting");
    else if (d->cluster || d->replicas)
        snprintf(note, room,
                 "it has %s: a failover is asynchronous and can forget the last leases granted. Do not "
                 "promote replicas by themselves, or use etcd: or postgres: with synchronous commit",
                 d->cluster ? "a cluster around it" : "replicas");
    else
        return true;
    return false;
}

kz_status kz__redis_durable(kz__redis_link *link, const char *instead, bool *durable, char *note, size_t room,
                            kz_error *err)
{
    durability d;
    kz_status status = read_durability(link, &d, err);
    if (!status)
        *durable = judge(&d, instead, note, room);
    return status;
}

/* Says before the rest of the note what is set aside. */
static void note_aside(const kz__redis_settings *settings, char *note, size_t room)
{
    char rest[KZ_MESSAGE_SIZE], until[KZ_TIME_TEXT_SIZE];
    const kz__aside *first = kz__aside_until(settings->asides, settings->source_ms);
    if (!first)
        return;
    snprintf(rest, sizeof rest, "%s", note);
    kz_time_text(first->until_ms, until);
    snprintf(note, room, "nodes are set aside until %s, since %s%s%s", until,
             first->why == KZ__WHY_EMPTY      ? "the store was found empty"
             : first->why == KZ__WHY_RESERVED ? "they are reserved"
                                              : "the server was restarted or another one took over",
             *rest ? "; " : "", rest);
}

/* Says before the rest of the note that another provider is there. */
static void note_foreign(const kz__redis_settings *settings, char *note, size_t room)
{
    char rest[KZ_MESSAGE_SIZE], until[KZ_TIME_TEXT_SIZE];
    if (!settings->foreign)
        return;
    snprintf(rest, sizeof rest, "%s", note);
    kz_time_text(settings->foreign_until_ms, until);
    snprintf(note, room,
             "another provider holds leases in the same keys (%" PRId64 " seen; node %" PRId64
             " counts as out until %s)%s%s",
             settings->foreign, settings->foreign_node, until, *rest ? "; " : "", rest);
}

kz_status kz__redis_health(void *self, const char *asked, kz_source_health *health, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_source_health h = {0};
    kz__redis_settings settings;
    kz_status status = kz__redis_ready(source, asked, &service, err);
    if (!status)
        status = kz__redis_settings_read(source, service, false, &settings, err);
    if (!status && settings.exists)
        status = count_free(source, service, &settings, &h.nodes_free, err);
    if (!status)
        status =
            kz__redis_durable(source->link, ", or use ?amnesia=quarantine", &h.durable, h.note, sizeof h.note, err);
    if (status)
        return status;
    h.source_ms = settings.source_ms;
    h.generation = (uint64_t)settings.generation;
    h.leases_out = (uint64_t)settings.leases_out;
    h.nodes_free = settings.exists ? h.nodes_free + (uint64_t)settings.leases_ended
                                   : UINT64_C(1) << (settings.layout.node_bits - 1);
    h.nodes_free -= (uint64_t)settings.foreign < h.nodes_free ? (uint64_t)settings.foreign : h.nodes_free;
    note_aside(&settings, h.note, sizeof h.note);
    note_foreign(&settings, h.note, sizeof h.note);
    h.layout = settings.layout;
    h.lease_ms = settings.exists ? settings.lease_ms : source->params.lease_ms;
    *health = h;
    return KZ_OK;
}
