/* Introduces ?state=: a mark kept on disk ahead of use, so that a restart after the clock was set back repeats nothing.
 * Shown with a clock of our own (kz_clock), which goes back by an hour between two runs. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Sleeping moves it on, so that the example takes no time. The thread that writes the mark reads it too: atomics. */
static _Atomic int64_t wall = INT64_C(1800000000000000000);
static _Atomic int64_t boot = INT64_C(1000000000);

static int64_t wall_ns(void *ctx)
{
    (void)ctx;
    return wall;
}

static int64_t boot_ns(void *ctx)
{
    (void)ctx;
    return boot;
}

static void sleep_ns(void *ctx, int64_t ns)
{
    (void)ctx;
    wall += ns;
    boot += ns;
}

/* One run of a program that uses the state file: opens it, takes an ID, closes. */
static kz_status run(const char *url, const kz_options *options, kz_id *id)
{
    kz_generator *gen;
    kz_error err;
    kz_status status = kz_open(&gen, url, options, &err);
    if (status == KZ_OK) {
        status = kz_mint(gen, id, 1, 1000, &err);
        kz_close(gen);
    }
    if (status != KZ_OK)
        fprintf(stderr, "state_file: %s: %s\n", kz_status_name(status), err.message);
    return status;
}

int main(void)
{
    char dir[] = "/tmp/kazahana-example-XXXXXX", path[64], url[128];
    if (!mkdtemp(dir)) {
        perror("state_file: mkdtemp");
        return 1;
    }
    snprintf(path, sizeof path, "%s/node7", dir);
    snprintf(url, sizeof url, "static:7?state=%s", path);

    const kz_clock clock = {.wall_ns = wall_ns, .boot_ns = boot_ns, .sleep_ns = sleep_ns};
    kz_options options;
    kz_options_init(&options);
    options.use_clock = &clock;
    options.backward = KZ_BACKWARD_LOGICAL; /* go on above the mark at once instead of waiting for the clock */

    kz_id before = 0, after = 0;
    int result = 1;
    if (run(url, &options, &before) != KZ_OK)
        goto out;
    wall -= INT64_C(3600) * 1000000000;
    if (run(url, &options, &after) != KZ_OK)
        goto out;
    printf("before the clock was set back %" PRIu64 "\nafter it                      %" PRIu64 "\n", before, after);
    if (after <= before) {
        fprintf(stderr, "state_file: the second run went back\n");
        goto out;
    }
    result = 0;

out:
    unlink(path);
    if (rmdir(dir) != 0) {
        perror("state_file: something was left behind");
        result = 1;
    }
    return result;
}
