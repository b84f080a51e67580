/* Messages to the person at the terminal: failures, warnings and wrong usage, all on stderr. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/command.h"
#include "kazahana.h"

/* Prints `kazahana: ...` and returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int report_failure(const char *format, ...);

/* A source that did not open: wrong usage if the command line is what is wrong with it (a variable is not). */
int report_unopened(const struct command *command, const char *url, const kz_error *err);

__attribute__((format(printf, 1, 2))) void report_warning(const char *format, ...);

/* Prints what was wrong and where the help is, and leaves with EXIT_USAGE. `command` is NULL for the program itself.
 * For the time before anything was opened or printed. */
__attribute__((noreturn, format(printf, 2, 3))) void report_usage(const struct command *command, const char *format,
                                                                  ...);

/* A kz_log_fn. Information is left out: stderr is for what needs attention. The same line again within a minute is left
 * out too. */
void report_log(void *ctx, kz_log_level level, const char *message);

#endif
