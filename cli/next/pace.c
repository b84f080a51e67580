/* A steady rate: how many are due by now. */
#include "cli/next/pace.h"

#include "cli/stop.h"
#include "cli/times.h"

void pace_begin(struct pace *pace, double per_second)
{
    *pace = (struct pace){.per_second = per_second, .begin_boot_ns = times_boot_ns()};
}

size_t pace_wait(struct pace *pace, size_t wanted)
{
    if (pace->per_second <= 0)
        return wanted;
    int64_t next_boot_ns = pace->begin_boot_ns + (int64_t)(pace->given / pace->per_second * 1e9);
    stop_or_sleep_until(next_boot_ns);
    if (stop_signal())
        return 0;
    int64_t boot_ns = times_boot_ns();
    /* After a long halt the rate goes on from now; what was missed is not made up for in one burst. */
    if (boot_ns - next_boot_ns > 1000000000) {
        pace_begin(pace, pace->per_second);
        boot_ns = pace->begin_boot_ns;
    }
    double due = (double)(boot_ns - pace->begin_boot_ns) * 1e-9 * pace->per_second + 1 - pace->given;
    size_t take = due < 1 ? 1 : due < (double)wanted ? (size_t)due : wanted;
    pace->given += (double)take;
    return take;
}
