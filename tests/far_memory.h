/* A far store that is memory: it tells little at a time, and refuses some commits. */
#ifndef KZ_TESTS_FAR_MEMORY_H
#define KZ_TESTS_FAR_MEMORY_H

#include "core/memory_rows.h"
#include "core/part.h"

/* Answers a question from these rows, `page` items at a time. */
void far_memory_tell(kz__memory_rows *store, size_t page, kz__part *part, const kz__part_question *question);

/* Writes the part's changes, as a store with a constraint would: no two rows may overlap on the way. */
void far_memory_apply(kz__memory_rows *store, kz__part *part);

/* far: a source over one such table of this process, which ends with far_memory_forget. */
extern const kz_source_ops far_memory_source;
void far_memory_forget(void);

#endif
