/* When to ask the source for the next rectangle. */
#include "core/keeper.h"

void kz__keeper_granted(kz__keeper *keeper, int64_t boot_ms, int64_t window_ms, double renew_at)
{
    keeper->failures = 0;
    keeper->needed = false;
    keeper->retry_boot_ms = 0;
    keeper->renew_boot_ms =
        window_ms == KZ__NEVER_MS ? KZ__NEVER_MS : boot_ms + (int64_t)((double)window_ms * renew_at);
}

void kz__keeper_failed(kz__keeper *keeper, int64_t boot_ms, uint64_t random)
{
    int64_t pause_ms = keeper->retry_initial_ms;
    for (unsigned i = 0; i < keeper->failures && pause_ms < keeper->retry_max_ms; i++)
        pause_ms *= 2;
    if (pause_ms > keeper->retry_max_ms)
        pause_ms = keeper->retry_max_ms;
    if (pause_ms > 1)
        pause_ms -= (int64_t)(random % (uint64_t)(pause_ms / 2));
    keeper->failures++;
    keeper->retry_boot_ms = boot_ms + pause_ms;
}

void kz__keeper_needed(kz__keeper *keeper)
{
    keeper->needed = true;
}

int64_t kz__keeper_due(const kz__keeper *keeper)
{
    int64_t due_ms = keeper->needed ? 0 : keeper->renew_boot_ms;
    return due_ms > keeper->retry_boot_ms ? due_ms : keeper->retry_boot_ms;
}
