/* A page of a listing, from rows in memory. */
#ifndef KZ_SOURCES_MEMORY_PAGE_H
#define KZ_SOURCES_MEMORY_PAGE_H

#include "core/memory_rows.h"
#include "sources/table_source.h"

/* Adds the leases of one service that belong into a page from there on. */
void kz__memory_page(const kz__service *service, kz__memory_rows *rows, const kz_list_from *from, int64_t now_ms,
                     kz_lease_info *lines, size_t room, size_t *count);

#endif
