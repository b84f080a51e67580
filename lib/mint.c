/* Minting: the protocol between threads.
 *
 * Minting goes by runs. A run is the consecutive points of one block in one millisecond, and it is published only when
 * that millisecond has come. To claim a point a thread adds one to `next`; whoever moved the word owns what it passed.
 *
 *   publisher, under the lock          reader, without
 *   1. next     := start of the run    1. reads deadline: not reached, so the millisecond is not over
 *   2. hi       := end of the run      2. reads owner, then hi
 *   3. deadline := end of the ms       3. adds to next; a claim at or past the hi it read is void
 *
 * Why no point is given twice. `hi` never falls, and a new run starts at or above the `hi` of the one before. A reader
 * that saw the new `hi` saw it after step 1, so its claim comes from the new run. A reader that saw an old `hi` and was
 * held up claims at or above the new start, hence at or past its own `hi`: void. A run is frozen by raising `next` to
 * its `hi`, after which every claim on it is void; what it has left may be published again from where it stood, with
 * the same `hi`, and to a reader that still has that `hi` nothing has changed. Claims past the end move `next` too far;
 * the next publication sets it right, and all they took is void.
 *
 * The first thread to mint is the owner. It claims 64 points with one addition and hands them out by itself. When a
 * second thread comes, it makes everybody the owner, and what the first had left is lost. Only order is at stake: the
 * owner's points were claimed like any others. A call that begins after another thread's call has ended must give a
 * larger ID: the second thread wrote `owner` before it claimed, so whoever starts after that call sees it and does not
 * touch points claimed before. The owner never writes `next` other than by adding, so it need not be stopped first.
 *
 * A thread that has come the slow way 64 times in a row while everybody was the owner is alone again, as far as can be
 * seen, and becomes the owner. Others may still be on their way to a claim: so whoever claims as one of everybody looks
 * at `owner` once more afterwards, and lets its claim go if there is an owner now. If it saw none, its claim came
 * before the first of that owner's, for the owner wrote `owner` before it claimed. What an owner keeps for itself lies
 * in a place of its own, whose number is a part of `owner`: a thread that was held up as the owner of long ago writes
 * there and nowhere else.
 *
 * kz_share: somebody else does the reader's part, without looking at `owner`. Everybody is the owner then, for good.
 *
 * The deadline counts ticks of a cheap counter. It decides how old a time can be, nothing else: a wrong counter makes
 * IDs late, never equal and never smaller. Every call reads the counter, although that is most of what it costs:
 * nothing else tells a call how long ago the last one was, and with every tenth call looking, nine could give any old
 * time. Only a thread that moves a word in memory would be cheaper to ask; it would wake an idle machine a thousand
 * times a second, say any old time while it waits for a processor, and not exist in a child.
 *
 * deadline, owner, hi and next lie in memory that fork wipes: in a child the deadline reads 0 and the call goes the
 * slow way, which finds the generator dead. */
#include "core/error.h"
#include "core/rules.h"
#include "lib/generator.h"
#include "lib/thread.h"

#include <errno.h>
#include <inttypes.h>

/* Points the owner claims at once. */
#define OWN_CLAIM 64
/* So often in a row must a thread come the slow way to be taken for the only one: at full speed, as many ms. */
#define ALONE_LOOKS 64
/* No claim is larger: threads that overshoot together must not carry `next` past the end of 64 bits. */
#define CLAIM_MAX 65536
/* A sleeper looks at the clock at least this often: it may be set right meanwhile. */
#define NAP_MAX_NS (100 * KZ__NS_PER_MS)
/* How soon to ask again for what the keeper is about to bring: an exchange with a source takes about as long. */
#define EXCHANGE_US 1000

/* Where a test holds threads up, so that what seldom happens between two steps happens often. */
#ifdef KZ_TEST_HOOKS
void (*kz__hold_up)(void);
unsigned kz__alone_looks = ALONE_LOOKS;
#undef ALONE_LOOKS
#define ALONE_LOOKS kz__alone_looks
#define MAY_BE_HELD_UP()                                                                                               \
    do {                                                                                                               \
        if (kz__hold_up)                                                                                               \
            kz__hold_up();                                                                                             \
    } while (0)
#else
#define MAY_BE_HELD_UP() ((void)0)
#endif

#define LOAD(field)         atomic_load_explicit(&hot->field, memory_order_acquire)
#define STORE(field, value) atomic_store_explicit(&hot->field, value, memory_order_release)
#define PEEK(field)         atomic_load_explicit(&hot->field, memory_order_relaxed)
#define POKE(field, value)  atomic_store_explicit(&hot->field, value, memory_order_relaxed)

/* Up to `want` points below `hi`, or 0. */
static inline size_t claim(kz__hot *hot, size_t want, kz_id hi, kz_id *first)
{
    if (want > CLAIM_MAX)
        want = CLAIM_MAX;
    MAY_BE_HELD_UP();
    kz_id point = atomic_fetch_add_explicit(&hot->next, want, memory_order_acq_rel);
    if (point >= hi) {
        STORE(deadline, 0);
        return 0;
    }
    *first = point;
    return hi - point < want ? (size_t)(hi - point) : want;
}

/* The owner's way: from the points it has claimed, claiming more when they are used up. */
static inline size_t take_own(kz__hot *hot, kz__own *own, size_t want, kz_id *first)
{
    kz_id next = atomic_load_explicit(&own->next, memory_order_relaxed);
    kz_id end = atomic_load_explicit(&own->end, memory_order_relaxed);
    if (next == end) {
        size_t got = claim(hot, want > OWN_CLAIM ? want : OWN_CLAIM, LOAD(hi), &next);
        if (!got)
            return 0;
        end = next + got;
        atomic_store_explicit(&own->end, end, memory_order_relaxed);
    }
    MAY_BE_HELD_UP();
    size_t take = end - next < want ? (size_t)(end - next) : want;
    atomic_store_explicit(&own->next, next + take, memory_order_relaxed);
    *first = next;
    return take;
}

/* Points for who has read the deadline, and the ticks after it; or 0. */
static inline size_t take_before(uint64_t deadline, uint64_t ticks, kz__hot *hot, size_t want, kz_id *first)
{
    if (deadline - ticks - 1 >= PEEK(span))
        return 0;
    uintptr_t owner = LOAD(owner);
    uintptr_t place = owner - kz__this_thread();
    if (place < KZ__OWN_PLACES)
        return take_own(hot, &hot->own[place], want, first);
    if (owner != KZ__EVERYBODY)
        return 0;
    kz_id point = 0;
    MAY_BE_HELD_UP();
    size_t got = claim(hot, want, LOAD(hi), &point);
    MAY_BE_HELD_UP();
    if (!got || LOAD(owner) != KZ__EVERYBODY)
        return 0;
    *first = point;
    return got;
}

/* Points without the lock, or 0. */
static inline size_t take_quickly(kz__hot *hot, size_t want, kz_id *first)
{
    uint64_t deadline = LOAD(deadline);
    return deadline ? take_before(deadline, kz__ticks(hot->ticks), hot, want, first) : 0;
}

/* ------------------------------------------------------------------------------------------- under the lock */

kz_id kz__position(const kz__hot *hot)
{
    if (!hot->run_active)
        return hot->floor;
    kz_id next = PEEK(next);
    return next < hot->run.end ? next : hot->run.end;
}

/* What a run gave: for the statistics, and for how much to ask for at the next handover. */
static void count_use(kz__hot *hot, uint64_t ids)
{
    hot->ids[hot->run.rank] += ids;
    if (hot->use_ms != hot->run.ms)
        hot->use_ids = 0;
    hot->use_ms = hot->run.ms;
    hot->use_ids += ids;
    if (hot->use_ids > hot->use_peak)
        hot->use_peak = hot->use_ids < UINT32_MAX ? (uint32_t)hot->use_ids : UINT32_MAX;
}

void kz__freeze(kz__hot *hot)
{
    if (!hot->run_active)
        return;
    POKE(deadline, 0);
    kz_id next = atomic_exchange_explicit(&hot->next, hot->run.end, memory_order_acq_rel);
    hot->floor = next < hot->run.end ? next : hot->run.end;
    count_use(hot, hot->floor - hot->run.first - hot->unspent);
    hot->run_active = false;
}

/* Points that the owner has and nobody has got. */
uint64_t kz__unspent(const kz__hot *hot)
{
    uintptr_t owner = atomic_load(&hot->owner);
    if (owner == KZ__NOBODY || owner == KZ__EVERYBODY)
        return 0;
    const kz__own *own = &hot->own[owner % KZ__OWN_PLACES];
    return atomic_load(&own->end) - atomic_load(&own->next);
}

/* Ends the run for this thread's sake; as the owner, its unspent points with it. */
static void end_run(kz__hot *hot, kz__own *own)
{
    uint64_t unspent = own ? kz__unspent(hot) : 0;
    if (own)
        atomic_store(&own->next, atomic_load(&own->end));
    bool active = hot->run_active;
    hot->unspent = active ? unspent : 0;
    kz__freeze(hot);
    hot->unspent = 0;
    if (!active)
        hot->ids[hot->run.rank] -= unspent;
}

/* As the owner this thread would be called so; KZ__EVERYBODY if there is no place left for it. */
static uintptr_t name_of(kz__hot *hot, uintptr_t self)
{
    for (uintptr_t i = 0; i < KZ__OWN_PLACES && self % KZ__OWN_PLACES == 0; i++) {
        if (!hot->own_threads[i])
            hot->own_threads[i] = self;
        if (hot->own_threads[i] != self)
            continue;
        /* What it had left when it was the owner before is lost. */
        atomic_store(&hot->own[i].next, atomic_load(&hot->own[i].end));
        return self + i;
    }
    return KZ__EVERYBODY;
}

/* Is it long enough since another thread was seen here? */
static bool seems_alone(kz__hot *hot, uintptr_t self)
{
    if (hot->looker != self) {
        hot->looker = self;
        hot->looks = 0;
    }
    return ++hot->looks > ALONE_LOOKS;
}

/* Makes this thread the owner, or everybody. The place of this thread if it is the owner, else NULL. */
static kz__own *settle_owner(kz_generator *gen)
{
    kz__hot *hot = gen->hot;
    uintptr_t self = kz__this_thread(), owner = PEEK(owner);
    bool mine = owner - self < KZ__OWN_PLACES;
    if (owner == KZ__NOBODY || (owner == KZ__EVERYBODY && !gen->shared && seems_alone(hot, self))) {
        atomic_store(&hot->owner, owner = name_of(hot, self));
        hot->looks = 0;
    } else if (!mine && owner != KZ__EVERYBODY) {
        atomic_store(&hot->owner, owner = KZ__EVERYBODY);
    }
    return owner == KZ__EVERYBODY ? NULL : &hot->own[owner - self];
}

/* splitmix64 */
static uint64_t step(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

uint64_t kz__draw(kz__hot *hot)
{
    return step(&hot->random[0]);
}

void kz__draw_request(kz__hot *hot, uint64_t id[static 2])
{
    id[0] = step(&hot->random[0]);
    id[1] = step(&hot->random[1]);
}

/* Where in a fresh block a millisecond begins. Unfenced IDs begin anywhere: chance is all they have. */
static kz_id first_point(kz_generator *gen, const kz__run *run)
{
    kz_id size = run->end - run->block;
    if (run->first != run->block)
        return run->first;
    if (run->rank == KZ__UNFENCED)
        return run->block + kz__draw(gen->hot) % size;
    if (gen->options.seq_start == KZ_SEQ_RANDOM && size > 1)
        return run->block + kz__draw(gen->hot) % (size / 2);
    return run->block;
}

/* The clock, read under the lock so that readings come in order. */
typedef struct reading {
    uint64_t ticks; /* taken before the clock: a deadline made from them errs to the early side */
    int64_t id_ns, id_ms;
} reading;

static reading read_clock(kz_generator *gen)
{
    kz__hot *hot = gen->hot;
    reading now = {0};
    if (hot->ticks != KZ__TICKS_OFF) {
        kz__tick_rate_measure(&hot->rate);
        now.ticks = kz__ticks(hot->ticks);
    }
    now.id_ns = kz__id_ns(gen);
    now.id_ms = kz__ms(now.id_ns);
    if (now.id_ms < hot->reading_ms) {
        int64_t step_ms = hot->reading_ms - now.id_ms;
        hot->backward++;
        if (step_ms > hot->backward_max_ms)
            hot->backward_max_ms = step_ms;
    }
    hot->reading_ms = now.id_ms;
    if (now.id_ms > hot->high_ms)
        hot->high_ms = now.id_ms;
    return now;
}

/* Lets the quick way be used until this millisecond is over. */
static void arm(kz__hot *hot, const reading *now)
{
    if (!hot->rate.per_ms)
        return;
    uint64_t left_ns = (uint64_t)(KZ__NS_PER_MS - now->id_ns % KZ__NS_PER_MS);
    POKE(span, hot->rate.span);
    STORE(deadline, now->ticks + left_ns * hot->rate.per_ms / KZ__NS_PER_MS);
}

/* Publishes a run and takes its first points. */
static size_t publish(kz_generator *gen, const kz__run *found, const reading *now, kz__own *own, size_t want,
                      kz_id *first)
{
    kz__hot *hot = gen->hot;
    kz__run run = *found;
    run.first = first_point(gen, found);
    size_t claimed = own && hot->rate.per_ms && want < OWN_CLAIM ? OWN_CLAIM : want;
    if (claimed > run.end - run.first)
        claimed = (size_t)(run.end - run.first);
    if (want > claimed)
        want = claimed;

    atomic_exchange_explicit(&hot->next, run.first + claimed, memory_order_acq_rel);
    hot->run = run;
    hot->run_active = true;
    STORE(hi, run.end);
    arm(hot, now);
    if (own) {
        atomic_store(&own->end, run.first + claimed);
        atomic_store(&own->next, run.first + want);
    }
    *first = run.first;
    return want;
}

/* Points of the run that is published, if the clock still shows its millisecond. */
static size_t go_on(kz_generator *gen, const reading *now, kz__own *own, size_t want, kz_id *first)
{
    kz__hot *hot = gen->hot;
    if (!hot->run_active || now->id_ms != (int64_t)hot->run.ms)
        return 0;
    bool has_own = own && kz__unspent(hot);
    size_t got = has_own ? take_own(hot, own, want, first) : claim(hot, want, hot->run.end, first);
    if (got)
        arm(hot, now);
    return got;
}

/* ------------------------------------------------------------------------------------------- the slow way */

/* How long a call may still sleep. */
typedef struct patience {
    int64_t timeout_ms;
    int64_t started_ns; /* boot time of the first look, or -1 */
} patience;

static int64_t budget_ms(const kz_generator *gen, patience *p)
{
    if (p->timeout_ms <= 0)
        return p->timeout_ms < 0 ? -1 : 0;
    int64_t boot_ns = gen->clock.boot_ns(gen->clock.ctx);
    if (p->started_ns < 0)
        p->started_ns = boot_ns;
    int64_t left_ms = p->timeout_ms - (boot_ns - p->started_ns) / KZ__NS_PER_MS;
    return left_ms > 0 ? left_ms : 0;
}

static kz_status explain(const kz_generator *gen, kz_status status, int64_t backward_ms, int64_t limit_ms,
                         const patience *p, kz_error *err)
{
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(&gen->layout, text);
    switch (status) {
    case KZ_AGAIN:
        if (p->timeout_ms == 0)
            return kz__fail(err, KZ_AGAIN, "no ID without waiting");
        return kz__fail(err, KZ_TIMEOUT, "no ID within %" PRId64 " ms", p->timeout_ms);
    case KZ_TIMEOUT:
        return kz__fail(err, KZ_TIMEOUT, "no ID within %" PRId64 " ms", p->timeout_ms);
    case KZ_CLOCK_BACKWARD:
        kz__fail(err, status,
                 "the clock is %" PRId64 " ms behind the last ID (limit %" PRId64
                 " ms): check NTP and the system time, "
                 "or choose another backward policy",
                 backward_ms, limit_ms);
        if (err) {
            err->backward_ms = backward_ms;
            err->limit_ms = limit_ms;
        }
        return status;
    case KZ_BEFORE_EPOCH:
        return kz__fail(err, status,
                        "the clock is before the epoch of layout %s: set the clock or choose another layout", text);
    case KZ_OVERFLOW:
        return kz__fail(err, status,
                        "the time field of layout %s has run out: move to one with more time bits or a "
                        "later epoch",
                        text);
    case KZ_FORKED:
        return kz__fail(err, status,
                        "this generator was opened by the parent process: open one in the child, with a "
                        "node of its own");
    default:
        return kz__fail(err, status, "%s", kz_status_text(status));
    }
}

/* When a call that may not sleep is worth making again. */
static kz_status say_when(kz_status status, int64_t us, kz_error *err)
{
    if (err && (status == KZ_AGAIN || status == KZ_LEASE_ACQUISITION))
        err->retry_us = us > 0 ? us : 1;
    return status;
}

/* How long until the ID clock should show `until_ms`, or a while towards it. */
static int64_t nap_ns(int64_t until_ms, const reading *now)
{
    int64_t ns = until_ms * KZ__NS_PER_MS - now->id_ns;
    return ns < NAP_MAX_NS ? ns : NAP_MAX_NS;
}

/* Sleeps until the ID clock should show `until_ms`, or a while towards it. The lock is held before and after. */
static void nap(kz_generator *gen, int64_t until_ms, const reading *now)
{
    kz__hot *hot = gen->hot;
    hot->sleeps++;
    pthread_mutex_unlock(&hot->lock);
    gen->clock.sleep_ns(gen->clock.ctx, nap_ns(until_ms, now));
    pthread_mutex_lock(&hot->lock);
}

/* Why nothing is held, in the words of the last attempt to change that. */
static kz_status explain_keeper(const kz_generator *gen, const patience *p, kz_error *err)
{
    const kz__hot *hot = gen->hot;
    if (!hot->keeper.failures)
        return say_when(explain(gen, KZ_AGAIN, 0, 0, p, err), EXCHANGE_US, err);
    if (gen->wall_clock) {
        if (err)
            *err = hot->keeper_error;
        return hot->keeper_error.status;
    }
    kz__fail(err, KZ_LEASE_ACQUISITION, "no lease, and no fallback left: %s", hot->keeper_error.message);
    if (err)
        err->cause = hot->keeper_error.status;
    /* Not before the keeper's next try has had its answer. */
    int64_t pause_ms = hot->keeper.retry_boot_ms - gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
    return say_when(KZ_LEASE_ACQUISITION, (pause_ms > 0 ? pause_ms * 1000 : 0) + EXCHANGE_US, err);
}

/* Nothing held covers the time from now on. Waits for the keeper to change that; the lock is held before and after. */
static kz_status wait_for_keeper(kz_generator *gen, int64_t budget, patience *p, kz_error *err)
{
    kz__hot *hot = gen->hot;
    bool called = hot->keeper.needed;
    hot->keeper.needed = true;
    if (!called)
        kz__keeper_call(hot);
    /* A disk that refused a moment ago is not worth a wait; a coordinator may be back any moment. */
    bool hopeless = gen->wall_clock && hot->keeper.failures;
    bool somebody = hot->keeper_runs || gen->options.keeper == KZ_KEEPER_CALLER;
    if (!somebody || budget == 0 || hopeless)
        return explain_keeper(gen, p, err);
    hot->sleeps++;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += budget < 0 || budget > NAP_MAX_NS / KZ__NS_PER_MS ? NAP_MAX_NS : budget * KZ__NS_PER_MS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&hot->changed, &hot->lock, &until);
    return KZ_OK;
}

/* The slots of a millisecond were used up while more were wanted. */
static void note_exhaustion(kz__hot *hot, int64_t now_ms)
{
    if (hot->exhausted_last_ms == (uint64_t)now_ms)
        return;
    hot->exhausted++;
    hot->exhausted_last_ms = (uint64_t)now_ms;
    if (!hot->keeper.exhausted && kz__keeper_throughput(&hot->keeper) < hot->keeper.throughput_max) {
        hot->keeper.exhausted = true;
        kz__keeper_call(hot);
    }
}

/* One look under the lock: takes points, sleeps once (no points, KZ_OK), or fails. */
static kz_status look(kz_generator *gen, size_t want, patience *p, kz_id *first, size_t *got, kz_error *err)
{
    kz__hot *hot = gen->hot;
    if (!hot->alive) {
        kz_status status = kz__keeper_revive(gen, err);
        if (status)
            return status == KZ_FORKED ? explain(gen, status, 0, 0, p, err) : status;
    }
    /* A child that waits for its first lease does not know the time yet, and the wall clock is nothing to it. */
    if (!gen->wall_clock && !hot->idclock.set && gen->fallback != KZ_FALLBACK_ANY)
        return wait_for_keeper(gen, budget_ms(gen, p), p, err);
    kz__own *own = settle_owner(gen);
    reading now = read_clock(gen);
    *got = go_on(gen, &now, own, want, first);
    if (*got)
        return KZ_OK;
    end_run(hot, own);

    int64_t budget = budget_ms(gen, p);
    kz__stand stand = {.rects = hot->rects,
                       .count = hot->rect_count,
                       .slot_bits = gen->slot_bits,
                       .end_ms = (int64_t)kz__end_of_time_ms(&gen->layout),
                       .next = KZ__RULE(ONLY_UPWARD) ? hot->floor : 0,
                       .high_ms = hot->high_ms > hot->resume_ms ? hot->high_ms : hot->resume_ms,
                       .resume_ms = hot->resume_ms,
                       .grace_ms = hot->grace_ms};
    kz__decision decision = kz__decide(&stand, &gen->policy, now.id_ms, budget);
    if (decision.verdict == KZ__MINT && decision.run.end < PEEK(hi)) {
        /* A run inside one that was published before, as a twin is inside the unfenced half: `hi` must not fall. */
        stand.next = hot->floor = PEEK(hi);
        decision = kz__decide(&stand, &gen->policy, now.id_ms, budget);
    }
    if (decision.exhausted)
        note_exhaustion(hot, now.id_ms);
    switch (decision.verdict) {
    case KZ__MINT:
        *got = publish(gen, &decision.run, &now, own, want, first);
        return KZ_OK;
    case KZ__WAIT:
        nap(gen, decision.until_ms, &now);
        return KZ_OK;
    case KZ__NOTHING_HELD:
        return wait_for_keeper(gen, budget, p, err);
    case KZ__REFUSE:
        break;
    }
    kz_status status = explain(gen, decision.status, decision.backward_ms, decision.limit_ms, p, err);
    return say_when(status, (nap_ns(decision.until_ms, &now) + 999) / 1000, err);
}

static kz_status take_slowly(kz_generator *gen, size_t want, patience *p, kz_id *first, size_t *got, kz_error *err)
{
    kz_status status = KZ_OK;
    *got = 0;
    pthread_mutex_lock(&gen->hot->lock);
    while (status == KZ_OK && *got == 0)
        status = look(gen, want, p, first, got, err);
    pthread_mutex_unlock(&gen->hot->lock);
    return status;
}

/* Fills `ids` until it fails or is full; `done` says how far. */
static inline kz_status mint(kz_generator *gen, kz_id *ids, size_t count, int64_t timeout_ms, size_t *done,
                             kz_error *err)
{
    patience p = {.timeout_ms = timeout_ms, .started_ns = -1};
    for (*done = 0; *done < count;) {
        kz_id first = 0;
        size_t got = take_quickly(gen->hot, count - *done, &first);
        if (!got) {
            kz_status status = take_slowly(gen, count - *done, &p, &first, &got, err);
            if (status)
                return status;
        }
        kz_id *out = ids + *done;
        for (size_t i = 0; i < got; i++)
            out[i] = first + i;
        *done += got;
    }
    return KZ_OK;
}

kz_status kz_mint(kz_generator *gen, kz_id *ids, size_t count, int64_t timeout_ms, kz_error *err)
{
    size_t done;
    return mint(gen, ids, count, timeout_ms, &done, err);
}

kz_status kz_try_batch(kz_generator *gen, kz_id *ids, size_t count, size_t *got, kz_error *err)
{
    return mint(gen, ids, count, 0, got, err);
}

/* The processor's counter needs no call, other clocks do. This is not inlined, so that kz_next calls nothing on its way
 * and has no registers to save. */
__attribute__((noinline)) static kz_status next_with_calls(kz_generator *gen, kz_id *id, int64_t timeout_ms)
{
    if (gen->hot->ticks != KZ__TICKS_CPU && take_quickly(gen->hot, 1, id))
        return KZ_OK;
    return kz_mint(gen, id, 1, timeout_ms, NULL);
}

static inline kz_status next_within(kz_generator *gen, kz_id *id, int64_t timeout_ms)
{
    kz__hot *hot = gen->hot;
    uint64_t deadline = LOAD(deadline);
    if (hot->ticks == KZ__TICKS_CPU && deadline && take_before(deadline, kz__ticks(KZ__TICKS_CPU), hot, 1, id))
        return KZ_OK;
    return next_with_calls(gen, id, timeout_ms);
}

kz_status kz_next(kz_generator *gen, kz_id *id)
{
    return next_within(gen, id, gen->options.timeout_ms);
}

kz_status kz_try_next(kz_generator *gen, kz_id *id)
{
    return next_within(gen, id, 0);
}

kz_status kz_next_batch(kz_generator *gen, kz_id *ids, size_t count)
{
    return kz_mint(gen, ids, count, gen->options.timeout_ms, NULL);
}
