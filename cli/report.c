/* Messages to the person at the terminal: failures, warnings and wrong usage, all on stderr. */
#include "cli/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* One write for a line, so that lines of several threads and processes do not mix. */
static void print_line(const char *prefix, const char *format, va_list values)
{
    char line[2048];
    vsnprintf(line, sizeof line, format, values);
    /* A value that came from elsewhere must not be able to command the terminal. */
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    fprintf(stderr, "kazahana: %s%s\n", prefix, line);
}

int report_failure(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line("", format, values);
    va_end(values);
    return EXIT_FAILED;
}

void report_warning(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line("warning: ", format, values);
    va_end(values);
}

void report_usage(const struct command *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line("", format, values);
    va_end(values);
    fprintf(stderr, "see kazahana %s%s--help\n", command ? command->name : "", command ? " " : "");
    exit(EXIT_USAGE);
}

void report_log(void *ctx, kz_log_level level, const char *message)
{
    (void)ctx;
    if (level == KZ_LOG_ERROR)
        report_failure("%s", message);
    else if (level == KZ_LOG_WARNING)
        report_warning("%s", message);
}
