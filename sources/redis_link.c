/* One connection to Redis: commands out, replies in, within a time and a size. hiredis writes and reads the protocol.
 */
#include "sources/redis_link.h"
#include "core/error.h"
#include "sources/redis_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_BYTES_MAX    (4u << 20)
#define REPLY_ELEMENTS_MAX 65536
#define ASK_AGAIN_MS       1000

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

struct kz__redis_link {
    kz__redis_address address;
    kz__wire wire;
    redisReader *reader;
    redisReplyObjectFunctions limited;
    void *(*create_array)(const redisReadTask *, element_count);
    bool spoke;       /* the connection has answered at least once */
    int64_t asked_ms; /* boot time when the sentinels were asked last */
};

const char *kz__redis_link_name(const kz__redis_link *link)
{
    return link->address.name;
}

bool kz__redis_link_has_sentinels(const kz__redis_link *link)
{
    return *link->address.master;
}

/* An announced length is not believed: hiredis would allocate for it at once. */
static void *create_array_limited(const redisReadTask *task, element_count elements)
{
    const kz__redis_link *link = task->privdata;
    return elements > REPLY_ELEMENTS_MAX ? NULL : link->create_array(task, elements);
}

void kz__redis_link_drop(kz__redis_link *link)
{
    kz__wire_close(&link->wire);
    if (link->reader)
        redisReaderFree(link->reader);
    link->reader = NULL;
    link->spoke = false;
}

static kz_status read_reply(kz__redis_link *link, redisReply **reply, int64_t deadline_ms, kz_error *err)
{
    char data[16384];
    size_t total = 0;
    for (;;) {
        void *got = NULL;
        if (redisReaderGetReply(link->reader, &got) != REDIS_OK)
            return kz__fail(err, KZ_STORE, "%s does not speak the Redis protocol: %s", link->address.name,
                            link->reader->errstr);
        if (got && link->reader->pos < link->reader->len) {
            /* More than one answer to one question: the next answer would be somebody else's. */
            freeReplyObject(got);
            return kz__fail(err, KZ_STORE, "%s answers more than it was asked", link->address.name);
        }
        if (got) {
            *reply = got;
            return KZ_OK;
        }
        if (total > REPLY_BYTES_MAX)
            return kz__fail(err, KZ_STORE, "%s: an answer of more than %u bytes is not read", link->address.name,
                            REPLY_BYTES_MAX);
        size_t size = 0;
        kz_status status = kz__wire_read(&link->wire, data, sizeof data, &size, deadline_ms, err);
        if (status)
            return status;
        total += size;
        if (redisReaderFeed(link->reader, data, size) != REDIS_OK)
            return kz__fail(err, KZ_NO_MEMORY, "no memory for an answer of %s", link->address.name);
    }
}

static kz_status exchange(kz__redis_link *link, const kz__redis_args *args, redisReply **reply, kz_error *err)
{
    int64_t deadline_ms = kz__wire_now_ms() + link->address.timeout_ms;
    char *command = NULL;
    /* hiredis leaves the texts alone, it only says so too weakly. */
    int size = redisFormatCommandArgv(&command, args->count, (const char **)(uintptr_t)args->texts, args->sizes);
    if (size < 0)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a command");
    kz_status status = kz__wire_write(&link->wire, command, (size_t)size, deadline_ms, err);
    redisFreeCommand(command);
    return status ? status : read_reply(link, reply, deadline_ms, err);
}

/* A command whose only answer can be OK. */
static kz_status greet(kz__redis_link *link, int count, const char *const *texts, kz_error *err)
{
    redisReply *reply = NULL;
    kz_status status = exchange(link, &(kz__redis_args){count, texts, NULL}, &reply, err);
    if (status)
        return status;
    if (reply->type != REDIS_REPLY_STATUS) {
        bool refused = reply->type == REDIS_REPLY_ERROR;
        if (refused && strcmp(texts[0], "AUTH") == 0 && strncmp(reply->str, "LOADING", 7) != 0)
            /* Not its own words: some versions repeat what they were given. */
            status = kz__fail(err, KZ_STORE, "%s: wrong user or password", link->address.name);
        else
            status = kz__redis_unexpected(link, texts[0], reply, err);
    }
    freeReplyObject(reply);
    return status;
}

/* Sentinels may name a server that does not know yet, or no longer, that it is the master. */
static kz_status check_master(kz__redis_link *link, kz_error *err)
{
    redisReply *reply = NULL;
    kz_status status = exchange(link, &(kz__redis_args){1, (const char *[]){"ROLE"}, NULL}, &reply, err);
    if (status)
        return status;
    const redisReply *role = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0] : NULL;
    if (!role || role->type != REDIS_REPLY_STRING)
        status = kz__redis_unexpected(link, "ROLE", reply, err);
    else if (strcmp(role->str, "master") != 0)
        status = kz__fail(err, KZ_UNAVAILABLE,
                          "%s: the sentinels name it, but it says that it is a %.20s: a failover "
                          "is under way",
                          link->address.name, role->str);
    freeReplyObject(reply);
    return status;
}

static kz_status log_in(kz__redis_link *link, kz_error *err)
{
    const kz__redis_address *a = &link->address;
    kz_status status = KZ_OK;
    if (*a->password) {
        const char *with_user[] = {"AUTH", a->user, a->password}, *without[] = {"AUTH", a->password};
        status = *a->user ? greet(link, 3, with_user, err) : greet(link, 2, without, err);
    }
    if (!status && a->db) {
        char db[16];
        snprintf(db, sizeof db, "%u", a->db);
        status = greet(link, 2, (const char *[]){"SELECT", db}, err);
    }
    if (!status && *a->master)
        status = check_master(link, err);
    return status;
}

static kz_status connect_link(kz__redis_link *link, kz_error *err)
{
    kz_status status = kz__wire_connect(&link->wire, kz__wire_now_ms() + link->address.timeout_ms, err);
    if (!status && !(link->reader = redisReaderCreate()))
        status = kz__fail(err, KZ_NO_MEMORY, "no memory for a connection");
    if (!status) {
        link->limited = *link->reader->fn;
        link->create_array = link->limited.createArray;
        link->limited.createArray = create_array_limited;
        link->reader->fn = &link->limited;
        link->reader->privdata = link;
        status = log_in(link, err);
    }
    if (status)
        kz__redis_link_drop(link);
    return status;
}

/* Finds the master, if that is up to sentinels. A master that was replaced goes on for a while without knowing it, and
 * what it grants then is lost: so they are asked again for every exchange that comes a second after the last. */
static kz_status follow_master(kz__redis_link *link, kz_error *err)
{
    int64_t now_ms = kz__wire_now_ms();
    kz__redis_address *a = &link->address;
    if (!*a->master || (link->wire.fd >= 0 && now_ms - link->asked_ms < ASK_AGAIN_MS))
        return KZ_OK;
    char host[sizeof a->host], port[sizeof a->port];
    memcpy(host, a->host, sizeof host);
    memcpy(port, a->port, sizeof port);
    kz_status status = kz__redis_find_master(a, err);
    if (status)
        return status;
    link->asked_ms = now_ms;
    if (strcmp(host, a->host) != 0 || strcmp(port, a->port) != 0)
        kz__redis_link_drop(link);
    return KZ_OK;
}

/* It takes no writes, as one that was replaced: the next command asks the sentinels. */
static bool may_be_replaced(const kz__redis_link *link, const redisReply *reply)
{
    return *link->address.master && reply->type == REDIS_REPLY_ERROR &&
           (strstr(reply->str, "READONLY") || strstr(reply->str, "NOREPLICAS"));
}

kz_status kz__redis_send(kz__redis_link *link, const kz__redis_args *args, redisReply **reply, kz_error *err)
{
    /* A connection that answered before may have been closed meanwhile (a restart, its idle timeout): that is worth a
     * second try at once. What lease tables send may be carried out twice: requests and secrets name it. */
    for (bool again = link->wire.fd >= 0 && link->spoke;; again = false) {
        if (link->wire.fd >= 0 && kz__wire_is_stale(&link->wire))
            kz__redis_link_drop(link);
        kz_status status = follow_master(link, err);
        if (!status && link->wire.fd < 0)
            status = connect_link(link, err);
        int64_t began_ms = kz__wire_now_ms();
        if (!status)
            status = exchange(link, args, reply, err);
        if (!status) {
            link->spoke = true;
            if (may_be_replaced(link, *reply))
                kz__redis_link_drop(link);
            return KZ_OK;
        }
        kz__redis_link_drop(link);
        if (!again || status != KZ_UNAVAILABLE || kz__wire_now_ms() - began_ms >= link->address.timeout_ms)
            return status;
    }
}

kz_status kz__redis_link_new(kz__redis_link **out, const kz__redis_address *address, kz_error *err)
{
    kz__redis_link *link = calloc(1, sizeof *link);
    if (!link)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a connection");
    link->address = *address;
    link->wire = (kz__wire){.fd = -1, .address = &link->address};
    *out = link;
    return KZ_OK;
}

void kz__redis_link_free(kz__redis_link *link)
{
    if (!link)
        return;
    kz__redis_link_drop(link);
    kz__wire_free(&link->wire);
    explicit_bzero(&link->address, sizeof link->address);
    free(link);
}
