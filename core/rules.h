/* The rules that the argument for uniqueness rests on. A build with KZ_TEST_HOOKS can switch each of them off, so that
 * the simulator can show that it is needed; any other build has them all, as constants. */
#ifndef KZ_CORE_RULES_H
#define KZ_CORE_RULES_H

#include <stdbool.h>

typedef enum kz__rule {
    KZ__RULE_NO_OVERLAP,        /* table: a block is granted again only when its floor has passed */
    KZ__RULE_HALF_OPEN,         /* generator: the point at a window's end is the next holder's */
    KZ__RULE_TIME_FORWARD,      /* table: its time never goes back */
    KZ__RULE_RELEASE_WATERMARK, /* table: a released block's floor is the release's timestamp + 1 */
    KZ__RULE_RELEASE_BY_SECRET, /* table: a release names a lease, not a node */
    KZ__RULE_ONLY_INSIDE,       /* generator: mints only inside what it holds, whatever the clock says */
    KZ__RULE_ONLY_UPWARD,       /* generator: each point once */
    KZ__RULE_RELEASE_LAST, /* generator: gives a rectangle up before it reads the watermark and sends the release */
    KZ__RULE_NEVER_RETURN, /* generator: never comes back to a lease of an earlier life */
    KZ__RULE_FORK,         /* generator: a forked child holds nothing */
    /* A store that was replaced by an older copy (core/place.h): */
    KZ__RULE_PLACE,           /* table: sets aside what may have been forgotten */
    KZ__RULE_PLACE_WINDOW,    /* table: for as long as the longest window, */
    KZ__RULE_PLACE_MARGIN,    /* table: and a margin for clocks and a predecessor that goes on */
    KZ__RULE_PLACE_GRANTABLE, /* table: as many blocks as could be granted, not as many slots */
    KZ__RULE_PLACE_PARTS,     /* table: high blocks keep to one half, which is set aside */
    KZ__RULE_PLACE_AGE,       /* table: everything, if the copy is old */
    KZ__RULE_PLACE_COUNTED,   /* table: everything, if it is not the next in line */
    KZ__RULE_PLACE_CREATED,   /* table: a service made soon after a change may have been made before */
    KZ__RULE_PLACE_FIRST,     /* store: the place is compared in every write, before its time moves */
    KZ__RULES
} kz__rule;

#ifdef KZ_TEST_HOOKS
extern unsigned kz__rules_off;
#define KZ__RULE(name) (!(kz__rules_off & (1u << KZ__RULE_##name)))
#else
#define KZ__RULE(name) true
#endif

#endif
