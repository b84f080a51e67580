/* Clocks made from another clock's readings, carried on by the boot clock. */
#include "core/idclock.h"

int64_t kz__line_read(const kz__line *line, int64_t boot_ns, uint32_t drift_ppm)
{
    int64_t elapsed_ns = boot_ns - line->boot_ns;
    return line->unix_ns + elapsed_ns - elapsed_ns / 1000000 * drift_ppm;
}

void kz__idclock_sample(kz__idclock *clock, int64_t source_ms, int64_t boot_ns)
{
    clock->lines[clock->next] = (kz__line){source_ms * 1000000, boot_ns};
    clock->next = (clock->next + 1) % KZ__IDCLOCK_LINES;
    if (clock->count < KZ__IDCLOCK_LINES)
        clock->count++;
    clock->set = true;
}

void kz__idclock_trust_last(kz__idclock *clock)
{
    unsigned last = (clock->next + KZ__IDCLOCK_LINES - 1) % KZ__IDCLOCK_LINES;
    clock->lines[0] = clock->lines[last];
    clock->count = clock->next = 1;
}

int64_t kz__idclock_read(const kz__idclock *clock, int64_t boot_ns)
{
    int64_t highest = kz__line_read(&clock->lines[0], boot_ns, clock->drift_ppm);
    for (unsigned i = 1; i < clock->count; i++) {
        int64_t unix_ns = kz__line_read(&clock->lines[i], boot_ns, clock->drift_ppm);
        if (unix_ns > highest)
            highest = unix_ns;
    }
    return highest;
}
