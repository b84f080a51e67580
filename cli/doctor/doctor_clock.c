/* What kazahana doctor finds out about the machine's clock. */
#include "cli/doctor/doctor_clock.h"

#include "cli/times.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

/* No clock that is right has shown less since this version was written: 2026-01-01. */
#define WRITTEN_UNIX_MS INT64_C(1767225600000)

enum {
    STEP_WATCH_MS = 200,
    STEP_LIMIT_MS = 5, /* slewing and rounding stay far below */
    READ_COUNT = 1000,
    READ_SLOW_NS = 500, /* a clock in user space takes tens; a system call for each reading, more than this */
    SLEEPS = 20
};

static int64_t wall_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static void check_year(struct findings *findings)
{
    char text[KZ_TIME_TEXT_SIZE];
    int64_t wall_ms = times_wall_ms();
    kz_time_text(wall_ms, text);
    if (wall_ms < WRITTEN_UNIX_MS)
        findings_add(findings, FINDING_FAIL, "time", "set the clock, and let chrony or systemd-timesyncd keep it",
                     "the clock says %s, which is before this program was written", text);
    else
        findings_add(findings, FINDING_OK, "time", NULL, "the clock says %s", text);
}

static void check_steps(struct findings *findings)
{
    int64_t wall_begin_ns = wall_ns(), boot_begin_ns = times_boot_ns();
    nanosleep(&(struct timespec){.tv_nsec = STEP_WATCH_MS * 1000000}, NULL);
    int64_t wall_passed_ns = wall_ns() - wall_begin_ns, boot_passed_ns = times_boot_ns() - boot_begin_ns;
    double off_ms = (double)(wall_passed_ns - boot_passed_ns) * 1e-6;
    if (off_ms > STEP_LIMIT_MS || off_ms < -STEP_LIMIT_MS)
        findings_add(findings, FINDING_WARN, "steps", "find out who sets the clock; it should be slewed, not stepped",
                     "the clock moved by %+.3f ms against the time since boot within %d ms", off_ms, STEP_WATCH_MS);
    else
        findings_add(findings, FINDING_OK, "steps", NULL, "no step within %d ms (off by %+.3f ms)", STEP_WATCH_MS,
                     off_ms);
}

static void check_synchronised(struct findings *findings)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    if (result < 0)
        findings_add(findings, FINDING_WARN, "sync", "see whether chrony or systemd-timesyncd is running",
                     "cannot ask the kernel: %s", strerror(errno));
    else if (result == TIME_ERROR || (state.status & STA_UNSYNC))
        findings_add(findings, FINDING_WARN, "sync", "run chrony or systemd-timesyncd, here or on the host",
                     "the kernel says that the clock is not synchronised");
    else
        findings_add(findings, FINDING_OK, "sync", NULL, "synchronised, to within %.1f ms",
                     (double)state.maxerror * 1e-3);
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static void check_resolution(struct findings *findings)
{
    struct timespec resolution;
    clock_getres(CLOCK_REALTIME, &resolution);
    int64_t begin_ns = times_boot_ns();
    for (int i = 0; i < READ_COUNT; i++)
        wall_ns();
    double read_ns = (double)(times_boot_ns() - begin_ns) / READ_COUNT;
    bool coarse = resolution.tv_sec || resolution.tv_nsec > 1000000;
    bool slow = read_ns > READ_SLOW_NS;
    findings_add(findings, coarse || slow ? FINDING_WARN : FINDING_OK, "clock",
                 slow     ? "a reading is a system call here: see /sys/devices/system/clocksource/ and prefer tsc"
                 : coarse ? "times will be as coarse as that"
                          : NULL,
                 "resolution %ld ns, %.0f ns for a reading", resolution.tv_sec ? 1000000000L : resolution.tv_nsec,
                 read_ns);

    int64_t late_ns[SLEEPS];
    for (int i = 0; i < SLEEPS; i++) {
        begin_ns = times_boot_ns();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        late_ns[i] = times_boot_ns() - begin_ns - 1000000;
    }
    qsort(late_ns, SLEEPS, sizeof *late_ns, compare);
    double late_us = (double)late_ns[SLEEPS / 2] * 1e-3;
    findings_add(
        findings, late_us > 1000 ? FINDING_WARN : FINDING_OK, "timer",
        late_us > 1000 ? "a full millisecond is waited out late: the machine is overloaded or its timers coarse" : NULL,
        "a sleep of 1 ms ends %.0f us late", late_us);
}

void doctor_check_clock(struct findings *findings)
{
    check_year(findings);
    check_steps(findings);
    check_synchronised(findings);
    check_resolution(findings);
}
