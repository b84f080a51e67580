/* Makes the tables in PostgreSQL, and says what to do where it may not. */
#include "sources/postgres_schema.h"
#include "core/error.h"
#include "sources/postgres_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kz_status kz__postgres_missing(const kz__postgres *p, kz_error *err)
{
    return kz__fail(err, KZ_NOT_FOUND,
                    "%s: schema %s has no lease tables, and create=no says not to make them: let an administrator "
                    "run " KZ__PG_SQL_FILE ", or leave create=no out",
                    p->name, p->schema);
}

/* With ?amnesia=quarantine: a table that is made anew may be one that was lost, and grants nothing until all that it
 * may have granted has ended. */
static void send_quarantine(kz__postgres *p, int64_t now_ms)
{
    kz__place place = {0};
    uint64_t generation = 0;
    char text[KZ__PLACE_TEXT_SIZE], sql[KZ__PLACE_TEXT_SIZE + 2 * KZ__PG_SCHEMA_MAX + 200];
    kz__place_lost(&place, KZ__WHY_EMPTY, -1, now_ms, &generation);
    kz__place_text(&place, text);
    snprintf(sql, sizeof sql,
             "UPDATE %s.meta SET place = '%s', generation = %" PRIu64 ", high_ms = %" PRId64 " WHERE high_ms = 0",
             p->quoted, text, generation, now_ms);
    kz__pg_send_text(p->link, sql);
}

/* Several may come here at once: the lock lets one make them, and the others find them. */
kz_status kz__postgres_create(kz__postgres *p, kz_error *err)
{
    size_t count = sizeof kz__pg_schema / sizeof kz__pg_schema[0];
    char exists[2 * KZ__PG_SCHEMA_MAX + 120], make[2 * KZ__PG_SCHEMA_MAX + 60];
    PGresult *results[2] = {0};
    kz_error why = {0};
    snprintf(exists, sizeof exists, "SELECT 1 FROM pg_namespace WHERE quote_ident(nspname) = quote_ident('%s')",
             p->schema);
    snprintf(make, sizeof make, "CREATE SCHEMA IF NOT EXISTS %s", p->quoted);
    kz__pg_send_text(p->link, exists);
    kz__pg_send_text(p->link, p->texts[KZ__PG_TIME]);
    kz_status status = kz__pg_trip(p->link, results, 2, err);
    if (status)
        return status;
    bool there = PQntuples(results[0]) > 0;
    int64_t now_ms = kz__pg_int(results[1], 0, 0);
    kz__pg_clear(results, 2);

    kz__pg_send_text(p->link, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
    kz__pg_send_text(p->link, "SELECT pg_advisory_xact_lock(hashtext('kazahana'))");
    /* Who may not make schemas may still make tables in one that is there. */
    if (!there)
        kz__pg_send_text(p->link, make);
    bool ready = true;
    for (size_t i = 0; ready && i < count; i++) {
        char *text = kz__pg_put_schema(kz__pg_schema[i], ":\"schema\"", p->quoted);
        ready = text != NULL;
        if (ready)
            kz__pg_send_text(p->link, text);
        free(text);
    }
    if (p->far.base.params.quarantine)
        send_quarantine(p, now_ms);
    kz__pg_send_text(p->link, "COMMIT");
    status = kz__pg_trip(p->link, NULL, 0, &why);
    if (status || !ready)
        kz__pg_drop(p->link); /* and its transaction with it */
    if (!ready)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    if (status == KZ_STORE)
        return kz__fail(err, KZ_STORE, "%s: the lease tables in schema %s could not be made: %s", p->name, p->schema,
                        why.message);
    if (status && err)
        *err = why;
    return status;
}
