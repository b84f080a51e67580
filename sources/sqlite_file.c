/* The file of a lease table in SQLite: opening, its schema, its statements and its failures. */
#include "sources/sqlite_file.h"
#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define APPLICATION_ID 1803185268 /* the bytes "kzlt" */
#define SCHEMA_VERSION 2
#define RETRY_MS       5
#define LOG_PAGES      1000

#define TEXT_OF(x)   TEXT_OF_2(x)
#define TEXT_OF_2(x) #x

static const char schema[] =
    "CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one=1), high_ms INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " place TEXT NOT NULL, boot TEXT NOT NULL, boot_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL);"
    "INSERT INTO meta VALUES(1, 0, 0, '', '', 0, 0);"
    "CREATE TABLE service(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epoch_ms INTEGER NOT NULL,"
    " reserved_bits INTEGER NOT NULL, time_bits INTEGER NOT NULL, node_bits INTEGER NOT NULL,"
    " seq_bits INTEGER NOT NULL, high_blocks INTEGER NOT NULL, max_throughput INTEGER NOT NULL,"
    " lease_ms INTEGER NOT NULL, granted INTEGER NOT NULL, cursor INTEGER NOT NULL, refused_ms INTEGER NOT NULL,"
    " settled_ms INTEGER NOT NULL, part INTEGER NOT NULL, aside TEXT NOT NULL);"
    "CREATE TABLE free(service INTEGER NOT NULL, hi INTEGER NOT NULL, lo INTEGER NOT NULL, CHECK(lo<hi),"
    " PRIMARY KEY(service, hi)) WITHOUT ROWID;"
    "CREATE TABLE out(service INTEGER NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL, start_ms INTEGER NOT NULL,"
    " end_ms INTEGER NOT NULL, node INTEGER NOT NULL, node_bits INTEGER NOT NULL, seq_bits INTEGER NOT NULL,"
    " twin INTEGER NOT NULL, released INTEGER NOT NULL, asked INTEGER NOT NULL, request BLOB NOT NULL,"
    " secret TEXT NOT NULL, holder TEXT NOT NULL, CHECK(lo<hi), PRIMARY KEY(service, lo)) WITHOUT ROWID;"
    "CREATE INDEX out_end ON out(service, end_ms, lo);"
    "CREATE INDEX out_node ON out(service, node) WHERE twin=0;"
    "CREATE INDEX out_any_node ON out(node) WHERE twin=0;"
    "CREATE INDEX out_request ON out(service, request, lo) WHERE twin=0;"
    "PRAGMA application_id=" TEXT_OF(APPLICATION_ID) ";"
                                                     "PRAGMA user_version=" TEXT_OF(SCHEMA_VERSION) ";";

/* From version 1. */
static const char upgrade[] =
    "ALTER TABLE meta ADD COLUMN place TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE service ADD COLUMN refused_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE service ADD COLUMN settled_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE service ADD COLUMN part INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE service ADD COLUMN aside TEXT NOT NULL DEFAULT '';"
    "UPDATE service SET aside=(SELECT 'q 0 4611686018427387904 '||embargo_ms||' '||char(10) FROM meta)"
    " WHERE (SELECT embargo_ms>high_ms FROM meta);"
    "PRAGMA user_version=" TEXT_OF(SCHEMA_VERSION) ";";

kz_status kz__sqlite_failed(const kz__sqlite *file, const char *doing, kz_error *err)
{
    int code = sqlite3_errcode(file->db);
    const char *text = sqlite3_errmsg(file->db);
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return kz__fail(err, KZ_NO_MEMORY, "lease file %s: %s: out of memory", file->path, doing);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return kz__fail(err, KZ_UNAVAILABLE, "lease file %s: %s: another process has kept it locked for %d ms",
                        file->path, doing, file->timeout_ms);
    case SQLITE_FULL:
        return kz__fail(err, KZ_STORE, "lease file %s: %s: the disk is full: make room, nothing was granted",
                        file->path, doing);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return kz__fail(err, KZ_STORE,
                        "lease file %s: %s: %s: the file and its folder must be writable by this user (%s)", file->path,
                        doing, text, "or name another file with sqlite:/path/leases.db");
    case SQLITE_CANTOPEN:
        return kz__fail(err, KZ_STORE, "lease file %s: %s: %s (%s): does its folder exist, and may this user write it?",
                        file->path, doing, text, strerror(sqlite3_system_errno(file->db)));
    case SQLITE_NOTADB:
        return kz__fail(err, KZ_STORE, "lease file %s: %s: it is not a database: name another file", file->path, doing);
    case SQLITE_CORRUPT:
        return kz__fail(err, KZ_STORE,
                        "lease file %s: %s: it is damaged (%s): move it away, and open a new one with "
                        "?amnesia=quarantine so that leases it has forgotten end first",
                        file->path, doing, text);
    case SQLITE_IOERR:
        return kz__fail(err, KZ_STORE, "lease file %s: %s: %s (%s): check the disk, nothing was granted", file->path,
                        doing, text, strerror(sqlite3_system_errno(file->db)));
    default:
        return kz__fail(err, KZ_STORE, "lease file %s: %s: %s", file->path, doing, text);
    }
}

kz_status kz__sqlite_use(kz__sqlite *file, kz__sqlite_name name, sqlite3_stmt **statement, kz_error *err)
{
    static const char *const texts[] = {
#define SQL_TEXT(id, sql) sql,
        KZ__SQLITE_STATEMENTS(SQL_TEXT)
#undef SQL_TEXT
    };
    if (!file->statements[name] && sqlite3_prepare_v3(file->db, texts[name], -1, SQLITE_PREPARE_PERSISTENT,
                                                      &file->statements[name], NULL) != SQLITE_OK)
        return kz__sqlite_failed(file, "cannot be asked", err);
    *statement = file->statements[name];
    return KZ_OK;
}

kz_status kz__sqlite_step(kz__sqlite *file, sqlite3_stmt *statement, const char *doing, kz_error *err)
{
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return KZ_OK;
    kz_status status = code == SQLITE_DONE ? KZ_NOT_FOUND : kz__sqlite_failed(file, doing, err);
    sqlite3_reset(statement);
    return status;
}

kz_status kz__sqlite_run(kz__sqlite *file, sqlite3_stmt *statement, const char *doing, kz_error *err)
{
    kz_status status = kz__sqlite_step(file, statement, doing, err);
    if (status == KZ_OK)
        sqlite3_reset(statement);
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

static kz_status run_text(kz__sqlite *file, const char *sql, const char *doing, kz_error *err)
{
    return sqlite3_exec(file->db, sql, NULL, NULL, NULL) == SQLITE_OK ? KZ_OK : kz__sqlite_failed(file, doing, err);
}

/* The one number that a question gives. */
static kz_status ask_number(kz__sqlite *file, const char *sql, int64_t *number, kz_error *err)
{
    sqlite3_stmt *statement = NULL;
    kz_status status = KZ_OK;
    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        status = kz__sqlite_failed(file, "cannot be read", err);
    else
        *number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* Is it ours, or nobody's yet? Asked before anything is written to it. */
static kz_status check_identity(kz__sqlite *file, bool *empty, bool *old, kz_error *err)
{
    int64_t application, version, objects;
    kz_status status = ask_number(file, "SELECT count(*) FROM sqlite_master", &objects, err);
    if (status == KZ_OK)
        status = ask_number(file, "PRAGMA application_id", &application, err);
    if (status == KZ_OK)
        status = ask_number(file, "PRAGMA user_version", &version, err);
    if (status)
        return status;
    *empty = !objects && !version && !application;
    *old = version < SCHEMA_VERSION;
    if (*empty)
        return KZ_OK;
    if (application != APPLICATION_ID)
        return kz__fail(err, KZ_STORE, "lease file %s: it is a database of another program: name another file",
                        file->path);
    if (version > SCHEMA_VERSION)
        return kz__fail(err, KZ_STORE,
                        "lease file %s: its schema is number %lld, made by a newer version, and this one knows %d: "
                        "update this program",
                        file->path, (long long)version, SCHEMA_VERSION);
    return KZ_OK;
}

/* After a quarantine nobody holds anything of the file before: its generations are over, and ours lie above. */
static kz_status note_loss(kz__sqlite *file, kz_error *err)
{
    kz__place place = {0};
    uint64_t generation = 0;
    char text[KZ__PLACE_TEXT_SIZE];
    kz__place_lost(&place, KZ__WHY_EMPTY, -1, file->lost_ms, &generation);
    kz__place_text(&place, text);
    char *sql = sqlite3_mprintf("UPDATE meta SET place=%Q, generation=%lld", text, (long long)generation);
    kz_status status = sql ? run_text(file, sql, "cannot be set up", err)
                           : kz__fail(err, KZ_NO_MEMORY, "lease file %s: out of memory", file->path);
    sqlite3_free(sql);
    return status;
}

/* All or nothing, and by one of those who try at once. */
static kz_status make_schema(kz__sqlite *file, kz_error *err)
{
    bool empty, old;
    kz_status status = run_text(file, "BEGIN IMMEDIATE", "cannot be locked", err);
    if (status)
        return status;
    status = check_identity(file, &empty, &old, err);
    if (status == KZ_OK && (empty || old))
        status = run_text(file, empty ? schema : upgrade, "cannot be set up", err);
    if (status == KZ_OK && empty && file->lost_ms)
        status = note_loss(file, err);
    if (status == KZ_OK)
        status = run_text(file, "COMMIT", "cannot be set up", err);
    if (status)
        sqlite3_exec(file->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static kz_status check_settings(kz__sqlite *file, kz_error *err)
{
    int64_t synchronous;
    sqlite3_stmt *statement = NULL;
    kz_status status = KZ_OK;
    if (sqlite3_prepare_v2(file->db, "PRAGMA journal_mode=WAL", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = kz__sqlite_failed(file, "cannot be written", err);
    else if (strcmp((const char *)sqlite3_column_text(statement, 0), "wal") != 0)
        status =
            kz__fail(err, KZ_STORE,
                     "lease file %s: this place cannot keep a write-ahead log: use a file on a local disk", file->path);
    sqlite3_finalize(statement);
    if (status == KZ_OK)
        status = run_text(file, "PRAGMA synchronous=FULL", "cannot be made durable", err);
    if (status == KZ_OK)
        status = ask_number(file, "PRAGMA synchronous", &synchronous, err);
    if (status == KZ_OK && synchronous < 2)
        status = kz__fail(err, KZ_STORE, "lease file %s: this build of SQLite cannot sync every commit", file->path);
    return status;
}

static void sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* With the folders above it, for nobody but us. */
static bool make_folder(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return true;
    char above[PATH_MAX];
    if (errno != ENOENT || strlen(path) >= sizeof above)
        return false;
    strcpy(above, path);
    return make_folder(dirname(above)) && (mkdir(path, 0700) == 0 || errno == EEXIST);
}

/* Makes the file, which only its owner may read: it has the secrets of leases. Only a file that did not exist is opened
 * here: closing it would drop the locks that this process has on an older one. */
static kz_status make_file(const kz__sqlite *file, kz_error *err)
{
    char copy[PATH_MAX];
    if (strlen(file->path) >= sizeof copy)
        return kz__fail(err, KZ_STORE, "lease file: a path of %zu characters is too long", strlen(file->path));
    if (file->must_exist)
        return access(file->path, F_OK) == 0
                   ? KZ_OK
                   : kz__fail(err, KZ_NOT_FOUND, "lease file %s: it is not there, and create=no says not to make it",
                              file->path);
    strcpy(copy, file->path);
    const char *folder = dirname(copy);
    if (!make_folder(folder))
        return kz__fail(err, KZ_STORE, "lease file %s: its folder %s cannot be made: %s", file->path, folder,
                        strerror(errno));
    int fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST
                   ? KZ_OK
                   : kz__fail(err, KZ_STORE, "lease file %s: it cannot be made: %s", file->path, strerror(errno));
    close(fd);
    sync_folder(folder);
    return KZ_OK;
}

static int note_log(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((kz__sqlite *)ctx)->log_pages = pages;
    return SQLITE_OK;
}

/* Not by itself at a commit: a log that is not the path's any more must not be moved into the file. */
void kz__sqlite_tidy(kz__sqlite *file)
{
    if (file->log_pages >= LOG_PAGES)
        sqlite3_wal_checkpoint_v2(file->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static kz_status set_up(kz__sqlite *file, kz_error *err)
{
    if (sqlite3_open_v2(file->path, &file->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return file->db ? kz__sqlite_failed(file, "cannot be opened", err)
                        : kz__fail(err, KZ_NO_MEMORY, "lease file %s: out of memory", file->path);
    sqlite3_busy_timeout(file->db, file->timeout_ms);
    sqlite3_wal_hook(file->db, note_log, file);
    bool empty = false, old = false;
    kz_status status = check_identity(file, &empty, &old, err);
    if (status == KZ_OK && sqlite3_db_readonly(file->db, "main"))
        status = kz__fail(err, KZ_STORE,
                          "lease file %s: it cannot be written by this user: give it the permission, or name another "
                          "file",
                          file->path);
    if (status == KZ_OK)
        status = check_settings(file, err);
    if (status == KZ_OK && old)
        status = make_schema(file, err);
    /* A read has opened the log and its index. */
    int64_t generation;
    if (status == KZ_OK)
        status = ask_number(file, "SELECT generation FROM meta", &generation, err);
    return status;
}

kz_status kz__sqlite_open(kz__sqlite *file, kz_error *err)
{
    struct stat there;
    /* A file that was open before and is gone must not be made anew. */
    kz_status status = kz__sqlite_still_there(file, err);
    if (status == KZ_OK && stat(file->path, &there) && errno == ENOENT)
        status = make_file(file, err);
    /* The change to a write-ahead log does not wait for others by itself. */
    for (int waited_ms = 0; status == KZ_OK; waited_ms += RETRY_MS) {
        status = set_up(file, err);
        if (status == KZ_OK)
            status = kz__sqlite_identify(file, err);
        if (status == KZ_OK)
            return KZ_OK;
        kz__sqlite_close(file);
        if (status == KZ_UNAVAILABLE && waited_ms < file->timeout_ms) {
            sqlite3_sleep(RETRY_MS);
            status = KZ_OK;
        }
    }
    return status;
}

void kz__sqlite_close(kz__sqlite *file)
{
    /* What is in a log that nobody else sees must not get into the file that others use by now. */
    if (file->db && file->identity && kz__sqlite_is_detached(file))
        sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    for (size_t i = 0; i < KZ__SQL_COUNT; i++) {
        sqlite3_finalize(file->statements[i]);
        file->statements[i] = NULL;
    }
    sqlite3_close(file->db);
    file->db = NULL;
    kz__sqlite_forget(file);
}

bool kz__sqlite_is_remote(const char *path)
{
    static const unsigned kinds[] = {NFS_SUPER_MAGIC,       SMB_SUPER_MAGIC,         CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                     AFS_SUPER_MAGIC,       CODA_SUPER_MAGIC,        NCP_SUPER_MAGIC,  V9FS_MAGIC,
                                     0x00c36400 /* ceph */, 0x0bd00bd0 /* lustre */, 0x65735546 /* fuse */};
    struct statfs fs;
    if (statfs(path, &fs))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if ((unsigned)fs.f_type == kinds[i])
            return true;
    return false;
}
