/* Services: the settings of an ID space, and which of them may change. */
#include "core/error.h"
#include "core/find_block.h"

#include <inttypes.h>
#include <string.h>

/* Slots stay below 2^62, so that sums of them fit in the signed integers of every store. */
#define SLOT_BITS_MAX 62

kz_status kz__service_init(kz__service *service, const char *name, const kz_layout *layout, int64_t lease_ms,
                           kz_error *err)
{
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(layout, text);
    if (layout->flags & (KZ_LAYOUT_DECODE_ONLY | KZ_LAYOUT_NODE_LOWEST) || layout->unit_ms != 1)
        return kz__fail(err, KZ_INVALID, "layout %s can only be decoded, not leased",
                        *layout->name ? layout->name : text);
    unsigned bits = (unsigned)layout->node_bits + layout->seq_bits;
    if (!layout->node_bits)
        return kz__fail(err, KZ_INVALID, "layout %s has no node bits, so it cannot be leased", text);
    if (bits > SLOT_BITS_MAX || bits + layout->time_bits > 64)
        return kz__fail(err, KZ_INVALID, "layout %s leaves too few bits for the time to be leased", text);
    if (lease_ms < KZ__LEASE_MS_MIN || lease_ms > KZ__LEASE_MS_MAX)
        return kz__fail(err, KZ_INVALID, "a lease of %" PRId64 " ms: it must last 100 ms to 7 days", lease_ms);
    if (strlen(name) >= sizeof service->name)
        return kz__fail(err, KZ_INVALID, "service %.20s...: a name has at most %d characters", name,
                        KZ_SERVICE_SIZE - 1);
    *service = (kz__service){.epoch_ms = layout->epoch_ms,
                             .reserved_bits = (uint8_t)(64 - bits - layout->time_bits),
                             .time_bits = layout->time_bits,
                             .node_bits = layout->node_bits,
                             .seq_bits = layout->seq_bits,
                             .max_throughput = KZ__MAX_THROUGHPUT_DEFAULT,
                             .lease_ms = lease_ms};
    strcpy(service->name, name);
    return KZ_OK;
}

bool kz__service_is_like(const kz__service *service, const kz__service *like)
{
    for (size_t i = 0; i < KZ__ASIDES; i++)
        if (service->asides[i].lo < service->asides[i].hi)
            return false;
    return service->granted && strcmp(service->name, "default") != 0 && strcmp(service->name, like->name) != 0 &&
           service->epoch_ms == like->epoch_ms && service->reserved_bits == like->reserved_bits &&
           service->time_bits == like->time_bits && service->node_bits == like->node_bits &&
           service->seq_bits == like->seq_bits && service->high_blocks == like->high_blocks &&
           service->max_throughput == like->max_throughput && service->lease_ms == like->lease_ms;
}

void kz__service_layout(const kz__service *service, kz_layout *layout)
{
    *layout = (kz_layout){.epoch_ms = service->epoch_ms,
                          .unit_ms = 1,
                          .time_bits = service->time_bits,
                          .node_bits = service->node_bits,
                          .seq_bits = service->seq_bits};
    const kz_layout *preset;
    for (size_t i = 0; (preset = kz_layout_preset(i)); i++)
        if (preset->epoch_ms == layout->epoch_ms && preset->unit_ms == 1 && preset->time_bits == layout->time_bits &&
            preset->node_bits == layout->node_bits && preset->seq_bits == layout->seq_bits &&
            !(preset->flags & KZ_LAYOUT_DECODE_ONLY)) {
            *layout = *preset;
            return;
        }
}

kz_status kz__service_adopt(kz__service *stored, const kz__service *wanted, kz_error *err)
{
    if (stored->granted &&
        (stored->epoch_ms != wanted->epoch_ms || stored->reserved_bits != wanted->reserved_bits ||
         stored->time_bits != wanted->time_bits || kz__service_slot_bits(stored) != kz__service_slot_bits(wanted))) {
        kz_layout was, is;
        kz__service_layout(stored, &was);
        kz__service_layout(wanted, &is);
        char was_text[KZ_LAYOUT_TEXT_SIZE], is_text[KZ_LAYOUT_TEXT_SIZE];
        kz_layout_text(&was, was_text);
        kz_layout_text(&is, is_text);
        return kz__fail(err, KZ_MISMATCH,
                        "service %s has granted leases with layout %s, not %s: its epoch, its time bits and the sum of "
                        "node and sequence bits are fixed; use that layout or another service",
                        stored->name, was_text, is_text);
    }
    stored->epoch_ms = wanted->epoch_ms;
    stored->reserved_bits = wanted->reserved_bits;
    stored->time_bits = wanted->time_bits;
    stored->node_bits = wanted->node_bits;
    stored->seq_bits = wanted->seq_bits;
    stored->high_blocks = wanted->high_blocks;
    stored->max_throughput = wanted->max_throughput;
    stored->lease_ms = wanted->lease_ms;
    return KZ_OK;
}

kz_status kz__service_with(const kz__service *stored, const kz_service_settings *changes, kz__service *wanted,
                           kz_error *err)
{
    *wanted = *stored;
    if (changes->layout) {
        kz__service fresh;
        kz_status status = kz__service_init(&fresh, stored->name, changes->layout, stored->lease_ms, err);
        if (status)
            return status;
        wanted->epoch_ms = fresh.epoch_ms;
        wanted->reserved_bits = fresh.reserved_bits;
        wanted->time_bits = fresh.time_bits;
        wanted->node_bits = fresh.node_bits;
        wanted->seq_bits = fresh.seq_bits;
    }
    if (changes->lease_ms && (changes->lease_ms < KZ__LEASE_MS_MIN || changes->lease_ms > KZ__LEASE_MS_MAX))
        return kz__fail(err, KZ_INVALID, "a lease of %lld ms: it must lie between %lld and %lld ms",
                        (long long)changes->lease_ms, (long long)KZ__LEASE_MS_MIN, (long long)KZ__LEASE_MS_MAX);
    if (changes->lease_ms)
        wanted->lease_ms = changes->lease_ms;
    if (changes->max_throughput)
        wanted->max_throughput = changes->max_throughput;
    if (changes->high_blocks)
        wanted->high_blocks = changes->high_blocks > 0;
    return KZ_OK;
}
