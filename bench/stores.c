/* The stores under the lease tables, bare: what one durable write costs without any table. */
#include "bench/stores.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void remove_folder(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---------------------------------------------------------------------------------------------------- SQLite */

#ifdef KZ_HAVE_SQLITE
#include <sqlite3.h>

static void sqlite_run(sqlite3 *db, const char *statements)
{
    if (sqlite3_exec(db, statements, NULL, NULL, NULL) == SQLITE_OK)
        return;
    fprintf(stderr, "leases: SQLite: %s\n", sqlite3_errmsg(db));
    exit(2);
}

static void sqlite_write(void *db)
{
    sqlite_run(db, "BEGIN IMMEDIATE");
    sqlite_run(db, "INSERT INTO rows (text) VALUES ('a row')");
    sqlite_run(db, "COMMIT");
}

static void sqlite_close(void *db)
{
    sqlite3_close(db);
}

const char *bare_sqlite_open(bare_store *store, const char *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        return "the file cannot be opened";
    sqlite_run(db, "PRAGMA journal_mode=WAL");
    sqlite_run(db, "PRAGMA synchronous=FULL");
    sqlite_run(db, "CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)");
    *store = (bare_store){.write = sqlite_write, .close = sqlite_close, .ctx = db};
    return NULL;
}
#else
const char *bare_sqlite_open(bare_store *store, const char *path)
{
    (void)store, (void)path;
    return "built without it";
}
#endif

/* ----------------------------------------------------------------------------------------------------- Redis */

#ifdef KZ_HAVE_REDIS
#include <hiredis/hiredis.h>

enum { CONNECT_TRIES = 300, CONNECT_PAUSE_US = 10000 };

typedef struct redis {
    pid_t pid;
    redisContext *link;
} redis;

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || getsockname(fd, (struct sockaddr *)&address, &size)) {
        perror("leases");
        exit(2);
    }
    close(fd);
    return ntohs(address.sin_port);
}

static pid_t start_server(const char *folder, int port)
{
    char port_text[16];
    snprintf(port_text, sizeof port_text, "%d", port);
    pid_t pid = fork();
    if (pid)
        return pid;
    /* It goes with us, and says nothing. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port_text, "--dir", folder, "--appendonly",
           "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no", (char *)NULL);
    _exit(127);
}

static void redis_write(void *ctx)
{
    redisReply *reply =
        redisCommand(((redis *)ctx)->link, "EVAL %s 1 bare:key value", "return redis.call('SET', KEYS[1], ARGV[1])");
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "leases: Redis: %s\n", reply ? reply->str : "no answer");
        exit(2);
    }
    freeReplyObject(reply);
}

static void redis_close(void *ctx)
{
    redis *r = ctx;
    if (r->link)
        redisFree(r->link);
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    free(r);
}

const char *bare_redis_open(bare_store *store, const char *folder)
{
    if (system("command -v redis-server >/dev/null"))
        return "redis-server is not installed";
    redis *r = calloc(1, sizeof *r);
    if (!r)
        return "out of memory";
    int port = free_port();
    r->pid = start_server(folder, port);
    for (int i = 0; i < CONNECT_TRIES && !r->link; i++) {
        usleep(CONNECT_PAUSE_US);
        r->link = redisConnect("127.0.0.1", port);
        if (r->link && r->link->err) {
            redisFree(r->link);
            r->link = NULL;
        }
    }
    *store = (bare_store){.write = redis_write, .close = redis_close, .ctx = r};
    snprintf(store->url, sizeof store->url, "redis://127.0.0.1:%d/0", port);
    if (r->link)
        return NULL;
    redis_close(r);
    return "the server does not answer";
}
#else
const char *bare_redis_open(bare_store *store, const char *folder)
{
    (void)store, (void)folder;
    return "built without it";
}
#endif
