/* SIGINT and SIGTERM as a wish to end in good order. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdint.h>

/* From here on the first signal is only noted; the second one ends the program as usual. */
void stop_watch(void);

/* The signal that was noted, 0 for none. */
int stop_signal(void);

/* Sleeps until a time of times_boot_ns, or until a signal was noted. */
void stop_or_sleep_until(int64_t boot_ns);

#endif
