/* Who gets IDs next, among those who wait: short requests first, long ones piece by piece in turns. A connection waits
 * for one answer at a time, so turns by request are turns by connection. Pure: no lock, no clock. */
#ifndef KZ_SERVER_TURNS_H
#define KZ_SERVER_TURNS_H

#include <stdbool.h>
#include <stddef.h>

#define TURN_SHORT      16 /* IDs: up to here a request is served whole */
#define TURN_SHORTS_MAX 64 /* short ones in a row, while a long one waits */

typedef struct turn {
    size_t count, given; /* IDs wanted, and there already */
    struct turn *next;
} turn;

typedef struct turn_list {
    turn *first, *last;
} turn_list;

typedef struct turns {
    turn_list of_short, of_long;
    unsigned shorts;      /* served since a long one had its turn */
    size_t waiting, owed; /* requests, and the IDs they still want */
} turns;

/* To the end of its line. Also after a turn that was not the last. */
void turns_add(turns *all, turn *one);
/* Takes out the one whose turn it is; NULL: nobody's. `long_too`: a long one may have its turn now. */
turn *turns_take(turns *all, bool long_too);
/* How many IDs it gets in this turn. */
size_t turn_size(const turn *one, size_t piece);

#endif
