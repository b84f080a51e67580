/* The measurements of kazahana bench: each runs a number of times between readings of the clock. */
#ifndef CLI_BENCH_RUN_H
#define CLI_BENCH_RUN_H

#include "kazahana.h"

/* Everything the measurements share. `values` holds what they made, to be checked afterwards. */
struct bench {
    kz_generator *gen;
    kz_mono *mono;
    kz_monouuid *uuids;
    kz_external_keys *keys;
    size_t count; /* per repeat; a multiple of 128 */
    kz_id *values;
    kz_uuid *uuid_values;
    uint64_t last_value; /* of the repeat before, so that order is checked across repeats too */
};

/* What came of one repeat. */
struct bench_result {
    double ns;      /* for each ID */
    uint64_t twins; /* equal ones */
    uint64_t wrong; /* not above the one before, or an external ID that does not turn back */
};

typedef kz_status (*bench_fn)(struct bench *bench, struct bench_result *result);

kz_status bench_clock(struct bench *bench, struct bench_result *result);
kz_status bench_next(struct bench *bench, struct bench_result *result);
kz_status bench_next_two_threads(struct bench *bench, struct bench_result *result);
kz_status bench_batch(struct bench *bench, struct bench_result *result);
kz_status bench_mono(struct bench *bench, struct bench_result *result);
kz_status bench_uuid(struct bench *bench, struct bench_result *result);
kz_status bench_external_mixer(struct bench *bench, struct bench_result *result);
kz_status bench_external_key(struct bench *bench, struct bench_result *result);

#endif
