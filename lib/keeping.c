/* Keeping a generator supplied: joins core/keeper.c, which decides, to what the generator holds. No I/O, no thread: the
 * keeper's thread carries the errands out, and so does a simulation. */
#include "core/error.h"
#include "core/rules.h"
#include "lib/generator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t boot_ms(const kz_generator *gen)
{
    return gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
}

/* The source's time as far as known, Unix ms. The lock is held. */
static int64_t source_ms(const kz_generator *gen)
{
    return kz__ms(kz__id_ns(gen) + gen->epoch_ns);
}

/* ------------------------------------------------------------------------------------------------- rectangles */

/* A window in Unix ms as one in ID time, cut to the layout's life. */
static kz__rect make_rect(const kz_generator *gen, uint64_t node, unsigned seq_bits, int64_t start_ms, int64_t end_ms,
                          kz__class rank)
{
    int64_t epoch_ms = gen->layout.epoch_ms;
    uint64_t end_of_time = kz__end_of_time_ms(&gen->layout);
    uint64_t start = start_ms > epoch_ms ? (uint64_t)(start_ms - epoch_ms) : 0;
    uint64_t end = end_ms > epoch_ms ? (uint64_t)(end_ms - epoch_ms) : 0;
    return (kz__rect){.slot = node << seq_bits,
                      .start_ms = start,
                      .end_ms = end < end_of_time ? end : end_of_time,
                      .height = (uint8_t)seq_bits,
                      .rank = (uint8_t)rank};
}

static kz_status make_room(kz_generator *gen, size_t count, kz_error *err)
{
    kz__hot *hot = gen->hot;
    if (count <= hot->rect_room)
        return KZ_OK;
    kz__rect *grown = malloc(2 * count * sizeof *grown), *old = hot->rects;
    if (!grown)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for %zu rectangles", count);
    if (hot->rect_count)
        memcpy(grown, old, hot->rect_count * sizeof *grown);
    /* In this order: a child forked in between must not find a pointer to what was freed. */
    hot->rects = gen->rects_memory = grown;
    hot->rect_room = 2 * count;
    free(old);
    return KZ_OK;
}

kz_status kz__keeping_rebuild(kz_generator *gen, kz_error *err)
{
    kz__hot *hot = gen->hot;
    const kz__keeper *keeper = &hot->keeper;
    kz_status status = make_room(gen, 2 * keeper->held_count + 1, err);
    if (status)
        return status;
    kz__freeze(hot);
    size_t n = 0;
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz_lease *l = &keeper->held[i].lease;
        hot->rects[n++] = make_rect(gen, l->id, l->seq_bits, l->created_ms, l->expired_ms,
                                    gen->facts.flags & KZ_SOURCE_UNFENCED ? KZ__UNFENCED : KZ__LEASED);
        if (kz__lease_has_twin(l) && gen->fallback != KZ_FALLBACK_NEVER)
            hot->rects[n++] = make_rect(gen, l->id + (UINT64_C(1) << (l->node_bits - 1)), l->seq_bits,
                                        l->fallback_created_ms, l->fallback_expired_ms, KZ__FENCED);
    }
    if (gen->fallback == KZ_FALLBACK_ANY && gen->layout.node_bits)
        hot->rects[n++] = make_rect(gen, 1, gen->slot_bits - 1, 0, INT64_MAX, KZ__UNFENCED);
    hot->rect_count = n;
    return KZ_OK;
}

/* --------------------------------------------------------------------------------------------------- errands */

/* Gives a lease up. First what is held no longer has it; then the run is frozen, so that a minter who still saw it gets
 * nothing; only then is the watermark read. Nothing at or below it can be granted to anybody else. */
static void plan_release(kz_generator *gen, kz__errand *errand)
{
    kz__hot *hot = gen->hot;
    kz_id position = kz__position(hot);
    kz_error ignored;
    if (KZ__RULE(RELEASE_LAST)) {
        /* Cannot fail: there are fewer rectangles than there were. */
        kz__keeping_rebuild(gen, &ignored);
        position = kz__position(hot);
    }
    int64_t last_ms = position ? (int64_t)((position - 1) >> gen->slot_bits) + gen->layout.epoch_ms : 0;
    int64_t now_ms = source_ms(gen);
    const kz_lease *lease = &errand->task.lease;
    errand->release = (kz_release){.service = gen->options.service,
                                   .id = lease->id,
                                   .timestamp_ms = last_ms > now_ms ? last_ms : now_ms,
                                   .next = position,
                                   .signature = errand->signature};
    kz_release_sign(lease->secret, lease->id, errand->release.timestamp_ms, errand->signature);
}

static void plan_acquire(kz_generator *gen, kz__errand *errand)
{
    kz_id position = kz__position(gen->hot);
    int64_t last_ms = position ? (int64_t)((position - 1) >> gen->slot_bits) + gen->layout.epoch_ms : 0;
    int64_t now_ms = source_ms(gen);
    errand->acquire = (kz_acquire){.service = gen->options.service,
                                   .holder = gen->holder,
                                   .throughput_per_ms = errand->task.throughput,
                                   .from_ms = last_ms > now_ms ? last_ms : now_ms,
                                   .holds = errand->task.succeeds ? &errand->task.lease : NULL};
    memcpy(errand->acquire.request_id, gen->hot->keeper.request_id, KZ_REQUEST_ID_SIZE);
}

void kz__keeping_plan(kz_generator *gen, kz__errand *errand)
{
    kz__hot *hot = gen->hot;
    pthread_mutex_lock(&hot->lock);
    uint64_t random[2];
    kz__draw_request(hot, random);
    size_t held = hot->keeper.held_count;
    kz__keeper_plan(&hot->keeper, boot_ms(gen), source_ms(gen), hot->use_peak, random, &errand->task);
    if (errand->task.deed == KZ__RELEASE) {
        plan_release(gen, errand);
    } else if (errand->task.deed == KZ__ACQUIRE) {
        plan_acquire(gen, errand);
    }
    if (errand->task.deed != KZ__RELEASE && held != hot->keeper.held_count) {
        kz_error ignored;
        (void)kz__keeping_rebuild(gen, &ignored); /* fewer than before: cannot fail */
    }
    pthread_mutex_unlock(&hot->lock);
}

/* --------------------------------------------------------------------------------------------------- outcomes */

/* Times beyond this do not fit in nanoseconds. */
#define TIME_MAX_MS (INT64_MAX / KZ__NS_PER_MS - 1)

static bool is_window(int64_t start_ms, int64_t end_ms)
{
    return start_ms >= 0 && start_ms <= end_ms && (end_ms <= TIME_MAX_MS || end_ms == INT64_MAX);
}

/* Everything that the bits of an ID hang on must be as it was. Node and sequence bits may be divided anew. */
static kz_status check_layout(const kz_generator *gen, const kz_lease *lease, kz_error *err)
{
    const kz_layout *have = &gen->layout;
    unsigned slot_bits = (unsigned)lease->node_bits + lease->seq_bits;
    if (lease->time_bits + slot_bits + lease->reserved_bits != 64 || lease->time_bits < 1 || lease->time_bits > 63 ||
        lease->node_bits > 32 || lease->seq_bits > 32 || lease->epoch_ms < 0 ||
        lease->epoch_ms > INT64_C(253402300799999) || (uint64_t)lease->id >> lease->node_bits ||
        (kz__lease_has_twin(lease) && !lease->node_bits))
        return kz__fail(err, KZ_MISMATCH,
                        "the source answered with a lease that makes no sense: node %" PRIu32
                        " of %u reserved, %u time, %u node and %u sequence bits",
                        lease->id, lease->reserved_bits, lease->time_bits, lease->node_bits, lease->seq_bits);
    if (!gen->layout_known ||
        (lease->epoch_ms == have->epoch_ms && lease->time_bits == have->time_bits && slot_bits == kz__slot_bits(have)))
        return KZ_OK;
    return kz__fail(err, KZ_MISMATCH,
                    "the source's leases are for another layout: epoch %" PRId64
                    ", %u time and %u low bits, but the IDs "
                    "so far have epoch %" PRId64 ", %u and %u. IDs of both would sort wrongly and may repeat",
                    lease->epoch_ms, lease->time_bits, slot_bits, have->epoch_ms, have->time_bits, kz__slot_bits(have));
}

static void adopt_layout(kz_generator *gen, const kz_lease *lease)
{
    kz_layout layout = {.epoch_ms = lease->epoch_ms,
                        .unit_ms = 1,
                        .time_bits = lease->time_bits,
                        .node_bits = lease->node_bits,
                        .seq_bits = lease->seq_bits};
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(&layout, text);
    /* By way of its text, so that a preset is known by its name. */
    kz_layout named;
    kz__generator_set_layout(gen, kz_layout_parse(text, &named, NULL) ? &layout : &named);
    gen->layout_known = true;
}

static kz_status make_held_room(kz_generator *gen, size_t more, kz_error *err)
{
    kz__keeper *keeper = &gen->hot->keeper;
    size_t count = keeper->held_count + more;
    if (count <= keeper->held_room)
        return KZ_OK;
    kz__held *grown = malloc(2 * count * sizeof *grown), *old = keeper->held;
    if (!grown)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for %zu leases", count);
    if (keeper->held_count)
        memcpy(grown, old, keeper->held_count * sizeof *grown);
    keeper->held = gen->held_memory = grown;
    keeper->held_room = 2 * count;
    free(old);
    return KZ_OK;
}

/* The clock is another one from now on: its first reading is no step. */
static void forget_readings(kz_generator *gen)
{
    gen->hot->reading_ms = gen->hot->high_ms = kz__ms(kz__id_ns(gen));
}

static void note_time(kz_generator *gen, const kz_grant *grant)
{
    kz__idclock *idclock = &gen->hot->idclock;
    if (gen->wall_clock)
        return;
    bool first = !idclock->set;
    kz__idclock_sample(idclock, grant->source_ms, gen->clock.boot_ns(gen->clock.ctx));
    /* A lease that has only just been granted cannot be over: it is our own clock that is ahead. */
    int64_t now_ms = source_ms(gen);
    for (size_t i = 0; i < grant->count; i++)
        if (grant->leases[i].expired_ms > grant->source_ms && grant->leases[i].expired_ms <= now_ms)
            kz__idclock_trust_last(idclock);
    if (first)
        forget_readings(gen);
}

/* Nothing of an answer is used before all of it was looked at. */
static kz_status check_answer(kz_generator *gen, const kz_grant *grant, kz_error *err)
{
    if (grant->count == 0 || grant->count > KZ_GRANT_LEASES_MAX)
        return kz__fail(err, KZ_STORE, "the source answered with %zu leases", grant->count);
    if (grant->source_ms < 0 || grant->source_ms > TIME_MAX_MS)
        return kz__fail(err, KZ_STORE, "the source answered with the time %" PRId64 ", which makes no sense",
                        grant->source_ms);
    for (size_t i = 0; i < grant->count; i++) {
        const kz_lease *lease = &grant->leases[i];
        kz_status status = check_layout(gen, lease, err);
        if (status)
            return status;
        if (!is_window(lease->created_ms, lease->expired_ms) ||
            !is_window(lease->fallback_created_ms, lease->fallback_expired_ms))
            return kz__fail(err, KZ_STORE,
                            "the source answered with a lease from %" PRId64 " to %" PRId64 ", which makes no sense",
                            lease->created_ms, lease->expired_ms);
    }
    return kz__keeper_check_generation(&gen->hot->keeper, grant->generation, true, boot_ms(gen), err);
}

static kz_status take_over(kz_generator *gen, const kz_grant *grant, kz_error *err)
{
    kz__hot *hot = gen->hot;
    kz__keeper *keeper = &hot->keeper;
    kz_status status = check_answer(gen, grant, err);
    if (status == KZ_OK)
        status = make_held_room(gen, grant->count, err);
    if (status == KZ_OK)
        status = make_room(gen, 2 * (keeper->held_count + grant->count) + 1, err);
    if (status)
        return status;
    note_time(gen, grant);
    bool widening = keeper->widening;
    kz__keeper_granted(keeper, grant, boot_ms(gen), source_ms(gen), kz__draw(hot));
    if (!gen->layout_known) {
        adopt_layout(gen, &grant->leases[0]);
        forget_readings(gen);
    }
    if (!widening)
        hot->use_peak = 0;
    hot->acquired += grant->count;
    if (hot->floor < grant->resume && !hot->run_active) {
        hot->floor = grant->resume;
        hot->resume_ms = (int64_t)((grant->resume - 1) >> gen->slot_bits) + 1;
        hot->grace_ms = grant->grace_ms;
    }
    return kz__keeping_rebuild(gen, err);
}

/* Drops all that is held, because the source does not know of it any more: somebody else may have it. First it is held
 * no longer, then the run is frozen, as for a release; but there is nobody to tell. */
static void lose(kz_generator *gen)
{
    kz_error ignored;
    kz__keeper_lost(&gen->hot->keeper, boot_ms(gen));
    (void)kz__keeping_rebuild(gen, &ignored); /* fewer than before: cannot fail */
}

kz_status kz__keeping_done(kz_generator *gen, const kz__errand *errand, kz_status status, const kz_grant *grant,
                           kz_error *err)
{
    kz__hot *hot = gen->hot;
    kz_error why = {.status = status};
    if (status && err)
        why = *err;
    pthread_mutex_lock(&hot->lock);
    switch (errand->task.deed) {
    case KZ__ACQUIRE:
        if (status == KZ_OK)
            status = take_over(gen, grant, &why);
        if (status == KZ_LOST && hot->keeper.held_count) {
            lose(gen);
        } else if (status) {
            kz__keeper_failed(&hot->keeper, status, boot_ms(gen), source_ms(gen), kz__draw(hot));
            hot->keeper_error = why;
            hot->acquire_failures++;
        }
        break;
    case KZ__SYNC:
        if (status == KZ_OK)
            status = kz__keeper_check_generation(&hot->keeper, grant->generation, false, boot_ms(gen), &why);
        if (status == KZ_OK && grant->source_ms > 0 && grant->source_ms <= TIME_MAX_MS)
            note_time(gen, grant);
        if (status == KZ_LOST)
            lose(gen);
        else
            kz__keeper_finished(&hot->keeper, boot_ms(gen));
        break;
    case KZ__RELEASE:
        /* No such lease: somebody saw to it before us. */
        if (status == KZ_OK || status == KZ_NOT_FOUND)
            hot->released++;
        /* Nobody answers: the rest will end by itself, and closing need not take long. */
        if (status == KZ_UNAVAILABLE && hot->keeper.closing)
            hot->keeper.held_count = 0;
        kz__keeper_finished(&hot->keeper, boot_ms(gen));
        break;
    case KZ__REST:
    case KZ__STOP:
        break;
    }
    pthread_cond_broadcast(&hot->changed);
    pthread_mutex_unlock(&hot->lock);
    if (status && err)
        *err = why;
    return status;
}
