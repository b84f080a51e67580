/* Whether the IDs that were measured are right: no twins, upward, not from the future, and how old. */
#include "bench/check.h"

#include "host/clock.h"

static int64_t wall_minus_boot_ns;

static int64_t offset_ns(void)
{
    return (int64_t)(kz__clock_ns(CLOCK_REALTIME) - kz__clock_ns(CLOCK_BOOTTIME));
}

void check_clock_start(void)
{
    wall_minus_boot_ns = offset_ns();
}

bool check_clock_went_back(void)
{
    return wall_minus_boot_ns - offset_ns() > KZ__NS_PER_MS / 2;
}

static int64_t wall_ms_of(const ledger *l, uint64_t id)
{
    return (int64_t)(id >> l->time_shift) + l->epoch_ms;
}

/* IDs go up, so the first is the oldest to the clock before, and the last the nearest to the future. */
static void check_time(ledger *l, const uint64_t *ids, size_t count, moment when)
{
    if (!l->time_shift || !count)
        return;
    int64_t late_ms = when.before_ns / KZ__NS_PER_MS - wall_ms_of(l, ids[0]);
    l->age_samples++;
    l->late += late_ms > 0;
    if (late_ms > l->late_max_ms)
        l->late_max_ms = late_ms;
    for (size_t i = count; i-- > 0 && wall_ms_of(l, ids[i]) > when.after_ns / KZ__NS_PER_MS;)
        l->future++;
}

static void compare(ledger *l, uint64_t before, uint64_t id)
{
    l->twins += id == before;
    l->disorder += id < before;
}

/* Each chunk must be above everything given before it began. */
static void check_upward(ledger *l, const uint64_t *ids, size_t count)
{
    uint64_t before = l->last;
    for (size_t i = 0; i < count; before = ids[i++])
        if (ids[i] <= before)
            compare(l, before, ids[i]);
    l->checked += count;
}

void check_alone(ledger *l, const uint64_t *ids, size_t count, moment when)
{
    check_upward(l, ids, count);
    check_time(l, ids, count, when);
    if (count)
        l->last = ids[count - 1];
}

void check_pair(ledger *l, const uint64_t *const ids[2], const size_t count[2], const moment when[2])
{
    for (int t = 0; t < 2; t++) {
        check_upward(l, ids[t], count[t]);
        check_time(l, ids[t], count[t], when[t]);
    }
    /* Both go up by themselves, so twins meet when the two are merged. */
    for (size_t i = 0, j = 0; i < count[0] && j < count[1];) {
        uint64_t a = ids[0][i], b = ids[1][j];
        l->twins += a == b;
        i += a <= b;
        j += b <= a;
    }
    for (int t = 0; t < 2; t++)
        if (count[t] && ids[t][count[t] - 1] > l->last)
            l->last = ids[t][count[t] - 1];
}

bool ledger_is_wrong(const ledger *l)
{
    return l->twins || l->disorder || l->garbled || (l->future && !check_clock_went_back());
}
