/* An etcd of one member for tests: on free ports of the loopback, in a folder that goes with it. */
#include "tests/etcd_server.h"
#include "tests/redis_server.h"
#include "tests/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES 6000 /* of 10 ms */

const char *etcd_server_missing(void)
{
    return system("command -v etcd >/dev/null && command -v etcdctl >/dev/null") == 0 ? NULL : "etcd is not installed";
}

static FILE *ctl(const etcd_server *server, const char *words)
{
    char command[512];
    snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints 127.0.0.1:%d %s 2>&1", server->port, words);
    return popen(command, "r");
}

void etcd_server_ctl(const etcd_server *server, const char *words, char *out, size_t room)
{
    char drop[4096];
    FILE *pipe = ctl(server, words);
    assert_non_null(pipe);
    char *text = out ? out : drop;
    text[fread(text, 1, (out ? room : sizeof drop) - 1, pipe)] = '\0';
    if (pclose(pipe) != 0)
        fail_msg("etcdctl %s: %s", words, text);
}

static bool is_ready(const etcd_server *server)
{
    char drop[4096];
    FILE *pipe = ctl(server, "endpoint health");
    assert_non_null(pipe);
    while (fread(drop, 1, sizeof drop, pipe))
        ;
    return pclose(pipe) == 0;
}

void etcd_server_start(etcd_server *server)
{
    char command[1024];
    *server = (etcd_server){.port = redis_server_free_port()};
    int peers = redis_server_free_port();
    strcpy(server->folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/kazahana-etcd.XXXXXX" : "/tmp/kazahana-etcd.XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->url, sizeof server->url, "etcd://127.0.0.1:%d", server->port);
    snprintf(command, sizeof command,
             "exec etcd --data-dir %s/data --listen-client-urls http://127.0.0.1:%d --advertise-client-urls "
             "http://127.0.0.1:%d --listen-peer-urls http://127.0.0.1:%d --initial-advertise-peer-urls "
             "http://127.0.0.1:%d --initial-cluster default=http://127.0.0.1:%d >>%s/log 2>&1",
             server->folder, server->port, server->port, peers, peers, peers, server->folder);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < START_TRIES && waitpid(server->pid, NULL, WNOHANG) == 0; i++) {
        if (is_ready(server))
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("etcd did not come up on port %d, see %s/log", server->port, server->folder);
}

void etcd_server_remove(etcd_server *server)
{
    char command[128];
    if (!server->pid)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
    snprintf(command, sizeof command, "rm -rf '%s'", server->folder);
    if (system(command) != 0)
        print_message("%s could not be removed\n", server->folder);
}
