/* The simulator: the real generator, keeper and lease table in virtual time, against every fault we know of. One seed
 * decides everything; a failure replays from it. */
#ifndef KZ_TESTS_SIM_H
#define KZ_TESTS_SIM_H

#include "core/idclock.h"
#include "core/memory_rows.h"
#include "core/place.h"
#include "core/rules.h"
#include "lib/generator.h"
#include "sources/table_time.h"

#include <stdio.h>

#define MS INT64_C(1000000) /* virtual time is in nanoseconds */

enum { CLIENTS = 8, CLIENTS_MAX = 24 /* with forked ones */ };

/* What can go wrong. */
typedef enum fault {
    FAULT_DRIFT,       /* clocks run at different rates */
    FAULT_PAUSE,       /* processes are stopped, longer than their leases */
    FAULT_NETWORK,     /* messages are lost, doubled, late and out of order */
    FAULT_CRASH,       /* processes die and come back */
    FAULT_RELEASE,     /* processes end cleanly and come back */
    FAULT_FORK,        /* processes fork, and both go on */
    FAULT_SERVER_STEP, /* the server's wall clock is set, either way */
    FAULT_RESTART,     /* the server restarts: what was not durable is gone */
    FAULT_OUTAGE,      /* the server does not answer for a while */
    FAULT_TICKS,       /* the tick counter of a process stands still for a while */
    FAULT_FAILOVER,    /* a copy that lacks the last grants takes over; its predecessor goes on for a while */
    FAULT_REPLACED,    /* the table is replaced by an older copy of itself */
    FAULT_LOST,        /* node slots are taken away from their holders */
    FAULTS
} fault;

extern const char *const fault_names[FAULTS];

/* One ID, and where it came from. */
typedef struct minted {
    kz_id id;
    int64_t at_ns;
    uint16_t client, life;
} minted;

/* One rectangle that the server granted, or that a client holds. */
typedef struct granted {
    int64_t at_ns, start_ms, end_ms;
    uint64_t lo, hi;
    uint16_t client, life;
} granted;

typedef struct granted_list {
    granted *at;
    size_t count, room;
} granted_list;

typedef struct world world;

typedef struct client {
    world *w;
    kz_generator *gen; /* NULL while the process is not there */
    double rate;       /* of its boot clock */
    int64_t offset_ns;
    int64_t paused_until_ns;
    uint64_t ticks; /* as its counter shows them */
    unsigned life;
    kz__errand errand; /* under way */
    uint64_t errand_number;
    bool busy;
    kz_id last;              /* of this life */
    uint64_t leased_at_end;  /* IDs from a lease after the faults ended */
    unsigned refused_at_end; /* how often no node was free then */
    kz__held *old;           /* what the life before held: for the rule that nobody comes back to it */
    size_t old_count;
} client;

typedef struct server {
    kz__memory_rows *store;
    kz__rows rows;
    kz__service service;
    kz__table_time time; /* as the store remembers it */
    kz__place place;
    unsigned number;    /* its place: which of those who took over it is */
    unsigned machine;   /* with the boots it names its boot clock */
    bool made;          /* the service exists */
    uint64_t forgotten; /* grants of its predecessor that this copy does not know, high blocks aside */
    int64_t copy_ms;    /* how far it knew time when it took over */
    uint64_t limit;     /* of them, up to which the rule promises to repeat none */
    unsigned boots;
    double rate;
    int64_t wall_offset_ns, boot_offset_ns;
    int64_t down_until_ns;
} server;

/* A node slot, in worlds that have them instead of a table. */
enum { SLOTS = 16 };
typedef struct node_slot {
    char token[KZ_SECRET_SIZE]; /* "": nobody's */
    int64_t start_ms, end_ms;   /* the end is also the floor of who comes next */
} node_slot;

typedef struct event event;

struct world {
    uint64_t seed, random;
    unsigned faults; /* bits of `fault` */
    bool tight; /* hardly a free node, and a network without delay: a node is granted again the moment it is free */
    bool story; /* tell what happens */
    int64_t now_ns, calm_ns, end_ns;
    event *heap;
    size_t heap_count, heap_room;
    uint64_t sequence;
    client clients[CLIENTS_MAX];
    size_t client_count;
    server server; /* who is asked */
    server old;    /* the one before, which some still reach */
    int64_t old_until_ns;
    server copy;                      /* what will take over */
    unsigned copy_writes, copy_limit; /* that it does not know, and after how many it takes over */
    bool replaced;                    /* it is put back in the same machine, not another machine's */
    bool copied;
    unsigned takeovers;
    int64_t skew_ms, afterlife_ms; /* how far clocks of servers are off, and how long a predecessor goes on */
    bool forgets;                  /* a run in which a store forgets: a world of its own */
    bool slotted;                  /* node slots instead of a table */
    node_slot slots[SLOTS];
    int64_t slot_ttl_ms;
    bool beyond; /* more was forgotten than the rule covers */
    minted *ids;
    size_t id_count, id_room;
    granted_list grants, held;
    uint64_t backwards;
    unsigned slot_bits;
    bool broken; /* equal IDs or disorder, not only a lesser complaint */
    char complaint[512];
};

/* sim.c */
uint64_t draw(world *w);
int64_t between(world *w, int64_t low, int64_t high);
bool chance(world *w, unsigned percent);
bool has(const world *w, fault f);
void tell(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void after(world *w, int64_t ns, void (*run)(world *, void *), void *arg);
void after_free(world *w, int64_t ns, void (*run)(world *, void *), void *arg);

/* client.c */
void client_start(world *w, client *c);
void client_end(world *w, client *c, bool clean);
void client_answer(world *w, client *c, unsigned life, uint64_t errand_number, kz_status status, const kz_grant *grant);
size_t client_number(const world *w, const client *c);

/* server.c */
void server_start(world *w);
void server_free(world *w);
void server_receive(world *w, client *c, const kz__errand *errand, uint64_t errand_number);

/* slots.c */
kz_status slots_acquire(world *w, const kz_acquire *request, int64_t now_ms, kz_grant *grant);
kz_status slots_release(world *w, const kz_release *release);
void slots_lose(world *w);

/* oracle.c */
void oracle_minted(world *w, client *c, kz_id id);
void oracle_granted(world *w, client *c, unsigned life, const kz_grant *grant);
/* It reached the client, which holds it from now on; and gives it up. */
void oracle_holds(world *w, client *c, const kz_grant *grant);
void oracle_gives_up(world *w, client *c, const kz_lease *lease, int64_t timestamp_ms);
/* True if all is well; else w->complaint says what is not. */
bool oracle_judge(world *w);

#endif
