/* The oracle: no two IDs equal, each process's own increasing, every one inside a window that was granted to it, and
 * everybody minting again once the faults are over. */
#include "tests/sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_MS INT64_C(1767225600000)

void oracle_minted(world *w, client *c, kz_id id)
{
    if (w->id_count == w->id_room) {
        w->id_room = w->id_room ? 2 * w->id_room : 4096;
        w->ids = realloc(w->ids, w->id_room * sizeof *w->ids);
    }
    w->ids[w->id_count++] = (minted){id, w->now_ns, (uint16_t)client_number(w, c), (uint16_t)c->life};
    bool fallback = id >> (w->slot_bits - 1) & 1;
    if (w->now_ns > w->calm_ns && !fallback)
        c->leased_at_end++;
    w->broken |= id <= c->last;
    if (id <= c->last && !w->backwards++)
        snprintf(w->complaint, sizeof w->complaint, "client %zu gave %" PRIu64 " after %" PRIu64, client_number(w, c),
                 id, c->last);
    c->last = id;
}

static void note(granted_list *list, const granted *g)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 512;
        list->at = realloc(list->at, list->room * sizeof *list->at);
    }
    list->at[list->count++] = *g;
}

static void note_all(world *w, granted_list *list, client *c, unsigned life, const kz_grant *grant)
{
    uint64_t half = UINT64_C(1) << (w->slot_bits - 1);
    for (size_t i = 0; i < grant->count; i++) {
        const kz_lease *l = &grant->leases[i];
        uint64_t lo = (uint64_t)l->id << l->seq_bits, hi = lo + (UINT64_C(1) << l->seq_bits);
        granted g = {
            w->now_ns,     l->created_ms - EPOCH_MS, l->expired_ms - EPOCH_MS, lo, hi, (uint16_t)client_number(w, c),
            (uint16_t)life};
        note(list, &g);
        granted twin = g;
        twin.start_ms = l->fallback_created_ms - EPOCH_MS;
        twin.end_ms = l->fallback_expired_ms - EPOCH_MS;
        twin.lo += half;
        twin.hi += half;
        if (twin.start_ms < twin.end_ms)
            note(list, &twin);
    }
}

void oracle_granted(world *w, client *c, unsigned life, const kz_grant *grant)
{
    note_all(w, &w->grants, c, life, grant);
}

void oracle_holds(world *w, client *c, const kz_grant *grant)
{
    note_all(w, &w->held, c, c->life, grant);
}

void oracle_gives_up(world *w, client *c, const kz_lease *lease, int64_t timestamp_ms)
{
    uint64_t half = UINT64_C(1) << (w->slot_bits - 1), lo = (uint64_t)lease->id << lease->seq_bits;
    for (size_t i = 0; i < w->held.count; i++) {
        granted *g = &w->held.at[i];
        if (g->client == client_number(w, c) && g->life == c->life && (g->lo == lo || g->lo == lo + half) &&
            g->start_ms + EPOCH_MS >= lease->created_ms && g->end_ms > timestamp_ms + 1 - EPOCH_MS)
            g->end_ms = timestamp_ms + 1 - EPOCH_MS;
    }
}

static int by_slot(const void *a, const void *b)
{
    const granted *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Two who hold one point: sharper than equal IDs, which need both to mint it. */
static bool held_twice(world *w)
{
    granted *at = w->held.at;
    if (w->held.count)
        qsort(at, w->held.count, sizeof *at, by_slot);
    for (size_t i = 0; i < w->held.count; i++)
        for (size_t j = i + 1; j < w->held.count && at[j].lo < at[i].hi; j++) {
            const granted *a = &at[i], *b = &at[j];
            bool same = a->client == b->client && a->life == b->life;
            if (same || a->start_ms >= b->end_ms || b->start_ms >= a->end_ms)
                continue;
            snprintf(w->complaint, sizeof w->complaint,
                     "two hold slots %" PRIu64 ": client %u life %u [%lld, %lld) since %.3f ms and client %u life %u "
                     "[%lld, %lld) since %.3f ms",
                     b->lo, a->client, a->life, (long long)a->start_ms, (long long)a->end_ms, (double)a->at_ns / MS,
                     b->client, b->life, (long long)b->start_ms, (long long)b->end_ms, (double)b->at_ns / MS);
            return true;
        }
    return false;
}

static int by_id(const void *a, const void *b)
{
    const minted *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The story of two equal IDs: who minted them when, and what was granted there. */
static void tell_twins(world *w, const minted *a, const minted *b)
{
    uint64_t ms = a->id >> w->slot_bits, slot = a->id & ((1u << w->slot_bits) - 1);
    int n = snprintf(
        w->complaint, sizeof w->complaint,
        "equal IDs %" PRIu64 " (ID time %" PRIu64 ", slot %" PRIu64 "): client %u life %u at %.3f ms and client "
        "%u life %u at %.3f ms; granted:",
        a->id, ms, slot, a->client, a->life, (double)a->at_ns / MS, b->client, b->life, (double)b->at_ns / MS);
    for (size_t i = 0; i < w->grants.count && n < (int)sizeof w->complaint; i++) {
        const granted *g = &w->grants.at[i];
        if (g->lo <= slot && slot < g->hi && g->start_ms <= (int64_t)ms + 50 && (int64_t)ms <= g->end_ms + 50)
            n += snprintf(w->complaint + n, sizeof w->complaint - (size_t)n,
                          " [%lld, %lld) to client %u life %u at %.3f ms;", (long long)g->start_ms,
                          (long long)g->end_ms, g->client, g->life, (double)g->at_ns / MS);
    }
}

static bool inside(const world *w, const minted *m)
{
    int64_t ms = (int64_t)(m->id >> w->slot_bits);
    uint64_t slot = m->id & ((1u << w->slot_bits) - 1);
    for (size_t i = w->grants.count; i-- > 0;) {
        const granted *g = &w->grants.at[i];
        if (g->client == m->client && g->life == m->life && g->lo <= slot && slot < g->hi && g->start_ms <= ms &&
            ms < g->end_ms)
            return true;
    }
    return false;
}

bool oracle_judge(world *w)
{
    if (w->backwards)
        return false;
    if (w->beyond)
        return true;
    if (w->forgets && held_twice(w)) {
        w->broken = true;
        return false;
    }
    qsort(w->ids, w->id_count, sizeof *w->ids, by_id);
    for (size_t i = 1; i < w->id_count; i++) {
        if (w->ids[i].id == w->ids[i - 1].id) {
            w->broken = true;
            tell_twins(w, &w->ids[i - 1], &w->ids[i]);
            return false;
        }
    }
    for (size_t i = 0; i < w->id_count; i++) {
        if (i % 16 == w->seed % 16 && !inside(w, &w->ids[i])) {
            const minted *m = &w->ids[i];
            snprintf(w->complaint, sizeof w->complaint,
                     "client %u life %u minted %" PRIu64 " (ID time %" PRIu64 ", slot %" PRIu64
                     ") at %.3f ms outside every window granted to it",
                     m->client, m->life, m->id, m->id >> w->slot_bits, m->id & ((1u << w->slot_bits) - 1),
                     (double)m->at_ns / MS);
            return false;
        }
    }
    for (size_t i = 0; i < w->client_count; i++) {
        const client *c = &w->clients[i];
        /* Where there are more clients than nodes somebody gets none: that is a full table, not a client that is stuck.
         */
        if (!c->leased_at_end && (!c->refused_at_end || w->client_count <= UINT64_C(1) << (w->slot_bits - 4))) {
            snprintf(w->complaint, sizeof w->complaint,
                     "client %zu minted nothing from a lease after the faults ended; %u times no node was free", i,
                     c->refused_at_end);
            return false;
        }
    }
    return true;
}
