/* Generators that several environments of this process use at once, counted. */
#ifndef KZN_SHARED_H
#define KZN_SHARED_H

#include "addon.h"

typedef struct kzn_shared kzn_shared;

/* A generator on `url`: one that is open already if its URL and options are the same, for a fixed node can be held only
 * once in a process. A provider in JavaScript (js:) belongs to its environment and is never shared. Blocks. */
kz_status kzn_shared_open(kzn_shared **shared, const char *url, const kz_options *options, kzn_link *log,
                          kz_error *err);
kz_generator *kzn_shared_generator(kzn_shared *shared);
/* The last one closes it. Blocks. NULL is allowed. */
void kzn_shared_close(kzn_shared *shared);

#endif
