/* Times and numbers as people read and write them. */
#ifndef CLI_TIMES_H
#define CLI_TIMES_H

#include "kazahana.h"

int64_t times_wall_ms(void);
/* Nanoseconds that never jump, for measuring. */
int64_t times_boot_ns(void);

/* What kz_time_parse reads, and also `now`, and `-1h`, `+2d`: a duration with its unit from `wall_ms` on. */
KZ_MUST_CHECK kz_status times_parse(const char *text, int64_t wall_ms, int64_t *unix_ms, kz_error *err);

#define TIMES_TEXT_SIZE 48

/* "3 days ago", "in 2 hours", "now". */
void times_age(int64_t unix_ms, int64_t wall_ms, char text[static TIMES_TEXT_SIZE]);

/* A span of time, to two units: "9m58s", "2h05m", "3d04h", "58s"; below 10 s with a decimal: "1.5s". */
void times_span_text(int64_t span_ms, char text[static TIMES_TEXT_SIZE]);

/* 2009-11-10T23:00:00.000000001Z; not before 1970. */
void times_ns_text(int64_t unix_ns, char text[static TIMES_TEXT_SIZE]);

/* The day alone: 2095-09-07. */
void times_day_text(int64_t unix_ms, char text[static TIMES_TEXT_SIZE]);

#define NUMBER_GROUPED_SIZE 28

/* 8192 as "8,192". Returns `text`. */
const char *number_grouped(uint64_t number, char text[static NUMBER_GROUPED_SIZE]);

#endif
