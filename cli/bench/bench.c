/* kazahana bench: how fast this machine is, beside what its clock costs and what the layout allows. */
#include "cli/args.h"
#include "cli/bench/bench_run.h"
#include "cli/output.h"
#include "cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPEATS = 15,
    QUICK_REPEATS = 5,
    COUNT_MAX = 1 << 17,
    COUNT_STEP = 128,        /* two threads, batches of 64 */
    REPEAT_NS = 20 * 1000000 /* about how long a repeat may take when the layout is the limit */
};

static const struct measurement {
    const char *name;
    int threads;
    bool of_layout; /* does the layout limit it? */
    bench_fn run;
} measurements[] = {
    {"clock_gettime", 1, false, bench_clock}, /* the first: the others are compared with it */
    {"kz_next", 1, true, bench_next},
    {"kz_next, 2 threads", 2, true, bench_next_two_threads},
    {"kz_next_batch of 64", 1, true, bench_batch},
    {"kz_mono_next", 1, false, bench_mono},
    {"kz_monouuid_next", 1, false, bench_uuid},
    {"external, mixer", 1, false, bench_external_mixer},
    {"external, speck key", 1, false, bench_external_key},
};

enum { MEASUREMENTS = sizeof measurements / sizeof *measurements };

struct figures {
    double ns[REPEATS], ratio[REPEATS];
    uint64_t count, twins, wrong;
};

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* One round of everything, so that each figure has a clock_gettime of the same moment to be compared with. */
static kz_status measure(struct bench *bench, struct figures *figures, int repeat)
{
    for (int i = 0; i < MEASUREMENTS; i++) {
        struct bench_result result = {0};
        kz_status status = measurements[i].run(bench, &result);
        if (status != KZ_OK)
            return status;
        figures[i].ns[repeat] = result.ns;
        figures[i].ratio[repeat] = result.ns / figures[0].ns[repeat];
        figures[i].count += bench->count;
        figures[i].twins += result.twins;
        figures[i].wrong += result.wrong;
    }
    return KZ_OK;
}

static void print(struct output *out, const kz_layout *layout, struct figures *figures, int repeats, bool json)
{
    kz_layout_facts facts;
    char layout_text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_describe(layout, &facts);
    kz_layout_text(layout, layout_text);
    double limit_ns = 1e6 * layout->unit_ms / (double)facts.ids_per_step;
    if (!json) {
        output_format(out, "layout %s: %" PRIu64 " IDs per ms and node, so %.3g ns for an ID at the best\n",
                      layout_text, facts.ids_per_step, limit_ns);
        output_style(out, STYLE_BOLD);
        output_format(out, "%-20s %12s %16s %14s", "", "ns", "x clock_gettime", "layout's limit");
        output_style(out, STYLE_PLAIN);
        output_text(out, "\n");
    }
    for (int i = 0; i < MEASUREMENTS; i++) {
        double ns = median(figures[i].ns, repeats), ratio = median(figures[i].ratio, repeats);
        if (json) {
            output_format(out, "{\"what\":\"%s\",\"threads\":%d,\"ns\":%.3f,\"ratio\":%.4f", measurements[i].name,
                          measurements[i].threads, ns, ratio);
            if (measurements[i].of_layout)
                output_format(out, ",\"layout\":\"%s\",\"limit_ns\":%.3f", layout_text, limit_ns);
            output_format(out, ",\"count\":%" PRIu64 ",\"twins\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n",
                          figures[i].count, figures[i].twins, figures[i].wrong);
            continue;
        }
        output_format(out, "%-20s %12.2f %16.3f", measurements[i].name, ns, ratio);
        if (measurements[i].of_layout)
            output_format(out, " %14.3g", limit_ns);
        output_text(out, "\n");
    }
}

/* Says how many were checked, or which measurement made what it must not. */
static int check(struct output *out, const struct figures *figures, bool json)
{
    uint64_t checked = 0;
    int result = EXIT_DONE;
    for (int i = 1; i < MEASUREMENTS; i++) {
        checked += figures[i].count;
        if (figures[i].twins || figures[i].wrong)
            result =
                report_failure("%s: %" PRIu64 " twins and %" PRIu64 " out of order or not turned back, of %" PRIu64,
                               measurements[i].name, figures[i].twins, figures[i].wrong, figures[i].count);
    }
    if (!json && result == EXIT_DONE)
        output_format(out, "%" PRIu64 " values checked: no twins, all in order\n", checked);
    return result;
}

/* Whatever the layout lets through in about REPEAT_NS. */
static size_t choose_count(const kz_layout *layout)
{
    kz_layout_facts facts;
    kz_layout_describe(layout, &facts);
    double fits = (double)facts.ids_per_step * REPEAT_NS * 1e-6;
    size_t count = fits < COUNT_MAX ? (size_t)fits : COUNT_MAX;
    return count < COUNT_STEP ? COUNT_STEP : count / COUNT_STEP * COUNT_STEP;
}

static kz_status open_all(struct bench *bench, const char *layout, kz_error *err)
{
    static const char key[] = "0 speck 000102030405060708090a0b0c0d0e0f";
    kz_options options;
    kz_status status;
    kz_options_init(&options);
    options.layout = layout;
    options.log = report_log;
    bench->values = calloc(bench->count, sizeof *bench->values);
    bench->uuid_values = calloc(bench->count, sizeof *bench->uuid_values);
    if (!bench->values || !bench->uuid_values) {
        *err = (kz_error){.status = KZ_NO_MEMORY, .message = "out of memory"};
        return KZ_NO_MEMORY;
    }
    if ((status = kz_open(&bench->gen, "static:0", &options, err)) != KZ_OK ||
        (status = kz_mono_new(&bench->mono, 0, err)) != KZ_OK ||
        (status = kz_monouuid_new(&bench->uuids, 1, NULL, err)) != KZ_OK)
        return status;
    return kz_external_keys_parse(&bench->keys, key, strlen(key), err);
}

static void close_all(struct bench *bench)
{
    kz_external_keys_free(bench->keys);
    kz_monouuid_free(bench->uuids);
    kz_mono_free(bench->mono);
    kz_close(bench->gen);
    free(bench->uuid_values);
    free(bench->values);
}

static int measure_and_print(struct bench *bench, const kz_layout *layout, int repeats, bool json)
{
    struct figures figures[MEASUREMENTS] = {0};
    for (int repeat = 0; repeat < repeats; repeat++) {
        kz_status status = measure(bench, figures, repeat);
        if (status != KZ_OK)
            return report_failure("%s", kz_status_text(status));
    }
    struct output out;
    output_begin(&out);
    print(&out, layout, figures, repeats, json);
    int result = check(&out, figures, json);
    int written = output_end(&out);
    return result ? result : written;
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { LAYOUT, QUICK, JSON };
    static const struct arg_option options[] = {
        [LAYOUT] = {"layout", 0, true}, [QUICK] = {"quick", 0, false}, [JSON] = {"json", 0, false}, {0}};
    const char *layout_text = "41-2-20@2026-01-01";
    int repeats = REPEATS;
    bool json = false;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == LAYOUT)
            layout_text = args.value;
        else if (option == QUICK)
            repeats = QUICK_REPEATS;
        else
            json = true;
    }
    args_no_operands(&args);
    kz_layout layout;
    kz_error err;
    args_layout(&args, layout_text, &layout);
    struct bench bench = {.count = choose_count(&layout)};
    int result;
    if (open_all(&bench, layout_text, &err) != KZ_OK)
        result = report_failure("%s", err.message);
    else
        result = measure_and_print(&bench, &layout, repeats, json);
    close_all(&bench);
    return result;
}

static const char help[] =
    "Usage: kazahana bench [--layout L] [--quick] [--json]\n"
    "\n"
    "Measures this machine: nanoseconds for each ID, and how many times one clock_gettime that is, both as medians "
    "over\n"
    "rounds that measure everything in turn. With two threads it is the time for each ID of both together. What a\n"
    "layout allows stands beside: with 12 sequence bits there are 4096 IDs per ms, which is 244 ns for an ID whatever\n"
    "the code does. Every value is checked for twins and order.\n"
    "\n"
    "      --layout L   41-2-20@2026-01-01 unless given, which leaves the code room\n"
    "      --quick      fewer rounds\n"
    "      --json       one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana bench\n"
    "  kazahana bench --quick --layout snowflake\n";

const struct command bench_command = {"bench", "measure this machine", help, run};
