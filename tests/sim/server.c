/* The lease server: the real table over rows in memory, behind a network that cannot be trusted. */
#include "core/release.h"
#include "tests/sim/sim.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

#define EPOCH_MS INT64_C(1767225600000)
#define START_MS (EPOCH_MS + INT64_C(3600000))

typedef struct message {
    client *c;
    unsigned life;
    uint64_t number;
    kz__errand errand;
    char holder[KZ_HOLDER_SIZE];
    kz_status status;
    kz_grant grant;
} message;

/* A server and the world's time. */
typedef struct machine {
    const world *w;
    const server *s;
} machine;

static int64_t wall_of(const world *w, const server *s)
{
    return START_MS * MS + w->now_ns + s->wall_offset_ns;
}

static int64_t wall_ns(void *ctx)
{
    const machine *m = ctx;
    return wall_of(m->w, m->s);
}

static int64_t boot_ns(void *ctx)
{
    const machine *m = ctx;
    return m->s->boot_offset_ns + (int64_t)((double)m->w->now_ns * m->s->rate);
}

static int64_t table_ms(world *w, server *s)
{
    machine m = {w, s};
    kz_clock clock = {.wall_ns = wall_ns, .boot_ns = boot_ns, .ctx = &m};
    char boot[40];
    int64_t step_ms;
    snprintf(boot, sizeof boot, "boot %u of %u", s->boots, s->machine);
    int64_t now_ms = kz__table_time_read(&s->time, &clock, boot, &step_ms);
    return KZ__RULE(TIME_FORWARD) ? now_ms : wall_of(w, s) / MS;
}

/* ------------------------------------------------------------------------------------------------------- store */

static void make_service(world *w, server *s)
{
    kz__service settings = s->service;
    kz_error err;
    kz__memory_rows_free(s->store);
    s->store = kz__memory_rows_new();
    if (!s->store)
        abort();
    s->rows = kz__memory_rows_use(s->store);
    s->service.cursor = 0;
    s->service.granted = false;
    s->service.part = 0;
    memset(s->service.asides, 0, sizeof s->service.asides);
    kz__place_created(&s->service, &s->place);
    if (kz__table_create(&s->rows, &settings, &err))
        abort();
    kz__memory_rows_commit(s->store);
    s->made = true;
    (void)w;
}

/* The same rows, in a store of their own. */
static server copy_of(const server *s)
{
    server copy = *s;
    kz_error err;
    copy.store = kz__memory_rows_new();
    if (!copy.store)
        abort();
    copy.rows = kz__memory_rows_use(copy.store);
    const kz__row *row;
    for (size_t at = 0; (row = kz__memory_rows_each(s->store, &at));)
        if (copy.rows.out_add(copy.rows.ctx, row, &err))
            abort();
    for (kz__range range = {0, 0}; s->rows.free_after(s->rows.ctx, range.hi, &range, &err) == KZ_OK;)
        if (copy.rows.free_add(copy.rows.ctx, range, &err))
            abort();
    kz__memory_rows_commit(copy.store);
    return copy;
}

/* How much may be forgotten: K grants, or anything where everything is to be set aside. */
static uint64_t limit_of(const server *s, unsigned passed, int64_t high_ms, int64_t now_ms)
{
    uint64_t blocks = (UINT64_C(1) << (s->service.node_bits - 1)) / 4;
    if (passed > 1 || now_ms - high_ms > s->service.lease_ms / 2)
        return UINT64_MAX;
    return blocks > KZ__PLACE_BLOCKS ? blocks : KZ__PLACE_BLOCKS;
}

/* What every write begins with: the place, and the table's time. */
static int64_t begin(world *w, server *s, kz__deed deed)
{
    int64_t high_ms = s->time.high_ms;
    int64_t now_ms = table_ms(w, s);
    if (!KZ__RULE(PLACE_FIRST) && deed != KZ__ACQUIRE)
        return now_ms;
    char name[16];
    unsigned was = 0;
    sscanf(s->place.name, "place %u", &was);
    snprintf(name, sizeof name, "place %u", s->number);
    if (kz__place_moved(&s->place, name, s->number - was, high_ms, now_ms, &s->service.generation) && was) {
        s->limit = limit_of(s, s->number - was, s->copy_ms, now_ms);
        w->beyond |= s->forgotten > s->limit;
        tell(w, "server %u: takes over from %u at %lld, knowing time up to %lld, and %llu grants are forgotten%s",
             s->number, was, (long long)(now_ms - EPOCH_MS), (long long)(high_ms - EPOCH_MS),
             (unsigned long long)s->forgotten, w->beyond ? ": too many" : "");
    }
    if (!s->made)
        make_service(w, s);
    bool changed;
    kz_error err;
    if (kz__place_settle(&s->rows, &s->service, &s->place, now_ms, &changed, &err))
        abort();
    kz__memory_rows_commit(s->store);
    for (size_t i = 0; i < KZ__ASIDES && changed; i++)
        if (kz__aside_in_force(&s->service.asides[i], now_ms))
            tell(w, "server %u: slots %llu to %llu are set aside until %lld", s->number,
                 (unsigned long long)s->service.asides[i].lo, (unsigned long long)s->service.asides[i].hi,
                 (long long)(s->service.asides[i].until_ms - EPOCH_MS));
    return now_ms;
}

/* Whoever only asks for the time: it is written when the one written is a second old. A reboot may forget the rest. */
static void tell_time(world *w, server *s, message *m)
{
    kz__table_time written = s->time;
    int64_t now_ms = table_ms(w, s);
    s->time = written;
    if (now_ms - written.high_ms > 1000)
        now_ms = begin(w, s, KZ__SYNC);
    m->grant.source_ms = now_ms;
    m->grant.generation = s->service.generation;
    m->status = KZ_OK;
}

/* -------------------------------------------------------------------------------------------------------- work */

/* A transaction is over: it stays, or nothing of it does. A sweep that found nothing free stays, as in any store. */
static void settle(server *s, kz_status status, const kz__service *before)
{
    if (status == KZ_OK || status == KZ_NO_FREE_NODE) {
        kz__memory_rows_commit(s->store);
    } else {
        kz__memory_rows_rollback(s->store);
        s->service = *before;
    }
}

static void acquire(world *w, server *s, message *m)
{
    int64_t now_ms = begin(w, s, KZ__ACQUIRE);
    kz__service before = s->service;
    char secrets[8][KZ_SECRET_SIZE];
    for (size_t i = 0; i < 8; i++)
        snprintf(secrets[i], sizeof secrets[i], "%016llx%016llx", (unsigned long long)draw(w),
                 (unsigned long long)draw(w));
    kz__table_request request = {.request = m->errand.acquire.request_id,
                                 .holder = "{}",
                                 .throughput_per_ms = m->errand.acquire.throughput_per_ms,
                                 .now_ms = now_ms,
                                 .secrets = (const char(*)[KZ_SECRET_SIZE])secrets,
                                 .secret_count = 8};
    kz_error err;
    m->status = kz__table_acquire(&s->rows, &s->service, &request, &m->grant, &err);
    settle(s, m->status, &before);
    if (m->status == KZ_OK)
        oracle_granted(w, m->c, m->life, &m->grant);
    for (size_t i = 0; i < m->grant.count && m->status == KZ_OK; i++) {
        const kz_lease *l = &m->grant.leases[i];
        bool usual = l->seq_bits == s->service.seq_bits, fresh = l->created_ms == m->grant.source_ms;
        /* What a copy does not know yet, and what its successor did not see any more. */
        w->copy.forgotten += usual && fresh && s == &w->server;
        w->server.forgotten += usual && fresh && s == &w->old;
        w->beyond |= w->server.forgotten > w->server.limit;
        tell(w, "server %u: node %u/%u to client %zu for [%lld, %lld), twin [%lld, %lld)", s->number, l->id,
             l->seq_bits, client_number(w, m->c), (long long)(l->created_ms - EPOCH_MS),
             (long long)(l->expired_ms - EPOCH_MS), (long long)(l->fallback_created_ms - EPOCH_MS),
             (long long)(l->fallback_expired_ms - EPOCH_MS));
    }
}

static void release(world *w, server *s, message *m)
{
    const kz_release *r = &m->errand.release;
    kz_error err;
    m->errand.release.signature = m->errand.signature;
    int64_t now_ms = begin(w, s, KZ__RELEASE);
    kz__service before = s->service;
    m->status = kz__table_release_signed(&s->rows, &s->service, r, now_ms, &err);
    settle(s, m->status, &before);
    tell(w, "server %u: release of node %u at %lld by client %zu: %s", s->number, r->id,
         (long long)(r->timestamp_ms - EPOCH_MS), client_number(w, m->c), kz_status_name(m->status));
}

/* ----------------------------------------------------------------------------------------------------- network */

static void deliver(world *w, void *arg)
{
    message *m = arg;
    client_answer(w, m->c, m->life, m->number, m->status, &m->grant);
}

/* How long a message takes; negative: it never arrives. */
static int64_t journey(world *w)
{
    if (has(w, FAULT_NETWORK)) {
        if (chance(w, 15))
            return -1;
        if (chance(w, 10))
            return between(w, 50 * MS, 4000 * MS);
    }
    return w->tight ? 0 : between(w, MS / 10, 15 * MS);
}

static void send_copy(world *w, const message *m, void (*arrive)(world *, void *))
{
    int64_t ns = journey(w);
    if (ns < 0)
        return;
    message *copy = malloc(sizeof *copy);
    memcpy(copy, m, sizeof *copy);
    after_free(w, ns, arrive, copy);
}

static void send(world *w, const message *m, void (*arrive)(world *, void *))
{
    send_copy(w, m, arrive);
    if (has(w, FAULT_NETWORK) && chance(w, 15))
        send_copy(w, m, arrive);
}

/* --------------------------------------------------------------------------------------------- a store forgets */

/* The copy becomes the server. */
static void make_copy(world *w, void *arg);
static void take_over(world *w, void *arg)
{
    (void)arg;
    if (!w->copied)
        return;
    kz__memory_rows_free(w->old.store);
    w->old = w->server;
    w->server = w->copy;
    w->server.limit = UINT64_MAX;
    w->server.copy_ms = w->server.time.high_ms;
    w->copied = false;
    w->server.number = ++w->takeovers;
    w->old_until_ns = w->now_ns;
    if (w->replaced) {
        /* The same machine, and nobody goes on with what was there before. */
        w->server.boots = w->old.boots;
        w->server.boot_offset_ns = w->old.boot_offset_ns;
    } else {
        w->server.machine++;
        w->server.wall_offset_ns = between(w, -w->skew_ms, w->skew_ms) * MS;
        w->server.boot_offset_ns = between(w, 0, 1000000) * MS;
        w->old_until_ns += between(w, 0, w->afterlife_ms) * MS;
    }
    /* Sometimes the next that takes over comes from the same copy: what the first granted is unknown to it too. */
    bool again = !w->replaced && chance(w, 25);
    w->copy = again ? copy_of(&w->server) : (server){0};
    w->copied = again;
    w->copy_writes = 0;
    w->copy_limit = UINT32_MAX;
    tell(w, "server: %u will take over%s", w->server.number, again ? ", and another copy after it" : "");
    if (w->takeovers < 3)
        after(w, between(w, 0, again ? 1000 : 4000) * MS, again ? take_over : make_copy, NULL);
}

static void make_copy(world *w, void *arg)
{
    (void)arg;
    if (w->now_ns > w->calm_ns || w->copied)
        return;
    bool failover = w->faults & (1u << FAULT_FAILOVER), replaced = w->faults & (1u << FAULT_REPLACED);
    w->replaced = replaced && (!failover || chance(w, 30));
    bool old = w->replaced || chance(w, 15);
    w->copy = copy_of(&w->server);
    w->copy.forgotten = 0;
    w->copied = true;
    w->copy_writes = 0;
    w->copy_limit = old ? UINT32_MAX : (unsigned)between(w, 1, 30);
    tell(w, "server: a copy is made");
    after(w, between(w, 0, old ? 5000 : 400) * MS, take_over, NULL);
}

/* The first copy: at the very start it may be one that has no service yet. */
static void plan_copy(world *w)
{
    if (chance(w, 20)) {
        make_copy(w, NULL);
        w->copy.made = false;
    } else {
        after(w, between(w, 0, 6000) * MS, make_copy, NULL);
    }
}

static void answer_slots(world *w, server *s, message *m)
{
    int64_t now_ms = table_ms(w, s);
    m->status = KZ_OK;
    if (m->errand.task.deed == KZ__ACQUIRE) {
        m->errand.acquire.holds = m->errand.task.succeeds ? &m->errand.task.lease : NULL;
        m->status = slots_acquire(w, &m->errand.acquire, now_ms, &m->grant);
        if (m->status == KZ_OK)
            oracle_granted(w, m->c, m->life, &m->grant);
        tell(w, "slots: client %zu asks: %s, slot %u", client_number(w, m->c), kz_status_name(m->status),
             m->grant.leases[0].id);
    } else if (m->errand.task.deed == KZ__RELEASE) {
        m->errand.release.signature = m->errand.signature;
        m->status = slots_release(w, &m->errand.release);
    } else {
        m->grant.source_ms = now_ms;
    }
}

static void handle(world *w, void *arg)
{
    message *m = arg;
    /* For a while some reach the one, some the other. */
    server *s = w->now_ns < w->old_until_ns && chance(w, 50) ? &w->old : &w->server;
    if (w->now_ns < s->down_until_ns)
        return;
    if (w->slotted) {
        answer_slots(w, s, m);
    } else if (m->errand.task.deed == KZ__ACQUIRE) {
        acquire(w, s, m);
    } else if (m->errand.task.deed == KZ__RELEASE) {
        release(w, s, m);
    } else {
        tell_time(w, s, m);
    }
    w->copy_writes += s == &w->server;
    send(w, m, deliver);
    if (w->copied && w->copy_writes >= w->copy_limit)
        take_over(w, NULL);
}

void server_receive(world *w, client *c, const kz__errand *errand, uint64_t number)
{
    message *m = calloc(1, sizeof *m);
    *m = (message){.c = c, .life = c->life, .number = number, .errand = *errand};
    send(w, m, handle);
    free(m);
}

/* ------------------------------------------------------------------------------------------------------- faults */

static void mischief(world *w, void *arg)
{
    server *s = &w->server;
    after(w, between(w, 200 * MS, 2000 * MS), mischief, arg);
    if (has(w, FAULT_SERVER_STEP) && chance(w, 40)) {
        s->wall_offset_ns += between(w, -5000, 5000) * MS;
        tell(w, "server: its wall clock is set to %lld", (long long)(wall_of(w, s) / MS - EPOCH_MS));
    }
    if (has(w, FAULT_RESTART) && chance(w, 30)) {
        /* What was written is still there; after a reboot the boot clock is another one. */
        bool reboot = chance(w, 50);
        if (reboot) {
            s->boots++;
            s->boot_offset_ns = between(w, 0, 1000000) * MS;
        }
        tell(w, "server: %s", reboot ? "reboots" : "restarts");
    }
    if (w->slotted && has(w, FAULT_LOST) && chance(w, 50))
        slots_lose(w);
    if (has(w, FAULT_OUTAGE) && chance(w, 25)) {
        s->down_until_ns = w->now_ns + between(w, 100 * MS, 3500 * MS);
        tell(w, "server: down for %lld ms", (long long)((s->down_until_ns - w->now_ns) / MS));
    }
}

void server_start(world *w)
{
    server *s = &w->server;
    kz_layout layout;
    kz_error err;
    /* Few nodes and short leases, so that every slot changes hands often. */
    const char *text = w->tight ? "41-4-3@2026-01-01" : "41-6-3@2026-01-01";
    if (w->forgets)
        text = chance(w, 50) ? "41-8-3@2026-01-01" : chance(w, 50) ? "41-7-3@2026-01-01" : text;
    if (kz_layout_parse(text, &layout, &err) ||
        kz__service_init(&s->service, "default", &layout, between(w, w->tight ? 100 : 300, w->tight ? 300 : 900), &err))
        abort();
    w->slot_bits = (unsigned)layout.node_bits + layout.seq_bits;
    w->slot_ttl_ms = s->service.lease_ms;
    s->rate = 1 + (w->faults & (1u << FAULT_DRIFT) ? (double)between(w, -450, 450) / 1e6 : 0);
    s->boot_offset_ns = between(w, 0, 1000000) * MS;
    s->limit = UINT64_MAX;
    if (w->forgets) {
        s->service.high_blocks = layout.node_bits == 8 && chance(w, 30);
        s->number = w->takeovers = 1;
        /* The margin is what it has to be: two clocks apart, time that stands above one, and a predecessor's life. */
        w->skew_ms = chance(w, 50) ? 0 : 1000;
        w->afterlife_ms = chance(w, 50) ? 0 : 1500;
        s->place.margin_ms = 1 + 3 * w->skew_ms + w->afterlife_ms;
    }
    make_service(w, s);
    if (w->forgets) {
        begin(w, s, KZ__ACQUIRE);
        plan_copy(w);
    }
    after(w, between(w, 0, 1000 * MS), mischief, NULL);
}

void server_free(world *w)
{
    kz__memory_rows_free(w->server.store);
    kz__memory_rows_free(w->old.store);
    kz__memory_rows_free(w->copy.store);
}
