/* Node slots as sources/lua/tsid*.lua keeps them: a key with a time to live, a token, and a floor that outlives it. A
 * lease is made longer instead of being handed over, and can be lost. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define EPOCH_MS INT64_C(1767225600000)

static void fill(world *w, const node_slot *s, int64_t created_ms, int64_t now_ms, kz_grant *grant)
{
    *grant = (kz_grant){.source_ms = now_ms, .count = 1, .renew_after_ms = w->slot_ttl_ms / 2};
    grant->leases[0] = (kz_lease){.created_ms = created_ms,
                                  .expired_ms = s->end_ms,
                                  .fallback_created_ms = s->end_ms,
                                  .fallback_expired_ms = s->end_ms,
                                  .epoch_ms = EPOCH_MS,
                                  .id = (uint32_t)(s - w->slots),
                                  .reserved_bits = (uint8_t)(64 - 41 - w->slot_bits),
                                  .time_bits = 41,
                                  .node_bits = (uint8_t)(w->slot_bits - 3),
                                  .seq_bits = 3};
    strcpy(grant->leases[0].secret, s->token);
}

kz_status slots_acquire(world *w, const kz_acquire *request, int64_t now_ms, kz_grant *grant)
{
    const kz_lease *holds = request->holds;
    if (holds) {
        node_slot *s = &w->slots[holds->id];
        if (strcmp(s->token, holds->secret) != 0 || s->end_ms <= now_ms)
            return KZ_LOST;
        /* What is added begins where the lease ends: nobody else had that. */
        int64_t created_ms = s->end_ms;
        s->end_ms = now_ms + w->slot_ttl_ms > s->end_ms ? now_ms + w->slot_ttl_ms : s->end_ms;
        fill(w, s, created_ms, now_ms, grant);
        return KZ_OK;
    }
    for (node_slot *s = w->slots; s < w->slots + SLOTS; s++) {
        if (*s->token && s->end_ms > now_ms)
            continue;
        int64_t created_ms = s->end_ms > now_ms ? s->end_ms : now_ms + 1;
        snprintf(s->token, sizeof s->token, "%016llx%016llx", (unsigned long long)draw(w), (unsigned long long)draw(w));
        s->end_ms = created_ms + w->slot_ttl_ms;
        s->start_ms = created_ms;
        fill(w, s, created_ms, now_ms, grant);
        return KZ_OK;
    }
    return KZ_NO_FREE_NODE;
}

kz_status slots_release(world *w, const kz_release *release)
{
    node_slot *s = &w->slots[release->id];
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign(s->token, release->id, release->timestamp_ms, signature);
    if (!*s->token || strcmp(signature, release->signature) != 0)
        return KZ_NOT_FOUND;
    int64_t end_ms = release->timestamp_ms + 1 > s->start_ms ? release->timestamp_ms + 1 : s->start_ms;
    s->end_ms = end_ms < s->end_ms ? end_ms : s->end_ms;
    *s->token = '\0';
    return KZ_OK;
}

/* The key goes, its floor stays: the next who claims the slot begins where the lease would have ended. */
void slots_lose(world *w)
{
    node_slot *s = &w->slots[draw(w) % SLOTS];
    tell(w, "slots: %zu is lost", (size_t)(s - w->slots));
    *s->token = '\0';
}
