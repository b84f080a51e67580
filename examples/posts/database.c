/* libpq: parameters are always sent beside the statement, never put into it. */
#include "database.h"

#include <libpq-fe.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS "id, community_id, user_id, content, to_char(created_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

enum { BIGINT_SIZE = 24, INT8 = 20, TEXT = 25, TIMESTAMP = 1114 }; /* the last three: PostgreSQL's numbers for types */

static const struct statement {
    const char *name, *sql;
    int count;
    Oid types[5];
} statements[] = {
    {"insert",
     "INSERT INTO posts (id, community_id, user_id, content, created_at) VALUES ($1, $2, $3, $4, $5)",
     5,
     {INT8, INT8, INT8, TEXT, TIMESTAMP}},
    {"get", "SELECT " COLUMNS " FROM posts WHERE id = $1", 1, {INT8}},
    {"page", "SELECT " COLUMNS " FROM posts WHERE id > $1 ORDER BY id LIMIT $2", 2, {INT8, INT8}},
};

/* IF NOT EXISTS alone is not enough: two that find nothing at the same time both create, and one of them fails. The
 * statements of one call are one transaction, and the lock ends with it. Its number is any that others do not use. */
static const char create[] = "SELECT pg_advisory_xact_lock(7020611170);"
                             "CREATE TABLE IF NOT EXISTS posts ("
                             "    id BIGINT PRIMARY KEY,"
                             "    community_id BIGINT,"
                             "    user_id BIGINT,"
                             "    content TEXT,"
                             "    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)";

struct database {
    const char *url;
    pthread_key_t connection; /* of this thread; closed when it ends */
};

static void disconnect(void *connection)
{
    PQfinish(connection);
}

database *database_open(const char *url)
{
    database *db = malloc(sizeof *db);
    if (!db)
        return NULL;
    db->url = url;
    if (pthread_key_create(&db->connection, disconnect)) {
        free(db);
        return NULL;
    }
    return db;
}

static void drop(database *db)
{
    PQfinish(pthread_getspecific(db->connection));
    pthread_setspecific(db->connection, NULL);
}

void database_close(database *db)
{
    if (!db)
        return;
    drop(db);
    pthread_key_delete(db->connection);
    free(db);
}

/* The first line: what follows are hints and places in the statement. */
static void keep_message(char message[DB_MESSAGE_SIZE], const char *text)
{
    snprintf(message, DB_MESSAGE_SIZE, "%.*s", (int)strcspn(text, "\n"), text);
}

static PGconn *connect_now(const char *url)
{
    /* Nobody waits for a dead server longer than this, unless the URL, which comes later, says otherwise. */
    static const char *const names[] = {"fallback_application_name",
                                        "connect_timeout",
                                        "tcp_user_timeout",
                                        "options",
                                        "client_encoding",
                                        "dbname",
                                        NULL};
    const char *const values[] = {"posts", "5", "10000", "-c statement_timeout=5000 -c client_min_messages=warning",
                                  "UTF8",  url, NULL};
    return PQconnectdbParams(names, values, 1);
}

/* A server that went away while nobody asked is noticed now, so that it costs no post. Twice, because it may have said
 * why before it closed. */
static bool still_there(PGconn *c)
{
    return PQconsumeInput(c) && PQconsumeInput(c) && PQstatus(c) == CONNECTION_OK;
}

static bool prepare_all(PGconn *c)
{
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        const struct statement *s = &statements[i];
        PGresult *result = PQprepare(c, s->name, s->sql, s->count, s->types);
        bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        if (!done)
            return false;
    }
    return true;
}

/* This thread's connection, made anew if it broke; NULL if there is none to be had. */
static PGconn *connection(database *db, char message[DB_MESSAGE_SIZE])
{
    PGconn *c = pthread_getspecific(db->connection);
    if (c && still_there(c))
        return c;
    drop(db);
    c = connect_now(db->url);
    if (PQstatus(c) != CONNECTION_OK || !prepare_all(c)) {
        keep_message(message, c ? PQerrorMessage(c) : "out of memory");
        PQfinish(c);
        return NULL;
    }
    pthread_setspecific(db->connection, c);
    return c;
}

/* What became of a statement. A broken connection is given up, so that the next request makes a new one. */
static db_status judge(database *db, PGconn *c, const PGresult *result, char message[DB_MESSAGE_SIZE])
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return DB_OK;
    keep_message(message, PQerrorMessage(c));
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (PQstatus(c) != CONNECTION_OK) {
        drop(db);
        return DB_LOST;
    }
    return code && !strcmp(code, "23505") ? DB_DUPLICATE : DB_FAILED;
}

static db_status run(database *db, const struct statement *s, const char *const *values, PGresult **rows,
                     char message[DB_MESSAGE_SIZE])
{
    PGconn *c = connection(db, message);
    if (!c)
        return DB_LOST;
    *rows = PQexecPrepared(c, s->name, s->count, values, NULL, NULL, 0);
    return judge(db, c, *rows, message);
}

static db_status read_rows(database *db, const struct statement *s, const char *const *values, post_visit visit,
                           void *ctx, char message[DB_MESSAGE_SIZE])
{
    PGresult *rows = NULL;
    db_status status = run(db, s, values, &rows, message);
    for (int i = 0; status == DB_OK && i < PQntuples(rows); i++) {
        post p = {.id = strtoll(PQgetvalue(rows, i, 0), NULL, 10),
                  .community_id = strtoll(PQgetvalue(rows, i, 1), NULL, 10),
                  .user_id = strtoll(PQgetvalue(rows, i, 2), NULL, 10),
                  .content = PQgetvalue(rows, i, 3),
                  .created_at = PQgetvalue(rows, i, 4)};
        visit(ctx, &p);
    }
    PQclear(rows);
    return status;
}

db_status database_create(database *db, char message[DB_MESSAGE_SIZE])
{
    PGconn *c = connect_now(db->url);
    PGresult *result = PQstatus(c) == CONNECTION_OK ? PQexec(c, create) : NULL;
    db_status status = DB_OK;
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        keep_message(message, c ? PQerrorMessage(c) : "out of memory");
        status = PQstatus(c) == CONNECTION_OK ? DB_FAILED : DB_LOST;
    }
    PQclear(result);
    PQfinish(c);
    return status;
}

db_status database_ping(database *db, char message[DB_MESSAGE_SIZE])
{
    PGconn *c = connection(db, message);
    if (!c)
        return DB_LOST;
    PGresult *result = PQexec(c, "SELECT 1 FROM posts LIMIT 1");
    db_status status = judge(db, c, result, message);
    PQclear(result);
    return status;
}

static const char *bigint(int64_t value, char text[BIGINT_SIZE])
{
    snprintf(text, BIGINT_SIZE, "%" PRId64, value);
    return text;
}

db_status database_insert(database *db, const post *p, char message[DB_MESSAGE_SIZE])
{
    char id[BIGINT_SIZE], community[BIGINT_SIZE], user[BIGINT_SIZE];
    const char *values[] = {bigint(p->id, id), bigint(p->community_id, community), bigint(p->user_id, user), p->content,
                            p->created_at};
    PGresult *result = NULL;
    db_status status = run(db, &statements[0], values, &result, message);
    PQclear(result);
    return status;
}

db_status database_get(database *db, int64_t id, post_visit visit, void *ctx, char message[DB_MESSAGE_SIZE])
{
    char text[BIGINT_SIZE];
    const char *values[] = {bigint(id, text)};
    return read_rows(db, &statements[1], values, visit, ctx, message);
}

db_status database_page(database *db, int64_t after, int limit, post_visit visit, void *ctx,
                        char message[DB_MESSAGE_SIZE])
{
    char text[BIGINT_SIZE], most[BIGINT_SIZE];
    const char *values[] = {bigint(after, text), bigint(limit, most)};
    return read_rows(db, &statements[2], values, visit, ctx, message);
}
