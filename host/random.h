/* Random bytes from the kernel. A library's generator may have a lock that another thread held at fork. */
#ifndef KZ_HOST_RANDOM_H
#define KZ_HOST_RANDOM_H

#include <kazahana.h>

/* KZ_SYSTEM: the kernel gives none. */
kz_status kz__random(void *bytes, size_t size, kz_error *err);

/* 128 random bits for each, as hex. At most KZ_GRANT_LEASES_MAX. */
kz_status kz__secrets_draw(char (*secrets)[KZ_SECRET_SIZE], size_t count, kz_error *err);

#endif
