/* The stores under the lease tables, bare: what one durable write costs without any table. */
#ifndef KZ_BENCH_STORES_H
#define KZ_BENCH_STORES_H

typedef struct bare_store {
    void (*write)(void *ctx); /* one durable write: it has survived a crash when this returns */
    void (*close)(void *ctx);
    void *ctx;
    char url[128]; /* for a lease table beside it */
} bare_store;

/* Each says why there is none here, or NULL. */

/* BEGIN IMMEDIATE; one insert; COMMIT, in WAL mode with synchronous = FULL. */
const char *bare_sqlite_open(bare_store *store, const char *path);

/* A script of one SET, on a server of our own on the loopback with appendfsync = always. */
const char *bare_redis_open(bare_store *store, const char *folder);

/* With all the files in it. */
void remove_folder(const char *folder);

#endif
