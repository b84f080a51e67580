/* A page of a listing, from rows in memory. */
#include "sources/memory_page.h"

void kz__memory_page(const kz__service *service, kz__memory_rows *memory, uint32_t id, int64_t now_ms,
                     kz_lease_info *lines, size_t room, size_t *count)
{
    kz__rows rows = kz__memory_rows_use(memory);
    for (const kz__row *row; *count < room && (row = kz__memory_rows_from(memory, id)); id = row->node + 1) {
        kz__row twin;
        if (!kz__row_is_listed(service, row, now_ms))
            continue;
        bool found = rows.out_at(rows.ctx, row->lo + kz__service_half(service), &twin, NULL) == KZ_OK;
        kz__row_line(service, row, found ? &twin : NULL, now_ms, &lines[(*count)++]);
    }
}
