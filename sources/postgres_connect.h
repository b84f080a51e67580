/* How PostgreSQL is reached: the URL, the hosts in turn, and what its errors mean. */
#ifndef KZ_SOURCES_POSTGRES_CONNECT_H
#define KZ_SOURCES_POSTGRES_CONNECT_H

#include "core/url.h"

#include <libpq-fe.h>

#define KZ__PG_HOSTS_MAX 16

/* What an administrator runs for a role that may not make the tables. The build installs it. */
#define KZ__PG_SQL_FILE "share/kazahana/postgres.sql"

/* libpq's parameters, without those of a host. */
typedef struct kz__pg_address {
    PQconninfoOption *options;
    size_t host_count;
    struct {
        char *host, *address, *port; /* NULL: not given */
    } hosts[KZ__PG_HOSTS_MAX];
} kz__pg_address;

/* `own` (NULL-terminated) are parameters of ours. KZ_INVALID: what is not ours or libpq's, or not allowed. */
kz_status kz__pg_address_read(kz__pg_address *address, const kz__url *url, const char *const *own, kz_error *err);
void kz__pg_address_free(kz__pg_address *address);
const char *kz__pg_address_param(const kz__pg_address *address, const char *name);

/* Tries the hosts in turn until one accepts writes, each with its share of the time. */
kz_status kz__pg_connect(const kz__pg_address *address, const char *name, int64_t deadline_ms, PGconn **out,
                         kz_error *err);

/* Status and message for an error of the server. */
kz_status kz__pg_explain(const char *name, const char *state, const char *said, kz_error *err);

/* The first line of a message. */
void kz__pg_first_line(const char *message, char *line, size_t room);

/* CLOCK_MONOTONIC, which deadlines are in. */
int64_t kz__pg_now_ms(void);

#endif
