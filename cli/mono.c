/* kazahana mono: strictly increasing nanoseconds. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"

#include "kazahana.h"

static int print_all(kz_mono *mono, uint64_t count)
{
    struct output out;
    kz_status status = KZ_OK;
    output_begin(&out);
    for (uint64_t i = 0; i < count && !out.error; i++) {
        int64_t unix_ns;
        status = kz_mono_next(mono, &unix_ns);
        if (status != KZ_OK)
            break;
        char *at = output_room(&out, KZ_TEXT_SIZE + 1);
        size_t length = kz_text((kz_id)unix_ns, KZ_DECIMAL, at);
        at[length] = '\n';
        output_took(&out, length + 1);
    }
    int result = output_end(&out);
    return status == KZ_OK ? result : report_failure("nanoseconds since 1970: %s", kz_status_text(status));
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { COUNT, LAST };
    static const struct arg_option options[] = {[COUNT] = {"count", 'n', true}, [LAST] = {"last", 0, true}, {0}};
    uint64_t count = 1;
    int64_t last_ns = 0;
    kz_mono *mono;
    kz_error err;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == COUNT)
            count = args_number(&args, 0, UINT64_C(1) << 63);
        else
            last_ns = (int64_t)args_number(&args, 0, INT64_MAX);
    }
    args_no_operands(&args);
    if (kz_mono_new(&mono, last_ns, &err) != KZ_OK)
        return report_failure("%s", err.message);
    int result = print_all(mono, count);
    kz_mono_free(mono);
    return result;
}

static const char help[] =
    "Usage: kazahana mono [-n COUNT] [--last N]\n"
    "\n"
    "Prints strictly increasing times in nanoseconds since 1970, one a line. When the clock stands still or goes back\n"
    "they run ahead of it.\n"
    "\n"
    "  -n, --count COUNT   how many (1)\n"
    "      --last N        the last one ever given: go on above it\n"
    "\n"
    "Examples:\n"
    "  kazahana mono -n 3\n"
    "  kazahana mono --last 1794787200123999999\n";

const struct command mono_command = {"mono", "strictly increasing nanoseconds", help, run};
