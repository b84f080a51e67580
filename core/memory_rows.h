/* The rows of one service of a lease table, in memory. Without a lock: the caller has one. */
#ifndef KZ_CORE_MEMORY_ROWS_H
#define KZ_CORE_MEMORY_ROWS_H

#include "core/table.h"

typedef struct kz__memory_rows kz__memory_rows;

/* NULL: no memory. */
kz__memory_rows *kz__memory_rows_new(void);
void kz__memory_rows_free(kz__memory_rows *memory);

/* The rows as the rules see them. */
kz__rows kz__memory_rows_use(kz__memory_rows *memory);

/* What was written since the last of these two calls stays, or is undone. Neither fails. */
void kz__memory_rows_commit(kz__memory_rows *memory);
void kz__memory_rows_rollback(kz__memory_rows *memory);

/* The range or row that was added by the last call stays, whatever happens to the rest: it was always there, and only
 * learnt of now. */
void kz__memory_rows_keep_last(kz__memory_rows *memory);

/* The lease with the lowest number from `node` on; NULL: there is none. Twins do not count. */
const kz__row *kz__memory_rows_from(const kz__memory_rows *memory, uint32_t node);

/* The rows that are out, in order of their first slots: *at is 0 for the first, NULL comes after the last. None may be
 * added or removed meanwhile. */
const kz__row *kz__memory_rows_each(const kz__memory_rows *memory, size_t *at);

#endif
