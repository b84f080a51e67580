/* Place: what a service sets aside when another copy of its store has taken over. */
#include "core/place.h"
#include "core/error.h"
#include "core/find_block.h"
#include "core/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void move(kz__place *place, char why, unsigned passed, int64_t high_ms, int64_t now_ms, uint64_t *generation)
{
    place->before_ms = place->since_ms;
    /* Two changes are two, even within one millisecond: services tell them apart by this. */
    place->since_ms = now_ms > place->since_ms ? now_ms : place->since_ms + 1;
    place->copy_ms = high_ms;
    place->passed = passed ? passed : 1;
    place->why = why;
    *generation += place->passed * KZ__ERA;
    /* Where nobody counts, two copies may have taken over from one: time tells the later from the earlier. */
    if (!passed && *generation < (uint64_t)now_ms * 1000)
        *generation = (uint64_t)now_ms * 1000;
}

bool kz__place_moved(kz__place *place, const char *name, unsigned passed, int64_t high_ms, int64_t now_ms,
                     uint64_t *generation)
{
    if (strcmp(place->name, name) == 0)
        return false;
    bool first = !*place->name;
    snprintf(place->name, sizeof place->name, "%s", name);
    if (first)
        return true;
    if (place->margin_ms < 0)
        place->margin_ms = 0;
    move(place, KZ__WHY_PLACE, KZ__RULE(PLACE_COUNTED) ? passed : 1, high_ms, now_ms, generation);
    return true;
}

void kz__place_lost(kz__place *place, char why, int64_t margin_ms, int64_t now_ms, uint64_t *generation)
{
    move(place, why, 0, 0, now_ms, generation);
    place->passed = 2;
    place->margin_ms = margin_ms;
}

void kz__place_created(kz__service *service, const kz__place *place)
{
    service->settled_ms = KZ__RULE(PLACE_CREATED) ? place->before_ms : place->since_ms;
}

static int64_t until(const kz__place *place, const kz__service *service)
{
    int64_t least_ms = place->margin_ms ? place->margin_ms : KZ__PLACE_MARGIN_MS;
    int64_t margin_ms = least_ms > service->lease_ms ? least_ms : service->lease_ms;
    int64_t leases = KZ__RULE(PLACE_WINDOW) ? KZ__TWIN_LEASES : 1;
    return place->since_ms + leases * service->lease_ms +
           (KZ__RULE(PLACE_MARGIN) && place->margin_ms >= 0 ? margin_ms : 0);
}

static void set_aside(kz__service *service, kz__range range, const kz__place *place, int64_t now_ms)
{
    kz__aside one = {.lo = range.lo, .hi = range.hi, .until_ms = until(place, service), .why = place->why};
    kz__aside_add(service->asides, &one, now_ms);
}

/* From the cursor on, up to where K grantable blocks lie behind it. False: there are not that many. */
static kz_status set_range_aside(const kz__rows *rows, kz__service *service, const kz__place *place, kz__range part,
                                 int64_t now_ms, bool *enough, kz_error *err)
{
    uint64_t half = kz__service_half(service), cursor = service->cursor < half ? service->cursor : 0;
    uint64_t wanted = (half >> service->seq_bits) / 4, count, end = cursor;
    if (wanted < KZ__PLACE_BLOCKS)
        wanted = KZ__PLACE_BLOCKS;
    kz_status status = kz__count_blocks(rows, service, part, wanted, place->copy_ms, &count, &end, err);
    if (status)
        return status;
    *enough = count == wanted;
    if (!KZ__RULE(PLACE_GRANTABLE))
        end = cursor + (wanted << service->seq_bits);
    if (!*enough)
        return KZ_OK;
    set_aside(service, (kz__range){cursor, end < half ? end : half}, place, now_ms);
    if (end > half)
        set_aside(service, (kz__range){0, end - half}, place, now_ms);
    return KZ_OK;
}

kz_status kz__place_settle(const kz__rows *rows, kz__service *service, const kz__place *place, int64_t now_ms,
                           bool *changed, kz_error *err)
{
    service->parted = *place->name != '\0';
    *changed = service->settled_ms != place->since_ms;
    if (!*changed)
        return KZ_OK;
    bool in_line = place->passed == 1 && service->settled_ms == place->before_ms;
    if (KZ__RULE(PLACE_AGE) && place->since_ms - place->copy_ms > service->lease_ms / 2)
        in_line = false;
    service->settled_ms = place->since_ms;
    if (!KZ__RULE(PLACE) || until(place, service) <= now_ms)
        return KZ_OK;
    kz__range part = KZ__RULE(PLACE_PARTS) ? kz__service_part(service) : (kz__range){0, 0};
    bool enough = false;
    kz_status status = in_line ? set_range_aside(rows, service, place, part, now_ms, &enough, err) : KZ_OK;
    if (status)
        return status;
    if (enough && part.hi) {
        set_aside(service, part, place, now_ms);
        service->part ^= 1;
    }
    if (!enough)
        set_aside(service, (kz__range){0, KZ__ALL_SLOTS}, place, now_ms);
    return KZ_OK;
}

kz_status kz__place_knows(const kz__rows *rows, const kz__service *service, const kz_lease *holds, int64_t now_ms,
                          bool *knows, kz_error *err)
{
    uint64_t lo = (uint64_t)holds->id << holds->seq_bits, past;
    kz__row row;
    *knows = holds->expired_ms <= now_ms || !kz__may_grant(service->asides, lo, lo + 1, now_ms, &past);
    if (*knows)
        return KZ_OK;
    kz_status status = rows->out_at(rows->ctx, lo, &row, err);
    *knows = status == KZ_OK && strcmp(row.secret, holds->secret) == 0;
    return status == KZ_NOT_FOUND ? KZ_OK : status;
}

void kz__place_text(const kz__place *place, char text[static KZ__PLACE_TEXT_SIZE])
{
    snprintf(text, KZ__PLACE_TEXT_SIZE, "%c %u %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s",
             place->why ? place->why : '-', place->passed, place->since_ms, place->before_ms, place->copy_ms,
             place->margin_ms, place->name);
}

kz_status kz__place_parse(const char *text, kz__place *place, kz_error *err)
{
    kz__place read = {0};
    int at = 0;
    if (*text && (sscanf(text, "%c %u %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &read.why, &read.passed,
                         &read.since_ms, &read.before_ms, &read.copy_ms, &read.margin_ms, &at) != 6 ||
                  text[at] != ' ' || strlen(text + at + 1) >= sizeof read.name || !strchr("-pq", read.why) ||
                  read.since_ms < read.before_ms || read.before_ms < 0))
        return kz__fail(err, KZ_STORE, "the lease table's place makes no sense: \"%.60s\"", text);
    if (*text)
        strcpy(read.name, text + at + 1);
    *place = read;
    return KZ_OK;
}
