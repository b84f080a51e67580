/* An etcd of one member for tests: on free ports of the loopback, in a folder that goes with it. */
#ifndef KZ_TESTS_ETCD_SERVER_H
#define KZ_TESTS_ETCD_SERVER_H

#include <sys/types.h>

typedef struct etcd_server {
    pid_t pid; /* 0: not running */
    int port;
    char folder[64];
    char url[64];
} etcd_server;

/* Why there can be no server here, or NULL. */
const char *etcd_server_missing(void);

/* Starts a server and waits until it answers; fails the test if it does not. */
void etcd_server_start(etcd_server *server);
void etcd_server_remove(etcd_server *server);

/* Runs etcdctl with these words; what it printed is in `out` (may be NULL). Fails the test if it fails. */
void etcd_server_ctl(const etcd_server *server, const char *words, char *out, size_t room);

#endif
