/* What is set aside: slots that are not granted before a time. */
#include "core/aside.h"
#include "core/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool kz__aside_in_force(const kz__aside *one, int64_t now_ms)
{
    return one->lo < one->hi && (!one->until_ms || one->until_ms > now_ms);
}

static bool outlasts(const kz__aside *one, const kz__aside *other)
{
    return !one->until_ms || (other->until_ms && one->until_ms >= other->until_ms);
}

static bool is_reserved(const kz__aside *one)
{
    return one->why == KZ__WHY_RESERVED;
}

static bool meets(const kz__aside *one, uint64_t lo, uint64_t hi)
{
    return one->lo < hi && lo < one->hi;
}

/* Room for one more of its kind; those that have ended go. */
static kz__aside *room_for(kz__aside *asides, bool reserved, int64_t now_ms)
{
    kz__aside *room = NULL;
    size_t count = 0;
    for (size_t i = 0; i < KZ__ASIDES; i++) {
        if (!kz__aside_in_force(&asides[i], now_ms))
            *(room = &asides[i]) = (kz__aside){0};
        else
            count += is_reserved(&asides[i]) == reserved;
    }
    return count < (reserved ? KZ__RESERVED_MAX : KZ__ASIDES - KZ__RESERVED_MAX) ? room : NULL;
}

bool kz__aside_add(kz__aside asides[static KZ__ASIDES], const kz__aside *one, int64_t now_ms)
{
    kz__aside new = *one;
    for (;;) {
        for (size_t i = 0; i < KZ__ASIDES; i++) {
            const kz__aside *old = &asides[i];
            if (new.lo <= old->lo && old->hi <= new.hi &&outlasts(&new, old) && is_reserved(&new) == is_reserved(old))
                asides[i] = (kz__aside){0};
        }
        kz__aside *room = room_for(asides, is_reserved(&new), now_ms);
        if (room)
            *room = new;
        if (room || is_reserved(&new))
            return room;
        for (size_t i = 0; i < KZ__ASIDES; i++)
            if (!is_reserved(&asides[i]) && kz__aside_in_force(&asides[i], now_ms) && outlasts(&asides[i], &new))
                new.until_ms = asides[i].until_ms;
        new.lo = 0;
        new.hi = KZ__ALL_SLOTS;
    }
}

bool kz__aside_end(kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, int64_t now_ms)
{
    kz__aside left[KZ__ASIDES];
    memcpy(left, asides, sizeof left);
    for (size_t i = 0; i < KZ__ASIDES; i++) {
        kz__aside was = asides[i];
        if (!is_reserved(&was) || !meets(&was, lo, hi))
            continue;
        left[i] = (kz__aside){0};
        kz__aside below = was, above = was;
        below.hi = lo;
        above.lo = hi;
        if ((was.lo < lo && !kz__aside_add(left, &below, now_ms)) ||
            (hi < was.hi && !kz__aside_add(left, &above, now_ms)))
            return false;
    }
    memcpy(asides, left, sizeof left);
    return true;
}

bool kz__may_grant(const kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, int64_t now_ms, uint64_t *past)
{
    *past = lo;
    for (size_t i = 0; i < KZ__ASIDES; i++)
        if (kz__aside_in_force(&asides[i], now_ms) && meets(&asides[i], lo, hi) && asides[i].hi > *past)
            *past = asides[i].hi;
    return *past == lo;
}

const kz__aside *kz__aside_at(const kz__aside asides[static KZ__ASIDES], uint64_t lo, uint64_t hi, char why,
                              int64_t now_ms)
{
    for (size_t i = 0; i < KZ__ASIDES; i++)
        if (kz__aside_in_force(&asides[i], now_ms) && meets(&asides[i], lo, hi) && asides[i].why == why)
            return &asides[i];
    return NULL;
}

const kz__aside *kz__aside_until(const kz__aside asides[static KZ__ASIDES], int64_t now_ms)
{
    const kz__aside *first = NULL;
    for (size_t i = 0; i < KZ__ASIDES; i++)
        if (asides[i].until_ms && kz__aside_in_force(&asides[i], now_ms) &&
            (!first || asides[i].until_ms < first->until_ms))
            first = &asides[i];
    return first;
}

void kz__aside_text(const kz__aside asides[static KZ__ASIDES], int64_t now_ms, char text[static KZ__ASIDE_TEXT_MAX])
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < KZ__ASIDES; i++)
        if (kz__aside_in_force(&asides[i], now_ms))
            length += (size_t)snprintf(text + length, KZ__ASIDE_TEXT_MAX - length,
                                       "%c %" PRIu64 " %" PRIu64 " %" PRId64 " %s\n", asides[i].why, asides[i].lo,
                                       asides[i].hi, asides[i].until_ms, asides[i].note);
}

kz_status kz__aside_parse(const char *text, kz__aside asides[static KZ__ASIDES], kz_error *err)
{
    kz__aside read[KZ__ASIDES] = {0};
    size_t count = 0;
    for (const char *line = text, *end; *line; line = end + 1) {
        kz__aside one = {0};
        int at = 0;
        end = strchr(line, '\n');
        bool good = end && count < KZ__ASIDES &&
                    sscanf(line, "%c %" SCNu64 " %" SCNu64 " %" SCNd64 "%n", &one.why, &one.lo, &one.hi, &one.until_ms,
                           &at) == 4 &&
                    line[at] == ' ' && line + at < end && (size_t)(end - line) - (size_t)at <= KZ__NOTE_SIZE &&
                    one.lo < one.hi && one.hi <= KZ__ALL_SLOTS && one.until_ms >= 0 && strchr("pqr", one.why);
        if (!good)
            return kz__fail(err, KZ_STORE, "the lease table's list of what is set aside makes no sense: \"%.60s\"",
                            line);
        memcpy(one.note, line + at + 1, (size_t)(end - line) - (size_t)at - 1);
        read[count++] = one;
    }
    memcpy(asides, read, sizeof read);
    return KZ_OK;
}
