/* Pairs of an acquire and its release, as fast as a number of clients get them from one source.
 *
 *     lease_load URL CLIENTS SECONDS [HELD]      with that many leases out besides; prints pairs a second */
#include <kazahana.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define LAYOUT "41-15-7@2026-01-01" /* 16,384 nodes to lease: free ones are left when many are out */

enum { CLIENTS_MAX = 256 };

static const char *url;
static double for_s;
static size_t held;
static _Atomic unsigned long pairs;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "lease_load: %s: %s\n", what, why);
    exit(2);
}

static void pair(kz_source *source, kz_grant *grant)
{
    kz_acquire request = {.service = "default", .holder = "{}", .throughput_per_ms = 1};
    char signature[KZ_SIGNATURE_SIZE];
    kz_error err;
    if (getrandom(request.request_id, sizeof request.request_id, 0) != sizeof request.request_id)
        die("getrandom", "no random bytes");
    if (kz_source_acquire(source, &request, grant, &err))
        die("acquire", err.message);
    const kz_lease *lease = &grant->leases[0];
    kz_release_sign(lease->secret, lease->id, grant->source_ms, signature);
    kz_release release = {.service = "default",
                          .id = lease->id,
                          .timestamp_ms = grant->source_ms,
                          .next = UINT64_MAX,
                          .signature = signature};
    if (kz_source_release(source, &release, &err))
        die("release", err.message);
}

static kz_source *open_source(void)
{
    kz_source *source;
    kz_options options;
    kz_error err;
    kz_options_init(&options);
    if (strncmp(url, "http", 4) != 0)
        options.layout = LAYOUT;
    options.timeout_ms = 60000;
    if (kz_source_open(&source, url, &options, &err))
        die(url, err.message);
    return source;
}

static void take(size_t count)
{
    kz_source *source = open_source();
    kz_grant *grant = malloc(sizeof *grant);
    kz_error err;
    for (size_t have = 0; grant && have < count; have += grant->count) {
        size_t at_once = count - have < 64 ? count - have : 64;
        kz_acquire request = {.service = "default", .holder = "{}", .throughput_per_ms = (uint32_t)at_once * 128};
        if (kz_source_acquire(source, &request, grant, &err))
            die("acquire", err.message);
    }
    kz_source_close(source);
    free(grant);
}

static void *client(void *start)
{
    kz_source *source = open_source();
    kz_grant *grant = malloc(sizeof *grant);
    if (!grant)
        die(url, "no memory");
    pair(source, grant); /* connects, and prepares what is prepared once */
    pthread_barrier_wait(start);
    for (double end_s = now_s() + for_s; now_s() < end_s; pairs++)
        pair(source, grant);
    kz_source_close(source);
    free(grant);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t count = argc >= 4 ? strtoul(argv[2], NULL, 10) : 0;
    for_s = argc >= 4 ? strtod(argv[3], NULL) : 0;
    held = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
    if (!count || count > CLIENTS_MAX || for_s <= 0 || argc > 5) {
        fprintf(stderr, "Usage: lease_load URL CLIENTS SECONDS [HELD]\n");
        return 2;
    }
    pthread_t threads[CLIENTS_MAX];
    pthread_barrier_t start;
    url = argv[1];
    take(held);
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, client, &start))
            die("pthread_create", "no thread");
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%.1f\n", (double)pairs / for_s);
    return 0;
}
