/* The lease file: crashes, forks, full disks, and files that are not what they should be. */
#include "host/clock.h"
#include "random.h"
#include "sources/sqlite.h"
#include "sources/sqlite_file.h"
#include "test.h"
#include "virtual_clock.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const kz_source_ops *const ops = &kz__source_sqlite;
static char folder[64], path[128], url[160];
static kz_error err;
static kz_grant grant;

static int make_folder(void **state)
{
    (void)state;
    const char *where = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.30s/kazahana-sqlite-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/leases.db", folder);
    snprintf(url, sizeof url, "sqlite:%s", path);
    return 0;
}

static int remove_one(const char *name, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(name);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static kz_status try_open_at(const kz_clock *clock, const char *text, void **source)
{
    kz_source_options options = {.clock = clock, .timeout_ms = 10000};
    kz_source_facts facts;
    err.message[0] = '\0';
    return ops->open(source, text, &options, &facts, &err);
}

static kz_status try_open(const char *text, void **source)
{
    return try_open_at(&kz__machine_clock, text, source);
}

static void *open_source(const char *text)
{
    void *source = NULL;
    if (try_open(text, &source))
        fail_msg("%s", err.message);
    return source;
}

static kz_status acquire(void *source)
{
    kz_acquire request = {.throughput_per_ms = 1};
    return ops->acquire(source, &request, &grant, &err);
}

static kz_lease grant_one(void *source)
{
    if (acquire(source))
        fail_msg("%s", err.message);
    return grant.leases[0];
}

static void assert_refused(const char *part)
{
    void *source = NULL;
    assert_status(try_open(url, &source), KZ_STORE);
    assert_contains(err.message, path);
    assert_contains(err.message, part);
    assert_null(source);
}

static void write_file(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_new_file_is_its_owner_s_alone(void **state)
{
    (void)state;
    char text[200];
    snprintf(text, sizeof text, "sqlite:%s/sub/leases.db", folder);
    void *source = open_source(text);
    grant_one(source);
    struct stat info;
    snprintf(text, sizeof text, "%s/sub", folder);
    assert_int_equal(stat(text, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    snprintf(text, sizeof text, "%s/sub/leases.db-wal", folder);
    assert_int_equal(stat(text, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    text[strlen(text) - 4] = '\0';
    assert_int_equal(stat(text, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    ops->close(source, false);
    snprintf(text, sizeof text, "sqlite:%s/folders/above/it/leases.db", folder);
    ops->close(open_source(text), false);
    assert_status(try_open("sqlite:/proc/no/such/leases.db", &source), KZ_STORE);
    assert_status(try_open("sqlite:", &source), KZ_INVALID);
    assert_status(try_open("sqlite:/tmp/", &source), KZ_INVALID);
}

static void a_relative_path_stays_where_it_was(void **state)
{
    (void)state;
    char before[256];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    void *source = open_source("sqlite::memory:");
    assert_int_equal(chdir(before), 0);
    grant_one(source);
    ops->close(source, false);
    char text[200];
    snprintf(text, sizeof text, "%s/:memory:", folder);
    assert_int_equal(access(text, F_OK), 0);
}

static void leases_outlive_the_process(void **state)
{
    (void)state;
    void *source = open_source(url);
    kz_lease a = grant_one(source);
    ops->close(source, false);
    source = open_source(url);
    kz_lease b = grant_one(source);
    assert_int_equal(b.id, a.id + 1);
    kz_source_health health;
    assert_ok(ops->health(source, NULL, &health, &err));
    assert_true(health.durable);
    assert_int_equal(health.leases_out, 2);
    assert_int_equal(health.nodes_free, 8190);
    ops->close(source, false);
}

static void a_text_file_is_refused(void **state)
{
    (void)state;
    char text[4096];
    memset(text, 'x', sizeof text);
    write_file(text, sizeof text);
    assert_refused("not a database");
}

static void another_program_s_database_is_refused_and_left_alone(void **state)
{
    (void)state;
    run_sql("CREATE TABLE mine(x); PRAGMA journal_mode=DELETE");
    assert_refused("another program");
    run_sql("SELECT * FROM mine");
    char wal[160];
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_not_equal(access(wal, F_OK), 0);
}

static void a_newer_schema_is_refused(void **state)
{
    (void)state;
    ops->close(open_source(url), false);
    run_sql("PRAGMA user_version=3");
    assert_refused("newer version");
}

static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    void *source = open_source(url);
    for (int i = 0; i < 50; i++)
        grant_one(source);
    ops->close(source, false);
    int fd = open(path, O_RDWR);
    char noise[4096];
    memset(noise, 0xa5, sizeof noise);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    for (off_t at = 4096; at < info.st_size; at += 4096)
        assert_int_equal(pwrite(fd, noise, sizeof noise, at), sizeof noise);
    close(fd);
    kz_status status = try_open(url, &source);
    if (status == KZ_OK) {
        status = acquire(source);
        ops->close(source, false);
    }
    assert_int_equal(status, KZ_STORE);
    assert_contains(err.message, "damaged");
    assert_contains(err.message, path);
}

/* Runs a story in a child and gives its exit status: 0 for a true end. */
static int in_child(bool (*story)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(story() ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool open_as_nobody(void)
{
    void *source = NULL;
    return setgid(65534) == 0 && setuid(65534) == 0 && try_open(url, &source) == KZ_STORE && strstr(err.message, path);
}

static void a_file_that_may_not_be_written_is_refused(void **state)
{
    (void)state;
    if (getuid() != 0) {
        print_message("skipped: needs root to become another user\n");
        skip();
    }
    ops->close(open_source(url), false);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(in_child(open_as_nobody), 0);
    assert_int_equal(chmod(path, 0000), 0);
    assert_int_equal(in_child(open_as_nobody), 0);
}

static bool fill_up(void)
{
    signal(SIGXFSZ, SIG_IGN);
    void *source = open_source(url);
    struct rlimit limit = {.rlim_cur = 1500000, .rlim_max = 1500000};
    setrlimit(RLIMIT_FSIZE, &limit);
    uint32_t granted = 0;
    kz_status status;
    while ((status = acquire(source)) == KZ_OK && granted < 8192)
        granted++;
    bool told = status == KZ_STORE && strstr(err.message, "nothing was granted") && strstr(err.message, path);
    if (!told)
        fprintf(stderr, "%s %s\n", kz_status_name(status), err.message);
    /* Going on in spite of it does no harm. */
    for (int i = 0; i < 20; i++)
        (void)acquire(source);
    return told && granted > 10;
}

static void a_full_disk_is_told_and_harms_nothing(void **state)
{
    (void)state;
    assert_int_equal(in_child(fill_up), 0);
    void *source = open_source(url);
    kz_source_health health;
    assert_ok(ops->health(source, NULL, &health, &err));
    assert_true(health.leases_out > 10);
    kz_lease next = grant_one(source);
    assert_int_equal(next.id, health.leases_out);
    ops->close(source, false);
}

static void a_file_that_was_replaced_is_noticed(void **state)
{
    (void)state;
    void *source = open_source(url);
    grant_one(source);
    char away[160];
    snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(rename(path, away), 0);
    assert_status(acquire(source), KZ_STORE);
    assert_contains(err.message, "removed or replaced");
    write_file("", 0);
    assert_status(acquire(source), KZ_STORE);
    assert_int_equal(rename(away, path), 0);
    grant_one(source);
    ops->close(source, false);
}

static void remove_log(void)
{
    char log[160], index[160];
    snprintf(log, sizeof log, "%s-wal", path);
    snprintf(index, sizeof index, "%s-shm", path);
    assert_int_equal(unlink(log), 0);
    assert_int_equal(unlink(index), 0);
}

enum { K = 8192 / 4 }; /* how many nodes are set aside when the file may have forgotten grants */

/* Others would start from what the file itself has: what is granted from the log is granted twice. */
static void a_log_that_was_removed_is_noticed_and_the_file_goes_on_behind_what_it_forgot(void **state)
{
    (void)state;
    void *source = open_source(url);
    grant_one(source);
    run_sql("PRAGMA wal_checkpoint");
    assert_int_equal(grant_one(source).id, 1);
    remove_log();
    assert_status(acquire(source), KZ_STORE);
    assert_contains(err.message, "removed or replaced");
    uint64_t generation = grant.generation;
    assert_int_equal(grant_one(source).id, 1 + K);
    assert_true(grant.generation >> 32 > generation >> 32);
    void *newcomer = open_source(url);
    assert_int_equal(grant_one(newcomer).id, 2 + K);
    ops->close(newcomer, false);
    ops->close(source, false);
}

static int64_t robbed_wall(void *ctx)
{
    int *left = ctx;
    if (--*left == 0)
        remove_log();
    return kz__machine_clock.wall_ns(kz__machine_clock.ctx);
}

static int64_t machine_boot(void *ctx)
{
    (void)ctx;
    return kz__machine_clock.boot_ns(kz__machine_clock.ctx);
}

/* The file is looked at again after the commit, and the grant is not given. */
static void a_log_that_is_removed_within_a_transaction_is_noticed(void **state)
{
    (void)state;
    void *source = NULL;
    int reads_left = -1;
    kz_clock clock = {.wall_ns = robbed_wall, .boot_ns = machine_boot, .ctx = &reads_left};
    assert_ok(try_open_at(&clock, url, &source));
    assert_int_equal(grant_one(source).id, 0);
    run_sql("PRAGMA wal_checkpoint");
    reads_left = 1;
    assert_status(acquire(source), KZ_STORE);
    assert_contains(err.message, "removed or replaced");
    assert_status(ops->group_begin(source, &err), KZ_OK);
    reads_left = 1;
    assert_ok(acquire(source));
    assert_status(ops->group_commit(source, &err), KZ_STORE);
    ops->close(source, false);
}

static void a_file_that_is_older_than_its_mark_sets_aside_what_it_forgot(void **state)
{
    (void)state;
    char copy[170], text[300];
    snprintf(copy, sizeof copy, "%s.copy", path);
    void *source = open_source(url);
    grant_one(source);
    snprintf(text, sizeof text, "VACUUM INTO '%s'", copy);
    run_sql(text);
    assert_int_equal(grant_one(source).id, 1);
    ops->close(source, false);
    /* Another file, or the same one with what it had before: both are another place. */
    assert_int_equal(rename(copy, path), 0);
    source = open_source(url);
    assert_int_equal(grant_one(source).id, 1 + K);
    ops->close(source, false);
    source = open_source(url);
    assert_int_equal(grant_one(source).id, 2 + K);
    /* An older copy that no mark and no inode gives away: whoever holds a lease that it does not know does. */
    kz_lease unknown = grant.leases[0];
    unknown.id = 5000;
    kz_acquire request = {.throughput_per_ms = 1, .holds = &unknown};
    uint64_t generation = grant.generation;
    assert_status(ops->acquire(source, &request, &grant, &err), KZ_UNAVAILABLE);
    assert_contains(err.message, "went back in time");
    assert_status(acquire(source), KZ_UNAVAILABLE);
    int64_t now_ms;
    uint64_t later;
    assert_ok(ops->now(source, &now_ms, &later, &err));
    assert_true(later >> 32 > generation >> 32);
    ops->close(source, false);
}

static void a_lease_that_the_table_knows_or_that_has_ended_changes_nothing(void **state)
{
    (void)state;
    void *source = open_source(url);
    kz_lease mine = grant_one(source), ended = mine;
    ended.id = 5000;
    ended.expired_ms = mine.created_ms;
    const kz_lease *const held[] = {&mine, &ended};
    for (int i = 0; i < 2; i++) {
        kz_acquire request = {.throughput_per_ms = 1, .holds = held[i]};
        assert_ok(ops->acquire(source, &request, &grant, &err));
        assert_int_equal(grant.leases[0].id, 1 + i);
    }
    ops->close(source, false);
}

/* One whose file was removed, and that has forgotten everything. */
static void a_file_made_anew_beside_the_mark_of_the_one_before_waits(void **state)
{
    (void)state;
    void *source = open_source(url);
    grant_one(source);
    ops->close(source, false);
    assert_int_equal(unlink(path), 0);
    source = open_source(url);
    assert_status(acquire(source), KZ_UNAVAILABLE);
    ops->close(source, false);
}

static void a_file_of_the_version_before_is_taken_over(void **state)
{
    (void)state;
    void *source = open_source(url);
    kz_lease mine = grant_one(source);
    ops->close(source, false);
    run_sql("ALTER TABLE meta DROP COLUMN place; ALTER TABLE meta ADD COLUMN embargo_ms INTEGER NOT NULL DEFAULT 0;"
            "ALTER TABLE service DROP COLUMN refused_ms; ALTER TABLE service DROP COLUMN settled_ms;"
            "ALTER TABLE service DROP COLUMN part; ALTER TABLE service DROP COLUMN aside; PRAGMA user_version=1");
    source = open_source(url);
    assert_int_equal(grant_one(source).id, mine.id + 1);
    ops->close(source, false);
}

/* A write that must concern one row and concerns none. */
static void a_write_that_has_no_effect_is_noticed(void **state)
{
    (void)state;
    static const char *const tables[] = {"DELETE ON free", "INSERT ON out", "UPDATE ON out"};
    for (size_t i = 0; i < 3; i++) {
        void *source = open_source(url);
        kz_lease lease = grant_one(source);
        char text[200];
        snprintf(text, sizeof text, "CREATE TRIGGER t BEFORE %s BEGIN SELECT RAISE(IGNORE); END", tables[i]);
        run_sql(text);
        char signature[KZ_SIGNATURE_SIZE];
        kz_release release = {.id = lease.id, .timestamp_ms = lease.created_ms, .signature = signature};
        kz_release_sign(lease.secret, lease.id, release.timestamp_ms, signature);
        assert_status(i == 2 ? ops->release(source, &release, &err) : acquire(source), KZ_STORE);
        assert_contains(err.message, "contradicts itself");
        run_sql("DROP TRIGGER t");
        ops->close(source, false);
    }
}

static void a_new_file_in_quarantine_grants_nothing_for_four_leases(void **state)
{
    (void)state;
    virtual_clock now;
    virtual_begin(&now, VIRTUAL_EPOCH_MS + 1000000);
    char text[200];
    void *source = NULL;
    snprintf(text, sizeof text, "%s?lease=100ms&amnesia=quarantine", url);
    assert_ok(try_open_at(&now.clock, text, &source));
    assert_status(acquire(source), KZ_UNAVAILABLE);
    ops->close(source, false);
    snprintf(text, sizeof text, "%s?lease=100ms", url);
    assert_ok(try_open_at(&now.clock, text, &source));
    virtual_advance(&now, 399 * VIRTUAL_MS);
    assert_status(acquire(source), KZ_UNAVAILABLE);
    virtual_advance(&now, VIRTUAL_MS);
    grant_one(source);
    ops->close(source, false);
}

/* Whoever saw the file before believes one that was made anew under quarantine: its generations lie above. */
static void a_file_remade_in_quarantine_is_no_step_back(void **state)
{
    (void)state;
    virtual_clock now;
    virtual_begin(&now, VIRTUAL_EPOCH_MS + 1000000);
    char text[200];
    void *source = NULL;
    uint64_t seen = 0;
    for (int life = 0; life < 3; life++) {
        snprintf(text, sizeof text, "%s?lease=100ms&amnesia=quarantine", url);
        assert_ok(try_open_at(&now.clock, text, &source));
        virtual_advance(&now, 400 * VIRTUAL_MS);
        for (int i = 0; i < 20; i++) {
            grant_one(source);
            assert_true(grant.generation > seen);
            seen = grant.generation;
        }
        ops->close(source, false);
        assert_int_equal(unlink(path), 0);
    }
}

/* A child opens the file anew, and goes on with it after its parent has closed it. */
static void a_forked_child_can_open_the_file_of_its_parent(void **state)
{
    (void)state;
    int to_child[2], to_parent[2];
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    void *source = open_source(url);
    kz_lease mine = grant_one(source);
    char go;
    pid_t child = fork();
    if (child == 0) {
        ops->close(source, true);
        void *own = NULL;
        bool good = try_open(url, &own) == KZ_OK && acquire(own) == KZ_OK && grant.leases[0].id == mine.id + 1;
        good = good && write(to_parent[1], "x", 1) == 1 && read(to_child[0], &go, 1) == 1 && acquire(own) == KZ_OK &&
               grant.leases[0].id == mine.id + 2;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(to_parent[0], &go, 1), 1);
    ops->close(source, false);
    /* Were the child's locks not its own, this would sweep its log away. */
    ops->close(open_source(url), false);
    assert_int_equal(write(to_child[1], "x", 1), 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    source = open_source(url);
    assert_int_equal(grant_one(source).id, mine.id + 3);
    ops->close(source, false);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
}

typedef struct answered {
    uint32_t id;
    int64_t created_ms, expired_ms;
} answered;

static void acquire_for_ever(int out)
{
    void *source = NULL;
    if (try_open(url, &source))
        _exit(1);
    for (;;) {
        kz_status status = acquire(source);
        if (status == KZ_NO_FREE_NODE) /* a fast disk: all is granted, wait for the end */
            pause();
        if (status)
            _exit(1);
        answered a = {grant.leases[0].id, grant.leases[0].created_ms, grant.leases[0].expired_ms};
        if (write(out, &a, sizeof a) != sizeof a)
            _exit(1);
    }
}

static void no_answered_grant_is_lost_when_processes_are_killed(void **state)
{
    (void)state;
    enum { ROUNDS = 40, PROCESSES = 2 };
    static answered all[65536];
    size_t count = 0;
    uint64_t seed = 3;
    ops->close(open_source(url), false);
    for (int round = 0; round < ROUNDS; round++) {
        int line[2];
        pid_t children[PROCESSES];
        assert_int_equal(pipe(line), 0);
        for (int i = 0; i < PROCESSES; i++)
            if ((children[i] = fork()) == 0)
                acquire_for_ever(line[1]);
        close(line[1]);
        /* At any moment after the first answer. */
        assert_int_equal(poll(&(struct pollfd){.fd = line[0], .events = POLLIN}, 1, 60000), 1);
        nanosleep(&(struct timespec){.tv_nsec = (long)(test_random(&seed) % 30000000)}, NULL);
        for (int i = 0; i < PROCESSES; i++) {
            kill(children[i], SIGKILL);
            int status;
            waitpid(children[i], &status, 0);
            assert_true(WIFSIGNALED(status));
        }
        while (count < 65536 && read(line[0], &all[count], sizeof all[0]) == sizeof all[0])
            count++;
        close(line[0]);
    }
    static uint8_t seen[8192];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(seen[all[i].id]++, 0); /* within one lease's time no node twice */
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM out WHERE node=?1 AND twin=0 AND end_ms>=?2", -1, &q, NULL),
        SQLITE_OK);
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(q, 1, all[i].id);
        sqlite3_bind_int64(q, 2, all[i].expired_ms);
        assert_int_equal(sqlite3_step(q), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(q, 0), 1);
        sqlite3_reset(q);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
    print_message("%zu answered grants, %d kills, none lost\n", count, ROUNDS * PROCESSES);
    assert_true(count >= ROUNDS);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What an acquire takes, in microseconds; what it granted is given back. */
static double acquire_us(void *source)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    kz_lease lease = grant_one(source);
    clock_gettime(CLOCK_MONOTONIC, &to);
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign(lease.secret, lease.id, lease.created_ms, signature);
    kz_release release = {.id = lease.id, .timestamp_ms = lease.created_ms, .signature = signature};
    if (ops->release(source, &release, &err))
        fail_msg("%s", err.message);
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
}

/* Two files in turns, so that a machine that is busy for a while is so for both. Printed, and bounded only coarsely. */
static void an_acquire_costs_the_same_with_one_and_with_8190_leases_held(void **state)
{
    (void)state;
    enum { ROUNDS = 201 };
    static double few[ROUNDS], many[ROUNDS];
    char other[200];
    snprintf(other, sizeof other, "%s.many", url);
    void *with_one = open_source(url), *with_8190 = open_source(other);
    grant_one(with_one);
    kz_acquire request = {.throughput_per_ms = 16384};
    for (size_t held = 0; held < 8190; held += grant.count) {
        request.throughput_per_ms = 8190 - held < 64 ? (uint32_t)(8190 - held) * 256 : 16384;
        if (ops->acquire(with_8190, &request, &grant, &err))
            fail_msg("%s", err.message);
    }
    for (int i = 0; i < ROUNDS; i++) {
        few[i] = acquire_us(with_one);
        many[i] = acquire_us(with_8190);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* or the last node is not free yet */
    }
    qsort(few, ROUNDS, sizeof few[0], by_size);
    qsort(many, ROUNDS, sizeof many[0], by_size);
    print_message("acquire: %.0f us with 1 lease held, %.0f us with 8190\n", few[ROUNDS / 2], many[ROUNDS / 2]);
    assert_true(many[ROUNDS / 2] < 5 * few[ROUNDS / 2]);
    ops->close(with_one, false);
    ops->close(with_8190, false);
}

/* A plan without a scan and without a sort looks at the lines it tells, and at no others. */
static void a_page_of_the_list_is_found_by_index(void **state)
{
    (void)state;
#define TEXT_OF(name, sql) [KZ__SQL_##name] = "EXPLAIN QUERY PLAN " sql,
    static const char *const plans[] = {KZ__SQLITE_STATEMENTS(TEXT_OF)};
    ops->close(open_source(url), false);
    sqlite3 *db;
    sqlite3_stmt *q;
    size_t steps = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, plans[KZ__SQL_LIST], -1, &q, NULL), SQLITE_OK);
    for (; sqlite3_step(q) == SQLITE_ROW; steps++) {
        const char *step = (const char *)sqlite3_column_text(q, 3);
        if (!strstr(step, "SEARCH"))
            fail_msg("%s: %s", plans[KZ__SQL_LIST], step);
    }
    assert_true(steps);
    sqlite3_finalize(q);
    sqlite3_close(db);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_new_file_is_its_owner_s_alone),
        FILE_TEST(a_relative_path_stays_where_it_was),
        FILE_TEST(leases_outlive_the_process),
        FILE_TEST(a_text_file_is_refused),
        FILE_TEST(another_program_s_database_is_refused_and_left_alone),
        FILE_TEST(a_newer_schema_is_refused),
        FILE_TEST(a_damaged_file_is_refused),
        FILE_TEST(a_file_that_may_not_be_written_is_refused),
        FILE_TEST(a_full_disk_is_told_and_harms_nothing),
        FILE_TEST(a_file_that_was_replaced_is_noticed),
        FILE_TEST(a_log_that_was_removed_is_noticed_and_the_file_goes_on_behind_what_it_forgot),
        FILE_TEST(a_log_that_is_removed_within_a_transaction_is_noticed),
        FILE_TEST(a_file_that_is_older_than_its_mark_sets_aside_what_it_forgot),
        FILE_TEST(a_lease_that_the_table_knows_or_that_has_ended_changes_nothing),
        FILE_TEST(a_file_made_anew_beside_the_mark_of_the_one_before_waits),
        FILE_TEST(a_file_of_the_version_before_is_taken_over),
        FILE_TEST(a_write_that_has_no_effect_is_noticed),
        FILE_TEST(a_new_file_in_quarantine_grants_nothing_for_four_leases),
        FILE_TEST(a_file_remade_in_quarantine_is_no_step_back),
        FILE_TEST(a_forked_child_can_open_the_file_of_its_parent),
        FILE_TEST(no_answered_grant_is_lost_when_processes_are_killed),
        FILE_TEST(a_page_of_the_list_is_found_by_index),
        FILE_TEST(an_acquire_costs_the_same_with_one_and_with_8190_leases_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
