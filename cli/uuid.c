/* kazahana uuid: UUIDs of version 7 that carry a node and a strictly increasing nanosecond. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"

#include "kazahana.h"

static int print_all(kz_monouuid *gen, uint64_t count)
{
    struct output out;
    kz_status status = KZ_OK;
    output_begin(&out);
    for (uint64_t i = 0; i < count && !out.error; i++) {
        kz_uuid uuid;
        status = kz_monouuid_next(gen, &uuid);
        if (status != KZ_OK)
            break;
        char *at = output_room(&out, KZ_UUID_TEXT_SIZE);
        kz_uuid_text(&uuid, at);
        at[KZ_UUID_TEXT_SIZE - 1] = '\n';
        output_took(&out, KZ_UUID_TEXT_SIZE);
    }
    int result = output_end(&out);
    return status == KZ_OK ? result : report_failure("UUID: %s", kz_status_text(status));
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { COUNT, NODE, LAST };
    static const struct arg_option options[] = {
        [COUNT] = {"count", 'n', true}, [NODE] = {"node", 0, true}, [LAST] = {"last", 0, true}, {0}};
    uint64_t count = 1;
    uint32_t node = 0;
    bool node_given = false;
    const char *last_text = NULL;
    kz_uuid last;
    kz_monouuid *gen;
    kz_error err;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == COUNT) {
            count = args_number(&args, 0, UINT64_C(1) << 63);
        } else if (option == NODE) {
            node = (uint32_t)args_number(&args, 0, UINT32_MAX);
            node_given = true;
        } else {
            last_text = args.value;
        }
    }
    args_no_operands(&args);
    if (!node_given)
        report_usage(command, "--node is missing: a number from 1 to %u that no other generator has",
                     KZ_MONOUUID_NODE_MAX);
    if (last_text && kz_uuid_from_text(last_text, &last, &err) != KZ_OK)
        return report_failure("--last %s: %s", last_text, err.message);
    if (kz_monouuid_new(&gen, node, last_text ? &last : NULL, &err) != KZ_OK)
        return report_failure("%s", err.message);
    int result = print_all(gen, count);
    kz_monouuid_free(gen);
    return result;
}

static const char help[] =
    "Usage: kazahana uuid [-n COUNT] --node N [--last UUID]\n"
    "\n"
    "Prints UUIDs of version 7 that carry the node and a nanosecond, one a line, strictly increasing. kazahana decode\n"
    "reads them.\n"
    "\n"
    "  -n, --count COUNT   how many (1)\n"
    "      --node N        1 to 16777215; no two generators may have the same\n"
    "      --last UUID     the last one this node ever gave: go on above it\n"
    "\n"
    "Examples:\n"
    "  kazahana uuid --node 1\n"
    "  kazahana uuid --node 1 --last 0124e053-3580-7000-8e35-500000100001\n";

const struct command uuid_command = {"uuid", "UUIDs with a node and a nanosecond", help, run};
