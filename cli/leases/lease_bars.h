/* A lease table as bars over time, for a terminal. */
#ifndef CLI_LEASE_BARS_H
#define CLI_LEASE_BARS_H

#include "cli/leases/lease_rows.h"
#include "cli/output.h"

/* What fits: no line is longer than `columns`, and there are no more than `lines`. Each ends in `end`. */
void lease_bars_print(struct output *out, const struct lease_rows *leases, size_t columns, size_t lines,
                      const char *end);

#endif
