/* The keeper: which leases a generator holds, and what to do about them next. */
#include "core/keeper.h"
#include "core/error.h"
#include "core/rules.h"

#include <inttypes.h>
#include <string.h>

/* For clocks that differ, and a copy of the store that goes on granting for a while. */
#define MARGIN_MS 60000

bool kz__lease_has_twin(const kz_lease *lease)
{
    return lease->fallback_created_ms < lease->fallback_expired_ms;
}

uint64_t kz__keeper_throughput(const kz__keeper *keeper)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < keeper->held_count; i++)
        if (!keeper->held[i].superseded)
            sum += UINT64_C(1) << keeper->held[i].lease.seq_bits;
    return sum;
}

static void drop(kz__keeper *keeper, size_t i)
{
    keeper->held_count--;
    memmove(&keeper->held[i], &keeper->held[i + 1], (keeper->held_count - i) * sizeof keeper->held[0]);
}

/* A lease to give back now. After a handover that is the old one, once its window is over: it ends its twin, which
 * would be out for three more lease durations. One without a twin has nothing left to give back and is just dropped. */
static bool plan_release(kz__keeper *keeper, int64_t now_ms, kz__task *task)
{
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz__held *held = &keeper->held[i];
        bool over = held->superseded && held->lease.expired_ms <= now_ms;
        if (!over && !keeper->closing)
            continue;
        *task = (kz__task){.deed = KZ__RELEASE, .lease = held->lease};
        bool nothing_left = over && !kz__lease_has_twin(&held->lease);
        drop(keeper, i);
        if (!nothing_left)
            return true;
        i--;
    }
    return false;
}

static int64_t acquire_due(const kz__keeper *keeper)
{
    bool at_once = keeper->needed || keeper->held_count == 0 || keeper->repeat;
    bool widen = keeper->exhausted && !keeper->scarce && kz__keeper_throughput(keeper) < keeper->throughput_max;
    int64_t due_ms = at_once || widen ? 0 : keeper->renew_boot_ms;
    due_ms = due_ms > keeper->retry_boot_ms ? due_ms : keeper->retry_boot_ms;
    /* What a source that went back grants is not used, so asking would only waste it. */
    int64_t refused_ms = keeper->seen->refused_until_boot_ms;
    return due_ms > refused_ms ? due_ms : refused_ms;
}

/* A handover asks for the whole throughput wanted: what the last window really used, within the limits. In between,
 * when sequences ran out, what is held is doubled. */
static void plan_acquire(kz__keeper *keeper, int64_t boot_ms, uint32_t used_per_ms, const uint64_t random[static 2],
                         kz__task *task)
{
    if (!keeper->repeat) {
        uint64_t held = kz__keeper_throughput(keeper);
        keeper->widening = held && !keeper->needed && boot_ms < keeper->renew_boot_ms;
        uint64_t want = used_per_ms;
        if (keeper->widening)
            want = held < keeper->throughput_max - held ? held : keeper->throughput_max - held;
        else if (want < keeper->throughput_min)
            want = keeper->throughput_min;
        keeper->asked = want < keeper->throughput_max ? (uint32_t)want : keeper->throughput_max;
        memcpy(keeper->request_id, random, KZ_REQUEST_ID_SIZE);
    }
    keeper->in_flight = true;
    keeper->exhausted = false;
    *task = (kz__task){.deed = KZ__ACQUIRE, .throughput = keeper->asked};
    /* Any of them: a source that makes a lease longer grants one at a time. */
    for (size_t i = 0; i < keeper->held_count && !keeper->widening; i++) {
        if (keeper->held[i].superseded)
            continue;
        task->succeeds = true;
        task->lease = keeper->held[i].lease;
    }
}

/* When an old window is over and its lease can be given back. */
static int64_t release_due(const kz__keeper *keeper, int64_t boot_ms, int64_t now_ms)
{
    int64_t due_ms = KZ__NEVER_MS;
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz__held *held = &keeper->held[i];
        if (held->superseded && boot_ms + (held->lease.expired_ms - now_ms) < due_ms)
            due_ms = boot_ms + (held->lease.expired_ms - now_ms);
    }
    return due_ms;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void kz__keeper_plan(kz__keeper *keeper, int64_t boot_ms, int64_t now_ms, uint32_t used_per_ms,
                     const uint64_t random[static 2], kz__task *task)
{
    if (keeper->in_flight) {
        *task = (kz__task){.deed = KZ__REST, .until_boot_ms = KZ__NEVER_MS};
        return;
    }
    if (plan_release(keeper, now_ms, task)) {
        keeper->in_flight = true;
        return;
    }
    if (keeper->closing) {
        *task = (kz__task){.deed = KZ__STOP};
        return;
    }
    int64_t acquire_ms = acquire_due(keeper);
    if (acquire_ms <= boot_ms) {
        plan_acquire(keeper, boot_ms, used_per_ms, random, task);
        return;
    }
    int64_t sync_ms = keeper->sync_every_ms ? keeper->sync_boot_ms : KZ__NEVER_MS;
    if (sync_ms <= boot_ms) {
        keeper->in_flight = true;
        *task = (kz__task){.deed = KZ__SYNC};
        return;
    }
    *task = (kz__task){.deed = KZ__REST,
                       .until_boot_ms = earlier(earlier(acquire_ms, sync_ms), release_due(keeper, boot_ms, now_ms))};
}

/* When a lease's successor is asked for: as the source says, else at a part of its window. A little early, and not for
 * everybody at the same moment. */
static int64_t renewal_due(const kz__keeper *keeper, const kz_grant *grant, const kz_lease *lease, int64_t boot_ms,
                           int64_t now_ms, uint64_t random)
{
    double part = 1 - (double)(random % 1024) / 1024 * 0.05;
    if (lease->expired_ms == INT64_MAX)
        return KZ__NEVER_MS;
    if (grant->renew_after_ms > 0)
        return boot_ms + (int64_t)((double)grant->renew_after_ms * part);
    int64_t start_ms = earlier(lease->created_ms, now_ms);
    int64_t due_ms = start_ms + (int64_t)((double)(lease->expired_ms - start_ms) * keeper->renew_at * part);
    return boot_ms + (due_ms - now_ms);
}

/* The handover is planned by the lease that is due first. */
static void plan_handover(kz__keeper *keeper)
{
    keeper->renew_boot_ms = KZ__NEVER_MS;
    for (size_t i = 0; i < keeper->held_count; i++)
        if (!keeper->held[i].superseded)
            keeper->renew_boot_ms = earlier(keeper->renew_boot_ms, keeper->held[i].renew_boot_ms);
}

/* A lease on the block and under the secret of one that is held, and with no gap between, is that one made longer: it
 * is given back once, as a whole. */
static kz__held *continued_by(kz__keeper *keeper, const kz_lease *lease)
{
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz_lease *old = &keeper->held[i].lease;
        if (old->id == lease->id && old->node_bits == lease->node_bits && old->seq_bits == lease->seq_bits &&
            old->expired_ms >= lease->created_ms && strcmp(old->secret, lease->secret) == 0 &&
            !kz__lease_has_twin(old) && !kz__lease_has_twin(lease))
            return &keeper->held[i];
    }
    return NULL;
}

kz_status kz__keeper_check_generation(kz__keeper *keeper, uint64_t generation, bool grants, int64_t boot_ms,
                                      kz_error *err)
{
    kz__seen *seen = keeper->seen;
    uint64_t era = generation >> 32, known = seen->generation >> 32;
    if (!generation)
        return KZ_OK;
    if (era < known)
        return kz__fail(err, KZ_UNAVAILABLE,
                        "the source's answer is not used: it comes from an older copy of the store (era %" PRIu64
                        ", and %" PRIu64 " was seen)",
                        era, known);
    bool waited = seen->refused_until_boot_ms && boot_ms >= seen->refused_until_boot_ms;
    if (era > known || waited)
        *seen = (kz__seen){.generation = generation, .window_ms = seen->window_ms};
    bool lower = generation < seen->generation;
    if (lower && grants && !seen->refused_until_boot_ms) {
        int64_t margin_ms = seen->window_ms / 4 > MARGIN_MS ? seen->window_ms / 4 : MARGIN_MS;
        seen->refused_until_boot_ms = boot_ms + seen->window_ms + margin_ms;
    }
    if (lower || seen->refused_until_boot_ms)
        return kz__fail(err, KZ_STORE,
                        "the source went back in time: its generation was %" PRIu64 " and is %" PRIu64 ". It lost what "
                        "it had promised: find out why. Its leases are used again when those it forgot have ended",
                        seen->generation, generation);
    seen->generation = generation;
    return KZ_OK;
}

/* Forgotten leases may last as long as the longest that is known. */
static void note_window(kz__seen *seen, const kz_lease *lease)
{
    int64_t end_ms = lease->fallback_expired_ms > lease->expired_ms ? lease->fallback_expired_ms : lease->expired_ms;
    if (end_ms != INT64_MAX && end_ms - lease->created_ms > seen->window_ms)
        seen->window_ms = end_ms - lease->created_ms;
}

void kz__keeper_granted(kz__keeper *keeper, const kz_grant *grant, int64_t boot_ms, int64_t now_ms, uint64_t random)
{
    keeper->in_flight = keeper->repeat = keeper->needed = false;
    keeper->failures = 0;
    keeper->pause_ms = 0;
    keeper->retry_boot_ms = 0;
    keeper->sync_boot_ms = boot_ms + keeper->sync_every_ms;
    for (size_t i = 0; i < keeper->held_count && !keeper->widening; i++)
        keeper->held[i].superseded = true;
    uint64_t granted = 0;
    for (size_t i = 0; i < grant->count; i++) {
        const kz_lease *lease = &grant->leases[i];
        granted += UINT64_C(1) << lease->seq_bits;
        note_window(keeper->seen, lease);
        kz__held *old = continued_by(keeper, lease);
        kz__held held = {.lease = *lease, .renew_boot_ms = renewal_due(keeper, grant, lease, boot_ms, now_ms, random)};
        if (old)
            held.lease.created_ms = earlier(old->lease.created_ms, lease->created_ms);
        else
            old = &keeper->held[keeper->held_count++];
        *old = held;
    }
    keeper->scarce = granted < keeper->asked;
    plan_handover(keeper);
}

/* The longest pause that still leaves a try before all that is held has ended. */
static int64_t patience_ms(const kz__keeper *keeper, int64_t now_ms)
{
    int64_t left_ms = 0;
    for (size_t i = 0; i < keeper->held_count; i++) {
        const kz_lease *lease = &keeper->held[i].lease;
        bool twin = keeper->uses_twins && lease->fallback_expired_ms > lease->expired_ms;
        int64_t end_ms = twin ? lease->fallback_expired_ms : lease->expired_ms;
        if (end_ms - now_ms > left_ms)
            left_ms = end_ms - now_ms;
    }
    if (left_ms <= 0)
        return keeper->retry_max_ms;
    return left_ms / 2 > keeper->retry_initial_ms ? left_ms / 2 : keeper->retry_initial_ms;
}

void kz__keeper_failed(kz__keeper *keeper, kz_status status, int64_t boot_ms, int64_t now_ms, uint64_t random)
{
    int64_t pause_ms = keeper->pause_ms ? 2 * keeper->pause_ms : keeper->retry_initial_ms;
    pause_ms = earlier(earlier(pause_ms, keeper->retry_max_ms), patience_ms(keeper, now_ms));
    keeper->pause_ms = pause_ms;
    /* Spread over the upper half of the pause, so that a crowd does not come back at once. */
    if (pause_ms > 1)
        pause_ms -= (int64_t)(random % (uint64_t)(pause_ms / 2));
    keeper->failures++;
    keeper->retry_boot_ms = boot_ms + pause_ms;
    keeper->sync_boot_ms = boot_ms + keeper->sync_every_ms;
    /* Without an answer the grant may have been made: asking again under the same ID finds it. */
    keeper->repeat = status == KZ_UNAVAILABLE;
    keeper->in_flight = false;
}

void kz__keeper_lost(kz__keeper *keeper, int64_t boot_ms)
{
    keeper->held_count = 0;
    keeper->in_flight = keeper->repeat = false;
    /* It has answered: what failed before is over, and says nothing about the lease that is asked for next. */
    keeper->failures = 0;
    keeper->pause_ms = 0;
    keeper->retry_boot_ms = 0;
    keeper->sync_boot_ms = boot_ms + keeper->sync_every_ms;
}

void kz__keeper_finished(kz__keeper *keeper, int64_t boot_ms)
{
    keeper->in_flight = false;
    keeper->sync_boot_ms = boot_ms + keeper->sync_every_ms;
}
