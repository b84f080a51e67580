/* As many IDs as the layout has, for a while: how many came, and what the waiting cost. */
#ifndef KZ_BENCH_SATURATE_H
#define KZ_BENCH_SATURATE_H

#include "bench/measure.h"

typedef struct saturation {
    double share;  /* of the IDs that the whole milliseconds in between had room for */
    double cpu_ns; /* for each ID */
} saturation;

/* One thread takes IDs from `w`, whose layout has 1 << seq_bits a millisecond. Checking them is
 * part of the CPU time, the same for everybody. */
saturation saturate(const work *w, unsigned seq_bits, int64_t for_ns);

/* CPU time of a thread for one bare sleep of a millisecond. */
double sleep_cpu_ns(int sleeps);

#endif
