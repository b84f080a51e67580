/* Who gets IDs next: see turns.h. */
#include "server/turns.h"

static void append(turn_list *list, turn *one)
{
    one->next = NULL;
    *(list->first ? &list->last->next : &list->first) = one;
    list->last = one;
}

void turns_add(turns *all, turn *one)
{
    append(one->count <= TURN_SHORT ? &all->of_short : &all->of_long, one);
    all->waiting++;
    all->owed += one->count - one->given;
}

turn *turns_take(turns *all, bool long_too)
{
    long_too = long_too && all->of_long.first;
    bool take_long = long_too && (!all->of_short.first || all->shorts >= TURN_SHORTS_MAX);
    turn_list *list = take_long ? &all->of_long : &all->of_short;
    turn *one = list->first;
    if (!one)
        return NULL;
    list->first = one->next;
    all->shorts = take_long ? 0 : all->shorts + 1;
    all->waiting--;
    all->owed -= one->count - one->given;
    return one;
}

size_t turn_size(const turn *one, size_t piece)
{
    size_t left = one->count - one->given;
    return one->count <= TURN_SHORT || left < piece ? left : piece;
}
