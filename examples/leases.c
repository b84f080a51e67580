/* Introduces leases: with no URL a generator takes its node from a lease table in a file, hands it over to a new lease
 * in time, and gives it back when it is closed. kz_stats_get tells what it holds, kz_source_list who holds what. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WANTED = 1000 };

static bool show_lease(void *ctx, const kz_lease_info *info)
{
    char until[KZ_TIME_TEXT_SIZE];
    kz_time_text(info->expired_ms, until);
    printf("node %" PRIu32 " of service %s, until %s, held by %s\n", info->id, info->service, until, info->holder);
    ++*(int *)ctx;
    return true;
}

/* How many leases are out; -1 if the table cannot be read. */
static int count_leases(void)
{
    kz_source *table;
    kz_error err;
    if (kz_source_open(&table, NULL, NULL, &err)) {
        fprintf(stderr, "leases: %s\n", err.message);
        return -1;
    }
    int count = 0;
    if (kz_source_list(table, show_lease, &count, &err)) {
        fprintf(stderr, "leases: %s\n", err.message);
        count = -1;
    }
    kz_source_close(table);
    return count;
}

static int mint(kz_generator *gen)
{
    kz_id last = 0;
    for (int i = 0; i < WANTED; i++) {
        kz_id id;
        kz_error err;
        /* Within 2 s. No lease in that time would be KZ_LEASE_ACQUISITION, with the reason in err.cause. */
        if (kz_mint(gen, &id, 1, 2000, &err)) {
            fprintf(stderr, "leases: %s\n", err.message);
            return 1;
        }
        if (id <= last) {
            fprintf(stderr, "leases: %" PRIu64 " came after %" PRIu64 "\n", id, last);
            return 1;
        }
        last = id;
    }
    kz_stats stats;
    kz_stats_init(&stats);
    if (kz_stats_get(gen, &stats) || stats.ids_leased != WANTED || stats.leases != 1) {
        fprintf(stderr, "leases: the statistics tell something else\n");
        return 1;
    }
    printf("%" PRIu64 " IDs from %" PRIu64 " lease, which allows %" PRIu64 " a millisecond\n", stats.ids_leased,
           stats.leases, stats.throughput_per_ms);
    return 0;
}

int main(void)
{
    /* The table is where XDG_STATE_HOME says; here it is a folder for this run alone. */
    char dir[] = "/tmp/kazahana-example-XXXXXX", path[64];
    if (!mkdtemp(dir) || setenv("XDG_STATE_HOME", dir, 1)) {
        perror("leases: a folder for the table");
        return 1;
    }

    kz_generator *gen;
    kz_error err;
    int result = 1;
    if (kz_open(&gen, NULL, NULL, &err)) {
        fprintf(stderr, "leases: %s\n", err.message);
        goto out;
    }
    result = mint(gen);
    if (count_leases() != 1)
        result = 1;
    kz_close(gen);
    if (count_leases() != 0) {
        fprintf(stderr, "leases: the lease was not given back\n");
        result = 1;
    }

out:
    snprintf(path, sizeof path, "%s/kazahana/leases.db", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/kazahana/leases.db-mark", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/kazahana", dir);
    rmdir(path);
    if (rmdir(dir) != 0) {
        perror("leases: something was left behind");
        result = 1;
    }
    return result;
}
