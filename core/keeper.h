/* The keeper: which leases a generator holds, and what to do about them next. A state machine: events and time in, one
 * wanted deed out. It knows nothing of threads, sockets or clocks; lib/keeping.c joins it to a generator.
 *
 * `boot_ms` never jumps and paces what the keeper does. `now_ms` is the source's time (Unix ms), in which leases are.
 */
#ifndef KZ_CORE_KEEPER_H
#define KZ_CORE_KEEPER_H

#include <kazahana.h>

#define KZ__NEVER_MS INT64_MAX

typedef struct kz__held {
    kz_lease lease;
    int64_t renew_boot_ms; /* when its successor is asked for */
    bool superseded;       /* a newer one has come: used to its end, not renewed */
} kz__held;

/* What a source has shown of itself. A forked child goes on with what its parent saw. */
typedef struct kz__seen {
    uint64_t generation;           /* the highest */
    int64_t window_ms;             /* the longest that was granted, a twin's included */
    int64_t refused_until_boot_ms; /* it went back in time: what it grants is not used before this; 0: it did not */
} kz__seen;

typedef struct kz__keeper {
    /* Fixed. */
    uint32_t throughput_min, throughput_max;
    double renew_at;
    int64_t retry_initial_ms, retry_max_ms;
    int64_t sync_every_ms; /* 0: never */
    bool uses_twins;       /* a lease is not over for it before its twin is */

    kz__held *held; /* room for held_room, made by the owner of this struct */
    size_t held_count, held_room;

    int64_t renew_boot_ms; /* the planned handover */
    int64_t retry_boot_ms; /* not before this, after a failure */
    int64_t sync_boot_ms;
    unsigned failures; /* in a row */
    int64_t pause_ms;  /* the last one between them, which the next doubles; one that was cut short counts as it was */
    bool needed;       /* a minter holds nothing for now: do not wait for the plan */
    bool scarce;       /* less was granted than asked for: nothing more is asked for before the handover */
    bool exhausted;    /* a minter used up a millisecond: more would be welcome */
    bool closing;

    bool in_flight; /* one request at a time */
    bool repeat;    /* its fate is unknown: ask the same again, under the same ID */
    bool widening;  /* it adds to what is held, it does not succeed it */
    uint32_t asked; /* its throughput */
    uint8_t request_id[KZ_REQUEST_ID_SIZE];
    kz__seen *seen; /* made by the owner of this struct */
} kz__keeper;

typedef enum kz__deed {
    KZ__REST,    /* until `until_boot_ms`, or until something happens */
    KZ__ACQUIRE, /* `throughput`, under keeper->request_id */
    KZ__RELEASE, /* `lease`, which is no longer among those held */
    KZ__SYNC,    /* ask the source for the time */
    KZ__STOP,    /* closing, and everything is given back */
} kz__deed;

typedef struct kz__task {
    kz__deed deed;
    int64_t until_boot_ms;
    uint32_t throughput;
    bool succeeds; /* KZ__ACQUIRE: what is asked for succeeds `lease`, which is held */
    kz_lease lease;
} kz__task;

/* What to do now. `used_per_ms`: the most IDs of one millisecond since the last handover. `random`: for a request's ID
 * and for jitter. After KZ__ACQUIRE, KZ__RELEASE and KZ__SYNC nothing else is wanted until the outcome is reported. */
void kz__keeper_plan(kz__keeper *keeper, int64_t boot_ms, int64_t now_ms, uint32_t used_per_ms,
                     const uint64_t random[static 2], kz__task *task);

/* May an answer with this generation be used? 0 says nothing. The upper half of a generation is its era, which begins
 * anew when another copy of a store takes over and sets aside what it may have forgotten: a higher one is believed.
 * KZ_UNAVAILABLE: a lower one comes from a predecessor, and the next answer may be better. KZ_STORE: within the era it
 * is lower than it was, so the source is an older copy and does not know it. If it `grants`, what it forgot has to end
 * first: nothing that it grants is used for as long as its longest window, and a margin. A mere look at the time may
 * have been an old answer, and is only not used. */
kz_status kz__keeper_check_generation(kz__keeper *keeper, uint64_t generation, bool grants, int64_t boot_ms,
                                      kz_error *err);

/* The answer to the acquire in flight, whose generation was checked. keeper->held must have room for it. */
void kz__keeper_granted(kz__keeper *keeper, const kz_grant *grant, int64_t boot_ms, int64_t now_ms, uint64_t random);

/* The acquire in flight failed. */
void kz__keeper_failed(kz__keeper *keeper, kz_status status, int64_t boot_ms, int64_t now_ms, uint64_t random);

/* The source does not know of what is held any more (KZ_LOST): all of it is dropped, and other leases are asked for at
 * once. */
void kz__keeper_lost(kz__keeper *keeper, int64_t boot_ms);

/* The release or sync in flight is over. */
void kz__keeper_finished(kz__keeper *keeper, int64_t boot_ms);

/* IDs a millisecond that the leases in use allow. */
uint64_t kz__keeper_throughput(const kz__keeper *keeper);

bool kz__lease_has_twin(const kz_lease *lease);

#endif
