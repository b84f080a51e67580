/* The speed goals, measured: denominators and ours by turns in one process, medians of many short rounds, every ID
 * checked. A missed goal is a finding, not a failure: only wrong IDs make the exit status 1. */
#include "bench/measure.h"
#include "bench/ours.h"
#include "bench/rivals.h"
#include "bench/saturate.h"
#include "bench/table.h"

#include "host/clock.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_MS INT64_C(1767225600000) /* 2026-01-01 */
#define SECOND   INT64_C(1000000000)

enum {
    SLICE_NS = 1000000,
    SATURATED_NS = 125000000,
    SATURATED_SEQ_BITS = 12,
    ORDER_CALLS = 2000,
    SLEEPS = 20,
    GOALS = 7
};
enum { LEASES = 16, LEASE_HEIGHT = 18 };

/* What is measured, each with a series of its own. */
typedef enum subject {
    CLOCK,
    TICKS,
    NEXT,
    NEXT_COARSE,
    NEXT_AGAIN, /* alone again, after another thread has minted too */
    TEXTBOOK,
    ONE_LEASE,
    MANY_LEASES,
    BATCHES,
    MONO,
    MONOUUID,
    MIXER,
    SPECK,
    XTEA,
    TEXT_DECIMAL,
    TEXT_HEX,
    TEXT_BASE32,
    TEXT_BASE62,
    TEXT_BASE64URL,
    LINE_DECIMAL,
    LINE_HEX,
    LINE_BASE32,
    LINE_BASE62,
    LINE_BASE64URL,
    PAIR_XADD,
    PAIR_COARSE_XADD,
    PAIR_TICKS_XADD,
    PAIR_NEXT,
    PAIR_COARSE,
    PAIR_MONO,
    PAIR_TEXTBOOK,
    ROOM,          /* what a saturated layout has room for */
    SATURATED,     /* what came */
    SATURATED_CPU, /* and what it cost */
    TEXTBOOK_SATURATED,
    TEXTBOOK_CPU,
    SLEEP_CPU,
    SUBJECTS,
    NOTHING = SUBJECTS,
    FIRST_PAIR = PAIR_XADD,
    FIRST_SATURATED = ROOM,
} subject;

/* A line of the table: ours over the denominator, perhaps after taking something off. */
typedef struct line {
    int goal;
    const char *what;
    subject ours, less, below;
    double limit;
} line;

static const line lines[] = {
    {1, "kz_next, one thread", NEXT, NOTHING, CLOCK, 0.60},
    {1, "kz_next, alone again", NEXT_AGAIN, NOTHING, NEXT, 1.1},
    {2, "kz_next, two threads, coarse", PAIR_COARSE, NOTHING, PAIR_XADD, 2.0},
    {2, "kz_next, two threads, precise", PAIR_NEXT, NOTHING, PAIR_XADD, 3.5},
    {3, "saturated 41-10-12, IDs", SATURATED, NOTHING, ROOM, 0.995},
    {3, "saturated 41-10-12, CPU", SATURATED_CPU, NOTHING, TEXTBOOK_CPU, 0.40},
    {4, "kz_mono_next", MONO, NOTHING, CLOCK, 1.2},
    {4, "kz_monouuid_next, beyond kz_mono_next", MONOUUID, MONO, CLOCK, 0.3},
    {5, "kz_next_batch of 64, for each ID", BATCHES, NOTHING, CLOCK, 0.06},
    {5, "a line of kazahana next, decimal", LINE_DECIMAL, NOTHING, CLOCK, 0.2},
    {5, "a line of kazahana next, hex", LINE_HEX, NOTHING, CLOCK, 0.2},
    {5, "a line of kazahana next, base32", LINE_BASE32, NOTHING, CLOCK, 0.2},
    {5, "a line of kazahana next, base62", LINE_BASE62, NOTHING, CLOCK, 0.2},
    {5, "a line of kazahana next, base64url", LINE_BASE64URL, NOTHING, CLOCK, 0.2},
    {6, "external ID, Speck", SPECK, NOTHING, CLOCK, 1.05},
    {6, "external ID, mixer", MIXER, NOTHING, CLOCK, 0.2},
    {7, "kz_next, 16 leases", MANY_LEASES, NOTHING, ONE_LEASE, 1.05},
    {0, "tick counter alone", TICKS, NOTHING, CLOCK, NAN},
    {0, "coarse clock, lock xadd, two threads", PAIR_COARSE_XADD, NOTHING, PAIR_XADD, NAN},
    {0, "tick counter, lock xadd, two threads", PAIR_TICKS_XADD, NOTHING, PAIR_XADD, NAN},
    {0, "textbook generator saturated, IDs", TEXTBOOK_SATURATED, NOTHING, ROOM, NAN},
    {0, "one sleep for 4096 IDs, CPU", SLEEP_CPU, NOTHING, TEXTBOOK_CPU, NAN},
    {0, "kz_next, one thread, coarse", NEXT_COARSE, NOTHING, CLOCK, NAN},
    {0, "kz_mono_next, two threads", PAIR_MONO, NOTHING, PAIR_XADD, NAN},
    {0, "textbook generator, one thread", TEXTBOOK, NOTHING, CLOCK, NAN},
    {0, "textbook generator, two threads", PAIR_TEXTBOOK, NOTHING, PAIR_XADD, NAN},
    {0, "external ID, XTEA", XTEA, NOTHING, CLOCK, NAN},
    {0, "kz_text, decimal", TEXT_DECIMAL, NOTHING, CLOCK, NAN},
    {0, "kz_text, hex", TEXT_HEX, NOTHING, CLOCK, NAN},
    {0, "kz_text, base32", TEXT_BASE32, NOTHING, CLOCK, NAN},
    {0, "kz_text, base62", TEXT_BASE62, NOTHING, CLOCK, NAN},
    {0, "kz_text, base64url", TEXT_BASE64URL, NOTHING, CLOCK, NAN},
};
enum { LINES = sizeof lines / sizeof *lines };

static minter next, next_coarse, next_again, batches, one_lease, many_leases, pair_next, pair_coarse, saturated;
static mono increasing, pair_increasing;
static monouuid uuids;
static printer mixer, speck, xtea, decimal, hex, base32, base62, base64url;
static shared_word word, word_after_coarse, word_after_ticks;
static textbook textbook_alone, textbook_pair, textbook_saturated;
static ledger word_ids = {.name = "lock xadd, two threads"};
static ledger word_after_coarse_ids = {.name = "coarse clock, lock xadd, two threads"};
static ledger word_after_ticks_ids = {.name = "tick counter, lock xadd, two threads"};
static ledger textbook_ids = {.name = "textbook, one thread", .time_shift = 22, .epoch_ms = EPOCH_MS};
static ledger textbook_pair_ids = {.name = "textbook, two threads", .time_shift = 22, .epoch_ms = EPOCH_MS};
static ledger textbook_saturated_ids = {.name = "textbook, saturated", .time_shift = 22, .epoch_ms = EPOCH_MS};

static void check_textbook(void *ctx, const void *ids, size_t count, moment when)
{
    (void)ctx;
    check_alone(&textbook_ids, ids, count, when);
}

#define IDS(fill, minter)                                                                                              \
    {                                                                                                                  \
#minter, sizeof(kz_id), fill, check_minted, &minter, &minter.ids                                               \
    }
#define TEXTS(printer)                                                                                                 \
    {                                                                                                                  \
#printer, sizeof(printed), fill_with_texts, check_texts, &printer, &printer.texts                              \
    }
#define LINES_OF(printer)                                                                                              \
    {                                                                                                                  \
#printer, sizeof(printed_line), fill_with_lines, check_lines, &printer, &printer.texts                         \
    }
#define EXTERNALS(printer)                                                                                             \
    {                                                                                                                  \
#printer, sizeof(printed), fill_with_externals, check_externals, &printer, &printer.texts                      \
    }

static const work works[SUBJECTS] = {
    [CLOCK] = {"clock_gettime", sizeof(uint64_t), fill_with_clock, NULL, NULL, NULL},
    [TICKS] = {"tick counter", sizeof(uint64_t), fill_with_ticks, NULL, &word_after_ticks, NULL},
    [NEXT] = IDS(fill_with_next, next),
    [NEXT_COARSE] = IDS(fill_with_next, next_coarse),
    [NEXT_AGAIN] = IDS(fill_with_next, next_again),
    [TEXTBOOK] = {"textbook generator", sizeof(uint64_t), fill_with_textbook, check_textbook, &textbook_alone,
                  &textbook_ids},
    [ONE_LEASE] = {"kz_next, 1 lease", sizeof(kz_id), fill_with_next, check_minted, &one_lease, &one_lease.ids},
    [MANY_LEASES] = IDS(fill_with_next, many_leases),
    [BATCHES] = IDS(fill_with_batches, batches),
    [MONO] = {"kz_mono_next", sizeof(int64_t), fill_with_mono, check_mono, &increasing, &increasing.values},
    [MONOUUID] = {"kz_monouuid_next", sizeof(kz_uuid), fill_with_monouuid, check_monouuid, &uuids, &uuids.values},
    [MIXER] = EXTERNALS(mixer),
    [SPECK] = EXTERNALS(speck),
    [XTEA] = EXTERNALS(xtea),
    [TEXT_DECIMAL] = TEXTS(decimal),
    [TEXT_HEX] = TEXTS(hex),
    [TEXT_BASE32] = TEXTS(base32),
    [TEXT_BASE62] = TEXTS(base62),
    [TEXT_BASE64URL] = TEXTS(base64url),
    [LINE_DECIMAL] = LINES_OF(decimal),
    [LINE_HEX] = LINES_OF(hex),
    [LINE_BASE32] = LINES_OF(base32),
    [LINE_BASE62] = LINES_OF(base62),
    [LINE_BASE64URL] = LINES_OF(base64url),
    [PAIR_XADD] = {"lock xadd, two threads", sizeof(uint64_t), fill_with_xadd, NULL, &word, &word_ids},
    [PAIR_COARSE_XADD] = {"coarse, lock xadd", sizeof(uint64_t), fill_with_ticks_and_xadd, NULL, &word_after_coarse,
                          &word_after_coarse_ids},
    [PAIR_TICKS_XADD] = {"ticks, lock xadd", sizeof(uint64_t), fill_with_ticks_and_xadd, NULL, &word_after_ticks,
                         &word_after_ticks_ids},
    [PAIR_NEXT] = IDS(fill_with_next, pair_next),
    [PAIR_COARSE] = IDS(fill_with_next, pair_coarse),
    [PAIR_MONO] = {"kz_mono_next, two threads", sizeof(int64_t), fill_with_mono, NULL, &pair_increasing,
                   &pair_increasing.values},
    [PAIR_TEXTBOOK] = {"textbook generator, two threads", sizeof(uint64_t), fill_with_textbook, NULL, &textbook_pair,
                       &textbook_pair_ids},
    [ROOM] = {"room for 4,096,000 a second", 0, NULL, NULL, NULL, NULL},
    [SATURATED] = IDS(fill_with_next, saturated),
    [SATURATED_CPU] = {"CPU", 0, NULL, NULL, NULL, NULL},
    [TEXTBOOK_CPU] = {"textbook generator, CPU", sizeof(uint64_t), fill_with_textbook, NULL, &textbook_saturated,
                      &textbook_saturated_ids},
};

static series measured[SUBJECTS];
static bool wanted[SUBJECTS + 1];

/* Every generator has an epoch of its own, so that all of them can have the same node. The one thread's are opened
 * here, by the thread that will use them. */
static void open_all(void)
{
    static const char secret[] = "speck 000102030405060708090a0b0c0d0e0f";
    char line_of_key[64];
    minter_open(&next, "kz_next, one thread", "static:1", "41-2-20@2026-01-01", KZ_CLOCK_PRECISE);
    minter_open(&next_coarse, "kz_next, one thread, coarse", "static:1", "41-2-20@2026-01-02", KZ_CLOCK_COARSE);
    minter_open(&next_again, "kz_next, alone again", "static:1", "41-2-20@2026-01-08", KZ_CLOCK_PRECISE);
    minter_disturb(&next_again);
    minter_open(&batches, "kz_next_batch, one thread", "static:1", "41-2-20@2026-01-03", KZ_CLOCK_PRECISE);
    minter_open(&one_lease, "kz_next, 1 lease", "static:0", "41-2-20@2026-01-04", KZ_CLOCK_PRECISE);
    minter_open(&many_leases, "kz_next, 16 leases", "static:0", "41-2-20@2026-01-05", KZ_CLOCK_PRECISE);
    minter_open(&pair_next, "kz_next, two threads", "static:1", "41-2-20@2026-01-06", KZ_CLOCK_PRECISE);
    minter_open(&pair_coarse, "kz_next, two threads, coarse", "static:1", "41-2-20@2026-01-07", KZ_CLOCK_COARSE);
    minter_open(&saturated, "kz_next, saturated", "static:1", "41-10-12@2026-01-01", KZ_CLOCK_PRECISE);
    minter_hold(&one_lease, 1, LEASE_HEIGHT);
    minter_hold(&many_leases, LEASES, LEASE_HEIGHT);
    word_after_coarse.ticks = KZ__TICKS_COARSE;
    word_after_ticks.ticks = kz__precise_ticks();
    textbook_init(&textbook_alone, EPOCH_MS, 2, 20);
    textbook_init(&textbook_pair, EPOCH_MS, 2, 20);
    textbook_init(&textbook_saturated, EPOCH_MS, 10, SATURATED_SEQ_BITS);
    mono_open(&increasing, "kz_mono_next");
    mono_open(&pair_increasing, "kz_mono_next, two threads");
    monouuid_open(&uuids);
    printer_open(&mixer, "external IDs, mixer", KZ_BASE64URL, NULL, &batches);
    snprintf(line_of_key, sizeof line_of_key, "0 %s", secret);
    printer_open(&speck, "external IDs, Speck", KZ_BASE64URL, line_of_key, &batches);
    snprintf(line_of_key, sizeof line_of_key, "1 xtea%s", strchr(secret, ' '));
    printer_open(&xtea, "external IDs, XTEA", KZ_BASE64URL, line_of_key, &batches);
    printer_open(&decimal, "texts, decimal", KZ_DECIMAL, NULL, &batches);
    printer_open(&hex, "texts, hex", KZ_HEX, NULL, &batches);
    printer_open(&base32, "texts, base32", KZ_BASE32, NULL, &batches);
    printer_open(&base62, "texts, base62", KZ_BASE62, NULL, &batches);
    printer_open(&base64url, "texts, base64url", KZ_BASE64URL, NULL, &batches);
}

static void close_all(void)
{
    minter *minters[] = {&next,        &next_coarse, &next_again,  &batches,  &one_lease,
                         &many_leases, &pair_next,   &pair_coarse, &saturated};
    for (size_t i = 0; i < sizeof minters / sizeof *minters; i++)
        minter_close(minters[i]);
    kz_mono_free(increasing.gen);
    kz_mono_free(pair_increasing.gen);
    kz_monouuid_free(uuids.gen);
    kz_external_keys_free(speck.keys);
    kz_external_keys_free(xtea.keys);
    for (int s = 0; s < SUBJECTS; s++)
        series_free(&measured[s]);
}

static int64_t mono_ns(void)
{
    return (int64_t)kz__clock_ns(CLOCK_MONOTONIC);
}

/* One round of the subjects from `first` up to `end`, forward or backward. A round that lacks a figure does not count,
 * so that the nth figures of all subjects were taken together. */
static void run_round(subject first, subject end, bool forward, double (*measure)(const work *, int64_t))
{
    double ns[SUBJECTS];
    bool complete = true;
    for (unsigned i = first; i < end; i++) {
        unsigned s = forward ? i : first + end - 1 - i;
        if (!wanted[s])
            continue;
        ns[s] = measure(&works[s], SLICE_NS);
        complete = complete && !isnan(ns[s]);
    }
    for (unsigned s = first; s < end && complete; s++)
        if (wanted[s])
            series_add(&measured[s], ns[s]);
}

static bool any_wanted(subject first, subject end)
{
    for (unsigned s = first; s < end; s++)
        if (wanted[s])
            return true;
    return false;
}

static void measure_one_thread(int64_t for_ns)
{
    if (!any_wanted(0, FIRST_PAIR))
        return;
    pin(0);
    int64_t end_ns = mono_ns() + for_ns;
    for (bool forward = true; mono_ns() < end_ns; forward = !forward)
        run_round(0, FIRST_PAIR, forward, measure_alone);
    pin(-1);
}

static void measure_two_threads(int64_t for_ns)
{
    if (!any_wanted(FIRST_PAIR, FIRST_SATURATED) || cores_allowed() < 2)
        return;
    int64_t end_ns = mono_ns() + for_ns;
    for (bool forward = true; mono_ns() < end_ns; forward = !forward) {
        run_round(FIRST_PAIR, FIRST_SATURATED, forward, measure_pair);
        for (unsigned s = FIRST_PAIR; s < FIRST_SATURATED; s++)
            if (wanted[s])
                check_order_between_threads(&works[s], ORDER_CALLS);
    }
}

static void measure_saturated(int64_t for_ns)
{
    if (!any_wanted(FIRST_SATURATED, SUBJECTS))
        return;
    const double room_ns = (double)KZ__NS_PER_MS / (1 << SATURATED_SEQ_BITS);
    int64_t end_ns = mono_ns() + for_ns;
    for (bool forward = true; mono_ns() < end_ns; forward = !forward) {
        saturation ours, theirs;
        if (forward)
            ours = saturate(&works[SATURATED], SATURATED_SEQ_BITS, SATURATED_NS);
        theirs = saturate(&works[TEXTBOOK_CPU], SATURATED_SEQ_BITS, SATURATED_NS);
        if (!forward)
            ours = saturate(&works[SATURATED], SATURATED_SEQ_BITS, SATURATED_NS);
        series_add(&measured[SLEEP_CPU], sleep_cpu_ns(SLEEPS) / (1 << SATURATED_SEQ_BITS));
        series_add(&measured[ROOM], room_ns);
        series_add(&measured[SATURATED], room_ns / ours.share);
        series_add(&measured[TEXTBOOK_SATURATED], room_ns / theirs.share);
        series_add(&measured[SATURATED_CPU], ours.cpu_ns);
        series_add(&measured[TEXTBOOK_CPU], theirs.cpu_ns);
    }
}

static row make_row(const line *l)
{
    const series *less = l->less == NOTHING ? NULL : &measured[l->less];
    bool share = l->below == ROOM;
    series ratio = share ? series_ratio(&measured[l->below], NULL, &measured[l->ours])
                         : series_ratio(&measured[l->ours], less, &measured[l->below]);
    row r = {.goal = l->goal,
             .what = l->what,
             .denominator = works[l->below].name,
             .ns = series_quantile(&measured[l->ours], 0.5) - (less ? series_quantile(less, 0.5) : 0),
             .denominator_ns = series_quantile(&measured[l->below], 0.5),
             .ratio = series_quantile(&ratio, 0.5),
             .low = series_quantile(&ratio, 0.25),
             .high = series_quantile(&ratio, 0.75),
             .limit = l->limit,
             .at_least = share,
             .percent = share,
             .rounds = ratio.count};
    series_free(&ratio);
    return r;
}

/* Prints what was measured. True if every ID was right. */
static bool report(int goal, bool json)
{
    row rows[LINES];
    const ledger *ledgers[SUBJECTS];
    size_t row_count = 0, ledger_count = 0;
    bool right = true;
    for (int i = 0; i < LINES; i++)
        if (!goal || lines[i].goal == goal)
            rows[row_count++] = make_row(&lines[i]);
    for (int s = 0; s < SUBJECTS; s++) {
        bool listed = false; /* texts and lines have one in common */
        for (size_t i = 0; i < ledger_count; i++)
            listed = listed || ledgers[i] == works[s].ids;
        if (!wanted[s] || !works[s].ids || listed)
            continue;
        ledgers[ledger_count++] = works[s].ids;
        right = right && !ledger_is_wrong(works[s].ids);
    }
    machine here;
    machine_read(&here);
    (json ? print_json : print_table)(stdout, &here, rows, row_count, ledgers, ledger_count);
    return right;
}

static void *return_at_once(void *arg)
{
    return arg;
}

/* The C library spares a process that never had a second thread the atomic operations of a mutex. Programs that need a
 * thread-safe generator are not like that. */
static void have_had_threads(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, return_at_once, NULL) == 0)
        pthread_join(thread, NULL);
}

static int usage(FILE *out)
{
    fprintf(out, "Usage: bench [--quick] [--json] [--goal N]\n"
                 "  --quick    about 3 seconds instead of 20\n"
                 "  --json     for programs\n"
                 "  --goal N   only that goal, 1 to 7\n"
                 "The exit status is 1 if IDs were wrong, and never for a time.\n");
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"goal", required_argument, NULL, 'g'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    bool quick = false, json = false;
    int goal = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'q':
            quick = true;
            break;
        case 'j':
            json = true;
            break;
        case 'g':
            goal = atoi(optarg);
            if (goal < 1 || goal > GOALS)
                return usage(stderr);
            break;
        default:
            return usage(option == 'h' ? stdout : stderr);
        }
    }
    if (optind != argc)
        return usage(stderr);

    for (int i = 0; i < LINES; i++)
        if (!goal || lines[i].goal == goal)
            wanted[lines[i].ours] = wanted[lines[i].less] = wanted[lines[i].below] = true;
    cores_allowed();
    have_had_threads();
    check_clock_start();
    open_all();
    measure_one_thread(quick ? SECOND : 9 * SECOND);
    measure_two_threads(quick ? SECOND * 7 / 10 : 5 * SECOND);
    measure_saturated(quick ? SECOND : 6 * SECOND);
    bool right = report(goal, json);
    close_all();
    return right ? 0 : 1;
}
