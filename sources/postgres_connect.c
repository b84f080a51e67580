/* How PostgreSQL is reached: the URL, the hosts in turn, and what its errors mean.
 *
 * The hosts are tried one by one, not all in one call of libpq's: without its blocking call a host that is silent would
 * use up the time of those behind it. */
#include "sources/postgres_connect.h"
#include "core/error.h"
#include "sources/postgres_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- the URL */

static PQconninfoOption *option(const kz__pg_address *address, const char *name)
{
    for (PQconninfoOption *o = address->options; o && o->keyword; o++)
        if (strcmp(o->keyword, name) == 0)
            return o;
    return NULL;
}

bool kz__pg_knows(const char *param)
{
    PQconninfoOption *all = PQconndefaults();
    kz__pg_address defaults = {.options = all};
    bool known = option(&defaults, param) != NULL;
    PQconninfoFree(all);
    return known;
}

const char *kz__pg_address_param(const kz__pg_address *address, const char *name)
{
    const PQconninfoOption *o = option(address, name);
    return o && o->val ? o->val : "";
}

static bool set(kz__pg_address *address, const char *name, const char *value)
{
    PQconninfoOption *o = option(address, name);
    char *copy = o ? strdup(value) : NULL;
    if (!copy)
        return false;
    free(o->val);
    o->val = copy;
    return true;
}

/* Cuts a list at its commas: `count` pieces at most, empty ones are NULL. False: no memory. */
static bool split(const char *list, char **pieces, size_t stride, size_t room, size_t *count)
{
    *count = 0;
    for (const char *at = list; at && *count <= room;) {
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (*count < room && length && !(*(char **)((char *)pieces + stride * *count) = strndup(at, length)))
            return false;
        ++*count;
        at = comma ? comma + 1 : NULL;
    }
    return true;
}

/* host, hostaddr and port may be lists of equal length; one port serves all. */
static kz_status split_hosts(kz__pg_address *address, kz_error *err)
{
    size_t hosts, addresses, ports, stride = sizeof address->hosts[0];
    const char *host = kz__pg_address_param(address, "host"), *numeric = kz__pg_address_param(address, "hostaddr");
    const char *port = kz__pg_address_param(address, "port");
    if (!split(*host ? host : NULL, &address->hosts[0].host, stride, KZ__PG_HOSTS_MAX, &hosts) ||
        !split(*numeric ? numeric : NULL, &address->hosts[0].address, stride, KZ__PG_HOSTS_MAX, &addresses) ||
        !split(*port ? port : NULL, &address->hosts[0].port, stride, KZ__PG_HOSTS_MAX, &ports))
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    size_t count = hosts > addresses ? hosts : addresses;
    count = count ? count : 1;
    if (count > KZ__PG_HOSTS_MAX || (addresses && hosts && addresses != hosts) || (ports > 1 && ports != count))
        return kz__fail(err, KZ_INVALID,
                        "source postgres: %zu hosts with %zu ports: give one port or as many, and at "
                        "most %d hosts",
                        count, ports, KZ__PG_HOSTS_MAX);
    for (size_t i = 1; ports == 1 && i < count; i++)
        if (address->hosts[0].port && !(address->hosts[i].port = strdup(address->hosts[0].port)))
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    address->host_count = count;
    return KZ_OK;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

static kz_status take_params(kz__pg_address *address, const kz__url *url, const char *const *own, kz_error *err)
{
    /* Whatever would make it something else than a session that writes. */
    static const char *const fixed[] = {"target_session_attrs", "replication", "client_encoding", NULL};
    for (size_t i = 0; i < url->param_count; i++) {
        const char *name = url->params[i].name;
        if (is_one_of(name, own))
            continue;
        if (is_one_of(name, fixed))
            return kz__fail(err, KZ_INVALID,
                            "source %s: %s cannot be given: leases are written, by a session of the "
                            "primary's; leave it out",
                            url->scheme, name);
        if (!option(address, name))
            return kz__fail(err, KZ_INVALID, "source %s: parameter %s is not known, neither here nor to libpq",
                            url->scheme, name);
        if (!set(address, name, url->params[i].value))
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    }
    return KZ_OK;
}

kz_status kz__pg_address_read(kz__pg_address *address, const kz__url *url, const char *const *own, kz_error *err)
{
    char uri[KZ__URL_MAX + 16], *why = NULL;
    *address = (kz__pg_address){0};
    snprintf(uri, sizeof uri, "postgresql:%s", url->body);
    if (strncmp(url->body, "//", 2) != 0)
        return kz__fail(err, KZ_INVALID, "source %s: write %s://user@host/database", url->scheme, url->scheme);
    address->options = PQconninfoParse(uri, &why);
    explicit_bzero(uri, sizeof uri);
    kz_status status = KZ_OK;
    if (!address->options) {
        /* The rest of what libpq says repeats the URL, and the password with it. */
        int length = why ? (int)strcspn(why, ":\"\n") : 0;
        status = kz__fail(err, KZ_INVALID,
                          "source %s: not a URL of PostgreSQL's (%.*s): write %s://user@host:port/database, with "
                          "special characters as %%XX",
                          url->scheme, length, why ? why : "", url->scheme);
    }
    PQfreemem(why);
    if (status == KZ_OK)
        status = take_params(address, url, own, err);
    if (status == KZ_OK)
        status = split_hosts(address, err);
    if (status)
        kz__pg_address_free(address);
    return status;
}

void kz__pg_address_free(kz__pg_address *address)
{
    for (PQconninfoOption *o = address->options; o && o->keyword; o++)
        if (o->val)
            explicit_bzero(o->val, strlen(o->val));
    PQconninfoFree(address->options);
    for (size_t i = 0; i < KZ__PG_HOSTS_MAX; i++) {
        free(address->hosts[i].host);
        free(address->hosts[i].address);
        free(address->hosts[i].port);
    }
    *address = (kz__pg_address){0};
}

/* ------------------------------------------------------------------------------------------------- errors */

void kz__pg_first_line(const char *message, char *line, size_t room)
{
    snprintf(line, room, "%.*s", (int)strcspn(message, "\n"), message);
}

static const struct {
    const char *state; /* the beginning of a SQLSTATE */
    kz_status status;
    const char *advice;
} meanings[] = {
    {"40001", KZ_AGAIN, ""},
    {"40P01", KZ_AGAIN, ""},
    {"3F000", KZ_NOT_FOUND, ""},
    {"42P01", KZ_NOT_FOUND, ""},
    {"28", KZ_STORE, ": give the right user and password, and see the server's pg_hba.conf"},
    {"3D000", KZ_STORE, ": create the database, or name another in the URL"},
    {"42501", KZ_STORE, ": let an administrator run " KZ__PG_SQL_FILE " for this role, see docs/leases.md"},
    {"53100", KZ_STORE, ": make room on the server's disk"},
    {"53", KZ_UNAVAILABLE, ": the server is short of resources; clients in large numbers go through kazahana serve"},
    {"55P03", KZ_UNAVAILABLE, ": another transaction holds the lease table, perhaps while it waits for a standby"},
    {"25006", KZ_UNAVAILABLE, ": it is a standby now"},
    {"25P", KZ_UNAVAILABLE, ""},
    {"57", KZ_UNAVAILABLE, ""},
    {"08", KZ_UNAVAILABLE, ""},
    {"XX", KZ_STORE, ": see the server's log"},
    {"58", KZ_STORE, ": see the server's log"},
    {"23", KZ_STORE,
     ": the lease table contradicts itself; nothing was written. Start with a new schema, and only when "
     "all leases have ended"},
};

kz_status kz__pg_explain(const char *name, const char *state, const char *said, kz_error *err)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0)
            return kz__fail(err, meanings[i].status, "%s: %s%s", name, said, meanings[i].advice);
    return kz__fail(err, KZ_STORE, "%s: %s (%s)", name, said, state);
}

/* Why there is no connection. libpq tells the server's SQLSTATE only inside of its text: "FATAL:  28P01: ...". */
static kz_status refused(const PGconn *conn, const char *name, const char *where, kz_error *err)
{
    char line[400];
    kz__pg_first_line(PQerrorMessage(conn), line, sizeof line);
    for (const char *at = strstr(line, ":  "); at; at = strstr(at + 3, ":  "))
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(at + 8, ": ", 2) == 0) {
            char state[6] = "";
            memcpy(state, at + 3, 5);
            return kz__pg_explain(name, state, at + 10, err);
        }
    const char *said = strstr(line, "failed: ");
    said = said ? said + strlen("failed: ") : line;
    if (PQconnectionNeedsPassword(conn))
        return kz__fail(err, KZ_STORE, "%s: the server at %s wants a password: give it in the URL or in ~/.pgpass",
                        name, where);
    return kz__fail(err, KZ_UNAVAILABLE, "%s: no connection to %s: %s", name, where, said);
}

/* --------------------------------------------------------------------------------------------- connecting */

static PGconn *start(const kz__pg_address *address, size_t host)
{
    const char *names[64], *values[64];
    int count = 0;
    for (const PQconninfoOption *o = address->options; o->keyword && count < 56; o++)
        if (o->val && strcmp(o->keyword, "host") != 0 && strcmp(o->keyword, "hostaddr") != 0 &&
            strcmp(o->keyword, "port") != 0) {
            names[count] = o->keyword;
            values[count++] = o->val;
        }
    const char *const more[][2] = {{"host", address->hosts[host].host}, {"hostaddr", address->hosts[host].address},
                                   {"port", address->hosts[host].port}, {"target_session_attrs", "read-write"},
                                   {"client_encoding", "UTF8"},         {"fallback_application_name", "kazahana"}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        names[count] = more[i][0];
        values[count++] = more[i][1];
    }
    names[count] = values[count] = NULL;
    return PQconnectStartParams(names, values, 0);
}

/* Until the connection is there, is refused, or the time is over. */
static PostgresPollingStatusType wait_connected(PGconn *conn, int64_t until_ms)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (PQstatus(conn) != CONNECTION_BAD && state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        struct pollfd socket = {.fd = PQsocket(conn), .events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        int64_t left_ms = until_ms - kz__pg_now_ms();
        int ready = left_ms > 0 ? poll(&socket, 1, (int)left_ms) : 0;
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return state;
        if (ready > 0)
            state = PQconnectPoll(conn);
    }
    return PQstatus(conn) == CONNECTION_BAD ? PGRES_POLLING_FAILED : state;
}

static kz_status connect_one(const kz__pg_address *address, size_t host, const char *name, int64_t until_ms,
                             PGconn **out, kz_error *err)
{
    const char *where = address->hosts[host].host      ? address->hosts[host].host
                        : address->hosts[host].address ? address->hosts[host].address
                                                       : "the local server";
    PGconn *conn = start(address, host);
    if (!conn)
        return kz__fail(err, KZ_NO_MEMORY, "%s: no memory for a connection", name);
    PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);
    PostgresPollingStatusType state = wait_connected(conn, until_ms);
    if (state == PGRES_POLLING_OK) {
        *out = conn;
        return KZ_OK;
    }
    kz_status status = state == PGRES_POLLING_FAILED
                           ? refused(conn, name, where, err)
                           : kz__fail(err, KZ_UNAVAILABLE, "%s: %s does not answer", name, where);
    PQfinish(conn);
    return status;
}

kz_status kz__pg_connect(const kz__pg_address *address, const char *name, int64_t deadline_ms, PGconn **out,
                         kz_error *err)
{
    kz_status status = KZ_OK;
    kz_error why;
    for (size_t i = 0; i < address->host_count; i++) {
        int64_t now_ms = kz__pg_now_ms();
        int64_t share_ms = (deadline_ms - now_ms) / (int64_t)(address->host_count - i);
        kz_status one = connect_one(address, i, name, now_ms + share_ms, out, &why);
        if (one == KZ_OK)
            return KZ_OK;
        /* A login that is refused says more than a host that is down or a standby. */
        if (i == 0 || status == KZ_UNAVAILABLE) {
            status = one;
            if (err)
                *err = why;
        }
    }
    return status;
}
