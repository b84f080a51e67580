/* What was found, for people and for programs. */
#ifndef KZ_BENCH_TABLE_H
#define KZ_BENCH_TABLE_H

#include "bench/check.h"

#include <stdio.h>

/* One line of the table. */
typedef struct row {
    int goal; /* of the design's list; 0: for comparison only */
    const char *what;
    const char *denominator;
    double ns, denominator_ns;
    double ratio, low, high; /* median over the rounds, and the quartiles */
    double limit;
    bool at_least; /* the ratio should reach the limit, not stay below it */
    bool percent;  /* the ratio is a share */
    size_t rounds;
} row;

/* Where and of what. */
typedef struct machine {
    char cpu[128];
    char kernel[128];
    long cores;
} machine;

void machine_read(machine *m);

void print_table(FILE *out, const machine *m, const row *rows, size_t row_count, const ledger *const *ledgers,
                 size_t ledger_count);
void print_json(FILE *out, const machine *m, const row *rows, size_t row_count, const ledger *const *ledgers,
                size_t ledger_count);

#endif
