/* SIGINT, SIGTERM and SIGHUP as a wish to end in good order. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* From here on the first signal is only noted; the second one ends the program as usual. One that was ignored when the
 * program began stays ignored, as nohup and shells want it. */
void stop_watch(void);

/* The signal that was noted, 0 for none. */
int stop_signal(void);

/* The signal was noted two seconds ago or more: whatever still waits for somebody should give up. A call of the system
 * that waits is interrupted then, and again every second. */
bool stop_overdue(void);

/* While nothing is held that must be given back: the program ends by itself once the end is overdue. */
void stop_leave_when_overdue(bool leave);

/* Sleeps until a time of times_boot_ns, or until a signal was noted. */
void stop_or_sleep_until(int64_t boot_ns);

#endif
