/* Reading the command line: options, their values, and what is left over. Wrong usage ends the program. */
#include "cli/args.h"

#include "cli/output.h"
#include "cli/report.h"
#include "cli/suggest.h"
#include "cli/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* About 30 years, which leaves room for sums and for nanoseconds. Who wants more wants forever. */

void args_begin(struct args *args, const struct command *command, const struct arg_option *options, int argc,
                char **argv)
{
    *args = (struct args){.command = command, .options = options, .argc = argc, .argv = argv, .at = 1};
    args->operands = argv + 1;
}

__attribute__((noreturn)) static void print_and_leave(const char *text, const char *more, const char *end)
{
    struct output out;
    output_begin(&out);
    output_text(&out, text);
    output_text(&out, more);
    output_text(&out, end);
    exit(output_end(&out));
}

__attribute__((noreturn)) static void unknown_option(const struct args *args, const char *argument)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (const struct arg_option *option = args->options; option->name; option++) {
        size_t distance = suggest_distance(argument + strspn(argument, "-"), option->name);
        if (distance < best) {
            best = distance;
            nearest = option->name;
        }
    }
    if (nearest && suggest_is_near(argument + strspn(argument, "-"), best))
        report_usage(args->command, "unknown option %s, did you mean --%s?", argument, nearest);
    report_usage(args->command, "unknown option %s", argument);
}

/* Does the argument give this option? `value` becomes what is attached to it (--name=value, -nvalue), or NULL. */
static bool is_option(const char *argument, const struct arg_option *option, const char **value)
{
    *value = NULL;
    if (argument[1] != '-') {
        if (!option->letter || argument[1] != option->letter)
            return false;
        if (argument[2])
            *value = argument + 2;
        return option->has_value || !*value;
    }
    size_t length = strlen(option->name);
    if (strncmp(argument + 2, option->name, length) != 0)
        return false;
    if (argument[2 + length] == '=')
        *value = argument + 2 + length + 1;
    return argument[2 + length] == '\0' || *value;
}

static int read_option(struct args *args, const char *argument)
{
    for (int i = 0; args->options[i].name; i++) {
        const char *attached;
        if (!is_option(argument, &args->options[i], &attached))
            continue;
        args->option = args->options[i].name;
        args->value = attached;
        if (!args->options[i].has_value) {
            if (attached)
                report_usage(args->command, "--%s takes no value", args->option);
        } else if (!attached) {
            if (args->at == args->argc)
                report_usage(args->command, "--%s needs a value", args->option);
            args->value = args->argv[args->at++];
        }
        return i;
    }
    return -1;
}

int args_next(struct args *args)
{
    while (args->at < args->argc) {
        char *argument = args->argv[args->at++];
        bool hyphen = argument[0] == '-' && argument[1];
        if (args->options_ended || !hyphen) {
            args->operands[args->operand_count++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            args->options_ended = true;
            continue;
        }
        int index = read_option(args, argument);
        if (index >= 0)
            return index;
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            print_and_leave(args->command->help, "", "");
        if (strcmp(argument, "--version") == 0)
            print_and_leave("kazahana ", kz_version(), "\n");
        if (!args->hyphen_operand_length || strlen(argument) != args->hyphen_operand_length)
            unknown_option(args, argument);
        args->operands[args->operand_count++] = argument;
    }
    return -1;
}

void args_no_operands(const struct args *args)
{
    if (args->operand_count)
        report_usage(args->command, "unexpected argument %s", args->operands[0]);
}

uint64_t args_number(const struct args *args, uint64_t min, uint64_t max)
{
    uint64_t number;
    if (!units_number(args->value, &number))
        report_usage(args->command, "--%s %s: not a whole number", args->option, args->value);
    if (number < min || number > max)
        report_usage(args->command, "--%s %s: not between %" PRIu64 " and %" PRIu64, args->option, args->value, min,
                     max);
    return number;
}

void args_layout(const struct args *args, const char *text, kz_layout *layout)
{
    kz_error err;
    if (kz_layout_parse(text, layout, &err) != KZ_OK)
        report_usage(args->command, "%s", err.message);
}

int args_choice(const struct args *args, const char *const *names)
{
    char all[256] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(args->value, names[i]) == 0)
            return i;
        if (i)
            strncat(all, ", ", sizeof all - strlen(all) - 1);
        strncat(all, names[i], sizeof all - strlen(all) - 1);
    }
    report_usage(args->command, "--%s %s: not one of %s", args->option, args->value, all);
}

double args_rate(const struct args *args)
{
    double per_second;
    if (!units_rate(args->value, &per_second))
        report_usage(args->command, "--%s %s: not a rate such as 100/s or 5/min", args->option, args->value);
    return per_second;
}

void args_set(const struct args *args, kz_options *options)
{
    kz_error err;
    if (kz_options_set(options, args->option, args->value, &err))
        report_usage(args->command, "--%s: %s", args->option, err.message + strlen(args->option) + 2);
}
