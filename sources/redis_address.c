/* redis:// URLs and their kin, and the errors that Redis answers, in words that say the way out. */
#include "core/error.h"
#include "sources/redis_link.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT          6379
#define DEFAULT_SENTINEL_PORT 26379
#define SENTINELS_MAX         16
#define DB_MAX                65535u

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies `size` characters, %XX decoded. False: it does not fit, a percent sign without two digits, or a zero. */
static bool copy_decoded(char *out, size_t room, const char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < size ? hex_digit(text[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_digit(text[i + 2]);
            c = low < 0 ? 0 : high << 4 | low;
            i += 2;
        }
        if (!c || used + 1 >= room)
            return false;
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return true;
}

static bool read_number(const char *text, size_t size, unsigned max, unsigned *number)
{
    unsigned value = 0;
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
        if (value > max)
            return false;
    }
    *number = value;
    return size > 0;
}

kz_status kz__redis_prefix_read(const kz__url *url, char prefix[static KZ__REDIS_PREFIX_MAX + 1], kz_error *err)
{
    const char *given = kz__url_param(url, "prefix");
    if (given && strlen(given) > KZ__REDIS_PREFIX_MAX)
        return kz__fail(err, KZ_INVALID, "source %s: a prefix has at most %d characters", url->scheme,
                        KZ__REDIS_PREFIX_MAX);
    strcpy(prefix, given ? given : "");
    return KZ_OK;
}

static kz_status read_login(const char *text, size_t size, kz__redis_address *address, const char *scheme,
                            kz_error *err)
{
    const char *colon = memchr(text, ':', size);
    size_t user = colon ? (size_t)(colon - text) : size;
    bool fits = copy_decoded(address->user, sizeof address->user, text, user);
    if (fits && colon)
        fits = copy_decoded(address->password, sizeof address->password, colon + 1, size - user - 1);
    if (!fits)
        return kz__fail(err, KZ_INVALID,
                        "source %s: the user or the password before @ is too long or has a %% without two hex digits "
                        "(write %% as %%25, @ as %%40, / as %%2F)",
                        scheme);
    if (!*address->password)
        return kz__fail(err, KZ_INVALID,
                        "source %s: a login without a password: write %s://:password@host or user:password@host",
                        scheme, scheme);
    return KZ_OK;
}

/* host, host:port, [v6], [v6]:port, or nothing. */
static kz_status read_place(const char *text, size_t size, unsigned port, kz__redis_address *address,
                            const char *scheme, kz_error *err)
{
    const char *host = text, *rest = text;
    size_t host_size = 0;
    if (size && text[0] == '[') {
        const char *close = memchr(text, ']', size);
        if (!close)
            return kz__fail(err, KZ_INVALID, "source %s: [ without ] in the host", scheme);
        host++;
        host_size = (size_t)(close - host);
        rest = close + 1;
    } else {
        const char *colon = memchr(text, ':', size);
        host_size = colon ? (size_t)(colon - text) : size;
        rest = text + host_size;
    }
    size_t left = size - (size_t)(rest - text);
    if (left && (*rest != ':' || !read_number(rest + 1, left - 1, 65535, &port) || !port))
        return kz__fail(err, KZ_INVALID,
                        "source %s: what follows the colon behind the host is not a port (1..65535); a password stands "
                        "before an @: %s://:password@host",
                        scheme, scheme);
    if (host_size >= sizeof address->host)
        return kz__fail(err, KZ_INVALID, "source %s: a host name of %zu characters is too long", scheme, host_size);
    snprintf(address->host, sizeof address->host, "%.*s", (int)host_size, host);
    if (!host_size)
        snprintf(address->host, sizeof address->host, "localhost");
    snprintf(address->port, sizeof address->port, "%u", port);
    return KZ_OK;
}

bool kz__redis_sentinel_next(const char **list, kz__redis_address *sentinel)
{
    size_t size = strcspn(*list, ",");
    if (!**list || read_place(*list, size, DEFAULT_SENTINEL_PORT, sentinel, "", NULL))
        return false;
    *list += size + ((*list)[size] == ',');
    snprintf(sentinel->name, sizeof sentinel->name, "the sentinel at %s:%s", sentinel->host, sentinel->port);
    return true;
}

/* host[:port][,host[:port]...]/master[/db]; what follows the master's name is left in `rest`. */
static kz_status read_sentinels(const char *scheme, const char *text, kz__redis_address *address, const char **rest,
                                kz_error *err)
{
    size_t size = strcspn(text, "/"), count = 0;
    if (size >= sizeof address->sentinels)
        return kz__fail(err, KZ_INVALID, "source %s: a list of sentinels of %zu characters is too long", scheme, size);
    snprintf(address->sentinels, sizeof address->sentinels, "%.*s", (int)size, text);
    for (const char *at = address->sentinels; *at; count++) {
        kz__redis_address ignored;
        size_t length = strcspn(at, ",");
        bool ends_in_comma = at[length] == ',' && !at[length + 1];
        if (!length || ends_in_comma || count == SENTINELS_MAX)
            return kz__fail(err, KZ_INVALID, "source %s: not a list of 1 to %d sentinels, host:port,host:port", scheme,
                            SENTINELS_MAX);
        kz_status status = read_place(at, length, DEFAULT_SENTINEL_PORT, &ignored, scheme, err);
        if (status)
            return status;
        at += length + (at[length] == ',');
    }
    const char *name = text + size + (text[size] == '/');
    size_t length = strcspn(name, "/");
    if (!count || !length || !copy_decoded(address->master, sizeof address->master, name, length))
        return kz__fail(err, KZ_INVALID, "source %s: write %s://host:port,host:port/master-name/db", scheme, scheme);
    *rest = name + length;
    return KZ_OK;
}

static kz_status read_tls(const kz__url *url, kz__redis_address *address, kz_error *err)
{
    const char *cacert = kz__url_param(url, "cacert"), *insecure = kz__url_param(url, "insecure");
    if (!address->tls && (cacert || insecure))
        return kz__fail(err, KZ_INVALID, "source %s: %s is for rediss://, this connection is not encrypted",
                        url->scheme, cacert ? "cacert" : "insecure");
    if (insecure && strcmp(insecure, "1") != 0 && strcmp(insecure, "0") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: insecure=%s must be 1 or 0", url->scheme, insecure);
    address->insecure = insecure && *insecure == '1';
    if (cacert && snprintf(address->cacert, sizeof address->cacert, "%s", cacert) >= (int)sizeof address->cacert)
        return kz__fail(err, KZ_INVALID, "source %s: the path in cacert is too long", url->scheme);
    return KZ_OK;
}

/* What the sentinels want to know. */
static kz_status read_sentinel_login(const kz__url *url, kz__redis_address *address, kz_error *err)
{
    const char *user = kz__url_param(url, "sentinel-user"), *password = kz__url_param(url, "sentinel-password");
    if ((user || password) && !*address->master)
        return kz__fail(err, KZ_INVALID, "source %s: sentinel-user and sentinel-password are for redis+sentinel://",
                        url->scheme);
    if (user && !password)
        return kz__fail(err, KZ_INVALID, "source %s: sentinel-user without sentinel-password", url->scheme);
    if ((user && strlen(user) >= sizeof address->sentinel_user) ||
        (password && strlen(password) >= sizeof address->sentinel_password))
        return kz__fail(err, KZ_INVALID, "source %s: sentinel-user or sentinel-password is too long", url->scheme);
    strcpy(address->sentinel_user, user ? user : "");
    strcpy(address->sentinel_password, password ? password : "");
    return KZ_OK;
}

kz_status kz__redis_address_read(const kz__url *url, int64_t timeout_ms, kz__redis_address *address, kz_error *err)
{
    *address = (kz__redis_address){.tls = strstr(url->scheme, "rediss") != NULL};
    address->timeout_ms = timeout_ms < 0 || timeout_ms > 10000 ? 10000 : timeout_ms < 100 ? 100 : timeout_ms;
    kz_status status = read_tls(url, address, err);
    if (status)
        return status;
    const char *p = url->body;
    if (strncmp(p, "//", 2) != 0)
        return kz__fail(err, KZ_INVALID, "source %s: write %s://host:port/db", url->scheme, url->scheme);
    p += 2;
    /* The last @, so that one in the password that was not encoded does not end up in a host name in a message. */
    const char *at = strrchr(p, '@');
    if (at) {
        status = read_login(p, (size_t)(at - p), address, url->scheme, err);
        if (status)
            return status;
        p = at + 1;
    }
    if (strstr(url->scheme, "+sentinel")) {
        status = read_sentinels(url->scheme, p, address, &p, err);
    } else {
        size_t size = strcspn(p, "/");
        status = read_place(p, size, DEFAULT_PORT, address, url->scheme, err);
        p += size;
    }
    if (!status)
        status = read_sentinel_login(url, address, err);
    if (status)
        return status;
    p += *p == '/';
    if (*p && !read_number(p, strlen(p), DB_MAX, &address->db))
        return kz__fail(err, KZ_INVALID, "source %s: what follows the / is not a database number (0..%u)", url->scheme,
                        DB_MAX);
    if (*address->master)
        snprintf(address->name, sizeof address->name, "%s://%s/%s/%u", url->scheme, address->sentinels, address->master,
                 address->db);
    else
        snprintf(address->name, sizeof address->name, "%s://%s:%s/%u", url->scheme, address->host, address->port,
                 address->db);
    return KZ_OK;
}

/* What Redis says with its first word, and what to do about it. */
static const struct {
    const char *word;
    kz_status status;
    const char *advice;
} refusals[] = {
    {"LOADING", KZ_UNAVAILABLE, "it is still loading its data: wait until it is up"},
    {"BUSY", KZ_UNAVAILABLE, "a script of somebody else's is running there"},
    {"MASTERDOWN", KZ_UNAVAILABLE, "it is a replica whose master is gone: name the master"},
    {"CLUSTERDOWN", KZ_UNAVAILABLE, "the cluster is down: see CLUSTER INFO there"},
    {"TRYAGAIN", KZ_UNAVAILABLE, "the cluster is moving these keys: it will pass"},
    {"READONLY", KZ_UNAVAILABLE, "it is a replica and takes no writes: name the master"},
    {"NOREPLICAS", KZ_UNAVAILABLE, "too few replicas are connected for its min-replicas-to-write"},
    {"MISCONF", KZ_UNAVAILABLE, "it cannot write to its disk and refuses writes: see its log"},
    {"OOM", KZ_UNAVAILABLE, "it is out of memory: raise maxmemory there"},
    {"NOAUTH", KZ_STORE, "it wants a password: write redis://:password@host"},
    {"WRONGPASS", KZ_STORE, "wrong user or password"},
    {"NOPERM", KZ_STORE, "this user may not do that: allow it the keys and the commands of a lease table"},
    {"MOVED", KZ_STORE, "it is one node of a cluster: ?prefix={tag}: is required, and the node that serves that tag"},
    {"ASK", KZ_STORE, "it is one node of a cluster: ?prefix={tag}: is required, and the node that serves that tag"},
    {"CROSSSLOT", KZ_STORE, "in a cluster ?prefix={tag}: is required, so that all keys are on one node"},
    {"KZDAMAGED", KZ_STORE, "the lease table there is damaged: start with another ?prefix= when all leases have ended"},
    {"WRONGTYPE", KZ_STORE, "a key of the lease table holds something else: choose a ?prefix= of its own"},
};

kz_status kz__redis_refused(const kz__redis_link *link, const char *text, kz_error *err)
{
    const char *name = kz__redis_link_name(link);
    /* A script's failure may bring the word along further back. */
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        size_t size = strlen(refusals[i].word);
        const char *found = strncmp(text, refusals[i].word, size) == 0 ? text : NULL;
        if (!found && strncmp(text, "ERR ", 4) == 0 && (found = strstr(text, refusals[i].word)) && found[-1] != '-' &&
            found[-1] != ' ')
            found = NULL;
        if (found && !isalnum((unsigned char)found[size]))
            return kz__fail(err, refusals[i].status, "%s: %s (\"%.150s\")", name, refusals[i].advice, text);
    }
    return kz__fail(err, KZ_STORE, "%s refused: \"%.200s\"", name, text);
}

kz_status kz__redis_unexpected(kz__redis_link *link, const char *what, const redisReply *reply, kz_error *err)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return kz__redis_refused(link, reply->str, err);
    kz__redis_link_drop(link);
    return kz__fail(err, KZ_STORE,
                    "%s: the answer to %s is not what a lease table gives: is this Redis, and nobody "
                    "else writing to its keys?",
                    kz__redis_link_name(link), what);
}
