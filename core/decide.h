/* What to do now: mint, wait or fail. Everything that decides the next ID, as a function of what is handed in. */
#ifndef KZ_CORE_DECIDE_H
#define KZ_CORE_DECIDE_H

#include "core/plane.h"

/* How a generator behaves; fixed while it lives. */
typedef struct kz__policy {
    kz_backward backward;
    int64_t max_backward_ms; /* negative: no limit */
    int64_t max_ahead_ms;
} kz__policy;

/* Where a generator stands. */
typedef struct kz__stand {
    const kz__rect *rects;
    size_t count;
    unsigned slot_bits;
    int64_t end_ms;    /* the end of time for the layout: nothing is minted at or after it */
    kz_id next;        /* the lowest point not given yet */
    int64_t high_ms;   /* the highest clock reading, or what a restart resumed from if that is higher */
    int64_t resume_ms; /* below this, being behind is due to the mark on disk: up to grace_ms are allowed */
    int64_t grace_ms;
} kz__stand;

typedef enum kz__verdict {
    KZ__MINT,
    KZ__WAIT,
    KZ__NOTHING_HELD, /* from now on; another rectangle would help */
    KZ__REFUSE
} kz__verdict;

typedef struct kz__decision {
    kz__verdict verdict;
    kz__run run;         /* KZ__MINT */
    int64_t until_ms;    /* KZ__WAIT, and KZ__REFUSE with KZ_AGAIN: nothing can change before the clock reads this */
    bool exhausted;      /* the slots of this millisecond are used up */
    kz_status status;    /* KZ__REFUSE */
    int64_t backward_ms; /* KZ__REFUSE with KZ_CLOCK_BACKWARD */
    int64_t limit_ms;
} kz__decision;

/* `now_ms`: the ID clock; may be negative. `budget_ms`: how long the caller may still sleep, negative for no limit. */
kz__decision kz__decide(const kz__stand *stand, const kz__policy *policy, int64_t now_ms, int64_t budget_ms);

#endif
