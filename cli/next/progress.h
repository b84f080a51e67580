/* A line on the terminal that says how far a long run is. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool wanted; /* stderr is a terminal, and stdout is not */
    bool shown;
    uint64_t total;
    int64_t begin_boot_ns, next_boot_ns;
};

void progress_begin(struct progress *progress, uint64_t total);
/* Cheap when there is nothing to show. */
void progress_update(struct progress *progress, uint64_t done);
/* Takes the line away. */
void progress_end(struct progress *progress);

#endif
