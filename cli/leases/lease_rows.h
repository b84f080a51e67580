/* The lines of a lease table, in order. */
#ifndef CLI_LEASE_ROWS_H
#define CLI_LEASE_ROWS_H

#include "kazahana.h"

struct lease_rows {
    kz_lease_info *rows;
    size_t count, room;
    int64_t source_ms; /* the table's time when they were read */
};

/* Reads the table anew, sorted by service, node and age. `service` NULL: all of them. On failure the rows are those of
 * before. */
KZ_MUST_CHECK kz_status lease_rows_read(struct lease_rows *rows, kz_source *source, const char *service, kz_error *err);

void lease_rows_free(struct lease_rows *rows);

#endif
