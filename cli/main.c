/* kazahana, the program: finds the subcommand and runs it. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/suggest.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
    &next_command,  &decode_command, &external_command, &internal_command, &range_command,  &layout_command,
    &mono_command,  &uuid_command,   &leases_command,   &reserve_command,  &doctor_command,
#ifdef KZ_HAVE_SERVER
    &serve_command,
#endif
    &bench_command,
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

__attribute__((noreturn)) static void unknown_command(const char *name)
{
    const struct command *nearest = commands[0];
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < COMMANDS; i++) {
        size_t distance = suggest_distance(name, commands[i]->name);
        if (distance < best) {
            best = distance;
            nearest = commands[i];
        }
    }
    if (suggest_is_near(name, best))
        report_usage(NULL, "unknown command %s, did you mean %s?", name, nearest->name);
    report_usage(NULL, "unknown command %s", name);
}

static int print_help(void)
{
    struct output out;
    output_begin(&out);
    output_text(&out, "Usage: kazahana COMMAND [OPTION]...\n"
                      "\n"
                      "Unique 64-bit IDs that sort by time.\n"
                      "\n");
    for (size_t i = 0; i < COMMANDS; i++)
        output_format(&out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    output_text(&out,
                "\n"
                "kazahana COMMAND --help says more about each, with examples.\n"
                "\n"
                "Examples:\n"
                "  kazahana next                              one ID, its node leased from a file of this machine\n"
                "  kazahana next --from static:7              one ID, of node 7\n"
                "  kazahana decode 175928847299117063         what an ID contains\n"
                "  kazahana range --since -1h --until now     IDs of the last hour\n"
                "\n"
                "Exit status: 0 done, 1 the work failed, 2 wrong usage.\n");
    return output_end(&out);
}

static int print_version(void)
{
    struct output out;
    output_begin(&out);
    output_format(&out, "kazahana %s\n", kz_version());
    return output_end(&out);
}

int main(int argc, char **argv)
{
    /* A reader that goes away is an error of write(2), so that generators are closed before the program ends. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2)
        report_usage(NULL, "no command given");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help();
    if (strcmp(name, "--version") == 0)
        return print_version();
    if (strcmp(name, "help") == 0) {
        if (argc == 2)
            return print_help();
        if (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)
            return print_help();
        const struct command *command = find_command(argv[2]);
        if (!command)
            unknown_command(argv[2]);
        char help[] = "--help";
        return command->run(command, 2, (char *[]){argv[2], help, NULL});
    }
    if (name[0] == '-')
        report_usage(NULL, "unknown option %s", name);
    const struct command *command = find_command(name);
    if (!command)
        unknown_command(name);
    return command->run(command, argc - 1, argv + 1);
}
