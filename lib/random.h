/* Random bytes from the kernel. A library's generator may have a lock that another thread held at fork. */
#ifndef KZ_LIB_RANDOM_H
#define KZ_LIB_RANDOM_H

#include <kazahana.h>

/* KZ_SYSTEM: the kernel gives none. */
kz_status kz__random(void *bytes, size_t size, kz_error *err);

#endif
