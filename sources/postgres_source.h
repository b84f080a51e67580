/* What the files of the PostgreSQL source share. */
#ifndef KZ_SOURCES_POSTGRES_SOURCE_H
#define KZ_SOURCES_POSTGRES_SOURCE_H

#include "sources/far_table.h"
#include "sources/postgres_connect.h"
#include "sources/postgres_link.h"

/* Statements, by number. In their texts @ stands for the schema. */
typedef enum kz__pg_statement {
    KZ__PG_BEGIN,
    KZ__PG_SETTINGS,
    KZ__PG_LOCK,
    KZ__PG_META,
    KZ__PG_TIME,
    KZ__PG_SERVICE,
    KZ__PG_ENDED,
    KZ__PG_FREE_BESIDE,
    KZ__PG_FREE_AT_CURSOR,
    KZ__PG_FREE,
    KZ__PG_REQUEST,
    KZ__PG_AT,
    KZ__PG_SERVICE_PUT,
    KZ__PG_FREE_GONE,
    KZ__PG_FREE_PUT,
    KZ__PG_OUT_GONE,
    KZ__PG_OUT_PUT,
    KZ__PG_META_PUT,
    KZ__PG_COMMIT,
    KZ__PG_ROLLBACK,
    KZ__PG_IDLE_FREE,
    KZ__PG_IDLE_SERVICE,
    KZ__PG_IDLE_OUT,
    KZ__PG_SERVICES,
    KZ__PG_LIST,
    KZ__PG_COUNT,
    KZ__PG_STATE,
    KZ__PG_STATEMENTS
} kz__pg_statement;

extern const char *const kz__pg_statements[KZ__PG_STATEMENTS];

#define KZ__PG_VERSION    1 /* of the tables */
#define KZ__PG_SCHEMA_MAX 63

typedef struct kz__postgres {
    kz__far far;
    kz__pg *link;
    char name[300];                         /* for messages */
    char schema[KZ__PG_SCHEMA_MAX + 1];     /* as it is given */
    char quoted[2 * KZ__PG_SCHEMA_MAX + 3]; /* as it stands in SQL */
    char *texts[KZ__PG_STATEMENTS];
    bool begun;   /* there is a transaction on the server */
    bool missing; /* a look found no tables */
} kz__postgres;

extern const kz__far_store kz__postgres_store;

/* A template with the schema put in; NULL: no memory. */
char *kz__pg_put_schema(const char *text, const char *placeholder, const char *quoted);

/* Makes the tables. KZ_STORE: the role may not, and who may. */
kz_status kz__postgres_create(kz__postgres *p, kz_error *err);

/* Tables that are not there, where they must not be made. */
kz_status kz__postgres_missing(const kz__postgres *p, kz_error *err);

/* See kz__table_store. */
kz_status kz__postgres_forget(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                              kz_error *err);
kz_status kz__postgres_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                            kz_lease_info *lines, size_t room, size_t *count, kz_error *err);
kz_status kz__postgres_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health,
                              kz_error *err);

#endif
