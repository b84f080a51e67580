/* The tables in PostgreSQL, as a script for psql too: the build installs these lines as share/kazahana/postgres.sql.
 * In them :"schema" stands for the schema. What follows the empty line is for an administrator only. */
#ifndef KZ_SOURCES_POSTGRES_SCHEMA_H
#define KZ_SOURCES_POSTGRES_SCHEMA_H

/* One statement a line. meta has one row, which every writer locks first. Rows that change with every lease are kept
 * apart on their pages, so that a new version finds room beside the old one. No two rows of `out` overlap: a second
 * wall behind the rules. */
static const char *const kz__pg_schema[] = {
    "CREATE TABLE IF NOT EXISTS :\"schema\".meta (one boolean PRIMARY KEY CHECK (one), version int4 NOT NULL, "
    "high_ms int8 NOT NULL, generation int8 NOT NULL, place text NOT NULL) WITH (fillfactor = 10);",
    "CREATE TABLE IF NOT EXISTS :\"schema\".service (id int4 PRIMARY KEY, name text COLLATE \"C\" NOT NULL UNIQUE, "
    "epoch_ms int8 NOT NULL, reserved_bits int2 NOT NULL, time_bits int2 NOT NULL, node_bits int2 NOT NULL, "
    "seq_bits int2 NOT NULL, high_blocks boolean NOT NULL, max_throughput int8 NOT NULL, lease_ms int8 NOT NULL, "
    "granted boolean NOT NULL, cursor int8 NOT NULL, heights int8 NOT NULL, aside text NOT NULL, "
    "settled_ms int8 NOT NULL) "
    "WITH (fillfactor = 10);",
    "CREATE TABLE IF NOT EXISTS :\"schema\".free (service int4 NOT NULL, lo int8 NOT NULL, hi int8 NOT NULL, "
    "PRIMARY KEY (service, hi));",
    "CREATE TABLE IF NOT EXISTS :\"schema\".out (service int4 NOT NULL, lo int8 NOT NULL, hi int8 NOT NULL, "
    "start_ms int8 NOT NULL, end_ms int8 NOT NULL, node int8 NOT NULL, node_bits int2 NOT NULL, "
    "seq_bits int2 NOT NULL, released boolean NOT NULL, asked int8 NOT NULL, request bytea NOT NULL, "
    "secret text NOT NULL, holder text NOT NULL, PRIMARY KEY (service, lo), "
    "EXCLUDE USING gist (int4range(service, service, '[]') WITH &&, int8range(lo, hi) WITH &&));",
    "CREATE INDEX IF NOT EXISTS out_by_end ON :\"schema\".out (service, end_ms, lo);",
    "CREATE INDEX IF NOT EXISTS out_by_request ON :\"schema\".out (service, request);",
    "INSERT INTO :\"schema\".meta VALUES (true, 1, 0, 0, '') ON CONFLICT DO NOTHING;",
};

#endif
