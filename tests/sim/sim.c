/* The simulator's world: virtual time, chance, faults, and the program that runs many seeds. */
#include "tests/sim/sim.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const fault_names[FAULTS] = {"drift",   "pause",  "network", "crash",    "release",  "fork", "step",
                                         "restart", "outage", "ticks",   "failover", "replaced", "lost"};

struct event {
    int64_t at_ns;
    uint64_t sequence;
    void (*run)(world *, void *);
    void *arg;
    bool owns_arg;
};

/* ---------------------------------------------------------------------------------------------------- chance */

uint64_t draw(world *w)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

int64_t between(world *w, int64_t low, int64_t high)
{
    return low + (int64_t)(draw(w) % (uint64_t)(high - low + 1));
}

bool chance(world *w, unsigned percent)
{
    return draw(w) % 100 < percent;
}

/* Faults end some time before the run does, so that it can be seen whether everybody recovers. */
bool has(const world *w, fault f)
{
    return w->faults & (1u << f) && w->now_ns < w->calm_ns;
}

void tell(world *w, const char *format, ...)
{
    if (!w->story)
        return;
    va_list args;
    va_start(args, format);
    printf("%9.3f ms  ", (double)w->now_ns / MS);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

/* ------------------------------------------------------------------------------------------------------ time */

static bool sooner(const event *a, const event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void push(world *w, event e)
{
    if (w->heap_count == w->heap_room) {
        w->heap_room = w->heap_room ? 2 * w->heap_room : 256;
        w->heap = realloc(w->heap, w->heap_room * sizeof e);
    }
    size_t i = w->heap_count++;
    for (; i && sooner(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static event pop(world *w)
{
    event top = w->heap[0], last = w->heap[--w->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->heap_count; i = child) {
        if (child + 1 < w->heap_count && sooner(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!sooner(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

void after(world *w, int64_t ns, void (*run)(world *, void *), void *arg)
{
    push(w, (event){w->now_ns + ns, w->sequence++, run, arg, false});
}

void after_free(world *w, int64_t ns, void (*run)(world *, void *), void *arg)
{
    push(w, (event){w->now_ns + ns, w->sequence++, run, arg, true});
}

/* ------------------------------------------------------------------------------------------------------- a run */

static bool run(uint64_t seed, unsigned faults, bool story, world *w)
{
    *w = (world){.seed = seed, .random = seed * 0xd1342543de82ef95 + 1, .story = story};
    w->end_ns = 16000 * MS;
    w->calm_ns = 8000 * MS;
    /* Every seed has faults of its own; one in four has them all. */
    w->faults = seed % 4 ? (unsigned)draw(w) & faults : faults;
    w->tight = seed % 8 == 5;
    w->slotted = seed % 16 == 9 && faults & 1u << FAULT_LOST;
    if (w->slotted)
        w->faults = (w->faults | 1u << FAULT_LOST) & ~(1u << FAULT_FORK);
    w->forgets = seed % 4 == 3 && faults & (1u << FAULT_FAILOVER | 1u << FAULT_REPLACED);
    if (w->forgets) {
        /* A predecessor's clock may be off by the margin and no more, and it ends a while after the faults. */
        w->faults &= ~(1u << FAULT_SERVER_STEP);
        w->end_ns = 24000 * MS;
    } else {
        w->faults &= ~(1u << FAULT_FAILOVER | 1u << FAULT_REPLACED);
    }
    if (w->tight)
        w->faults = (w->faults | 1u << FAULT_RELEASE) & ~(1u << FAULT_FORK) & faults;
    server_start(w);
    size_t clients = w->tight || (w->forgets && chance(w, 50)) ? CLIENTS / 2 : CLIENTS;
    for (w->client_count = 0; w->client_count < clients; w->client_count++)
        client_start(w, &w->clients[w->client_count]);
    while (w->heap_count && w->heap[0].at_ns <= w->end_ns) {
        event e = pop(w);
        /* A client that slept has let some time go by already. */
        if (e.at_ns > w->now_ns)
            w->now_ns = e.at_ns;
        e.run(w, e.arg);
        if (e.owns_arg)
            free(e.arg);
    }
    return oracle_judge(w);
}

static void clear(world *w)
{
    for (size_t i = 0; i < w->heap_count; i++)
        if (w->heap[i].owns_arg)
            free(w->heap[i].arg);
    for (size_t i = 0; i < w->client_count; i++) {
        client *c = &w->clients[i];
        client_end(w, c, false);
        free(c->old);
    }
    server_free(w);
    free(w->heap);
    free(w->ids);
    free(w->grants.at);
    free(w->held.at);
}

/* --------------------------------------------------------------------------------------------------- the program */

static const char *const rules[KZ__RULES] = {
    [KZ__RULE_NO_OVERLAP] = "no-overlap",
    [KZ__RULE_HALF_OPEN] = "half-open",
    [KZ__RULE_TIME_FORWARD] = "time-forward",
    [KZ__RULE_RELEASE_WATERMARK] = "release-watermark",
    [KZ__RULE_RELEASE_BY_SECRET] = "release-by-secret",
    [KZ__RULE_ONLY_INSIDE] = "only-inside",
    [KZ__RULE_ONLY_UPWARD] = "only-upward",
    [KZ__RULE_RELEASE_LAST] = "release-last",
    [KZ__RULE_NEVER_RETURN] = "never-return",
    [KZ__RULE_FORK] = "fork",
    [KZ__RULE_PLACE] = "place",
    [KZ__RULE_PLACE_WINDOW] = "place-window",
    [KZ__RULE_PLACE_MARGIN] = "place-margin",
    [KZ__RULE_PLACE_GRANTABLE] = "place-grantable",
    [KZ__RULE_PLACE_PARTS] = "place-parts",
    [KZ__RULE_PLACE_AGE] = "place-age",
    [KZ__RULE_PLACE_COUNTED] = "place-counted",
    [KZ__RULE_PLACE_CREATED] = "place-created",
    [KZ__RULE_PLACE_FIRST] = "place-first",
};

typedef struct tally {
    uint64_t seeds, ids, failures;
} tally;

/* Runs seeds until one fails, or all. */
static tally run_seeds(uint64_t first, uint64_t count, unsigned faults, bool stop_at_first, const char *without)
{
    tally t = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        world w;
        bool good = run(seed, faults, false, &w);
        /* A rule that is missing must show in the IDs themselves. */
        if (stop_at_first)
            good = !w.broken;
        t.seeds++;
        t.ids += w.id_count;
        if (!good) {
            t.failures++;
            if (!stop_at_first)
                printf("seed %llu: %s\n  replay: sim --seed %llu --story%s%s\n", (unsigned long long)seed, w.complaint,
                       (unsigned long long)seed, without ? " --without " : "", without ? without : "");
        }
        clear(&w);
        if (!good && (stop_at_first || t.failures == 5))
            break;
    }
    return t;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Each rule switched off in turn must be missed. */
static int check_rules(uint64_t first, uint64_t most)
{
    int missed = 0;
    for (int rule = 0; rule < KZ__RULES; rule++) {
        kz__rules_off = 1u << rule;
        tally t = run_seeds(first, most, ~0u, true, rules[rule]);
        printf("%s  without %-18s %s after %llu seeds\n", t.failures ? "ok  " : "FAIL", rules[rule],
               t.failures ? "equal IDs or disorder found" : "nothing found", (unsigned long long)t.seeds);
        missed += !t.failures;
    }
    kz__rules_off = 0;
    return missed;
}

static void usage(void)
{
    puts("Usage: sim [--seeds N] [--first S]      run N seeds from S on\n"
         "       sim --seed S [--story]           run one, and tell what happens\n"
         "       sim --rules                      show that each rule is needed\n"
         "  --without RULE   with a rule switched off\n"
         "  --faults a,b     only these: drift pause network crash release fork step restart outage ticks\n"
         "                   failover replaced lost");
}

static unsigned read_faults(const char *text)
{
    unsigned faults = 0;
    for (int f = 0; f < FAULTS; f++)
        if (strstr(text, fault_names[f]))
            faults |= 1u << f;
    return faults;
}

static bool read_rule(const char *name)
{
    for (int rule = 0; rule < KZ__RULES; rule++) {
        if (strcmp(rules[rule], name) == 0) {
            kz__rules_off |= 1u << rule;
            return true;
        }
    }
    fprintf(stderr, "sim: no rule \"%s\"\n", name);
    return false;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seeds", 1, 0, 'n'},  {"first", 1, 0, 'f'}, {"seed", 1, 0, 's'},
                                            {"story", 0, 0, 't'},  {"rules", 0, 0, 'r'}, {"without", 1, 0, 'w'},
                                            {"faults", 1, 0, 'x'}, {"help", 0, 0, 'h'},  {0}};
    uint64_t seeds = 2000, first = 1;
    bool story = false, all_rules = false;
    unsigned faults = ~0u;
    const char *without = NULL;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'n':
            seeds = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            first = strtoull(optarg, NULL, 10);
            break;
        case 's':
            first = strtoull(optarg, NULL, 10);
            seeds = 1;
            break;
        case 't':
            story = true;
            break;
        case 'r':
            all_rules = true;
            break;
        case 'w':
            without = optarg;
            if (!read_rule(optarg))
                return 2;
            break;
        case 'x':
            faults = read_faults(optarg);
            break;
        default:
            usage();
            return o == 'h' ? 0 : 2;
        }
    }
    if (all_rules)
        return check_rules(first, seeds) ? 1 : 0;
    if (story) {
        world w;
        bool good = run(first, faults, true, &w);
        puts(good ? "all is well" : w.complaint);
        clear(&w);
        return good ? 0 : 1;
    }
    double began = seconds();
    tally t = run_seeds(first, seeds, faults, false, without);
    printf("%llu seeds, %llu IDs, %llu failures, %.1f s\n", (unsigned long long)t.seeds, (unsigned long long)t.ids,
           (unsigned long long)t.failures, seconds() - began);
    return t.failures ? 1 : 0;
}
