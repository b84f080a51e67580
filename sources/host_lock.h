/* A lock on this host for a name: held by one process until it lets go or ends, however that happens. */
#ifndef KZ_SOURCES_HOST_LOCK_H
#define KZ_SOURCES_HOST_LOCK_H

#include <stdbool.h>

/* A number that stands for the lock; -1: somebody else has it, `*pid` is that process (0: not known); -2: there are no
 * such locks here. */
int kz__host_lock(const char *name, long *pid);
void kz__host_unlock(int lock);

#endif
