/* PostgreSQL: the table posts, and a connection for each thread that asks. */
#ifndef POSTS_DATABASE_H
#define POSTS_DATABASE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct database database;

/* A row. BIGINT is signed and an ID is not: a TSID's top bit stays zero until the year 2089, so until then both order
 * the same way. */
typedef struct post {
    int64_t id, community_id, user_id;
    const char *content;
    const char *created_at; /* 2026-01-01T00:00:00.000Z */
} post;

typedef enum db_status {
    DB_OK,
    DB_DUPLICATE, /* the primary key exists: with IDs from kazahana this must never happen */
    DB_LOST,      /* no connection that can be used, or it broke: whether a write was done is unknown */
    DB_FAILED     /* the server refused */
} db_status;

#define DB_MESSAGE_SIZE 256

/* `url` is kept, not copied. NULL: out of memory. */
database *database_open(const char *url);
/* Once the other threads that used it have ended, and with them their connections. NULL is allowed. */
void database_close(database *db);

/* Makes the table if it is missing; any number of instances may do so at once. */
db_status database_create(database *db, char message[DB_MESSAGE_SIZE]);
/* Is it there, with a table of the right shape? */
db_status database_ping(database *db, char message[DB_MESSAGE_SIZE]);
db_status database_insert(database *db, const post *p, char message[DB_MESSAGE_SIZE]);

/* Called for each row; its texts last as long as the call. */
typedef void (*post_visit)(void *ctx, const post *p);
/* The post of this ID, if there is one. */
db_status database_get(database *db, int64_t id, post_visit visit, void *ctx, char message[DB_MESSAGE_SIZE]);
/* The first `limit` posts after this ID, in the order of their IDs. */
db_status database_page(database *db, int64_t after, int limit, post_visit visit, void *ctx,
                        char message[DB_MESSAGE_SIZE]);

#endif
