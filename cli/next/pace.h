/* A steady rate: how many are due by now. */
#ifndef CLI_PACE_H
#define CLI_PACE_H

#include <stddef.h>
#include <stdint.h>

struct pace {
    double per_second; /* 0: as fast as can be */
    int64_t begin_boot_ns;
    double given; /* since the beginning */
};

void pace_begin(struct pace *pace, double per_second);

/* How many of `wanted` may come now; sleeps until it is one at least. 0 only when a signal asks to stop. */
size_t pace_wait(struct pace *pace, size_t wanted);

#endif
