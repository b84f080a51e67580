/* One connection to PostgreSQL: statements out in a pipeline, results in, within a time.
 *
 * Statements are prepared under names that no other connection has. A pooler that gives every transaction another
 * server's connection does not know them there (26000): from then on they go without a name. No cancel is ever sent: it
 * would end a commit's wait for its standby, and leave a lease that is nowhere else. */
#include "sources/postgres_link.h"
#include "core/error.h"
#include "sources/postgres_connect.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define IDLE_MS        5000
#define TIMEOUT_MIN_MS 1000
#define TIMEOUT_MAX_MS 60000
#define PREPARE        0x80 /* in the queue: this result is of the preparation */
#define TEXT           0x7f

struct kz__pg {
    kz__pg_address address;
    const char *name;
    const char *const *texts;
    int64_t timeout_ms, deadline_ms;
    bool unnamed;      /* there is a pooler that loses prepared statements */
    bool transaction;  /* else each trip may meet another server behind a pooler: nothing is prepared */
    char prefix[24];   /* of statements' names. Drawn, since a pooler may show us those of others */
    uint64_t prepared; /* by number, on this connection */
    uint8_t *queue;    /* what was sent in this trip */
    size_t queued, queue_room;
    bool queue_failed;
    char warning[KZ_MESSAGE_SIZE], tag[32];
    bool doomed; /* this session can do nothing for us any more */

    /* The watch closes the connection when it is idle. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t watch;
    bool watched;  /* there is such a thread, or was: it is to be joined */
    bool watching; /* and it will close the connection */
    bool busy, closing;
    int64_t used_ms;
    PGconn *conn;
};

int64_t kz__pg_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

kz_status kz__pg_new(kz__pg **out, const kz__url *url, const char *const *own_params, const char *name,
                     const char *const *texts, int64_t timeout_ms, kz_error *err)
{
    kz__pg *pg = calloc(1, sizeof *pg);
    if (!pg)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_status status = kz__pg_address_read(&pg->address, url, own_params, err);
    if (status) {
        free(pg);
        return status;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pg->lock, NULL);
    pthread_cond_init(&pg->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pg->name = name;
    pg->texts = texts;
    pg->timeout_ms = timeout_ms < 0 || timeout_ms > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS
                     : timeout_ms < TIMEOUT_MIN_MS                 ? TIMEOUT_MIN_MS
                                                                   : timeout_ms;
    *out = pg;
    return KZ_OK;
}

/* ------------------------------------------------------------------------------------------- the connection */

void kz__pg_drop(kz__pg *pg)
{
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->prepared = 0;
    pg->queued = 0;
    pg->queue_failed = pg->doomed = false;
}

/* Waits until the connection has not been used for a while, and closes it. Ends then: the next one starts another. */
static void *watch_idle(void *ctx)
{
    kz__pg *pg = ctx;
    pthread_mutex_lock(&pg->lock);
    while (pg->conn && !pg->closing) {
        int64_t until_ms = (pg->busy ? kz__pg_now_ms() : pg->used_ms) + IDLE_MS;
        if (!pg->busy && kz__pg_now_ms() >= until_ms) {
            kz__pg_drop(pg);
            break;
        }
        struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
        pthread_cond_timedwait(&pg->changed, &pg->lock, &until);
    }
    pg->watching = false;
    pthread_mutex_unlock(&pg->lock);
    return NULL;
}

/* There is none now. Where none can be had, the connection is closed after every call. */
static void start_watch(kz__pg *pg)
{
    if (pg->watched)
        pthread_join(pg->watch, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pg->watching = true;
    pg->watched = pthread_create(&pg->watch, NULL, watch_idle, pg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pg->watched)
        return;
    pg->watching = false;
    kz__pg_drop(pg);
}

void kz__pg_free(kz__pg *pg, bool forked)
{
    if (!pg)
        return;
    if (forked) {
        /* Neither the watch nor the connection is this process's. */
        if (pg->conn)
            close(PQsocket(pg->conn));
        return;
    }
    pthread_mutex_lock(&pg->lock);
    pg->closing = true;
    pthread_cond_signal(&pg->changed);
    pthread_mutex_unlock(&pg->lock);
    if (pg->watched)
        pthread_join(pg->watch, NULL);
    kz__pg_drop(pg);
    pthread_cond_destroy(&pg->changed);
    pthread_mutex_destroy(&pg->lock);
    kz__pg_address_free(&pg->address);
    free(pg->queue);
    free(pg);
}

static void take_notice(void *ctx, const PGresult *notice)
{
    kz__pg *pg = ctx;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity && strcmp(severity, "WARNING") == 0)
        snprintf(pg->warning, sizeof pg->warning, "%s", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
}

const char *kz__pg_warning(const kz__pg *pg)
{
    return *pg->warning ? pg->warning : NULL;
}

const char *kz__pg_tag(const kz__pg *pg)
{
    return pg->tag;
}

int64_t kz__pg_left_ms(const kz__pg *pg)
{
    int64_t left_ms = pg->deadline_ms - kz__pg_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

void kz__pg_enter(kz__pg *pg, bool transaction)
{
    pthread_mutex_lock(&pg->lock);
    pg->busy = true;
    pthread_mutex_unlock(&pg->lock);
    pg->deadline_ms = kz__pg_now_ms() + pg->timeout_ms;
    pg->transaction = transaction;
}

bool kz__pg_is_open(const kz__pg *pg)
{
    return pg->conn && PQstatus(pg->conn) == CONNECTION_OK;
}

kz_status kz__pg_connected(kz__pg *pg, bool *fresh, kz_error *err)
{
    *fresh = !kz__pg_is_open(pg);
    if (!*fresh)
        return KZ_OK;
    kz__pg_drop(pg);
    kz_status status = kz__pg_connect(&pg->address, pg->name, pg->deadline_ms, &pg->conn, err);
    if (status)
        return status;
    uint64_t drawn = 0;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn)
        pg->unnamed = true;
    snprintf(pg->prefix, sizeof pg->prefix, "kz%" PRIx64, drawn);
    PQsetNoticeReceiver(pg->conn, take_notice, pg);
    if (PQsetnonblocking(pg->conn, 1) || !PQenterPipelineMode(pg->conn)) {
        kz__pg_drop(pg);
        return kz__fail(err, KZ_NO_MEMORY, "%s: no memory for a connection", pg->name);
    }
    return KZ_OK;
}

void kz__pg_leave(kz__pg *pg)
{
    pthread_mutex_lock(&pg->lock);
    pg->busy = false;
    pg->used_ms = kz__pg_now_ms();
    bool unwatched = pg->conn && !pg->watching;
    pthread_mutex_unlock(&pg->lock);
    if (unwatched)
        start_watch(pg);
}

const char *kz__pg_param(const kz__pg *pg, const char *name)
{
    return kz__pg_address_param(&pg->address, name);
}

/* ---------------------------------------------------------------------------------------------------- trips */

static void note(kz__pg *pg, uint8_t what, int sent)
{
    if (!sent)
        pg->queue_failed = true;
    if (pg->queued == pg->queue_room) {
        size_t room = pg->queue_room ? 2 * pg->queue_room : 64;
        uint8_t *grown = realloc(pg->queue, room);
        if (!grown) {
            pg->queue_failed = true;
            return;
        }
        pg->queue = grown;
        pg->queue_room = room;
    }
    pg->queue[pg->queued++] = what;
}

void kz__pg_send(kz__pg *pg, int statement, int count, const char *const *values)
{
    char name[40];
    if (pg->unnamed || !pg->transaction) {
        note(pg, (uint8_t)statement,
             PQsendQueryParams(pg->conn, pg->texts[statement], count, NULL, values, NULL, NULL, 0));
        return;
    }
    snprintf(name, sizeof name, "%s_%d", pg->prefix, statement);
    if (!(pg->prepared >> statement & 1)) {
        note(pg, (uint8_t)(PREPARE | statement), PQsendPrepare(pg->conn, name, pg->texts[statement], 0, NULL));
        pg->prepared |= UINT64_C(1) << statement;
    }
    note(pg, (uint8_t)statement, PQsendQueryPrepared(pg->conn, name, count, values, NULL, NULL, 0));
}

void kz__pg_send_text(kz__pg *pg, const char *sql)
{
    note(pg, TEXT, PQsendQueryParams(pg->conn, sql, 0, NULL, NULL, NULL, NULL, 0));
}

static kz_status no_answer(kz__pg *pg, kz_error *err)
{
    char why[300];
    kz__pg_first_line(PQerrorMessage(pg->conn), why, sizeof why);
    bool late = PQstatus(pg->conn) == CONNECTION_OK && !pg->queue_failed;
    kz_status status =
        late ? kz__fail(err, KZ_UNAVAILABLE, "%s: no answer within %" PRId64 " ms", pg->name, pg->timeout_ms)
             : kz__fail(err, KZ_UNAVAILABLE, "%s: the connection was lost%s%s", pg->name, *why ? ": " : "", why);
    kz__pg_drop(pg);
    return status;
}

/* Sends what is left, and waits until there is something to read. False: no answer. */
static bool wait_for_input(kz__pg *pg)
{
    while (PQisBusy(pg->conn)) {
        int unsent = PQflush(pg->conn);
        struct pollfd socket = {.fd = PQsocket(pg->conn), .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
        int64_t left_ms = kz__pg_left_ms(pg);
        if (unsent < 0 || !left_ms)
            return false;
        int ready = poll(&socket, 1, (int)left_ms);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0 && socket.revents & ~POLLOUT && !PQconsumeInput(pg->conn))
            return false;
    }
    return true;
}

/* What a failed statement means. */
static kz_status explain(kz__pg *pg, const PGresult *result, kz_error *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || !said)
        return kz__fail(err, KZ_UNAVAILABLE, "%s: %s", pg->name, PQresultErrorMessage(result));
    return kz__pg_explain(pg->name, state, said, err);
}

/* One result of the trip; true: it was the last. */
static bool take_result(kz__pg *pg, PGresult *result, size_t *at, PGresult **results, size_t *kept, size_t room,
                        kz_status *status, kz_error *err)
{
    ExecStatusType kind = PQresultStatus(result);
    uint8_t what = *at < pg->queued ? pg->queue[*at] : TEXT;
    if (kind == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        return true;
    }
    ++*at;
    bool done = kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK;
    snprintf(pg->tag, sizeof pg->tag, "%s", done ? PQcmdStatus(result) : "");
    if (!done && what & PREPARE)
        pg->prepared &= ~(UINT64_C(1) << (what & ~PREPARE));
    if (done && *kept < room && !(what & PREPARE)) {
        results[(*kept)++] = result;
        return false;
    }
    if (!done && kind != PGRES_PIPELINE_ABORTED && !*status) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        /* A pooler's other connection: not prepared there, or prepared by an earlier one of ours. */
        if (state && (strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0)) {
            pg->unnamed = true;
            *status = kz__fail(err, KZ_AGAIN, "%s: a prepared statement is not known there", pg->name);
        } else {
            *status = explain(pg, result, err);
            pg->doomed = state && strcmp(state, "25006") == 0; /* it is a standby now: the hosts are tried anew */
        }
    }
    PQclear(result);
    return false;
}

void kz__pg_clear(PGresult **results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PQclear(results[i]);
        results[i] = NULL;
    }
}

kz_status kz__pg_trip(kz__pg *pg, PGresult **results, size_t room, kz_error *err)
{
    size_t at = 0, kept = 0;
    kz_status status = KZ_OK;
    *pg->warning = '\0';
    if (pg->queue_failed || !PQpipelineSync(pg->conn))
        return no_answer(pg, err);
    for (bool last = false; !last;) {
        if (!wait_for_input(pg)) {
            kz__pg_clear(results, kept);
            return no_answer(pg, err);
        }
        PGresult *result = PQgetResult(pg->conn);
        if (result)
            last = take_result(pg, result, &at, results, &kept, room, &status, err);
        if (PQstatus(pg->conn) == CONNECTION_BAD) {
            kz__pg_clear(results, kept);
            return no_answer(pg, err);
        }
    }
    pg->queued = 0;
    if (status)
        kz__pg_clear(results, kept);
    if (pg->doomed)
        kz__pg_drop(pg);
    return status;
}

const char *kz__pg_text(const PGresult *result, int row, int column)
{
    return PQgetvalue(result, row, column);
}

int64_t kz__pg_int(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}
