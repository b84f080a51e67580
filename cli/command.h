/* What a subcommand is. Each one lives in a file of its own that ends with its struct; main.c lists them. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary;
    const char *help; /* whole, with examples; begins with "Usage:" */
    /* argv[0] is the subcommand's name. */
    int (*run)(const struct command *command, int argc, char **argv);
};

extern const struct command next_command;
extern const struct command decode_command;
extern const struct command external_command;
extern const struct command internal_command;
extern const struct command range_command;
extern const struct command layout_command;
extern const struct command mono_command;
extern const struct command uuid_command;
extern const struct command leases_command;
extern const struct command reserve_command;
extern const struct command doctor_command;
extern const struct command bench_command;
extern const struct command serve_command;

#endif
