/* A page of a listing, from rows in memory. */
#include "sources/memory_page.h"

#include <string.h>

void kz__memory_page(const kz__service *service, kz__memory_rows *memory, const kz_list_from *from, int64_t now_ms,
                     kz_lease_info *lines, size_t room, size_t *count)
{
    kz__rows rows = kz__memory_rows_use(memory);
    uint32_t id = from->only_id || strcmp(service->name, from->service) == 0 ? from->id : 0;
    for (const kz__row *row; *count < room && (row = kz__memory_rows_from(memory, id)); id = row->node + 1) {
        kz__row twin;
        if (from->only_id && row->node != from->id)
            break;
        if (!kz__row_is_listed(service, row, now_ms))
            continue;
        bool found = rows.out_at(rows.ctx, row->lo + kz__service_half(service), &twin, NULL) == KZ_OK;
        kz__row_line(service, row, found ? &twin : NULL, now_ms, &lines[(*count)++]);
    }
}
