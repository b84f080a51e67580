/* Numbers, durations and rates as people write them. Every function reads a text whole or returns false. */
#ifndef CLI_UNITS_H
#define CLI_UNITS_H

#include <stdbool.h>
#include <stdint.h>

bool units_number(const char *text, uint64_t *number);

/* Milliseconds: a whole number with its unit (ms, s, m or min, h, d, w); may be negative. */
bool units_duration_with_unit_ms(const char *text, int64_t *ms);

/* `100`, `100/s`, `2.5/s`, `30/min`, `10/h`; above 0. */
bool units_rate(const char *text, double *per_second);

#endif
