/* The measurements of kazahana bench: each runs a number of times between readings of the clock. */
#include "cli/bench/bench_run.h"

#include "cli/times.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 };

static double ns_each(int64_t begin_ns, size_t count)
{
    return (double)(times_boot_ns() - begin_ns) / (double)count;
}

/* Looks for twins and for steps back in `values`; the first must be above what came before this repeat. */
static void check_order(const kz_id *values, size_t count, uint64_t before, struct bench_result *result)
{
    for (size_t i = 0; i < count; i++) {
        result->twins += values[i] == before;
        result->wrong += values[i] < before;
        before = values[i];
    }
}

kz_status bench_clock(struct bench *bench, struct bench_result *result)
{
    struct timespec at;
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i++) {
        clock_gettime(CLOCK_REALTIME, &at);
        /* Kept like the IDs are. */
        bench->values[i] = (uint64_t)at.tv_nsec;
    }
    result->ns = ns_each(begin_ns, bench->count);
    return KZ_OK;
}

kz_status bench_next(struct bench *bench, struct bench_result *result)
{
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i++) {
        kz_status status = kz_next(bench->gen, &bench->values[i]);
        if (status != KZ_OK)
            return status;
    }
    result->ns = ns_each(begin_ns, bench->count);
    check_order(bench->values, bench->count, bench->last_value, result);
    bench->last_value = bench->values[bench->count - 1];
    return KZ_OK;
}

struct half {
    kz_generator *gen;
    atomic_int *arrived; /* waited for by spinning: waking up from a sleep would take longer than the work */
    kz_id *values;
    size_t count;
    kz_status status;
    int64_t begin_ns, end_ns;
};

static void *mint_half(void *argument)
{
    struct half *half = argument;
    atomic_fetch_add(half->arrived, 1);
    while (atomic_load(half->arrived) < 2)
        ;
    half->begin_ns = times_boot_ns();
    for (size_t i = 0; i < half->count && half->status == KZ_OK; i++)
        half->status = kz_next(half->gen, &half->values[i]);
    half->end_ns = times_boot_ns();
    return NULL;
}

/* Both halves increase; walking through them together shows every twin. */
static void check_halves(const struct half *one, const struct half *other, uint64_t before, struct bench_result *result)
{
    check_order(one->values, one->count, before, result);
    check_order(other->values, other->count, before, result);
    for (size_t i = 0, j = 0; i < one->count && j < other->count;) {
        result->twins += one->values[i] == other->values[j];
        if (one->values[i] <= other->values[j])
            i++;
        else
            j++;
    }
}

kz_status bench_next_two_threads(struct bench *bench, struct bench_result *result)
{
    atomic_int arrived = 0;
    pthread_t thread;
    size_t count = bench->count / 2;
    struct half one = {.gen = bench->gen, .arrived = &arrived, .values = bench->values, .count = count};
    struct half other = {.gen = bench->gen, .arrived = &arrived, .values = bench->values + count, .count = count};
    if (pthread_create(&thread, NULL, mint_half, &other) != 0)
        return KZ_SYSTEM;
    mint_half(&one);
    pthread_join(thread, NULL);
    if (one.status != KZ_OK || other.status != KZ_OK)
        return one.status != KZ_OK ? one.status : other.status;
    int64_t begin_ns = one.begin_ns < other.begin_ns ? one.begin_ns : other.begin_ns;
    int64_t end_ns = one.end_ns > other.end_ns ? one.end_ns : other.end_ns;
    result->ns = (double)(end_ns - begin_ns) / (double)(2 * count);
    check_halves(&one, &other, bench->last_value, result);
    kz_id one_last = one.values[count - 1], other_last = other.values[count - 1];
    bench->last_value = one_last > other_last ? one_last : other_last;
    return KZ_OK;
}

kz_status bench_batch(struct bench *bench, struct bench_result *result)
{
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i += BATCH) {
        kz_status status = kz_next_batch(bench->gen, &bench->values[i], BATCH);
        if (status != KZ_OK)
            return status;
    }
    result->ns = ns_each(begin_ns, bench->count);
    check_order(bench->values, bench->count, bench->last_value, result);
    bench->last_value = bench->values[bench->count - 1];
    return KZ_OK;
}

kz_status bench_mono(struct bench *bench, struct bench_result *result)
{
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i++) {
        int64_t unix_ns;
        kz_status status = kz_mono_next(bench->mono, &unix_ns);
        if (status != KZ_OK)
            return status;
        bench->values[i] = (uint64_t)unix_ns;
    }
    result->ns = ns_each(begin_ns, bench->count);
    check_order(bench->values, bench->count, 0, result);
    return KZ_OK;
}

kz_status bench_uuid(struct bench *bench, struct bench_result *result)
{
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i++) {
        kz_status status = kz_monouuid_next(bench->uuids, &bench->uuid_values[i]);
        if (status != KZ_OK)
            return status;
    }
    result->ns = ns_each(begin_ns, bench->count);
    for (size_t i = 1; i < bench->count; i++) {
        int order = memcmp(&bench->uuid_values[i], &bench->uuid_values[i - 1], sizeof *bench->uuid_values);
        result->twins += order == 0;
        result->wrong += order < 0;
    }
    return KZ_OK;
}

/* Encodes whatever IDs there are; the texts of the last few are turned back to see that they are right. */
static kz_status encode(struct bench *bench, const kz_external_keys *keys, struct bench_result *result)
{
    enum { KEPT = 256 };
    char texts[KEPT][KZ_EXTERNAL_SIZE];
    for (size_t i = 0; i < bench->count; i++)
        bench->values[i] = bench->last_value + i;
    int64_t begin_ns = times_boot_ns();
    for (size_t i = 0; i < bench->count; i++)
        kz_external_encode(keys, bench->values[i], texts[i % KEPT]);
    result->ns = ns_each(begin_ns, bench->count);
    for (size_t i = bench->count < KEPT ? 0 : bench->count - KEPT; i < bench->count; i++) {
        kz_id back;
        kz_status status = kz_external_decode(keys, texts[i % KEPT], &back, NULL);
        if (status != KZ_OK)
            return status;
        result->wrong += back != bench->values[i];
    }
    return KZ_OK;
}

kz_status bench_external_mixer(struct bench *bench, struct bench_result *result)
{
    return encode(bench, NULL, result);
}

kz_status bench_external_key(struct bench *bench, struct bench_result *result)
{
    return encode(bench, bench->keys, result);
}
