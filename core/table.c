/* The rules of a lease table: what may be granted, when a block is free again, what a release ends. */
#include "core/table.h"
#include "core/error.h"
#include "core/find_block.h"
#include "core/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_live(const kz__row *row, int64_t now_ms)
{
    return !row->released && row->end_ms > now_ms;
}

/* The table's time: never before what was answered already. */
static int64_t forward(kz__service *service, int64_t now_ms)
{
    if (KZ__RULE(TIME_FORWARD) && now_ms < service->high_ms)
        now_ms = service->high_ms;
    service->high_ms = now_ms;
    return now_ms;
}

static kz_status contradiction(kz_error *err, const char *what, uint64_t lo, uint64_t hi)
{
    return kz__fail(err, KZ_STORE,
                    "the lease table contradicts itself: slots %" PRIu64 " to %" PRIu64 " are %s. Start with a new "
                    "store, and only when all leases have ended",
                    lo, hi, what);
}

/* Takes [lo, hi) out of free space. */
static kz_status take(const kz__rows *rows, uint64_t lo, uint64_t hi, kz_error *err)
{
    kz__range range;
    kz_status status = rows->free_after(rows->ctx, lo, &range, err);
    if (status == KZ_NOT_FOUND || (status == KZ_OK && (range.lo > lo || range.hi < hi)))
        return contradiction(err, "not free though nobody holds them", lo, hi);
    if (status == KZ_OK)
        status = rows->free_remove(rows->ctx, range.lo, err);
    if (status == KZ_OK && range.lo < lo)
        status = rows->free_add(rows->ctx, (kz__range){range.lo, lo}, err);
    if (status == KZ_OK && hi < range.hi)
        status = rows->free_add(rows->ctx, (kz__range){hi, range.hi}, err);
    return status;
}

/* Returns [lo, hi) to free space, as one range with its neighbours. */
static kz_status give(const kz__rows *rows, uint64_t lo, uint64_t hi, kz_error *err)
{
    kz__range whole = {lo, hi}, next;
    kz_status status = rows->free_after(rows->ctx, lo, &next, err);
    if (status == KZ_OK && next.lo < hi)
        return contradiction(err, "free and held at once", lo, hi);
    if (status == KZ_OK && next.lo == hi) {
        whole.hi = next.hi;
        status = rows->free_remove(rows->ctx, next.lo, err);
    }
    if (status && status != KZ_NOT_FOUND)
        return status;
    kz__range before;
    status = rows->free_ending(rows->ctx, lo, &before, err);
    if (status == KZ_OK) {
        whole.lo = before.lo;
        status = rows->free_remove(rows->ctx, before.lo, err);
    }
    if (status && status != KZ_NOT_FOUND)
        return status;
    return rows->free_add(rows->ctx, whole, err);
}

kz_status kz__table_create(const kz__rows *rows, const kz__service *service, kz_error *err)
{
    kz__range old;
    kz_status status;
    while ((status = rows->free_after(rows->ctx, 0, &old, err)) == KZ_OK) {
        status = rows->free_remove(rows->ctx, old.lo, err);
        if (status)
            return status;
    }
    if (status != KZ_NOT_FOUND)
        return status;
    return rows->free_add(rows->ctx, (kz__range){0, 2 * kz__service_half(service)}, err);
}

/* Returns ended rows to free space, a bounded number of them. */
static kz_status sweep(const kz__rows *rows, const kz__service *service, int64_t now_ms, size_t *swept, kz_error *err)
{
    int64_t ended_ms = KZ__RULE(NO_OVERLAP) ? now_ms : now_ms + service->lease_ms / 2;
    for (*swept = 0; *swept < KZ__SWEEP_ROWS; ++*swept) {
        kz__row row;
        kz_status status = rows->out_ended(rows->ctx, ended_ms, &row, err);
        if (status == KZ_NOT_FOUND)
            return KZ_OK;
        if (status == KZ_OK)
            status = rows->out_remove(rows->ctx, row.lo, err);
        if (status == KZ_OK)
            status = give(rows, row.lo, row.hi, err);
        if (status)
            return status;
    }
    return KZ_OK;
}

static void fill_lease(const kz__service *service, const kz__row *row, const kz__row *twin, kz_lease *lease)
{
    *lease = (kz_lease){.created_ms = row->start_ms,
                        .expired_ms = row->end_ms,
                        .fallback_created_ms = twin ? twin->start_ms : row->end_ms,
                        .fallback_expired_ms = twin ? twin->end_ms : row->end_ms,
                        .epoch_ms = service->epoch_ms,
                        .id = row->node,
                        .reserved_bits = service->reserved_bits,
                        .time_bits = service->time_bits,
                        .node_bits = row->node_bits,
                        .seq_bits = row->seq_bits};
    memcpy(lease->secret, row->secret, sizeof lease->secret);
}

/* The twin of a lease, if it is out under the same secret and live. */
static kz_status find_twin(const kz__rows *rows, const kz__service *service, const kz__row *row, int64_t now_ms,
                           kz__row *twin, kz_error *err)
{
    kz_status status = rows->out_at(rows->ctx, row->lo + kz__service_half(service), twin, err);
    if (status == KZ_OK && (!is_live(twin, now_ms) || strcmp(twin->secret, row->secret) != 0))
        return KZ_NOT_FOUND;
    return status;
}

/* The leases that an earlier call with this request got. */
static kz_status repeat(const kz__rows *rows, const kz__service *service, const kz__table_request *request,
                        int64_t now_ms, kz_grant *grant, size_t *count, kz_error *err)
{
    static const uint8_t none[KZ_REQUEST_ID_SIZE];
    *count = 0;
    if (memcmp(request->request, none, sizeof none) == 0)
        return KZ_OK;
    kz__row row, twin;
    for (uint64_t from = 0; *count < KZ_GRANT_LEASES_MAX; from = row.lo + 1) {
        kz_status status = rows->out_by_request(rows->ctx, request->request, from, &row, err);
        if (status)
            return status == KZ_NOT_FOUND ? KZ_OK : status;
        if (!is_live(&row, now_ms))
            continue;
        if (row.asked != request->throughput_per_ms)
            return kz__fail(err, KZ_CONFLICT,
                            "this request asked for %" PRIu32 " per ms before, and for %" PRIu32
                            " now: use a new request ID",
                            row.asked, request->throughput_per_ms);
        status = find_twin(rows, service, &row, now_ms, &twin, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
        fill_lease(service, &row, status == KZ_OK ? &twin : NULL, &grant->leases[(*count)++]);
    }
    return KZ_OK;
}

/* How many blocks of what height answer a request. */
static kz_status measure(const kz__service *service, const kz__table_request *request, size_t *count, unsigned *height,
                         kz_error *err)
{
    uint32_t throughput = request->throughput_per_ms;
    if (!throughput || throughput > service->max_throughput)
        return kz__fail(err, KZ_INVALID, "a throughput of %" PRIu32 " per ms: service %s grants 1 to %" PRIu32,
                        throughput, service->name, service->max_throughput);
    *height = service->seq_bits;
    uint64_t blocks = ((uint64_t)throughput + (UINT64_C(1) << *height) - 1) >> *height;
    if (blocks > 1 && service->high_blocks) {
        while ((UINT64_C(1) << *height) < throughput)
            ++*height;
        blocks = 1;
        if (*height >= kz__service_slot_bits(service) - (kz__service_part(service).hi ? 1 : 0))
            return kz__fail(err, KZ_INVALID, "a throughput of %" PRIu32 " per ms needs more slots than service %s has",
                            throughput, service->name);
    }
    if (blocks > KZ_GRANT_LEASES_MAX || blocks > request->secret_count)
        return kz__fail(err, KZ_INVALID,
                        "a throughput of %" PRIu32 " per ms needs %" PRIu64 " leases of service %s, but one request "
                        "gets %d at most: ask for less, or give the service more sequence bits",
                        throughput, blocks, service->name, KZ_GRANT_LEASES_MAX);
    *count = (size_t)blocks;
    return KZ_OK;
}

/* Enters a lease on `where`, and its twin if there is room for it. */
static kz_status grant_block(const kz__rows *rows, kz__service *service, const kz__table_request *request,
                             const kz__block *where, unsigned height, const char *secret, int64_t now_ms,
                             kz_lease *lease, kz_error *err)
{
    uint64_t size = UINT64_C(1) << height;
    kz__row row = {.lo = where->lo,
                   .hi = where->lo + size,
                   .start_ms = now_ms,
                   .end_ms = now_ms + service->lease_ms,
                   .node = (uint32_t)(where->lo >> height),
                   .node_bits = (uint8_t)(kz__service_slot_bits(service) - height),
                   .seq_bits = (uint8_t)height,
                   .asked = request->throughput_per_ms};
    memcpy(row.request, request->request, sizeof row.request);
    strncpy(row.secret, secret, sizeof row.secret - 1);
    strncpy(row.holder, request->holder ? request->holder : "", sizeof row.holder - 1);
    kz__row twin = row;
    twin.lo += kz__service_half(service);
    twin.hi += kz__service_half(service);
    twin.node += UINT32_C(1) << (row.node_bits - 1);
    twin.end_ms = now_ms + KZ__TWIN_LEASES * service->lease_ms;

    kz_status status = take(rows, row.lo, row.hi, err);
    if (status == KZ_OK)
        status = rows->out_add(rows->ctx, &row, err);
    if (status == KZ_OK && where->twin) {
        status = take(rows, twin.lo, twin.hi, err);
        if (status == KZ_OK)
            status = rows->out_add(rows->ctx, &twin, err);
    }
    if (status == KZ_OK)
        fill_lease(service, &row, where->twin ? &twin : NULL, lease);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const kz_lease *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Grants up to `wanted` blocks. */
static kz_status grant_blocks(const kz__rows *rows, kz__service *service, const kz__table_request *request,
                              unsigned height, size_t wanted, int64_t now_ms, kz_grant *grant, size_t *count,
                              kz_error *err)
{
    bool usual = height == service->seq_bits;
    for (*count = 0; *count < wanted; ++*count) {
        kz__block where;
        kz_status status = kz__find_block(rows, service, height, usual ? service->cursor : 0, &where, err);
        if (status == KZ_OK && where.found)
            status = grant_block(rows, service, request, &where, height, request->secrets[*count], now_ms,
                                 &grant->leases[*count], err);
        if (status)
            return status;
        if (!where.found)
            break;
        if (usual)
            service->cursor = where.lo + (UINT64_C(1) << height);
    }
    qsort(grant->leases, *count, sizeof grant->leases[0], by_id);
    return KZ_OK;
}

/* The one that covers everything, if there is one in force. */
static const kz__aside *all_aside(const kz__service *service, int64_t now_ms)
{
    for (const kz__aside *one = service->asides; one < service->asides + KZ__ASIDES; one++)
        if (one->lo == 0 && one->hi == KZ__ALL_SLOTS && kz__aside_in_force(one, now_ms))
            return one;
    return NULL;
}

static kz_status none_free(const kz__service *service, int64_t now_ms, kz_error *err)
{
    const kz__aside *next = kz__aside_until(service->asides, now_ms);
    if (next)
        return kz__fail(err, KZ_NO_FREE_NODE,
                        "service %s has no machine ID free: some are set aside for another %" PRId64 " ms, since %s",
                        service->name, next->until_ms - now_ms,
                        next->why == KZ__WHY_RESERVED ? "they are reserved" : "the store may have forgotten leases");
    return kz__fail(err, KZ_NO_FREE_NODE,
                    "service %s has no machine ID free: wait for leases to end, or give it more node bits",
                    service->name);
}

/* New leases. Ended rows that wait for a later sweep must not make a table look full, so the sweep goes on while
 * nothing is found. */
static kz_status grant_new(const kz__rows *rows, kz__service *service, const kz__table_request *request, size_t swept,
                           int64_t now_ms, kz_grant *grant, size_t *count, kz_error *err)
{
    size_t wanted = 0;
    unsigned height = 0;
    kz_status status = measure(service, request, &wanted, &height, err);
    if (status)
        return status;
    if (service->refused_ms && now_ms - service->refused_ms < service->lease_ms) {
        height = service->seq_bits;
        wanted = 1;
    }
    const kz__aside *all = all_aside(service, now_ms);
    if (all)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "%s, and leases it may have forgotten can last for another %" PRId64
                        " ms: nothing is granted until then",
                        all->why == KZ__WHY_EMPTY ? "the store was found empty" : "the store went back in time",
                        all->until_ms - now_ms);
    for (;;) {
        status = grant_blocks(rows, service, request, height, wanted, now_ms, grant, count, err);
        if (status || *count)
            return status;
        if (swept < KZ__SWEEP_ROWS) {
            service->refused_ms = now_ms;
            return none_free(service, now_ms, err);
        }
        status = sweep(rows, service, now_ms, &swept, err);
        if (status)
            return status;
    }
}

kz_status kz__table_acquire(const kz__rows *rows, kz__service *service, const kz__table_request *request,
                            kz_grant *grant, kz_error *err)
{
    int64_t now_ms = forward(service, request->now_ms);
    size_t swept, count;
    kz_status status = sweep(rows, service, now_ms, &swept, err);
    if (status == KZ_OK)
        status = repeat(rows, service, request, now_ms, grant, &count, err);
    if (status == KZ_OK && !count)
        status = grant_new(rows, service, request, swept, now_ms, grant, &count, err);
    if (status)
        return status;
    service->granted = true;
    service->generation++;
    grant->source_ms = now_ms;
    grant->generation = service->generation;
    grant->resume = 0;
    grant->grace_ms = 0;
    grant->count = count;
    return KZ_OK;
}

/* Ends one row where the holder stopped. */
static kz_status end_row(const kz__rows *rows, kz__row *row, int64_t timestamp_ms, int64_t now_ms, kz_error *err)
{
    int64_t end_ms = timestamp_ms < INT64_MAX ? timestamp_ms + 1 : timestamp_ms;
    if (!KZ__RULE(RELEASE_WATERMARK))
        end_ms = now_ms;
    if (end_ms < row->start_ms)
        end_ms = row->start_ms;
    if (end_ms < row->end_ms)
        row->end_ms = end_ms;
    row->released = true;
    return rows->out_update(rows->ctx, row, err);
}

/* The live row that a release means: the lease of that number, or a twin that outlived its lease. */
static kz_status find_released(const kz__rows *rows, const kz__service *service, uint32_t node, kz__secret_is is,
                               void *ctx, int64_t now_ms, kz__row *row, kz_error *err)
{
    bool any = false;
    kz_status status = rows->out_by_node(rows->ctx, node, row, err);
    if (status == KZ_OK && is_live(row, now_ms)) {
        any = true;
        if (!KZ__RULE(RELEASE_BY_SECRET) || is(ctx, row->secret))
            return KZ_OK;
    }
    if (status && status != KZ_NOT_FOUND)
        return status;
    uint64_t half = kz__service_half(service);
    for (unsigned height = 0; height < kz__service_slot_bits(service) && ((uint64_t)node << height) < half; height++) {
        status = rows->out_at(rows->ctx, half + ((uint64_t)node << height), row, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
        if (status || row->seq_bits != height || !is_live(row, now_ms))
            continue;
        any = true;
        if (!KZ__RULE(RELEASE_BY_SECRET) || is(ctx, row->secret))
            return KZ_OK;
    }
    if (any)
        return kz__fail(err, KZ_FORBIDDEN, "node %" PRIu32 " of service %s is not held with that secret", node,
                        service->name);
    return kz__fail(err, KZ_NOT_FOUND, "node %" PRIu32 " of service %s is not leased", node, service->name);
}

kz_status kz__table_release_if(const kz__rows *rows, kz__service *service, uint32_t node, kz__secret_is is, void *ctx,
                               int64_t timestamp_ms, int64_t now_ms, kz_error *err)
{
    now_ms = forward(service, now_ms);
    kz__row row, twin;
    kz_status status = find_released(rows, service, node, is, ctx, now_ms, &row, err);
    if (status)
        return status;
    if (row.lo < kz__service_half(service)) {
        status = find_twin(rows, service, &row, now_ms, &twin, err);
        if (status == KZ_OK)
            status = end_row(rows, &twin, timestamp_ms, now_ms, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
    }
    status = end_row(rows, &row, timestamp_ms, now_ms, err);
    if (status == KZ_OK)
        service->generation++;
    return status;
}

/* Without a branch that depends on how much of it is right. */
static bool same_secret(void *ctx, const char *secret)
{
    const char *given = ctx;
    size_t length = strlen(given);
    if (length != strlen(secret))
        return false;
    unsigned char differs = 0;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(given[i] ^ secret[i]);
    return !differs;
}

kz_status kz__table_release(const kz__rows *rows, kz__service *service, uint32_t node, const char *secret,
                            int64_t timestamp_ms, int64_t now_ms, kz_error *err)
{
    return kz__table_release_if(rows, service, node, same_secret, (void *)(uintptr_t)secret, timestamp_ms, now_ms, err);
}

void kz__grant_copy(kz_grant *to, const kz_grant *from)
{
    memcpy(to, from, offsetof(kz_grant, leases));
    memcpy(to->leases, from->leases, from->count * sizeof from->leases[0]);
}
