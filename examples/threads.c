/* Introduces kz_stats_get, and shows that threads share one generator as it is: no lock around kz_next. */
#include <inttypes.h>
#include <kazahana.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, EACH = 5000 };

static kz_generator *gen;
static kz_id ids[THREADS][EACH];

static void *mint(void *arg)
{
    kz_id *mine = arg;
    for (int i = 0; i < EACH; i++) {
        if (kz_next(gen, &mine[i]) != KZ_OK)
            return (void *)"a call failed";
        if (i > 0 && mine[i] <= mine[i - 1])
            return (void *)"a thread saw its IDs go down";
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    kz_id x = *(const kz_id *)a, y = *(const kz_id *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    kz_error err;
    kz_options options;
    kz_options_init(&options);
    options.layout = "snowflake";
    if (kz_open(&gen, "static:3", &options, &err)) {
        fprintf(stderr, "threads: %s\n", err.message);
        return 1;
    }

    int result = 0, started = 0;
    pthread_t thread[THREADS];
    while (started < THREADS && pthread_create(&thread[started], NULL, mint, ids[started]) == 0)
        started++;
    if (started < THREADS) {
        fprintf(stderr, "threads: no thread to be had\n");
        result = 1;
    }
    for (int i = 0; i < started; i++) {
        void *problem;
        pthread_join(thread[i], &problem);
        if (problem) {
            fprintf(stderr, "threads: %s\n", (const char *)problem);
            result = 1;
        }
    }

    /* All of them together: no two equal. */
    kz_id *all = &ids[0][0];
    qsort(all, THREADS * EACH, sizeof *all, by_value);
    for (int i = 1; result == 0 && i < THREADS * EACH; i++) {
        if (all[i] == all[i - 1]) {
            fprintf(stderr, "threads: %" PRIu64 " was given twice\n", all[i]);
            result = 1;
        }
    }

    /* Points that threads lost to each other in a race are counted too: at least as many as were given. */
    kz_stats stats;
    kz_stats_init(&stats);
    if (kz_stats_get(gen, &stats) != KZ_OK || (result == 0 && stats.ids_leased < THREADS * EACH)) {
        fprintf(stderr, "threads: the statistics count %" PRIu64 " IDs\n", stats.ids_leased);
        result = 1;
    }
    if (result == 0)
        printf("%d IDs by %d threads, no two equal; %" PRIu64 " milliseconds were used up\n", THREADS * EACH, THREADS,
               stats.sequence_exhausted);
    kz_close(gen);
    return result;
}
