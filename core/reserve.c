/* Reservations: nodes that are set aside by hand. */
#include "core/error.h"
#include "core/find_block.h"

#include <inttypes.h>
#include <string.h>

/* The lease that is out on a slot, whatever its height. */
static kz_status lease_at(const kz__rows *rows, const kz__service *service, uint64_t slot, kz__row *row, kz_error *err)
{
    for (unsigned height = 0; height < kz__service_slot_bits(service); height++) {
        kz_status status = rows->out_at(rows->ctx, slot >> height << height, row, err);
        if (status != KZ_NOT_FOUND && (status || row->hi > slot))
            return status;
    }
    return KZ_NOT_FOUND;
}

/* KZ_IN_USE, if one is out and has not ended. What has ended is as good as free. */
static kz_status check_free(const kz__rows *rows, const kz__service *service, kz__range wanted, int64_t now_ms,
                            kz_error *err)
{
    for (uint64_t slot = wanted.lo; slot < wanted.hi;) {
        kz__range range;
        kz_status status = rows->free_after(rows->ctx, slot, &range, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
        if (status == KZ_OK && range.lo <= slot) {
            slot = range.hi;
            continue;
        }
        kz__row row;
        status = lease_at(rows, service, slot, &row, err);
        if (status)
            return status == KZ_NOT_FOUND
                       ? kz__fail(err, KZ_STORE,
                                  "the lease table contradicts itself: slot %" PRIu64 " is neither free nor out", slot)
                       : status;
        if (row.end_ms > now_ms)
            return kz__fail(err, KZ_IN_USE,
                            "node %" PRIu32 " of service %s is leased for another %" PRId64
                            " s: reserve it then, or release it",
                            row.node, service->name, (row.end_ms - now_ms + 999) / 1000);
        slot = row.hi;
    }
    return KZ_OK;
}

static kz_status check_note(const char *note, kz_error *err)
{
    if (note && strlen(note) >= KZ__NOTE_SIZE)
        return kz__fail(err, KZ_INVALID, "a note of %zu bytes: it has at most %d", strlen(note), KZ__NOTE_SIZE - 1);
    for (const char *at = note; at && *at; at++)
        if ((unsigned char)*at < 32 || *at == 127)
            return kz__fail(err, KZ_INVALID, "a note has no control characters");
    return KZ_OK;
}

static kz_status slots_of(const kz__service *service, const kz_node_range *nodes, kz__range *slots, kz_error *err)
{
    uint64_t count = kz__service_half(service) >> service->seq_bits;
    if (nodes->first > nodes->last || nodes->last >= count)
        return kz__fail(err, KZ_INVALID, "nodes %" PRIu32 "-%" PRIu32 ": service %s has 0-%" PRIu64 " to lease",
                        nodes->first, nodes->last, service->name, count - 1);
    *slots = (kz__range){(uint64_t)nodes->first << service->seq_bits, ((uint64_t)nodes->last + 1) << service->seq_bits};
    return KZ_OK;
}

kz_status kz__table_reserve(const kz__rows *rows, kz__service *service, const kz_reservation *r, int64_t now_ms,
                            kz_error *err)
{
    kz__service after = *service;
    kz__aside one = {.until_ms = r->until_ms, .why = KZ__WHY_RESERVED};
    kz_status status = r->end ? KZ_OK : check_note(r->note, err);
    if (status == KZ_OK && !r->end && r->until_ms && r->until_ms <= now_ms)
        status = kz__fail(err, KZ_INVALID, "the reservation would have ended %" PRId64 " ms ago", now_ms - r->until_ms);
    if (status)
        return status;
    if (r->note && !r->end)
        strcpy(one.note, r->note);
    for (size_t i = 0; i < r->count && status == KZ_OK; i++) {
        kz__range slots = {0, 0};
        status = slots_of(service, &r->ranges[i], &slots, err);
        if (status == KZ_OK && !r->end)
            status = check_free(rows, service, slots, now_ms, err);
        one.lo = slots.lo;
        one.hi = slots.hi;
        if (status == KZ_OK && !(r->end ? kz__aside_end(after.asides, slots.lo, slots.hi, now_ms)
                                        : kz__aside_add(after.asides, &one, now_ms)))
            status = kz__fail(err, KZ_INVALID,
                              "service %s would have more than %d reserved ranges: free some, or join "
                              "them",
                              service->name, KZ__RESERVED_MAX);
    }
    if (status)
        return status;
    *service = after;
    service->granted = true;
    service->generation++;
    if (service->high_ms < now_ms)
        service->high_ms = now_ms;
    return KZ_OK;
}
