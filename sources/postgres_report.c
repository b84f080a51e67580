/* What a lease table in PostgreSQL tells about itself: the leases, and its health. */
#include "core/error.h"
#include "sources/postgres_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LONG_S    3600
#define DEAD_ROWS 100000

kz_status kz__postgres_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                            kz_lease_info *lines, size_t room, size_t *count, kz_error *err)
{
    kz__postgres *p = (kz__postgres *)base;
    char now[24], id[24], limit[24];
    PGresult *result = NULL;
    if (p->missing)
        return KZ_OK;
    snprintf(now, sizeof now, "%" PRId64, t->now_ms);
    snprintf(id, sizeof id, "%" PRIu32, from->id);
    snprintf(limit, sizeof limit, "%zu", room);
    kz__pg_send(p->link, KZ__PG_LIST, 5,
                (const char *const[]){now, from->service, id, limit, from->only_id ? "t" : "f"});
    kz_status status = kz__pg_trip(p->link, &result, 1, err);
    if (status)
        return status;
    for (int i = 0; i < PQntuples(result) && *count < room; i++) {
        kz_lease_info *line = &lines[(*count)++];
        *line = (kz_lease_info){.id = (uint32_t)kz__pg_int(result, i, 2),
                                .nodes = 1,
                                .node_bits = (uint8_t)kz__pg_int(result, i, 3),
                                .seq_bits = (uint8_t)kz__pg_int(result, i, 4),
                                .created_ms = kz__pg_int(result, i, 5),
                                .expired_ms = kz__pg_int(result, i, 6),
                                .fallback_created_ms = kz__pg_int(result, i, 7),
                                .fallback_expired_ms = kz__pg_int(result, i, 8)};
        snprintf(line->service, sizeof line->service, "%s", kz__pg_text(result, i, 0));
        snprintf(line->holder, sizeof line->holder, "%s", kz__pg_text(result, i, 1));
    }
    kz__pg_clear(&result, 1);
    return KZ_OK;
}

/* Counts what is held and what could be granted now. */
static void count_nodes(const PGresult *result, const kz__service *service, kz_source_health *health)
{
    uint64_t half = UINT64_C(1) << (service->node_bits + service->seq_bits - 1);
    for (int i = 0; i < PQntuples(result); i++) {
        kz__range range = {(uint64_t)kz__pg_int(result, i, 0), (uint64_t)kz__pg_int(result, i, 1)};
        if (kz__pg_int(result, i, 2) == 1)
            health->leases_out += range.lo < half;
        else
            health->nodes_free += kz__table_blocks_in(service, range);
    }
}

/* What cannot be promised, or wants to be seen to. The worst first. */
static void judge(const kz__postgres *p, const PGresult *state, kz_source_health *health)
{
    char *note = health->note;
    size_t room = sizeof health->note;
    bool fsync = strcmp(kz__pg_text(state, 0, 0), "on") == 0, pages = strcmp(kz__pg_text(state, 0, 1), "on") == 0;
    bool synchronous = *kz__pg_text(state, 0, 2) != '\0';
    int64_t standbys = kz__pg_int(state, 0, 3), oldest_s = kz__pg_int(state, 0, 4), dead = kz__pg_int(state, 0, 5);
    health->durable = fsync && pages;
    if (!health->durable)
        snprintf(note, room,
                 "%s is off, so a crash of the server can lose leases that were granted. Set it to on in "
                 "postgresql.conf",
                 fsync ? "full_page_writes" : "fsync");
    else if (p->missing && !kz__pg_int(state, 0, 6))
        snprintf(note, room,
                 "schema %s is not there, and role %s may not make it. Let an administrator run: psql -v "
                 "schema=%s -v role=%s -f " KZ__PG_SQL_FILE,
                 p->schema, kz__pg_text(state, 0, 7), p->schema, kz__pg_text(state, 0, 7));
    else if (oldest_s > LONG_S)
        snprintf(note, room,
                 "a transaction has been open for %" PRId64 " s, so ended rows cannot be cleaned up and "
                 "leases get slower. End it (pg_stat_activity)",
                 oldest_s);
    else if (dead > DEAD_ROWS)
        snprintf(note, room,
                 "%" PRId64 " dead rows in %s.out: leases get slower. Look why autovacuum does not get to "
                 "them",
                 dead, p->schema);
    else if (standbys && !synchronous)
        snprintf(note, room,
                 "leases survive a crash of the server. Its standbys are asynchronous: after a failover a "
                 "part of the nodes is set aside for a while; synchronous_standby_names avoids that");
    else if (synchronous)
        snprintf(note, room, "leases survive a crash of the server, and a failover to a synchronous standby");
    else
        snprintf(note, room, "leases survive a crash of the server. It has no standby that this role can see");
    if (p->missing && !kz__pg_int(state, 0, 6))
        health->durable = false;
}

kz_status kz__postgres_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    kz__postgres *p = (kz__postgres *)base;
    PGresult *results[2] = {0};
    char now[24];
    snprintf(now, sizeof now, "%" PRId64, t->now_ms);
    kz__pg_send(p->link, KZ__PG_STATE, 1, (const char *const[]){p->schema});
    if (t->found)
        kz__pg_send(p->link, KZ__PG_COUNT, 2, (const char *const[]){t->service.name, now});
    kz_status status = kz__pg_trip(p->link, results, 2, err);
    if (status == KZ_OK) {
        judge(p, results[0], health);
        if (t->found)
            count_nodes(results[1], &t->service, health);
    }
    kz__pg_clear(results, 2);
    return status;
}
