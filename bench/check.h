/* Whether the IDs that were measured are right: no twins, upward, not from the future, and how old. */
#ifndef KZ_BENCH_CHECK_H
#define KZ_BENCH_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The wall clock just before a chunk's first call and just after its last. */
typedef struct moment {
    int64_t before_ns, after_ns;
} moment;

/* What one generator gave since the start. */
typedef struct ledger {
    const char *name;
    unsigned time_shift; /* where the milliseconds stand in an ID; 0: it shows no time */
    int64_t epoch_ms;
    uint64_t last;
    uint64_t checked, twins, disorder, future;
    uint64_t garbled;           /* texts that did not read back as what they were made of */
    uint64_t age_samples, late; /* first IDs of chunks, and those whose millisecond was over before the call began */
    int64_t late_max_ms;
} ledger;

/* A chunk of one thread, alone on its generator. */
void check_alone(ledger *l, const uint64_t *ids, size_t count, moment when);

/* The chunks two threads took at the same time from one generator. */
void check_pair(ledger *l, const uint64_t *const ids[2], const size_t count[2], const moment when[2]);

/* True if the wall clock was set back since `check_clock_start`: then nothing can be said about the future. */
void check_clock_start(void);
bool check_clock_went_back(void);

/* Twins, wrong order, garbled texts or, unless the clock went back, IDs from the future. */
bool ledger_is_wrong(const ledger *l);

#endif
