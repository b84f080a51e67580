/* Clocks made from another clock's readings, carried on by the boot clock.
 *
 * A line is one reading of the other clock and the boot time at which it arrived. All lines have one slope, a little
 * flatter than the boot clock, so that a line is never ahead of the clock it was read from. */
#ifndef KZ_CORE_IDCLOCK_H
#define KZ_CORE_IDCLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* How much faster than the other clock the boot clock may run, if they are not on one machine. */
#define KZ__DRIFT_PPM 500

typedef struct kz__line {
    int64_t unix_ns, boot_ns;
} kz__line;

int64_t kz__line_read(const kz__line *line, int64_t boot_ns, uint32_t drift_ppm);

/* A generator's clock: the source's time. The latest few readings count, and the highest of them: an answer was on its
 * way for a while, so the source's time is at least what it says. Older ones are forgotten, in case the source's time
 * did go back: windows are in its time, and a generator that insisted on its own would find each of them over. */
#define KZ__IDCLOCK_LINES 4

typedef struct kz__idclock {
    kz__line lines[KZ__IDCLOCK_LINES];
    unsigned count, next;
    uint32_t drift_ppm;
    bool set;
} kz__idclock;

void kz__idclock_sample(kz__idclock *clock, int64_t source_ms, int64_t boot_ns);

/* Forgets all readings but the last one. */
void kz__idclock_trust_last(kz__idclock *clock);

/* Nanoseconds since 1970. */
int64_t kz__idclock_read(const kz__idclock *clock, int64_t boot_ns);

#endif
