/* What to do now: mint, wait or fail. */
#include "core/decide.h"

static kz__decision refuse(kz_status status)
{
    return (kz__decision){.verdict = KZ__REFUSE, .status = status};
}

static kz__decision mint(kz__run run)
{
    return (kz__decision){.verdict = KZ__MINT, .run = run};
}

/* Waiting that the budget does not cover is refused at once: sleeping first would help nobody. */
static kz__decision wait_until(int64_t until_ms, int64_t now_ms, int64_t budget_ms)
{
    if (budget_ms == 0)
        return (kz__decision){.verdict = KZ__REFUSE, .status = KZ_AGAIN, .until_ms = until_ms};
    if (budget_ms > 0 && until_ms - now_ms > budget_ms)
        return refuse(KZ_TIMEOUT);
    return (kz__decision){.verdict = KZ__WAIT, .until_ms = until_ms};
}

static kz__decision too_far_back(int64_t behind_ms, int64_t limit_ms)
{
    return (kz__decision){
        .verdict = KZ__REFUSE, .status = KZ_CLOCK_BACKWARD, .backward_ms = behind_ms, .limit_ms = limit_ms};
}

/* The clock is behind the last ID, and the policy is not to go on regardless. */
static kz__decision behind(const kz__stand *stand, const kz__policy *policy, int64_t last_ms, int64_t now_ms,
                           int64_t budget_ms)
{
    int64_t behind_ms = last_ms - now_ms;
    int64_t limit_ms = policy->backward == KZ_BACKWARD_FAIL ? 0 : policy->max_backward_ms;
    if (last_ms < stand->resume_ms && limit_ms >= 0 && limit_ms < stand->grace_ms)
        limit_ms = stand->grace_ms;
    if (limit_ms >= 0 && behind_ms > limit_ms)
        return too_far_back(behind_ms, limit_ms);
    if (budget_ms > 0 && behind_ms > budget_ms)
        return too_far_back(behind_ms, budget_ms);
    return wait_until(last_ms, now_ms, budget_ms);
}

/* Nothing held is that high: because time itself is over, or because the next window is not there yet. */
static kz__decision nothing_above(const kz__stand *stand)
{
    for (size_t i = 0; i < stand->count; i++)
        if ((int64_t)stand->rects[i].end_ms >= stand->end_ms)
            return refuse(KZ_OVERFLOW);
    return (kz__decision){.verdict = KZ__NOTHING_HELD};
}

kz__decision kz__decide(const kz__stand *stand, const kz__policy *policy, int64_t now_ms, int64_t budget_ms)
{
    if (now_ms < 0)
        return refuse(KZ_BEFORE_EPOCH);
    if (now_ms >= stand->end_ms)
        return refuse(KZ_OVERFLOW);
    int64_t last_ms = stand->next ? (int64_t)((stand->next - 1) >> stand->slot_bits) : 0;
    bool clock_is_behind = last_ms > now_ms;
    if (clock_is_behind && policy->backward != KZ_BACKWARD_LOGICAL)
        return behind(stand, policy, last_ms, now_ms, budget_ms);

    kz_id floor = (kz_id)now_ms << stand->slot_bits;
    if (floor < stand->next)
        floor = stand->next;
    kz__run run;
    if (!kz__successor(stand->rects, stand->count, stand->slot_bits, floor, &run))
        return nothing_above(stand);

    int64_t run_ms = (int64_t)run.ms;
    if (run_ms <= now_ms)
        return mint(run);
    if (clock_is_behind) {
        if (run_ms <= stand->high_ms + policy->max_ahead_ms)
            return mint(run);
        return wait_until(run_ms - policy->max_ahead_ms, now_ms, budget_ms);
    }
    kz__decision wait = wait_until(run_ms, now_ms, budget_ms);
    wait.exhausted = stand->next && last_ms == now_ms && last_ms >= stand->resume_ms;
    return wait;
}
