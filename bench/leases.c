/* What a lease costs: acquires beside the bare cost of one durable write, how they grow with the leases that are out,
 * and that a generator which only holds one lets the machine sleep. */
#include "bench/measure.h"
#include "bench/stores.h"
#include "bench/switches.h"
#include "bench/table.h"

#include "host/clock.h"

#include <kazahana.h>

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LAYOUT "41-15-7@2026-01-01" /* 16,384 nodes to lease: free ones are left when many are out */

enum { FEW_HELD = 1, MANY_HELD = 8190, GROWTH_GOAL = 8, IDLE_GOAL = 9, ROWS_MAX = 8, IDLE_S = 5 };

static char folder[200]; /* for all that is written; empty: not made yet */

static void clean_up(void)
{
    if (*folder)
        remove_folder(folder);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "leases: %s: %s\n", what, why);
    exit(2);
}

static int64_t mono_ns(void)
{
    return (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
}

/* ------------------------------------------------------------------------------------------------- one table */

/* A lease table with a number of leases out. */
typedef struct lease_table {
    kz_source *source;
    size_t held;
    series acquire_ns;
} lease_table;

static void acquire(lease_table *t, uint32_t throughput, kz_grant *grant)
{
    kz_acquire request = {.service = "default",
                          .holder = "{}",
                          .throughput_per_ms = throughput,
                          .from_ms = (int64_t)kz__clock_ns(CLOCK_REALTIME) / KZ__NS_PER_MS};
    kz_error err;
    if (getrandom(request.request_id, sizeof request.request_id, 0) != sizeof request.request_id)
        die("getrandom", "no random bytes");
    if (kz_source_acquire(t->source, &request, grant, &err))
        die("acquire", err.message);
}

static void release(lease_table *t, const kz_grant *grant)
{
    const kz_lease *lease = &grant->leases[0];
    char signature[KZ_SIGNATURE_SIZE];
    int64_t now_ms;
    uint64_t generation;
    kz_error err;
    if (kz_source_now(t->source, &now_ms, &generation, &err))
        die("now", err.message);
    kz_release_sign(lease->secret, lease->id, now_ms, signature);
    kz_release request = {
        .service = "default", .id = lease->id, .timestamp_ms = now_ms, .next = UINT64_MAX, .signature = signature};
    if (kz_source_release(t->source, &request, &err))
        die("release", err.message);
}

static void table_open(lease_table *t, const char *url, size_t held)
{
    enum { IDS_OF_A_LEASE = 128, AT_ONCE_MAX = 64 }; /* as many as a service grants in one answer */
    static kz_grant grant;
    kz_options options;
    kz_error err;
    kz_options_init(&options);
    options.layout = LAYOUT;
    if (kz_source_open(&t->source, url, &options, &err))
        die(url, err.message);
    while (t->held < held) {
        size_t missing = held - t->held;
        size_t at_once = missing < AT_ONCE_MAX ? missing : AT_ONCE_MAX;
        acquire(t, (uint32_t)at_once * IDS_OF_A_LEASE, &grant);
        t->held += grant.count;
    }
}

static void table_close(lease_table *t)
{
    kz_source_close(t->source);
    series_free(&t->acquire_ns);
}

/* One acquire, timed, and the lease given back. */
static void table_measure(lease_table *t)
{
    static kz_grant grant;
    int64_t start_ns = mono_ns();
    acquire(t, 1, &grant);
    series_add(&t->acquire_ns, (double)(mono_ns() - start_ns));
    release(t, &grant);
}

/* --------------------------------------------------------------------------------------- a store with tables */

static row row_of(const char *what, const series *ours, const char *denominator, const series *below, double limit)
{
    series ratio = series_ratio(ours, NULL, below);
    row r = {.goal = isnan(limit) ? 0 : GROWTH_GOAL,
             .what = what,
             .denominator = denominator,
             .ns = series_quantile(ours, 0.5),
             .denominator_ns = series_quantile(below, 0.5),
             .ratio = series_quantile(&ratio, 0.5),
             .low = series_quantile(&ratio, 0.25),
             .high = series_quantile(&ratio, 0.75),
             .limit = limit,
             .rounds = ratio.count};
    series_free(&ratio);
    return r;
}

/* What is said about a store. */
typedef struct wording {
    const char *few, *many, *bare;
} wording;

static size_t measure_store(const bare_store *bare, const char *few_url, const char *many_url, const wording *w,
                            int64_t for_ns, row *rows)
{
    lease_table few = {0}, many = {0};
    series bare_ns = {0};
    table_open(&few, few_url, FEW_HELD);
    table_open(&many, many_url, MANY_HELD);
    int64_t end_ns = mono_ns() + for_ns;
    for (bool forward = true; mono_ns() < end_ns; forward = !forward) {
        table_measure(forward ? &few : &many);
        int64_t start_ns = mono_ns();
        bare->write(bare->ctx);
        series_add(&bare_ns, (double)(mono_ns() - start_ns));
        table_measure(forward ? &many : &few);
    }
    rows[0] = row_of(w->few, &few.acquire_ns, w->bare, &bare_ns, NAN);
    rows[1] = row_of(w->many, &many.acquire_ns, w->few, &few.acquire_ns, 1.5);
    table_close(&few);
    table_close(&many);
    series_free(&bare_ns);
    return 2;
}

static size_t measure_sqlite(int64_t for_ns, row *rows)
{
    static const wording w = {"acquire, SQLite, 1 lease out", "acquire, SQLite, 8,190 out", "one durable transaction"};
    char bare_path[256], few_url[256], many_url[256];
    snprintf(bare_path, sizeof bare_path, "%s/bare.db", folder);
    snprintf(few_url, sizeof few_url, "sqlite:%s/few.db", folder);
    snprintf(many_url, sizeof many_url, "sqlite:%s/many.db", folder);
    bare_store bare;
    const char *missing = bare_sqlite_open(&bare, bare_path);
    if (missing) {
        fprintf(stderr, "SQLite skipped: %s\n", missing);
        return 0;
    }
    size_t count = measure_store(&bare, few_url, many_url, &w, for_ns, rows);
    bare.close(bare.ctx);
    return count;
}

static size_t measure_redis(int64_t for_ns, row *rows)
{
    static const wording w = {"acquire, Redis, 1 lease out", "acquire, Redis, 8,190 out", "one durable script call"};
    char few_url[300], many_url[300];
    bare_store bare;
    const char *missing = bare_redis_open(&bare, folder);
    if (missing) {
        fprintf(stderr, "Redis skipped: %s\n", missing);
        return 0;
    }
    snprintf(few_url, sizeof few_url, "%s?prefix=few:", bare.url);
    snprintf(many_url, sizeof many_url, "%s?prefix=many:", bare.url);
    size_t count = measure_store(&bare, few_url, many_url, &w, for_ns, rows);
    bare.close(bare.ctx);
    return count;
}

/* ------------------------------------------------------------------------------------------------------ idle */

/* A generator with a lease that nobody uses: its keeper has nothing to do until the lease wants to be renewed. */
static size_t measure_idle(row *rows)
{
    char url[256];
    kz_generator *gen;
    kz_error err;
    kz_id id;
    snprintf(url, sizeof url, "sqlite:%s/idle.db", folder);
    kz_status status = kz_open(&gen, url, NULL, &err);
    if (status == KZ_UNSUPPORTED) {
        fprintf(stderr, "The idle generator skipped: %s\n", err.message);
        return 0;
    }
    if (status || kz_mint(gen, &id, 1, 1000, &err))
        die(url, err.message);
    usleep(300000); /* what comes after opening is over */
    long before = times_switched();
    sleep(IDLE_S);
    double switches = (double)(times_switched() - before);
    rows[0] = (row){.goal = IDLE_GOAL,
                    .what = "a generator idle for 5 s, wake-ups",
                    .denominator = "one wake-up",
                    .ns = switches,
                    .denominator_ns = 1,
                    .ratio = switches,
                    .low = switches,
                    .high = switches,
                    .limit = 1,
                    .rounds = 1};
    kz_close(gen);
    return 1;
}

/* ------------------------------------------------------------------------------------------------------ main */

static int usage(FILE *out)
{
    fprintf(out, "Usage: leases [--quick] [--json] [--dir FOLDER]\n"
                 "  --quick        about 10 seconds instead of 20\n"
                 "  --json         for programs\n"
                 "  --dir FOLDER   a disk to write to (/var/tmp)\n"
                 "Goals: 8, acquires grow by no more than half from 1 lease out to 8,190; 9, no wake-ups when idle.\n");
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *dir = "/var/tmp";
    bool json = false;
    int64_t for_ns = INT64_C(5000000000);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'q':
            for_ns = INT64_C(1500000000);
            break;
        case 'j':
            json = true;
            break;
        case 'd':
            dir = optarg;
            break;
        default:
            return usage(option == 'h' ? stdout : stderr);
        }
    }
    if (optind != argc)
        return usage(stderr);

    char name[sizeof folder];
    snprintf(name, sizeof name, "%s/kazahana-bench-XXXXXX", dir);
    if (!mkdtemp(name))
        die(dir, "no folder can be made there");
    strcpy(folder, name);
    atexit(clean_up);
    row rows[ROWS_MAX];
    size_t count = measure_idle(rows);
    count += measure_sqlite(for_ns, rows + count);
    count += measure_redis(for_ns, rows + count);

    machine here;
    machine_read(&here);
    (json ? print_json : print_table)(stdout, &here, rows, count, NULL, 0);
    if (!json)
        printf("\n");
    for (size_t i = 0; i < count && !json; i++)
        if (rows[i].goal != IDLE_GOAL)
            printf("%-45s %8.0f a second\n", rows[i].what, 1e9 / rows[i].ns);
    return 0;
}
