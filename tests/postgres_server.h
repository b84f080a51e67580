/* A PostgreSQL server of the test's own: on a free port of the loopback, in a folder that goes with it. */
#ifndef KZ_TESTS_POSTGRES_SERVER_H
#define KZ_TESTS_POSTGRES_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct postgres_server {
    pid_t pid; /* 0: not running */
    int port;
    char bin[128]; /* where its programs are */
    char folder[64];
    char url[256]; /* of the database postgres, as its superuser */
} postgres_server;

/* Why there can be no server here, or NULL. */
const char *postgres_server_missing(void);

/* Starts a server and waits until it answers; fails the test if it does not. `settings` is NULL or ends with NULL:
 * "fsync=off", ... */
void postgres_server_start(postgres_server *server, const char *const *settings);
void postgres_server_restart(postgres_server *server, const char *const *settings);
void postgres_server_stop(postgres_server *server); /* at once, and it still keeps its folder */
void postgres_server_remove(postgres_server *server);

/* Runs SQL as the superuser; what it printed is in `out` (may be NULL). Fails the test if it fails. */
void postgres_server_sql(const postgres_server *server, const char *sql, char *out, size_t room);

#endif
