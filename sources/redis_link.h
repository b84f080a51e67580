/* One connection to Redis: commands out, replies in, within a time and a size. */
#ifndef KZ_SOURCES_REDIS_LINK_H
#define KZ_SOURCES_REDIS_LINK_H

#include "core/url.h"

#include <hiredis/hiredis.h>

typedef struct kz__redis_address {
    char host[256], port[8];
    char user[128], password[512]; /* empty: none */
    char cacert[512];              /* empty: the system's certificates */
    char name[300];                /* "redis://host:port/db", for messages: never with the password */
    char sentinels[300];           /* "host:port,host:port", to be asked where the master is; empty: it is at host */
    char master[64];               /* what they call it */
    char sentinel_user[128], sentinel_password[512];
    unsigned db;
    bool tls, insecure;
    int64_t timeout_ms; /* for connecting, and for each command */
} kz__redis_address;

#define KZ__REDIS_PREFIX_MAX 64

/* ?prefix=, or nothing. */
kz_status kz__redis_prefix_read(const kz__url *url, char prefix[static KZ__REDIS_PREFIX_MAX + 1], kz_error *err);

/* Reads //[[user]:password@][host][:port][/db], ?cacert= and ?insecure= (with TLS, which the scheme says); in a
 * redis+sentinel: URL //[[user]:password@]host[:port][,host[:port]...]/master[/db], ?sentinel-user= and
 * ?sentinel-password=. */
kz_status kz__redis_address_read(const kz__url *url, int64_t timeout_ms, kz__redis_address *address, kz_error *err);

/* The sentinel at `*list`, which is moved on to the next; false after the last. */
bool kz__redis_sentinel_next(const char **list, kz__redis_address *sentinel);

/* Asks the sentinels in turn for the master, and makes it the host. KZ_UNAVAILABLE: none of them answers. KZ_STORE:
 * they know no such master, or are no sentinels. */
kz_status kz__redis_find_master(kz__redis_address *address, kz_error *err);

typedef struct kz__redis_link kz__redis_link;

/* Connects with the first command, and anew after a failure; by way of the sentinels, if there are any. */
kz_status kz__redis_link_new(kz__redis_link **link, const kz__redis_address *address, kz_error *err);

/* Closes the connection; the next command makes a new one. */
void kz__redis_link_drop(kz__redis_link *link);

/* Sends nothing: in a forked child the parent's session goes on. */
void kz__redis_link_free(kz__redis_link *link);

typedef struct kz__redis_args {
    int count;
    const char *const *texts;
    const size_t *sizes; /* NULL: the texts end with a zero */
} kz__redis_args;

/* Sends a command and waits for its reply, which the caller frees with freeReplyObject. An error that Redis answered is
 * a reply too. KZ_UNAVAILABLE: no connection, or no answer in time: whether the command was carried out is not known.
 * KZ_STORE: what came is no Redis reply, or too large; or Redis refused the login, the database or the certificate. */
kz_status kz__redis_send(kz__redis_link *link, const kz__redis_args *args, redisReply **reply, kz_error *err);

/* Turns an error that Redis answered into a status and a message that says the way out. */
kz_status kz__redis_refused(const kz__redis_link *link, const char *text, kz_error *err);

/* The same, for a reply that is not of the kind expected. The connection is closed: it may be one answer behind, and
 * would stay so. */
kz_status kz__redis_unexpected(kz__redis_link *link, const char *what, const redisReply *reply, kz_error *err);

/* "redis://host:port/db" */
const char *kz__redis_link_name(const kz__redis_link *link);

bool kz__redis_link_has_sentinels(const kz__redis_link *link);

#endif
