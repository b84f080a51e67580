/* Reading the command line: options, their values, and what is left over. Wrong usage ends the program. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli/command.h"
#include "kazahana.h"

#include "kazahana.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arg_option {
    const char *name; /* without the hyphens; NULL ends a list */
    char letter;      /* 0: none */
    bool has_value;
};

struct args {
    const struct command *command;
    const struct arg_option *options;
    int argc;
    char **argv;
    int at;
    size_t hyphen_operand_length; /* texts of this length may begin with a hyphen (base64url); 0: none may */
    bool options_ended;           /* -- was seen */
    /* The option read last: */
    const char *option;
    const char *value;
    /* What is no option, once args_next has returned -1: */
    char **operands;
    int operand_count;
};

void args_begin(struct args *args, const struct command *command, const struct arg_option *options, int argc,
                char **argv);

/* The index in `options` of the next option given, -1 after the last. Sees to --help and --version itself. */
int args_next(struct args *args);

/* Ends the program if there are operands: for commands that take none. */
void args_no_operands(const struct args *args);

/* The value of the option read last. Each ends the program if the value is not what it should be. */
uint64_t args_number(const struct args *args, uint64_t min, uint64_t max);
/* A preset or TIME-NODE-SEQ@EPOCH. */
void args_layout(const struct args *args, const char *text, kz_layout *layout);

int args_choice(const struct args *args, const char *const *names);
double args_rate(const struct args *args);

/* Sets the option of the library that has its name. */
void args_set(const struct args *args, kz_options *options);

#endif
