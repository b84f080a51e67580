/* A line on the terminal that says how far a long run is. */
#include "cli/next/progress.h"

#include "cli/times.h"

#include <stdio.h>
#include <unistd.h>

enum { FIRST_AFTER_NS = 1000000000, EVERY_NS = 200000000 };

void progress_begin(struct progress *progress, uint64_t total)
{
    progress->wanted = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
    progress->shown = false;
    progress->total = total;
    progress->begin_boot_ns = times_boot_ns();
    progress->next_boot_ns = progress->begin_boot_ns + FIRST_AFTER_NS;
}

void progress_update(struct progress *progress, uint64_t done)
{
    if (!progress->wanted)
        return;
    int64_t boot_ns = times_boot_ns();
    if (boot_ns < progress->next_boot_ns)
        return;
    progress->next_boot_ns = boot_ns + EVERY_NS;
    progress->shown = true;
    char done_text[NUMBER_GROUPED_SIZE], total_text[NUMBER_GROUPED_SIZE], rate_text[NUMBER_GROUPED_SIZE];
    double seconds = (double)(boot_ns - progress->begin_boot_ns) * 1e-9;
    fprintf(stderr, "\r\033[K%s of %s IDs (%.0f %%), %s a second", number_grouped(done, done_text),
            number_grouped(progress->total, total_text), 100.0 * (double)done / (double)progress->total,
            number_grouped((uint64_t)((double)done / seconds), rate_text));
    fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
