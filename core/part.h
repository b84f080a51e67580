/* The part of a far table that came over the wire, for one service. The rules of core/table run over it as over any
 * rows; a question that it cannot answer is asked of the store, and what they changed goes back in one commit.
 *
 * Two things are kept for each row and each free range: what the store has, and what it is to have. Between them lies
 * the net change. Whatever the store has not told yet is untouched by the rules, since they change only what they asked
 * for: so the store may be asked in the middle of an operation, and answers from before it. */
#ifndef KZ_CORE_PART_H
#define KZ_CORE_PART_H

#include "core/table.h"

typedef struct kz__part kz__part;

typedef enum kz__part_kind {
    KZ__PART_FREE,    /* free ranges with hi > from, in order of hi */
    KZ__PART_ENDED,   /* rows with end_ms <= ms that come after (after_ms, from), in order of end_ms and lo */
    KZ__PART_AT,      /* the rows that begin at `slots` */
    KZ__PART_REQUEST, /* all rows of `request`, twins too */
} kz__part_kind;

#define KZ__PART_SLOTS 128

typedef struct kz__part_question {
    kz__part_kind kind;
    uint64_t from;
    int64_t ms, after_ms;
    uint8_t request[KZ_REQUEST_ID_SIZE];
    size_t slot_count;
    uint64_t slots[KZ__PART_SLOTS];
} kz__part_question;

/* Asks the store, and tells the part by the calls below: at least the first item, and what it then knows. */
typedef kz_status (*kz__part_ask)(void *ctx, kz__part *part, const kz__part_question *question, kz_error *err);

/* NULL: no memory. */
kz__part *kz__part_new(kz__part_ask ask, void *ctx);
void kz__part_free(kz__part *part);

/* Begins anew and knows nothing. `heights` has a bit for every height (seq_bits) that a row of the service ever had;
 * it grows with what is granted, and is stored with the service: a number is then looked up by first slot.
 * KZ_NO_MEMORY.
 */
kz_status kz__part_begin(kz__part *part, uint64_t heights, kz_error *err);
uint64_t kz__part_heights(const kz__part *part);

/* For a service that is new: nothing is there, so there is nothing to ask. */
void kz__part_know_all(kz__part *part);

/* What the store has. A row or range may be told again. KZ_STORE: it contradicts what is known. */
kz_status kz__part_tell_row(kz__part *part, const kz__row *row, kz_error *err);
/* All free ranges with from < hi <= the last one's hi were told; with `last` there are no more of them. */
kz_status kz__part_tell_free(kz__part *part, uint64_t from, const kz__range *ranges, size_t count, bool last,
                             kz_error *err);
/* These were told, as far as they exist: all rows up to (end_ms, lo) in that order; those at a slot; of a request. */
void kz__part_know_ended(kz__part *part, int64_t end_ms, uint64_t lo);
kz_status kz__part_know_at(kz__part *part, uint64_t slot, kz_error *err);
kz_status kz__part_know_request(kz__part *part, const uint8_t *request, kz_error *err);

/* The rows as the rules see them. */
kz__rows kz__part_rows(kz__part *part);

/* Asks at once for everything that a release of this number can want. */
kz_status kz__part_want_node(kz__part *part, const kz__service *service, uint32_t node, kz_error *err);

/* Ends an operation: what it changed stays for the commit, or is undone. Several may go into one commit. */
void kz__part_keep(kz__part *part);
void kz__part_undo(kz__part *part);

/* The net change: what goes away, then what is written over, then what is new, so that no two rows ever overlap on the
 * way. Stops at the first status but KZ_OK. */
typedef struct kz__part_change {
    const kz__row *row;     /* else a range, which is named by its hi */
    const kz__range *range; /* of what was, if it goes away; else of what is to be */
    bool gone;              /* else it is written, over what has the same lo (a row) or hi (a range) */
    bool had;               /* written: the store has one of that name */
} kz__part_change;

typedef kz_status (*kz__part_each)(void *ctx, const kz__part_change *change, kz_error *err);
kz_status kz__part_changes(kz__part *part, kz__part_each each, void *ctx, kz_error *err);

#endif
