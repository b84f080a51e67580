/* A process with a generator: it mints, runs its keeper's errands over the network, and dies in several ways. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT (300 * MS)

size_t client_number(const world *w, const client *c)
{
    return (size_t)(c - w->clients);
}

static int64_t boot_ns(void *ctx)
{
    client *c = ctx;
    return c->offset_ns + (int64_t)((double)c->w->now_ns * c->rate);
}

/* With leases the wall clock must not matter, so it is nonsense. */
static int64_t wall_ns(void *ctx)
{
    client *c = ctx;
    return INT64_C(1800000000) * 1000 * MS + (int64_t)(draw(c->w) % 7200000) * MS;
}

static void sleep_ns(void *ctx, int64_t ns)
{
    /* Everybody waits with it: nothing else happens on this machine meanwhile. */
    client *c = ctx;
    if (ns < 0 || ns > 5 * MS)
        abort(); /* only ever to the next millisecond */
    c->w->now_ns += ns;
}

static bool paused(const client *c)
{
    return c->w->now_ns < c->paused_until_ns;
}

/* ------------------------------------------------------------------------------------------------------ minting */

/* The quick way is open while the client's own counter says so. Half of the clients mint like the only thread of their
 * process, half like one of many. */
static void give_ticks(world *w, client *c)
{
    kz__hot *hot = c->gen->hot;
    hot->ticks = KZ__TICKS_TOLD;
    kz__tick_rate_init(&hot->rate, hot->ticks);
    if (chance(w, 50))
        atomic_store(&hot->owner, KZ__EVERYBODY);
}

static void tell_ticks(world *w, client *c)
{
    if (!has(w, FAULT_TICKS) || chance(w, 60))
        c->ticks = (uint64_t)boot_ns(c);
    kz__ticks_told = c->ticks;
}

static void mint_some(world *w, client *c)
{
    tell_ticks(w, c);
    bool waits = w->slotted && chance(w, 20);
    for (int64_t n = between(w, 1, 12); n > 0; n--) {
        kz_id id;
        kz_error err;
        kz_status status = kz_mint(c->gen, &id, 1, waits ? 5 : 0, &err);
        if (status)
            return;
        oracle_minted(w, c, id);
    }
}

static void mint(world *w, void *arg)
{
    client *c = arg;
    after(w, between(w, MS / 4, 40 * MS), mint, c);
    if (c->gen && !paused(c))
        mint_some(w, c);
}

/* ------------------------------------------------------------------------------------------------------ errands */

typedef struct ticket {
    client *c;
    unsigned life;
    uint64_t number;
} ticket;

static void give_up(world *w, void *arg)
{
    ticket *t = arg;
    client_answer(w, t->c, t->life, t->number, KZ_UNAVAILABLE, NULL);
}

static void keep_now(world *w, client *c)
{
    if (!c->gen || c->busy || paused(c))
        return;
    kz__keeping_plan(c->gen, &c->errand);
    if (c->errand.task.deed == KZ__REST || c->errand.task.deed == KZ__STOP)
        return;
    c->busy = true;
    c->errand_number++;
    if (c->errand.task.deed == KZ__RELEASE)
        oracle_gives_up(w, c, &c->errand.task.lease, c->errand.release.timestamp_ms);
    server_receive(w, c, &c->errand, c->errand_number);
    ticket *t = malloc(sizeof *t);
    *t = (ticket){c, c->life, c->errand_number};
    after_free(w, ANSWER_TIMEOUT, give_up, t);
}

static void keep(world *w, void *arg)
{
    after(w, between(w, 2 * MS, 20 * MS), keep, arg);
    keep_now(w, arg);
}

static void mint_once(world *w, void *arg)
{
    client *c = arg;
    if (c->gen && !paused(c))
        mint_some(w, c);
}

static void keep_once(world *w, void *arg)
{
    keep_now(w, arg);
}

/* The moments that matter: a new lease is used at once; an old one is tried at the very end of its window, when
 * somebody else asks for one. */
static void press(world *w, client *c, const kz_grant *grant)
{
    mint_some(w, c);
    int64_t left_ns = (grant->leases[0].expired_ms - grant->source_ms) * MS;
    for (int i = 0; i < 4; i++) {
        after(w, left_ns + i * MS / 4, mint_once, c);
        after(w, left_ns + i * MS / 4, keep_once, &w->clients[draw(w) % w->client_count]);
    }
}

void client_answer(world *w, client *c, unsigned life, uint64_t number, kz_status status, const kz_grant *grant)
{
    /* An answer counts once, and only for the errand that is waiting for it. */
    if (!c->gen || c->life != life || !c->busy || c->errand_number != number)
        return;
    c->busy = false;
    c->refused_at_end += status == KZ_NO_FREE_NODE && w->now_ns > w->calm_ns;
    kz_error err = {.status = status};
    status = kz__keeping_done(c->gen, &c->errand, status, grant, &err);
    if (status == KZ_OK && c->errand.task.deed == KZ__ACQUIRE)
        oracle_holds(w, c, grant);
    if (status == KZ_OK && w->tight && c->errand.task.deed == KZ__ACQUIRE)
        press(w, c, grant);
    if (status && status != KZ_UNAVAILABLE && status != KZ_NO_FREE_NODE && c->errand.task.deed == KZ__ACQUIRE)
        tell(w, "client %zu: %s", client_number(w, c), err.message);
}

/* ------------------------------------------------------------------------------------------- birth, death, fork */

static void bring_up(world *w, client *c)
{
    kz_options options;
    kz_options_init(&options);
    kz_clock clock = {wall_ns, boot_ns, sleep_ns, c};
    options.use_clock = &clock;
    options.throughput_min_per_ms = w->server.service.high_blocks && c->life % 2 ? 16 : 8;
    options.throughput_max_per_ms = w->tight || w->slotted ? 8 : 16;
    options.retry_initial_ms = 50;
    options.retry_max_ms = 400;
    kz_source_facts facts = {.layout = *kz_layout_preset(0)};
    kz_error err;
    if (kz__generator_new(&c->gen, &options, &facts, &err))
        abort();
    c->gen->hot->random[0] = draw(w);
    c->gen->hot->random[1] = draw(w);
    give_ticks(w, c);
    c->life++;
    c->last = 0;
    c->busy = false;
    tell(w, "client %zu: starts life %u", client_number(w, c), c->life);
    if (!KZ__RULE(NEVER_RETURN) && c->old_count) {
        kz__keeper *keeper = &c->gen->hot->keeper;
        keeper->held = malloc(c->old_count * sizeof *keeper->held);
        memcpy(keeper->held, c->old, c->old_count * sizeof *keeper->held);
        keeper->held_count = keeper->held_room = c->old_count;
        c->gen->held_memory = keeper->held;
        keeper->renew_boot_ms = boot_ns(c) / MS + 200;
        const kz_lease *lease = &keeper->held[0].lease;
        c->gen->layout.epoch_ms = lease->epoch_ms;
        kz__idclock_sample(&c->gen->hot->idclock, lease->created_ms, boot_ns(c));
        if (kz__keeping_rebuild(c->gen, &err))
            abort();
    }
}

static void come_back(world *w, void *arg)
{
    client *c = arg;
    if (c->gen)
        return;
    bring_up(w, c);
    keep_now(w, c);
}

void client_end(world *w, client *c, bool clean)
{
    if (!c->gen)
        return;
    /* A clean end gives everything back; the messages may still be lost on the way. */
    while (clean) {
        kz__errand errand;
        c->gen->hot->keeper.closing = true;
        c->gen->hot->keeper.in_flight = false;
        kz__keeping_plan(c->gen, &errand);
        if (errand.task.deed != KZ__RELEASE)
            break;
        oracle_gives_up(w, c, &errand.task.lease, errand.release.timestamp_ms);
        server_receive(w, c, &errand, UINT64_MAX);
    }
    tell(w, "client %zu: %s", client_number(w, c), clean ? "ends" : "dies");
    kz__keeper *keeper = &c->gen->hot->keeper;
    free(c->old);
    c->old_count = keeper->held_count;
    c->old = malloc((c->old_count + 1) * sizeof *c->old);
    if (c->old_count)
        memcpy(c->old, keeper->held, c->old_count * sizeof *c->old);
    kz_close(c->gen);
    c->gen = NULL;
}

/* What fork does to a generator's memory: everything is copied, but `hot` is zeroed. */
static void fork_client(world *w, client *parent)
{
    if (w->client_count == CLIENTS_MAX)
        return;
    client *child = &w->clients[w->client_count++];
    *child = (client){.w = w, .rate = parent->rate, .offset_ns = parent->offset_ns};
    bring_up(w, child);
    kz__hot *mine = child->gen->hot, *theirs = parent->gen->hot;
    if (KZ__RULE(FORK)) {
        memset(mine, 0, sizeof *mine);
    } else {
        *mine = *theirs;
        mine->rects = malloc((theirs->rect_room + 1) * sizeof *mine->rects);
        if (theirs->rect_count)
            memcpy(mine->rects, theirs->rects, theirs->rect_count * sizeof *mine->rects);
        mine->keeper.held = malloc((theirs->keeper.held_room + 1) * sizeof *mine->keeper.held);
        if (theirs->keeper.held_count)
            memcpy(mine->keeper.held, theirs->keeper.held, theirs->keeper.held_count * sizeof *mine->keeper.held);
        mine->keeper.in_flight = false;
        free(child->gen->rects_memory);
        free(child->gen->held_memory);
        child->gen->rects_memory = mine->rects;
        child->gen->held_memory = mine->keeper.held;
        child->gen->layout = parent->gen->layout;
        child->gen->slot_bits = parent->gen->slot_bits;
        child->gen->epoch_ns = parent->gen->epoch_ns;
        child->gen->layout_known = parent->gen->layout_known;
    }
    tell(w, "client %zu: forks client %zu", client_number(w, parent), client_number(w, child));
    /* The first call in a child finds the generator dead and starts it anew. */
    kz_id id;
    kz_error err;
    tell_ticks(w, child);
    if (kz_mint(child->gen, &id, 1, 0, &err) == KZ_OK)
        oracle_minted(w, child, id);
    if (KZ__RULE(FORK)) {
        mine->random[0] = draw(w), mine->random[1] = draw(w);
        give_ticks(w, child);
    }
    after(w, between(w, 0, 10 * MS), keep, child);
    after(w, between(w, 0, 10 * MS), mint, child);
}

static void mischief(world *w, void *arg)
{
    client *c = arg;
    after(w, between(w, 100 * MS, 1500 * MS), mischief, c);
    if (!c->gen || paused(c))
        return;
    if (has(w, FAULT_PAUSE) && chance(w, 25)) {
        c->paused_until_ns = w->now_ns + between(w, 10 * MS, 3000 * MS);
        tell(w, "client %zu: is paused for %lld ms", client_number(w, c),
             (long long)((c->paused_until_ns - w->now_ns) / MS));
    } else if (has(w, FAULT_CRASH) && chance(w, 20)) {
        client_end(w, c, false);
        after(w, between(w, 0, 300 * MS), come_back, c);
    } else if (has(w, FAULT_RELEASE) && chance(w, 30)) {
        mint_some(w, c);
        client_end(w, c, true);
        after(w, chance(w, 50) ? 0 : between(w, 0, 300 * MS), come_back, c);
    } else if (has(w, FAULT_FORK) && chance(w, 15)) {
        fork_client(w, c);
    }
}

void client_start(world *w, client *c)
{
    *c = (client){.w = w, .rate = 1};
    c->offset_ns = between(w, 0, 1000000000) * MS;
    if (w->faults & (1u << FAULT_DRIFT))
        c->rate = 1 + (double)between(w, -450, 450) / 1e6;
    bring_up(w, c);
    after(w, between(w, 0, 20 * MS), keep, c);
    after(w, between(w, 0, 20 * MS), mint, c);
    after(w, between(w, 0, 1000 * MS), mischief, c);
}
