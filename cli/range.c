/* kazahana range: the smallest and the largest ID of a span of time. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>

struct span {
    const kz_layout *layout;
    int64_t since_ms, until_ms;
    kz_id since_id, until_id;
};

static void print_json(struct output *out, const struct span *span)
{
    char since_text[KZ_TIME_TEXT_SIZE], until_text[KZ_TIME_TEXT_SIZE], layout_text[KZ_LAYOUT_TEXT_SIZE];
    kz_time_text(span->since_ms, since_text);
    kz_time_text(span->until_ms, until_text);
    kz_layout_text(span->layout, layout_text);
    output_format(out,
                  "{\"layout\":\"%s\",\"since\":\"%s\",\"until\":\"%s\",\"since_id\":\"%" PRIu64
                  "\",\"until_id\":\"%" PRIu64 "\"}\n",
                  span->layout->name[0] ? span->layout->name : layout_text, since_text, until_text, span->since_id,
                  span->until_id);
}

static void print_block(struct output *out, const struct span *span)
{
    char since_text[KZ_TIME_TEXT_SIZE], until_text[KZ_TIME_TEXT_SIZE];
    kz_time_text(span->since_ms, since_text);
    kz_time_text(span->until_ms, until_text);
    output_format(out, "since   %20" PRIu64 "  %s\n", span->since_id, since_text);
    output_format(out, "until   %20" PRIu64 "  %s, this millisecond included\n", span->until_id, until_text);
    output_style(out, STYLE_BOLD);
    output_format(out, "WHERE id BETWEEN %" PRIu64 " AND %" PRIu64, span->since_id, span->until_id);
    output_style(out, STYLE_PLAIN);
    output_text(out, "\n");
    if (span->until_id > INT64_MAX)
        output_text(out,
                    "These are above the largest signed 64-bit integer: a BIGINT column holds them as negative.\n");
}

static void print(struct output *out, const struct span *span, bool json)
{
    if (json)
        print_json(out, span);
    else if (out->terminal)
        print_block(out, span);
    else
        output_format(out, "%" PRIu64 "\n%" PRIu64 "\n", span->since_id, span->until_id);
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { SINCE, UNTIL, LAYOUT, JSON };
    static const struct arg_option options[] = {
        [SINCE] = {"since", 0, true},
        [UNTIL] = {"until", 0, true},
        [LAYOUT] = {"layout", 0, true},
        [JSON] = {"json", 0, false},
        {0},
    };
    const char *since_text = NULL, *until_text = NULL, *layout_text = "kazahana";
    bool json = false;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == SINCE)
            since_text = args.value;
        else if (option == UNTIL)
            until_text = args.value;
        else if (option == LAYOUT)
            layout_text = args.value;
        else
            json = true;
    }
    args_no_operands(&args);
    if (!since_text || !until_text)
        report_usage(command, "--%s is missing", since_text ? "until" : "since");

    kz_layout layout;
    struct span span = {.layout = &layout};
    kz_error err;
    int64_t wall_ms = times_wall_ms();
    args_layout(&args, layout_text, &layout);
    if (times_parse(since_text, wall_ms, &span.since_ms, &err) != KZ_OK)
        return report_failure("--since: %s", err.message);
    if (times_parse(until_text, wall_ms, &span.until_ms, &err) != KZ_OK)
        return report_failure("--until: %s", err.message);
    if (span.since_ms > span.until_ms)
        return report_failure("--since %s is after --until %s", since_text, until_text);
    if (kz_min_id(&layout, span.since_ms, &span.since_id, &err) != KZ_OK)
        return report_failure("--since: %s", err.message);
    if (kz_max_id(&layout, span.until_ms, &span.until_id, &err) != KZ_OK)
        return report_failure("--until: %s", err.message);

    struct output out;
    output_begin(&out);
    print(&out, &span, json);
    return output_end(&out);
}

static const char help[] =
    "Usage: kazahana range --since T --until T [--layout L] [--json]\n"
    "\n"
    "Prints the smallest ID of the first instant and the largest ID of the last, for WHERE id BETWEEN ... AND ....\n"
    "The millisecond of --until is included. On a terminal with labels, else two lines and nothing more.\n"
    "\n"
    "      --since T, --until T   2026-01-01, 2026-01-01T12:00:00Z, 2026-01-01T12:00:00.250+09:00, Unix milliseconds,\n"
    "                             now, or from now on: -1h, -7d, +30min\n"
    "      --layout L             a preset (see kazahana layout) or TIME-NODE-SEQ@EPOCH (kazahana)\n"
    "      --json                 one object\n"
    "\n"
    "IDs can be late: a process that was stopped after reading the clock returns an old time. Do not take a range for\n"
    "final the moment it has passed.\n"
    "\n"
    "Examples:\n"
    "  kazahana range --since -1h --until now\n"
    "  kazahana range --since 2026-06-01 --until 2026-06-30T23:59:59.999Z --layout snowflake\n";

const struct command range_command = {"range", "the smallest and largest ID of a span of time", help, run};
