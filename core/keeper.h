/* When to ask the source for the next rectangle. A state machine: events and boot time in, the next date out. */
#ifndef KZ_CORE_KEEPER_H
#define KZ_CORE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct kz__keeper {
    int64_t retry_initial_ms, retry_max_ms; /* fixed */
    int64_t renew_boot_ms;                  /* the planned handover */
    int64_t retry_boot_ms;                  /* not before this, after a failure */
    unsigned failures;                      /* in a row */
    bool needed;                            /* a minter holds nothing for now: do not wait for the plan */
} kz__keeper;

#define KZ__NEVER_MS INT64_MAX

/* A window of which `window_ms` are left was granted; hand over when `renew_at` of it has passed. */
void kz__keeper_granted(kz__keeper *keeper, int64_t boot_ms, int64_t window_ms, double renew_at);

/* An attempt failed: doubling from the initial pause to the longest one. `random` spreads retries over the upper half
 * of the pause, so that a crowd of clients does not come back at once. */
void kz__keeper_failed(kz__keeper *keeper, int64_t boot_ms, uint64_t random);

void kz__keeper_needed(kz__keeper *keeper);

/* The boot time at which to ask next; KZ__NEVER_MS if there is no reason to. */
int64_t kz__keeper_due(const kz__keeper *keeper);

#endif
