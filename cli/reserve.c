/* kazahana reserve: nodes of a lease table that are kept for somebody who takes no lease. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES_MAX = 64 };

static const char help[] = "Usage: kazahana reserve NODES [--until T] [--note TEXT] [--from URL] [--service S]\n"
                           "       kazahana reserve --free NODES [--from URL] [--service S]\n"
                           "       kazahana reserve --list [--from URL] [--service S]\n"
                           "\n"
                           "Keeps nodes of a lease table for somebody who takes no lease from it: a generator with\n"
                           "fixed numbers, a device. NODES is written 0-31,40. They are granted to nobody, and\n"
                           "kazahana leases shows them. A node that is leased cannot be reserved before its lease\n"
                           "ends. A service has room for 6 ranges.\n"
                           "\n"
                           "      --until T     until then, not for ever: 2026-12-31, 2026-12-31T12:00:00Z, +2d\n"
                           "      --note TEXT   for people: at most 63 bytes\n"
                           "      --free NODES  ends a reservation, in whole or in part\n"
                           "      --list        what is reserved: one range a line\n"
                           "      --from URL    the lease table; this machine's own unless given\n"
                           "      --service S   the ID space in it (default)\n"
                           "\n"
                           "  kazahana reserve 0-31 --note 'the old service' --from redis://localhost/0\n"
                           "  kazahana reserve --free 0-15\n";

/* 0-31,40 */
static size_t read_nodes(const struct command *command, const char *text, kz_node_range ranges[static RANGES_MAX])
{
    size_t count = 0;
    for (const char *at = text; count < RANGES_MAX; count++) {
        char *end;
        unsigned long long first = strtoull(at, &end, 10), last = first;
        bool good = *at >= '0' && *at <= '9' && first <= UINT32_MAX;
        if (good && *end == '-') {
            good = end[1] >= '0' && end[1] <= '9';
            last = good ? strtoull(end + 1, &end, 10) : 0;
        }
        if (!good || last < first || last > UINT32_MAX || (*end && *end != ','))
            break;
        ranges[count] = (kz_node_range){(uint32_t)first, (uint32_t)last};
        if (!*end)
            return count + 1;
        at = end + 1;
    }
    report_usage(command, "\"%s\" are not nodes: write 0-31,40", text);
}

static bool print_reserved(void *ctx, const kz_lease_info *line)
{
    struct output *out = ctx;
    if (line->kind != KZ_LINE_RESERVED)
        return true;
    char until[KZ_TIME_TEXT_SIZE] = "for ever";
    if (line->expired_ms != INT64_MAX)
        kz_time_text(line->expired_ms, until);
    output_format(out, "%s  ", line->service);
    if (line->nodes > 1)
        output_format(out, "%" PRIu32 "-%" PRIu32, line->id, line->id + line->nodes - 1);
    else
        output_format(out, "%" PRIu32, line->id);
    output_format(out, "  %s%s%s\n", until, *line->holder ? "  " : "", line->holder);
    return true;
}

static int list(kz_source *source)
{
    struct output out;
    kz_error err;
    output_begin(&out);
    kz_status status = kz_source_list(source, print_reserved, &out, &err);
    if (status)
        report_failure("%s", err.message);
    int written = output_end(&out);
    return status ? EXIT_FAILED : written;
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { UNTIL, NOTE, FROM, SERVICE, LIST, FREE };
    static const struct arg_option options[] = {[UNTIL] = {"until", 0, true},
                                                [NOTE] = {"note", 0, true},
                                                [FROM] = {"from", 0, true},
                                                [SERVICE] = {"service", 0, true},
                                                [LIST] = {"list", 0, false},
                                                [FREE] = {"free", 0, true},
                                                {0}};
    const char *url = NULL, *service = NULL, *nodes = NULL, *until = NULL;
    bool listing = false;
    kz_reservation wanted = {0};
    kz_node_range ranges[RANGES_MAX];
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == UNTIL)
            until = args.value;
        else if (option == NOTE)
            wanted.note = args.value;
        else if (option == FROM)
            url = args.value;
        else if (option == SERVICE)
            service = args.value;
        else if (option == LIST)
            listing = true;
        else
            nodes = args.value;
    }
    wanted.end = nodes != NULL;
    if (args.operand_count > (nodes || listing ? 0 : 1) || (listing && nodes) || (wanted.end && (until || wanted.note)))
        report_usage(command, "one thing at a time: NODES to reserve, --free NODES or --list");
    if (!nodes && !listing && !args.operand_count)
        report_usage(command, "which nodes? write 0-31,40");
    if (!nodes && !listing)
        nodes = args.operands[0];
    kz_error err;
    if (until && times_parse(until, times_wall_ms(), &wanted.until_ms, &err) != KZ_OK)
        report_usage(command, "--until: %s", err.message);
    if (nodes)
        wanted.count = read_nodes(command, nodes, ranges);
    wanted.ranges = ranges;

    kz_source *source;
    kz_options source_options;
    kz_options_init(&source_options);
    source_options.log = report_log;
    if (service)
        source_options.service = service;
    if (kz_source_open(&source, url, &source_options, &err) != KZ_OK)
        return report_failure("%s", err.message);
    int result = EXIT_DONE;
    if (listing)
        result = list(source);
    else if (kz_source_reserve(source, &wanted, &err) != KZ_OK)
        result = report_failure("%s", err.message);
    kz_source_close(source);
    return result;
}

const struct command reserve_command = {"reserve", "keep nodes of a lease table for somebody else", help, run};
