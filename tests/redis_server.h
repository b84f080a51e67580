/* A Redis server of the test's own: on a free port of the loopback, in a folder that goes with it. */
#ifndef KZ_TESTS_REDIS_SERVER_H
#define KZ_TESTS_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct redis_server {
    pid_t pid; /* 0: not running */
    int port;
    bool tls;
    char password[64]; /* empty: none */
    char folder[64];
    char url[256];    /* with the password; for TLS with the certificate */
    char cacert[128]; /* its own certificate, for TLS */
} redis_server;

/* Why there can be no server here, or NULL. */
const char *redis_server_missing(void);

/* Starts a durable server and waits until it answers. `extra` is a NULL-terminated list of arguments, or NULL. Fails
 * the test if it does not come up. */
void redis_server_start(redis_server *server, const char *const *extra);
void redis_server_start_tls(redis_server *server);
void redis_server_start_with_password(redis_server *server, const char *password);

/* The same folder and port again. */
void redis_server_restart(redis_server *server);

void redis_server_kill(redis_server *server); /* kill -9 */
void redis_server_stop(redis_server *server); /* kill -9, and the folder is removed */

/* One command by redis-cli, its words separated by blanks; what it printed is in `out` (may be NULL). */
void redis_server_command(const redis_server *server, const char *command, char *out, size_t room);

/* A free port of the loopback. */
int redis_server_free_port(void);

#endif
