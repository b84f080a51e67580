/* The statements of the PostgreSQL source.
 *
 * clock_timestamp() is volatile: in a WHERE it would be called for every row, and no index be used. So it stands in
 * subselects of its own. */
#include "sources/postgres_source.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define CLOCK_MS "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
#define SERVICE "(SELECT id FROM @.service WHERE name = $1)"
#define HALF "(1::int8 << (s.node_bits + s.seq_bits - 1))"
#define ROW "lo, hi, start_ms, end_ms, node, node_bits, seq_bits, released, asked, request, secret, holder"
#define ENDED                                                                                                          \
    "FROM @.out WHERE service = " SERVICE " AND (end_ms, lo) > ($2::int8, $3::int8) AND end_ms <= coalesce($4::int8, " \
    "(SELECT greatest(high_ms, (SELECT " CLOCK_MS ")) FROM @.meta)) ORDER BY end_ms, lo LIMIT $5"
/* Services with these settings that nobody has used since $1. */
#define IDLE                                                                                                           \
    "SELECT id FROM @.service s WHERE granted AND name <> 'default' AND name <> $2 AND epoch_ms = $3::int8 AND "       \
    "reserved_bits = $4::int2 AND time_bits = $5::int2 AND node_bits = $6::int2 AND seq_bits = $7::int2 AND "          \
    "high_blocks = $8::boolean AND max_throughput = $9::int8 AND lease_ms = $10::int8 AND "                            \
    "(SELECT max(end_ms) FROM @.out WHERE service = s.id) < $1::int8"

const char *const kz__pg_statements[KZ__PG_STATEMENTS] = {
    /* Whatever the default of this database is. */
    [KZ__PG_BEGIN] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    /* For this transaction only, since a pooler may give the session to somebody else. The planner knows nothing of
     * tables that have just grown, so it is told to use the indexes; what that makes of its costs must not start the
     * compiler (a second). */
    [KZ__PG_SETTINGS] =
        "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply' "
        "THEN 'remote_apply' ELSE 'on' END, true), set_config('idle_in_transaction_session_timeout', '2s', true), "
        "set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true), "
        "set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)",
    [KZ__PG_LOCK] = "SELECT version, high_ms, generation, place FROM @.meta FOR UPDATE",
    [KZ__PG_META] = "SELECT version, high_ms, generation, place FROM @.meta",
    [KZ__PG_TIME] =
        "SELECT " CLOCK_MS ", system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), "
        "(SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()",
    [KZ__PG_SERVICE] =
        "SELECT epoch_ms, reserved_bits, time_bits, node_bits, seq_bits, high_blocks::int, max_throughput, lease_ms, "
        "granted::int, cursor, heights, aside, settled_ms FROM @.service WHERE name = $1",
    [KZ__PG_ENDED] = "SELECT " ROW " " ENDED,
    /* Two ranges cover what may end where an ended row begins, and what follows. */
    [KZ__PG_FREE_BESIDE] =
        "SELECT e.lo - 1, f.lo, f.hi FROM (SELECT service, lo, end_ms " ENDED ") e, LATERAL (SELECT lo, hi FROM @.free "
        "WHERE service = e.service AND hi >= e.lo ORDER BY hi LIMIT 2) f ORDER BY e.end_ms, e.lo, f.hi",
    [KZ__PG_FREE_AT_CURSOR] =
        "SELECT lo, hi FROM @.free WHERE service = " SERVICE " AND hi > (SELECT s.cursor + $2::int8 * " HALF " FROM "
        "@.service s WHERE name = $1) ORDER BY hi LIMIT $3",
    [KZ__PG_FREE] = "SELECT lo, hi FROM @.free WHERE service = " SERVICE " AND hi > $2::int8 ORDER BY hi LIMIT $3",
    [KZ__PG_REQUEST] = "SELECT " ROW " FROM @.out WHERE service = " SERVICE " AND request = $2::bytea",
    [KZ__PG_AT] = "SELECT " ROW " FROM @.out WHERE service = " SERVICE " AND lo = ANY ($2::int8[])",

    [KZ__PG_SERVICE_PUT] =
        "INSERT INTO @.service SELECT (SELECT coalesce(max(id), 0) + 1 FROM @.service), $1, $2::int8, $3::int2, "
        "$4::int2, $5::int2, $6::int2, $7::boolean, $8::int8, $9::int8, $10::boolean, $11::int8, $12::int8, $13, "
        "$14::int8 ON CONFLICT (name) DO UPDATE SET epoch_ms = excluded.epoch_ms, reserved_bits = "
        "excluded.reserved_bits, time_bits = excluded.time_bits, node_bits = excluded.node_bits, seq_bits = "
        "excluded.seq_bits, high_blocks = excluded.high_blocks, max_throughput = excluded.max_throughput, lease_ms = "
        "excluded.lease_ms, granted = excluded.granted, cursor = excluded.cursor, heights = excluded.heights, "
        "aside = excluded.aside, settled_ms = excluded.settled_ms",
    [KZ__PG_FREE_GONE] = "DELETE FROM @.free WHERE service = " SERVICE " AND hi = $2::int8",
    [KZ__PG_FREE_PUT] =
        "INSERT INTO @.free VALUES (" SERVICE ", $2::int8, $3::int8) ON CONFLICT (service, hi) DO UPDATE SET lo = "
        "excluded.lo",
    [KZ__PG_OUT_GONE] = "DELETE FROM @.out WHERE service = " SERVICE " AND lo = $2::int8",
    [KZ__PG_OUT_PUT] =
        "INSERT INTO @.out VALUES (" SERVICE ", $2::int8, $3::int8, $4::int8, $5::int8, $6::int8, $7::int2, $8::int2, "
        "$9::boolean, $10::int8, $11::bytea, $12, $13) ON CONFLICT (service, lo) DO UPDATE SET hi = excluded.hi, "
        "start_ms = excluded.start_ms, end_ms = excluded.end_ms, node = excluded.node, node_bits = excluded.node_bits, "
        "seq_bits = excluded.seq_bits, released = excluded.released, asked = excluded.asked, request = "
        "excluded.request, secret = excluded.secret, holder = excluded.holder",
    [KZ__PG_META_PUT] = "UPDATE @.meta SET high_ms = $1::int8, generation = $2::int8, place = $3",
    [KZ__PG_COMMIT] = "COMMIT",
    [KZ__PG_ROLLBACK] = "ROLLBACK",

    /* The rows of a service last: they tell whether it is idle. */
    [KZ__PG_IDLE_FREE] = "DELETE FROM @.free WHERE service IN (" IDLE ")",
    [KZ__PG_IDLE_SERVICE] = "DELETE FROM @.service WHERE id IN (" IDLE ")",
    [KZ__PG_IDLE_OUT] = "DELETE FROM @.out WHERE service NOT IN (SELECT id FROM @.service)",
    [KZ__PG_SERVICES] = "SELECT count(*) FROM @.service",

    [KZ__PG_LIST] =
        "SELECT s.name, o.holder, o.node, o.node_bits, o.seq_bits, o.start_ms, o.end_ms, coalesce(t.start_ms, "
        "o.end_ms), coalesce(t.end_ms, o.end_ms) FROM @.service s JOIN @.out o ON o.service = s.id AND o.lo < " HALF
        " LEFT JOIN @.out t ON t.service = s.id AND t.lo = o.lo + " HALF " AND t.secret = o.secret AND NOT t.released "
        "AND t.end_ms > $1::int8 WHERE NOT o.released AND o.end_ms > $1::int8 AND (s.name > $2 OR (s.name = $2 AND "
        "o.node >= $3::int8)) AND (NOT $5::boolean OR o.node = $3::int8) ORDER BY s.name, o.node LIMIT $4",
    /* What can be granted now: what is free, and rows that have ended and were not swept yet. */
    [KZ__PG_COUNT] =
        "SELECT lo, hi, 0 FROM @.free WHERE service = " SERVICE " UNION ALL SELECT lo, hi, CASE WHEN end_ms > $2::int8 "
        "THEN 1 ELSE 2 END FROM @.out WHERE service = " SERVICE " AND (end_ms <= $2::int8 OR NOT released)",
    [KZ__PG_STATE] =
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), "
        "current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication), "
        "(SELECT coalesce(floor(max(extract(epoch FROM clock_timestamp() - xact_start))), 0)::int8 FROM "
        "pg_stat_activity WHERE pid <> pg_backend_pid()), (SELECT coalesce(max(n_dead_tup), 0) FROM pg_stat_all_tables "
        "WHERE schemaname = $1 AND relname = 'out'), has_database_privilege(current_database(), 'CREATE')::int, "
        "current_user",
};
/* clang-format on */

char *kz__pg_put_schema(const char *text, const char *placeholder, const char *quoted)
{
    size_t count = 0, old = strlen(placeholder), new = strlen(quoted);
    for (const char *at = text; (at = strstr(at, placeholder)); at += old)
        count++;
    char *result = malloc(strlen(text) + count * new + 1), *out = result;
    for (const char *at = text; result && *at;) {
        bool is_schema = strncmp(at, placeholder, old) == 0;
        memcpy(out, is_schema ? quoted : at, is_schema ? new : 1);
        out += is_schema ? new : 1;
        at += is_schema ? old : 1;
    }
    if (result)
        *out = '\0';
    return result;
}
