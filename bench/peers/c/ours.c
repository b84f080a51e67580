/* kazahana, measured in the same way as the others. One generator for one thread and one for two: the first to have a
 * second thread stays a generator of many. */
#include "harness.h"

#include <kazahana.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_MS   INT64_C(1767225600000) /* 2026-01-01 */
#define TIME_SHIFT 22

enum { IDS = 262144 };

static kz_generator *alone, *shared, *coarse;
static kz_mono *mono_alone, *mono_shared;
static kz_monouuid *uuid_alone, *uuid_shared;

static void must(kz_status status)
{
    if (status) {
        fprintf(stderr, "kazahana: %s\n", kz_status_text(status));
        exit(1);
    }
}

static void fill_next(kz_generator *gen, kz_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must(kz_next(gen, &ids[i]));
}

static void fill_mono(kz_mono *mono, int64_t *ns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must(kz_mono_next(mono, &ns[i]));
}

static void fill_uuid(kz_monouuid *gen, kz_uuid *uuids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        must(kz_monouuid_next(gen, &uuids[i]));
}

#define FILL(name, kind, gen)                                                                                          \
    static void name(void *ids, size_t count)                                                                          \
    {                                                                                                                  \
        fill_##kind(gen, ids, count);                                                                                  \
    }
FILL(next_alone, next, alone)
FILL(next_shared, next, shared)
FILL(next_coarse, next, coarse)
FILL(monos_alone, mono, mono_alone)
FILL(monos_shared, mono, mono_shared)
FILL(uuids_alone, uuid, uuid_alone)
FILL(uuids_shared, uuid, uuid_shared)

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(kz_uuid));
}

static int64_t ms_of_id(const void *id)
{
    return (int64_t)(*(const kz_id *)id >> TIME_SHIFT) + EPOCH_MS;
}

static int64_t ms_of_ns(const void *ns)
{
    return *(const int64_t *)ns / 1000000;
}

static int64_t ms_of_uuid(const void *uuid)
{
    uint32_t node;
    int64_t ns;
    must(kz_monouuid_parse(uuid, &node, &ns, NULL));
    return ns / 1000000;
}

static kz_generator *open_generator(const char *url, kz_clock_kind clock)
{
    kz_options options;
    kz_generator *gen;
    kz_options_init(&options);
    options.layout = "41-2-20@2026-01-01";
    options.clock = clock;
    must(kz_open(&gen, url, &options, NULL));
    return gen;
}

int main(void)
{
    static const peer peers[] = {
        {"kz_next-alone", sizeof(kz_id), IDS, next_alone, by_number, ms_of_id},
        {"kz_next", sizeof(kz_id), IDS, next_shared, by_number, ms_of_id},
        {"kz_next-coarse", sizeof(kz_id), IDS, next_coarse, by_number, ms_of_id},
        {"kz_mono_next-alone", sizeof(int64_t), IDS, monos_alone, by_number, ms_of_ns},
        {"kz_mono_next", sizeof(int64_t), IDS, monos_shared, by_number, ms_of_ns},
        {"kz_monouuid_next-alone", sizeof(kz_uuid), IDS, uuids_alone, by_bytes, ms_of_uuid},
        {"kz_monouuid_next", sizeof(kz_uuid), IDS, uuids_shared, by_bytes, ms_of_uuid},
    };
    alone = open_generator("static:1", KZ_CLOCK_PRECISE);
    shared = open_generator("static:2", KZ_CLOCK_PRECISE);
    coarse = open_generator("static:3", KZ_CLOCK_COARSE);
    must(kz_mono_new(&mono_alone, 0, NULL));
    must(kz_mono_new(&mono_shared, 0, NULL));
    must(kz_monouuid_new(&uuid_alone, 1, NULL, NULL));
    must(kz_monouuid_new(&uuid_shared, 2, NULL, NULL));
    return serve(peers, sizeof peers / sizeof *peers);
}
