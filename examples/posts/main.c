/* A backend for posts, as any number of instances of it run behind a load balancer. Nobody gives an instance a number:
 * each claims a node when it starts and gives it back when it ends.
 *
 *     posts --database postgresql://postgres@localhost/postgres --source tsid+redis://localhost:6379/0
 */
#include "api.h"
#include "log.h"
#include "settings.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { DRAIN_LIMIT_MS = 10000, DRAIN_QUIET_MS = 300, STEP_MS = 20 };

/* True when a signal came within that time. */
static bool pause_ms(const sigset_t *signals, int ms)
{
    return sigtimedwait(signals, NULL, &(struct timespec){ms / 1000, ms % 1000 * 1000000L}) > 0;
}

/* A database that starts together with this program may need a while. */
static bool wait_for_database(database *db, int seconds, const sigset_t *signals)
{
    char message[DB_MESSAGE_SIZE];
    for (int waited = 0;; waited++) {
        db_status status = database_create(db, message);
        if (status == DB_OK)
            status = database_ping(db, message);
        if (status == DB_OK)
            return true;
        bool give_up = status != DB_LOST || waited >= seconds;
        log_event(give_up ? "error" : "warning", "database_not_ready",
                  json_pack("{s:o, s:i}", "error", json_any_text(message), "waited_s", waited));
        if (give_up || pause_ms(signals, 1000))
            return false;
    }
}

/* Answers what was begun, and what still comes on connections that are open, until it has been quiet for a moment. A
 * second signal cuts that short. */
static void drain(api *a, http_server *server, const sigset_t *signals)
{
    a->ending = true;
    http_drain(server);
    for (int ms = 0, quiet_ms = 0; ms < DRAIN_LIMIT_MS && quiet_ms < DRAIN_QUIET_MS; ms += STEP_MS) {
        if (pause_ms(signals, STEP_MS))
            break;
        quiet_ms = http_under_way(server) ? 0 : quiet_ms + STEP_MS;
    }
}

static int serve(const settings *s, api *a, const sigset_t *signals)
{
    char message[HTTP_MESSAGE_SIZE];
    http_limits limits = {s->threads, s->max_connections, s->idle_s};
    http_server *server = http_start(s->listen, &limits, s->instance, api_answer, a, message);
    if (!server) {
        log_event("error", "listen", json_pack("{s:o}", "error", json_any_text(message)));
        return 1;
    }
    bool up;
    json_t *place = node_health(a->node, &up);
    log_event("info", "listening",
              json_pack("{s:s, s:i, s:s, s:o}", "address", s->listen, "port", http_port(server), "instance",
                        s->instance, "node", place));
    int number;
    sigwait(signals, &number);
    log_event("info", "ending", json_pack("{s:s}", "signal", strsignal(number)));
    drain(a, server, signals);
    http_stop(server);
    return 0;
}

int main(int argc, char **argv)
{
    settings s;
    settings_read(&s, argc, argv);

    /* Before any thread starts, so that all of them leave these signals to this one. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);

    int status = 1;
    kz_error err;
    kz_external_keys *keys = NULL;
    api a = {.instance = s.instance, .database = database_open(s.database)};
    if (!a.database)
        log_event("error", "no_memory", NULL);
    else if (s.key_file && kz_external_keys_load(&keys, s.key_file, &err))
        log_event("error", "keys", json_pack("{s:o}", "error", json_any_text(err.message)));
    else if (wait_for_database(a.database, s.database_wait_s, &signals)) {
        a.keys = keys;
        /* The node comes last: one that cannot serve takes no place. */
        a.node = node_open(s.source, &err);
        if (a.node)
            status = serve(&s, &a, &signals);
        else
            log_event("error", "no_node", json_pack("{s:o}", "error", json_any_text(err.message)));
    }
    node_close(a.node);
    database_close(a.database);
    kz_external_keys_free(keys);
    log_event("info", "ended",
              json_pack("{s:i, s:I, s:I}", "status", status, "posts", (json_int_t)a.posts, "duplicateKeys",
                        (json_int_t)a.duplicate_keys));
    return status;
}
