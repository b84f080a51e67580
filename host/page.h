/* Memory that a forked child finds zeroed: how a fork is noticed without a system call. */
#ifndef KZ_HOST_PAGE_H
#define KZ_HOST_PAGE_H

#include <kazahana.h>

/* Zeroed memory. A zeroed pthread_mutex_t is an unlocked one, so locks may live there too. */
kz_status kz__page_new(void **page, size_t size, kz_error *err);
void kz__page_free(void *page, size_t size);

#endif
