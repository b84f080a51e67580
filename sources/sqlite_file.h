/* The file of a lease table in SQLite: opening, its schema, its statements and its failures. */
#ifndef KZ_SOURCES_SQLITE_FILE_H
#define KZ_SOURCES_SQLITE_FILE_H

#include "core/place.h"

#include <sqlite3.h>
#include <sys/stat.h>

/* Services with these settings that nobody has used since ?1. One that was used has a row at least until it is used
 * again, which ends when its last window did. */
#define KZ__SQLITE_IDLE                                                                                                \
    "SELECT id FROM service WHERE granted=1 AND name<>'default' AND name<>?2 AND epoch_ms=?3 AND reserved_bits=?4"     \
    " AND time_bits=?5 AND node_bits=?6 AND seq_bits=?7 AND high_blocks=?8 AND max_throughput=?9 AND lease_ms=?10"     \
    " AND aside NOT LIKE 'r %' AND aside NOT LIKE '%'||char(10)||'r %'"                                                \
    " AND (SELECT max(end_ms) FROM out WHERE service=service.id)<?1"

/* Every statement that is used more than once, by name. */
#define KZ__SQLITE_STATEMENTS(X)                                                                                       \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(SAVEPOINT, "SAVEPOINT part")                                                                                     \
    X(SAVEPOINT_UNDO, "ROLLBACK TO part")                                                                              \
    X(SAVEPOINT_KEEP, "RELEASE part")                                                                                  \
    X(META_READ, "SELECT high_ms, generation, place, boot, boot_ms, wall_ms FROM meta")                                \
    X(META_WRITE, "UPDATE meta SET high_ms=?1, generation=?2, boot=?3, boot_ms=?4, wall_ms=?5, place=?6")              \
    X(SERVICE_READ, "SELECT id, epoch_ms, reserved_bits, time_bits, node_bits, seq_bits, high_blocks, max_throughput," \
                    " lease_ms, granted, cursor, refused_ms, settled_ms, part, aside FROM service WHERE name=?1")      \
    X(SERVICE_RESERVED, "SELECT name, node_bits, seq_bits, aside FROM service WHERE name>=?1 AND aside<>''"            \
                        " ORDER BY name")                                                                              \
    X(SERVICE_NEXT, "SELECT coalesce(max(id), 0)+1 FROM service")                                                      \
    X(SERVICE_WRITE, "INSERT INTO service(id, name, epoch_ms, reserved_bits, time_bits, node_bits, seq_bits,"          \
                     " high_blocks, max_throughput, lease_ms, granted, cursor, refused_ms, settled_ms, part, aside)"   \
                     " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16) ON CONFLICT(id) DO UPDATE SET "  \
                     "epoch_ms=?3, reserved_bits=?4, time_bits=?5,"                                                    \
                     " node_bits=?6, seq_bits=?7, high_blocks=?8, max_throughput=?9, lease_ms=?10, granted=?11,"       \
                     " cursor=?12, refused_ms=?13, settled_ms=?14, part=?15, aside=?16")                               \
    X(SERVICE_COUNT, "SELECT count(*) FROM service")                                                                   \
    X(IDLE_FREE, "DELETE FROM free WHERE service IN (" KZ__SQLITE_IDLE ")")                                            \
    X(IDLE_SERVICE, "DELETE FROM service WHERE id IN (" KZ__SQLITE_IDLE ")")                                           \
    X(IDLE_OUT, "DELETE FROM out WHERE service NOT IN (SELECT id FROM service)")                                       \
    X(FREE_AFTER, "SELECT lo, hi FROM free WHERE service=?1 AND hi>?2 ORDER BY hi LIMIT 1")                            \
    X(FREE_ENDING, "SELECT lo, hi FROM free WHERE service=?1 AND hi=?2")                                               \
    X(FREE_ADD, "INSERT INTO free(service, lo, hi) VALUES(?1,?2,?3)")                                                  \
    X(FREE_REMOVE, "DELETE FROM free WHERE service=?1 AND lo=?2 AND"                                                   \
                   " hi=(SELECT min(hi) FROM free WHERE service=?1 AND hi>?2)")                                        \
    X(OUT_ENDED, "SELECT * FROM out INDEXED BY out_end WHERE service=?1 AND end_ms<=?2 ORDER BY end_ms, lo LIMIT 1")   \
    X(OUT_AT, "SELECT * FROM out WHERE service=?1 AND lo=?2")                                                          \
    X(OUT_BY_NODE, "SELECT * FROM out INDEXED BY out_node WHERE service=?1 AND node=?2 AND twin=0 LIMIT 1")            \
    X(OUT_BY_REQUEST, "SELECT * FROM out INDEXED BY out_request WHERE service=?1 AND request=?2 AND twin=0 AND lo>=?3" \
                      " ORDER BY lo LIMIT 1")                                                                          \
    X(OUT_ADD, "INSERT INTO out(service, lo, hi, start_ms, end_ms, node, node_bits, seq_bits, twin, released, asked,"  \
               " request, secret, holder) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)")                     \
    X(OUT_UPDATE, "UPDATE out SET end_ms=?3, released=?4 WHERE service=?1 AND lo=?2")                                  \
    X(OUT_REMOVE, "DELETE FROM out WHERE service=?1 AND lo=?2")                                                        \
    X(OUT_COUNT, "SELECT count(*) FROM out WHERE service=?1 AND twin=0 AND released=0 AND end_ms>?2")                  \
    X(OUT_RESTING, "SELECT lo, hi FROM out WHERE service=?1 AND twin=0 AND end_ms<=?2")                                \
    X(LIST, "SELECT s.name, o.holder, o.node, o.node_bits, o.seq_bits, o.start_ms, o.end_ms,"                          \
            " coalesce(t.start_ms, o.end_ms), coalesce(t.end_ms, o.end_ms)"                                            \
            " FROM service s CROSS JOIN out o INDEXED BY out_node ON o.service=s.id LEFT JOIN out t"                   \
            " ON t.service=o.service AND t.lo=o.lo+(1<<(o.node_bits+o.seq_bits-1)) AND t.secret=o.secret"              \
            " AND t.released=0 AND t.end_ms>?1"                                                                        \
            " WHERE s.name>=?2 AND o.node>=CASE WHEN s.name=?2 THEN ?3 ELSE 0 END AND o.twin=0 AND o.released=0"       \
            " AND o.end_ms>?1 ORDER BY s.name, o.node LIMIT ?4")                                                       \
    X(LIST_NODE, "SELECT s.name, o.holder, o.node, o.node_bits, o.seq_bits, o.start_ms, o.end_ms, o.end_ms, o.end_ms"  \
                 " FROM out o JOIN service s ON s.id=o.service WHERE o.node=?3 AND o.twin=0 AND o.released=0"          \
                 " AND o.end_ms>?1 AND s.name>=?2 ORDER BY s.name LIMIT ?4")                                           \
    X(SYNCHRONOUS, "PRAGMA synchronous")

typedef enum kz__sqlite_name {
#define KZ__SQLITE_ENUM(name, sql) KZ__SQL_##name,
    KZ__SQLITE_STATEMENTS(KZ__SQLITE_ENUM)
#undef KZ__SQLITE_ENUM
        KZ__SQL_COUNT
} kz__sqlite_name;

typedef struct kz__sqlite_identity kz__sqlite_identity;

typedef struct kz__sqlite {
    sqlite3 *db; /* NULL: closed for the moment */
    sqlite3_stmt *statements[KZ__SQL_COUNT];
    char *path;
    int timeout_ms;
    int64_t lost_ms; /* for a file that is made: when it was found missing, under quarantine; 0: it is simply new */
    bool must_exist;
    ino_t first_ino; /* of the file that was opened first; 0: none was */
    dev_t first_dev;
    kz__sqlite_identity *identity; /* of what is open; NULL: closed */
    int mark;                      /* the file beside it with the latest generation; -1: none */
    int log_pages;                 /* after the last commit */
    int64_t service;               /* the rows are this one's */
} kz__sqlite;

/* Opens the file, and makes it where there is none. Everything that is wrong with it is KZ_STORE. */
kz_status kz__sqlite_open(kz__sqlite *file, kz_error *err);
void kz__sqlite_close(kz__sqlite *file);

/* sources/sqlite_place.c. Notes which files are open, and ends that. */
kz_status kz__sqlite_identify(kz__sqlite *file, kz_error *err);
void kz__sqlite_forget(kz__sqlite *file);

/* KZ_STORE if the path no longer leads to the files that were opened: others would be granted from another table. */
kz_status kz__sqlite_still_there(const kz__sqlite *file, kz_error *err);
bool kz__sqlite_is_detached(const kz__sqlite *file);

/* A generation that is committed, for those who find an older copy of the file later. */
void kz__sqlite_raise_mark(const kz__sqlite *file, uint64_t generation);

/* The place of a table with that generation (core/place.h). */
void kz__sqlite_place_now(const kz__sqlite *file, uint64_t generation, kz__place *kept,
                          char name[static KZ__PLACE_SIZE]);

/* After a commit that counts: moves the log into the file when it has become long. */
void kz__sqlite_tidy(kz__sqlite *file);

/* What the last call on the file failed with. */
kz_status kz__sqlite_failed(const kz__sqlite *file, const char *doing, kz_error *err);

/* A statement, ready to be bound. */
kz_status kz__sqlite_use(kz__sqlite *file, kz__sqlite_name name, sqlite3_stmt **statement, kz_error *err);

/* Steps: KZ_OK with a row, KZ_NOT_FOUND after the last. A statement that is not stepped to its end is reset by the
 * caller. */
kz_status kz__sqlite_step(kz__sqlite *file, sqlite3_stmt *statement, const char *doing, kz_error *err);

/* Runs a statement that gives no row. */
kz_status kz__sqlite_run(kz__sqlite *file, sqlite3_stmt *statement, const char *doing, kz_error *err);

/* Is it on a file system of another machine, where locks and syncs cannot be relied on? */
bool kz__sqlite_is_remote(const char *path);

/* The rows of file->service, for the rules. */
kz__rows kz__sqlite_rows(kz__sqlite *file);

#endif
