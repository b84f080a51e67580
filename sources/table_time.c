/* The time of a lease table, kept on this machine or in a store with a clock of its own. */
#include "sources/table_time.h"
#include "core/error.h"
#include "host/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A wall clock that is slewed stays within this of the boot clock. */
#define STEP_MS   1000
#define DRIFT_PPM 500

void kz__boot_name(char name[static KZ__BOOT_NAME_SIZE])
{
    size_t length = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, name, 36);
        length = got > 0 ? (size_t)got : 0;
        close(fd);
    }
    /* Boot clocks of two time namespaces differ, though the boot is the same. */
    if (length) {
        name[length++] = ' ';
        ssize_t got = readlink("/proc/self/ns/time", name + length, KZ__BOOT_NAME_SIZE - length - 1);
        length += got > 0 ? (size_t)got : 0;
    }
    name[length] = '\0';
}

/* Steps of the wall clock that are followed, within one boot and over a restart of the machine. */
#define STEP_BELIEVED_MS   (INT64_C(24) * 3600 * 1000)
#define REBOOT_BELIEVED_MS (INT64_C(20) * 365 * 24 * 3600 * 1000)

int64_t kz__table_time_read(kz__table_time *time, const kz_clock *clock, const char *boot, int64_t *step_ms)
{
    int64_t wall_ms = clock->wall_ns(clock->ctx) / KZ__NS_PER_MS;
    int64_t boot_ms = clock->boot_ns(clock->ctx) / KZ__NS_PER_MS;
    int64_t now_ms = wall_ms > time->high_ms ? wall_ms : time->high_ms;
    *step_ms = 0;
    if (*boot && strcmp(boot, time->boot) == 0 && boot_ms >= time->boot_ms) {
        int64_t elapsed_ms = boot_ms - time->boot_ms;
        int64_t apart_ms = (wall_ms - time->wall_ms) - elapsed_ms;
        /* Two clocks of one boot that are further apart than this: one of them is wrong, and time never goes back. The
         * step that is smaller can be mended later. */
        if (apart_ms > STEP_BELIEVED_MS)
            now_ms = time->high_ms;
        else if (apart_ms < -STEP_BELIEVED_MS)
            elapsed_ms = 0;
        int64_t slack_ms = elapsed_ms / 1000000 * DRIFT_PPM + elapsed_ms % 1000000 * DRIFT_PPM / 1000000;
        if (elapsed_ms - slack_ms > now_ms - time->high_ms)
            now_ms = time->high_ms + elapsed_ms - slack_ms;
        int64_t off_ms = wall_ms - time->wall_ms - elapsed_ms;
        if (off_ms > STEP_MS + slack_ms || off_ms < -STEP_MS - slack_ms)
            *step_ms = off_ms;
    }
    if (time->high_ms && now_ms - time->high_ms > REBOOT_BELIEVED_MS)
        now_ms = time->high_ms;
    time->high_ms = now_ms;
    time->wall_ms = wall_ms;
    time->boot_ms = boot_ms;
    if (time->boot != boot)
        snprintf(time->boot, sizeof time->boot, "%s", boot);
    return now_ms;
}

#define BEHIND_MS 1000

kz_status kz__table_clock_check(const char *name, int64_t clock_ms, int64_t high_ms, int64_t wall_ms, bool grants,
                                int64_t *now_ms, kz_error *err)
{
    if (clock_ms > high_ms + STEP_BELIEVED_MS && clock_ms > wall_ms + STEP_BELIEVED_MS)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is more than a day ahead of the lease table's time and of this machine's clock: "
                        "nothing is written until it was set right",
                        name);
    if (grants && clock_ms < high_ms - BEHIND_MS)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s: its clock is %" PRId64 " ms behind what it has answered before: nothing is granted until "
                        "it has caught up; set that machine's clock",
                        name, high_ms - clock_ms);
    *now_ms = clock_ms > high_ms ? clock_ms : high_ms;
    return KZ_OK;
}

void kz__table_step_log(const kz_source_options *options, const char *where, int64_t step_ms)
{
    if (!step_ms || !options->log)
        return;
    char message[KZ_MESSAGE_SIZE];
    snprintf(message, sizeof message,
             "%s: the wall clock was set %s by %" PRId64 " ms; the table's time goes on upward", where,
             step_ms < 0 ? "back" : "forward", step_ms < 0 ? -step_ms : step_ms);
    options->log(options->log_ctx, KZ_LOG_WARNING, message);
}
