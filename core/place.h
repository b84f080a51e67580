/* Place: a store that forgot its last grants goes on beside them.
 *
 * A store may be replaced by a copy that lacks its last writes: a replica that was promoted, a backup that was put
 * back. What tells is its place, a text of the store's own that changes then. It is compared in every write, before
 * anything else. When it has changed, each service sets aside what the lost writes may have granted, and goes on
 * granting behind it:
 *
 * - a range from the cursor on that holds K blocks which this copy could grant itself: what it could, the lost writes'
 *   author could too, so K forgotten grants lie inside. K is a quarter of the leased blocks, at least 8.
 * - the half that high blocks go into, since their search begins at its start and not at the cursor. The other half is
 *   used from then on.
 * - everything, if there are fewer than K such blocks, if the copy is older than half a lease, or if it is not the next
 *   in line: another one may have granted in between.
 *
 * until every forgotten window has ended: four leases from the change, and a margin for clocks that differ and for a
 * predecessor that goes on granting for a while. Only more than K forgotten grants, or a predecessor that outlives the
 * margin, can be granted twice. */
#ifndef KZ_CORE_PLACE_H
#define KZ_CORE_PLACE_H

#include "core/table.h"

#define KZ__PLACE_SIZE      129
#define KZ__PLACE_TEXT_SIZE (KZ__PLACE_SIZE + 100)
#define KZ__PLACE_MARGIN_MS 60000 /* or one lease, if that is longer */
#define KZ__PLACE_BLOCKS    8     /* the smallest K */
#define KZ__ERA             (UINT64_C(1) << 32)

/* What a store remembers of its place, beside its time. All zero in a new store. */
typedef struct kz__place {
    char name[KZ__PLACE_SIZE];   /* of the last write; no control characters; "": a store that cannot forget */
    int64_t since_ms, before_ms; /* the table's time at the last change, and at the one before it; 0: there was none */
    int64_t copy_ms;             /* how far the copy knew time when it took over */
    int64_t margin_ms;           /* 0: KZ__PLACE_MARGIN_MS; a longer lease's length counts; negative: none */
    unsigned passed;             /* how many took over since the place before; 1: it is the next in line */
    char why;
} kz__place;

/* At the start of every write: is `name` another place? Then the generation begins a new era, and true says that this
 * is to be stored even if the call fails. `passed`: as above, 0 if the store cannot tell. `high_ms` is the time that
 * the store remembers, `now_ms` what it will answer now. */
bool kz__place_moved(kz__place *place, const char *name, unsigned passed, int64_t high_ms, int64_t now_ms,
                     uint64_t *generation);

/* The store has lost everything, or must be taken for one that has: nothing is granted for four leases and the margin
 * (negative: none). */
void kz__place_lost(kz__place *place, char why, int64_t margin_ms, int64_t now_ms, uint64_t *generation);

/* A service that is made now. If the place changed lately, its creation may be what was lost: it starts as one that has
 * the change before it. */
void kz__place_created(kz__service *service, const kz__place *place);

/* In every write to a service, before anything else: sets aside what the last change of place may have made it forget,
 * once. *changed: the service is to be stored even if the call fails. */
kz_status kz__place_settle(const kz__rows *rows, kz__service *service, const kz__place *place, int64_t now_ms,
                           bool *changed, kz_error *err);

/* Does the table know a lease that somebody holds? If not, and it was not in what is set aside already, the table has
 * gone back in time, whatever its place says. */
kz_status kz__place_knows(const kz__rows *rows, const kz__service *service, const kz_lease *holds, int64_t now_ms,
                          bool *knows, kz_error *err);

/* As one text, and back (KZ_STORE: it makes no sense). */
void kz__place_text(const kz__place *place, char text[static KZ__PLACE_TEXT_SIZE]);
kz_status kz__place_parse(const char *text, kz__place *place, kz_error *err);

#endif
