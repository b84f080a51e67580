/* The lease table: who holds which slots until when. The rules, over rows that a store keeps.
 *
 * Slots are numbered as in an ID's low bits. The lower half is leased, the upper half belongs to the twins: a lease of
 * [lo, hi) may have a twin [lo + half, hi + half) for a longer window. Space that is not out is free. Every slot has a
 * floor, the end of the last window granted on it: for space that is out it is the row's end_ms, and free space has
 * one at or below high_ms, the highest time ever answered. All times are Unix ms of the table's own clock.
 *
 * Nothing here reads a clock or does I/O: the caller opens a transaction of its store, calls, and makes it durable
 * before it answers. On any status but KZ_OK it rolls back. */
#ifndef KZ_CORE_TABLE_H
#define KZ_CORE_TABLE_H

#include "core/aside.h"

#define KZ__LEASE_MS_DEFAULT       INT64_C(600000)
#define KZ__LEASE_MS_MIN           INT64_C(100)
#define KZ__LEASE_MS_MAX           INT64_C(604800000)
#define KZ__MAX_THROUGHPUT_DEFAULT 16384u
#define KZ__TWIN_LEASES            4  /* a twin lasts this many lease durations from the grant */
#define KZ__SWEEP_ROWS             64 /* ended rows that one acquire returns to free space at most */
#define KZ__SEARCH_BLOCKS          64 /* blocks looked at for one whose twin is free, before one without is taken */
#define KZ__RELEASE_SKEW_MS        30000
#define KZ__LIST_PAGE              64 /* lines of a listing that are read at once */

/* A service: an ID space of its own. Settings first, then what the table remembers. */
typedef struct kz__service {
    char name[KZ_SERVICE_SIZE];
    int64_t epoch_ms;
    uint8_t reserved_bits, time_bits, node_bits, seq_bits;
    bool high_blocks;        /* answer a request for more than one block's throughput with one higher block */
    uint32_t max_throughput; /* per ms, that one request may ask for */
    int64_t lease_ms;

    bool granted;        /* once true, epoch, reserved and time bits and node + seq bits are fixed */
    uint64_t cursor;     /* the slot after the last usual block granted: where the search begins */
    int64_t high_ms;     /* the highest time ever answered */
    uint64_t generation; /* grows with every write */
    int64_t refused_ms;  /* when somebody was last refused for want of nodes; 0: never */

    kz__aside asides[KZ__ASIDES]; /* what is not granted for now */
    int64_t settled_ms;           /* the change of place (core/place.h) that was seen to; 0: none */
    uint8_t part;                 /* the half of the leased slots that high blocks go into, where `parted` */
    bool parted;                  /* not stored: this store can forget, so high blocks keep to one half at a time */
} kz__service;

/* A block that is out: a lease, or a twin (lo in the upper half). */
typedef struct kz__row {
    uint64_t lo, hi;
    int64_t start_ms, end_ms;
    uint32_t node; /* lo >> seq_bits, the number a release names; a twin's is its lease's + half the nodes */
    uint8_t node_bits, seq_bits;
    bool released;  /* given back; waits for end_ms to pass */
    uint32_t asked; /* throughput of the request */
    uint8_t request[KZ_REQUEST_ID_SIZE];
    char secret[KZ_SECRET_SIZE]; /* a lease and its twin share it */
    char holder[KZ_HOLDER_SIZE];
} kz__row;

typedef struct kz__range {
    uint64_t lo, hi;
} kz__range;

/* What the rules ask of a store, for one service, inside one transaction. Each returns KZ_OK, or KZ_NOT_FOUND where it
 * looks for something, or the store's own failure with `err` filled. */
typedef struct kz__rows {
    void *ctx;
    /* The first free range with hi > from. */
    kz_status (*free_after)(void *ctx, uint64_t from, kz__range *range, kz_error *err);
    /* The free range with hi == slot; and the one that contains or begins at slot is free_after(slot) if its lo <=
     * slot. */
    kz_status (*free_ending)(void *ctx, uint64_t slot, kz__range *range, kz_error *err);
    kz_status (*free_add)(void *ctx, kz__range range, kz_error *err);
    kz_status (*free_remove)(void *ctx, uint64_t lo, kz_error *err);
    /* The row that ends first, if it ends at or before `ms` (ties: lowest lo). */
    kz_status (*out_ended)(void *ctx, int64_t ms, kz__row *row, kz_error *err);
    kz_status (*out_at)(void *ctx, uint64_t lo, kz__row *row, kz_error *err); /* by first slot */
    /* The lease of that number, whatever its height; twins do not count. At most one is out. */
    kz_status (*out_by_node)(void *ctx, uint32_t node, kz__row *row, kz_error *err);
    /* The rows of a request in order of lo, leases only: the first with lo >= from. */
    kz_status (*out_by_request)(void *ctx, const uint8_t *request, uint64_t from, kz__row *row, kz_error *err);
    kz_status (*out_add)(void *ctx, const kz__row *row, kz_error *err);
    kz_status (*out_update)(void *ctx, const kz__row *row, kz_error *err); /* by lo: end_ms, released */
    kz_status (*out_remove)(void *ctx, uint64_t lo, kz_error *err);
} kz__rows;

typedef struct kz__table_request {
    const uint8_t *request; /* KZ_REQUEST_ID_SIZE bytes; all zero: none */
    const char *holder;
    uint32_t throughput_per_ms;
    int64_t now_ms;
    /* Secrets for the leases that may be granted, drawn by the caller: 32 lower-case hex digits each (128 bits). */
    const char (*secrets)[KZ_SECRET_SIZE];
    size_t secret_count; /* at least ceil(throughput / 2^seq_bits), at most KZ_GRANT_LEASES_MAX */
} kz__table_request;

/* Makes the free space of a service that has granted nothing: all slots, both halves. Again after kz__service_adopt has
 * changed the sum of its node and sequence bits. */
kz_status kz__table_create(const kz__rows *rows, const kz__service *service, kz_error *err);

/* Grants leases. `service` is updated (high_ms, cursor, generation, granted) and must be stored with the rows.
 *
 * In order: now_ms below service->high_ms counts as high_ms, and high_ms becomes it. Up to KZ__SWEEP_ROWS ended rows
 * return to free space. A request seen before, with leases not released and not ended, gets those again (KZ_CONFLICT if
 * `asked` differs); it still counts as a write. KZ_INVALID: throughput 0 or above max_throughput, or more leases than
 * KZ_GRANT_LEASES_MAX. KZ_UNAVAILABLE while everything is set aside. Then ceil(throughput / 2^seq_bits) usual blocks
 * (or one block of the smallest sufficient height, with high_blocks), fewer if fewer are free, and one for a lease's
 * length after somebody got none: who holds nothing comes before who wants more. KZ_NO_FREE_NODE for none: before that,
 * ended rows beyond the first KZ__SWEEP_ROWS are swept too, and the caller may commit that sweep (with high_ms) so that
 * the next call need not repeat it.
 *
 * A usual block is the first aligned one wholly free at or after the cursor, in the lower half, going round once; a
 * node number that is out at any height is passed over; a block whose twin is free is preferred among the first
 * KZ__SEARCH_BLOCKS found. The cursor moves behind it. A higher block is searched from slot 0, and the cursor stays.
 * The lease is [now, now + lease_ms), its twin, if free, [now, now + KZ__TWIN_LEASES * lease_ms); else the answer has
 * fallback_created = fallback_expired = expired. The grant lists leases in order of slot. */
kz_status kz__table_acquire(const kz__rows *rows, kz__service *service, const kz__table_request *request,
                            kz_grant *grant, kz_error *err);

/* Ends a lease: its floor and its twin's become clamp(timestamp + 1, start, end). A twin outlives its lease's window,
 * and a release ends it then too, even if somebody else holds the number by now. KZ_NOT_FOUND: no lease of that number,
 * and no twin of one, is out that was neither released nor ended; KZ_FORBIDDEN: none with that secret. Nothing changes
 * then. */
kz_status kz__table_release(const kz__rows *rows, kz__service *service, uint32_t node, const char *secret,
                            int64_t timestamp_ms, int64_t now_ms, kz_error *err);

/* Reserves nodes, or ends that: all or nothing. A service with reservations counts as one that has granted: its slots
 * are fixed. KZ_INVALID, KZ_IN_USE. */
kz_status kz__table_reserve(const kz__rows *rows, kz__service *service, const kz_reservation *reservation,
                            int64_t now_ms, kz_error *err);

/* The same for whoever cannot see the secret, only tell whether it is the right one. */
typedef bool (*kz__secret_is)(void *ctx, const char *secret);
kz_status kz__table_release_if(const kz__rows *rows, kz__service *service, uint32_t node, kz__secret_is is, void *ctx,
                               int64_t timestamp_ms, int64_t now_ms, kz_error *err);

/* The settings a service would have with these changes. */
kz_status kz__service_with(const kz__service *stored, const kz_service_settings *changes, kz__service *wanted,
                           kz_error *err);

/* May the stored service be used with these settings? KZ_MISMATCH names both values. Node and sequence bits, lease_ms,
 * max_throughput and high_blocks are taken over into `stored`; the rest must agree once a lease was granted. */
kz_status kz__service_adopt(kz__service *stored, const kz__service *wanted, kz_error *err);

/* The settings for a layout: KZ_INVALID for one that cannot be leased (no node bits, decode only). */
kz_status kz__service_init(kz__service *service, const char *name, const kz_layout *layout, int64_t lease_ms,
                           kz_error *err);

/* May it be forgotten, as far as its settings go? It granted leases, has those of `like`, nothing is set aside in it,
 * and it is neither the default nor called as `like` is. */
bool kz__service_is_like(const kz__service *service, const kz__service *like);

/* The layout of a service's usual blocks: a preset, if it equals one. */
void kz__service_layout(const kz__service *service, kz_layout *layout);

/* Copies the part of a grant that is filled. */
void kz__grant_copy(kz_grant *to, const kz_grant *from);

#endif
