/* What is set aside: slots that are not granted before a time, whether they are free or out. What is out there stays
 * with its holder and ends by itself. A quarantine, a store that may have forgotten grants and a reservation are the
 * same thing: a range, a time and a reason. */
#ifndef KZ_CORE_ASIDE_H
#define KZ_CORE_ASIDE_H

#include <kazahana.h>

#define KZ__ASIDES         12
#define KZ__RESERVED_MAX   6                   /* of them; so there is always room for as many timed ones */
#define KZ__ALL_SLOTS      (UINT64_C(1) << 62) /* as `hi`, from 0: every slot, whatever the layout */
#define KZ__NOTE_SIZE      64
#define KZ__ASIDE_TEXT_MAX (KZ__ASIDES * (70 + KZ__NOTE_SIZE))

typedef enum kz__why {
    KZ__WHY_PLACE = 'p',    /* another copy of the store took over, and may have forgotten grants here */
    KZ__WHY_EMPTY = 'q',    /* the store was found empty */
    KZ__WHY_RESERVED = 'r', /* kept for somebody who takes no leases */
} kz__why;

/* Slots [lo, hi) of the leased half; the twins go with their leases. */
typedef struct kz__aside {
    uint64_t lo, hi;  /* equal: this entry is not used */
    int64_t until_ms; /* 0: for ever */
    char why;
    char note[KZ__NOTE_SIZE]; /* for people; no control characters */
} kz__aside;

/* Adds one. Those it covers and outlasts go; a reservation replaces reservations only, since it can be ended. No room
 * for a timed one: all is set aside, for as long as the longest. False: there are KZ__RESERVED_MAX reservations
 * already. */
bool kz__aside_add(kz__aside asides[static KZ__ASIDES], const kz__aside *one, int64_t now_ms);

/* Ends the reservation of [lo, hi), in whole or in part. False: it would leave too many pieces. */
bool kz__aside_end(kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, int64_t now_ms);

/* May [lo, hi) be granted? If not, *past is where to look on. */
bool kz__may_grant(const kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, int64_t now_ms, uint64_t *past);

/* The first in force that meets [lo, hi) and is of that kind, or NULL. */
const kz__aside *kz__aside_at(const kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, char why,
                              int64_t now_ms);

/* When something that is not granted now may be: the earliest end of what is in force and not for ever; NULL if there
 * is none. */
const kz__aside *kz__aside_until(const kz__aside asides[static KZ__ASIDES], int64_t now_ms);

bool kz__aside_in_force(const kz__aside *one, int64_t now_ms);

/* All of them as one text, a line each: why, lo, hi, until, note. What has ended is left out. */
void kz__aside_text(const kz__aside asides[static KZ__ASIDES], int64_t now_ms, char text[static KZ__ASIDE_TEXT_MAX]);

/* And back. KZ_STORE: it makes no sense. */
kz_status kz__aside_parse(const char *text, kz__aside asides[static KZ__ASIDES], kz_error *err);

#endif
