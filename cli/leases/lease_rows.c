/* The lines of a lease table, in order. */
#include "cli/leases/lease_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct lease_rows rows;
    const char *service;
    bool out_of_memory;
};

static bool take(void *ctx, const kz_lease_info *info)
{
    struct reading *reading = ctx;
    struct lease_rows *rows = &reading->rows;
    if (reading->service && strcmp(reading->service, info->service) != 0)
        return false; /* they come service by service, beginning with this one */
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 64;
        kz_lease_info *grown = realloc(rows->rows, room * sizeof *grown);
        if (!grown) {
            reading->out_of_memory = true;
            return false;
        }
        rows->rows = grown;
        rows->room = room;
    }
    rows->rows[rows->count++] = *info;
    return true;
}

kz_status lease_rows_read(struct lease_rows *rows, kz_source *source, const char *service, kz_error *err)
{
    struct reading reading = {.service = service};
    uint64_t generation;
    kz_list_from from = {.service = service ? service : ""};
    kz_status status = kz_source_list_from(source, &from, take, &reading, err);
    if (status == KZ_OK && reading.out_of_memory) {
        status = err->status = KZ_NO_MEMORY;
        snprintf(err->message, sizeof err->message, "no memory for more than %zu leases", reading.rows.count);
    }
    if (status == KZ_OK)
        status = kz_source_now(source, &reading.rows.source_ms, &generation, err);
    if (status != KZ_OK) {
        lease_rows_free(&reading.rows);
        return status;
    }
    lease_rows_free(rows);
    *rows = reading.rows;
    return KZ_OK;
}

void lease_rows_free(struct lease_rows *rows)
{
    free(rows->rows);
    *rows = (struct lease_rows){0};
}
