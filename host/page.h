/* Memory that a forked child finds zeroed: how a fork is noticed without a system call.
 *
 * The kernel wipes it (MADV_WIPEONFORK), whatever made the child. Some emulated kernels say so and do nothing: so a
 * handler looks in every child that fork() made, and wipes what it finds. */
#ifndef KZ_HOST_PAGE_H
#define KZ_HOST_PAGE_H

#include <kazahana.h>

/* Zeroed memory. A zeroed pthread_mutex_t is an unlocked one, so locks may live there too. */
kz_status kz__page_new(void **page, size_t size, kz_error *err);
/* NULL is allowed. */
void kz__page_free(void *page);

#endif
