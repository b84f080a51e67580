/* The time of a lease table: it goes on upward when a wall clock is set back. */
#ifndef KZ_SOURCES_TABLE_TIME_H
#define KZ_SOURCES_TABLE_TIME_H

#include <kazahana.h>

/* When the store's time was written last, and by which boot clock: its time goes on from there when the wall clock was
 * set back. */
#define KZ__BOOT_NAME_SIZE 96
typedef struct kz__table_time {
    int64_t high_ms;               /* the highest time ever answered */
    int64_t wall_ms, boot_ms;      /* the clocks then */
    char boot[KZ__BOOT_NAME_SIZE]; /* which boot clock that was: two with the same name can be compared */
} kz__table_time;

/* The name of this process's boot clock: the boot's ID, and the time namespace. */
void kz__boot_name(char name[static KZ__BOOT_NAME_SIZE]);

/* The table's time now, from what was written last: max(wall, high, high + boot time since * (1 - 500 ppm)). `time`
 * becomes what is to be written with it. *step_ms is how far the wall clock was set since, 0 if it was not. */
int64_t kz__table_time_read(kz__table_time *time, const kz_clock *clock, const char *boot, int64_t *step_ms);

/* The time of a store with a clock of its own, which other machines write too: max(its clock, high_ms). `wall_ms` is
 * our own clock, as a witness. KZ_UNAVAILABLE: it is more than a day ahead of high_ms and we know nothing of it, since
 * time that was written never goes back; or, if this is for a grant, behind by more than a second. */
kz_status kz__table_clock_check(const char *name, int64_t clock_ms, int64_t high_ms, int64_t wall_ms, bool grants,
                                int64_t *now_ms, kz_error *err);

/* Logs such a step. */
void kz__table_step_log(const kz_source_options *options, const char *where, int64_t step_ms);

#endif
