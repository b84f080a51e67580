/* The lease server: the real table over rows in memory, behind a network that cannot be trusted. */
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

static int64_t wall_ns(void *ctx)
{
    const world *w = ctx;
    return START_MS * MS + w->now_ns + w->server.wall_offset_ns;
}

static int64_t boot_ns(void *ctx)
{
    const world *w = ctx;
    return w->server.boot_offset_ns + (int64_t)((double)w->now_ns * w->server.rate);
}

static int64_t table_ms(world *w)
{
    kz_clock clock = {.wall_ns = wall_ns, .boot_ns = boot_ns, .ctx = w};
    char boot[16];
    int64_t step_ms;
    snprintf(boot, sizeof boot, "boot %u", w->server.boots);
    int64_t now_ms = kz__table_time_read(&w->server.time, &clock, boot, &step_ms);
    return KZ__RULE(TIME_FORWARD) ? now_ms : wall_ns(w) / MS;
}

/* The same for whoever only asks: written when the one written is a second old. A reboot may forget the rest. */
static int64_t table_ms_asked(world *w)
{
    kz__table_time written = w->server.time;
    int64_t now_ms = table_ms(w);
    if (now_ms - written.high_ms <= 1000)
        w->server.time = written;
    return now_ms;
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

static void acquire(world *w, message *m)
{
    kz__service before = w->server.service;
    char secrets[8][KZ_SECRET_SIZE];
    for (size_t i = 0; i < 8; i++)
        snprintf(secrets[i], sizeof secrets[i], "%016llx%016llx", (unsigned long long)draw(w),
                 (unsigned long long)draw(w));
    kz__table_request request = {.request = m->errand.acquire.request_id,
                                 .holder = "{}",
                                 .throughput_per_ms = m->errand.acquire.throughput_per_ms,
                                 .now_ms = table_ms(w),
                                 .secrets = (const char(*)[KZ_SECRET_SIZE])secrets,
                                 .secret_count = 8};
    kz_error err;
    m->status = kz__table_acquire(&w->server.rows, &w->server.service, &request, &m->grant, &err);
    settle(&w->server, m->status, &before);
    if (m->status == KZ_OK)
        oracle_granted(w, m->c, m->life, &m->grant);
    if (w->story)
        for (size_t i = 0; i < m->grant.count && m->status == KZ_OK; i++) {
            const kz_lease *l = &m->grant.leases[i];
            tell(w, "server: node %u to client %zu for [%lld, %lld), twin [%lld, %lld)", l->id, client_number(w, m->c),
                 (long long)(l->created_ms - EPOCH_MS), (long long)(l->expired_ms - EPOCH_MS),
                 (long long)(l->fallback_created_ms - EPOCH_MS), (long long)(l->fallback_expired_ms - EPOCH_MS));
        }
}

static void release(world *w, message *m)
{
    const kz_release *r = &m->errand.release;
    kz_error err;
    m->errand.release.signature = m->errand.signature;
    int64_t now_ms = table_ms(w);
    kz__service before = w->server.service;
    m->status = kz__table_release_signed(&w->server.rows, &w->server.service, r, now_ms, &err);
    settle(&w->server, m->status, &before);
    tell(w, "server: release of node %u at %lld by client %zu: %s", r->id, (long long)(r->timestamp_ms - EPOCH_MS),
         client_number(w, m->c), kz_status_name(m->status));
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

static void handle(world *w, void *arg)
{
    message *m = arg;
    if (w->now_ns < w->server.down_until_ns)
        return;
    if (m->errand.task.deed == KZ__ACQUIRE) {
        acquire(w, m);
    } else if (m->errand.task.deed == KZ__RELEASE) {
        release(w, m);
    } else {
        m->grant.source_ms = table_ms_asked(w);
        m->status = KZ_OK;
    }
    send(w, m, deliver);
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
        tell(w, "server: its wall clock is set to %lld", (long long)(wall_ns(w) / MS - EPOCH_MS));
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
    if (kz_layout_parse(w->tight ? "41-4-3@2026-01-01" : "41-6-3@2026-01-01", &layout, &err) ||
        kz__service_init(&s->service, "default", &layout, between(w, w->tight ? 100 : 300, w->tight ? 300 : 900), &err))
        abort();
    w->slot_bits = (unsigned)layout.node_bits + layout.seq_bits;
    s->rate = 1 + (w->faults & (1u << FAULT_DRIFT) ? (double)between(w, -450, 450) / 1e6 : 0);
    s->boot_offset_ns = between(w, 0, 1000000) * MS;
    s->store = kz__memory_rows_new();
    if (!s->store)
        abort();
    s->rows = kz__memory_rows_use(s->store);
    if (kz__table_create(&s->rows, &s->service, &err))
        abort();
    kz__memory_rows_commit(s->store);
    after(w, between(w, 0, 1000 * MS), mischief, NULL);
}

void server_free(server *s)
{
    kz__memory_rows_free(s->store);
}
