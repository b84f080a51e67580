/* Messages to the person at the terminal: failures, warnings and wrong usage, all on stderr. */
#include "cli/report.h"

#include "cli/times.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int report_unopened(const struct command *command, const char *url, const kz_error *err)
{
    bool wrong = err->status == KZ_INVALID || (url && err->status == KZ_UNSUPPORTED);
    if (wrong && !(url && strncmp(url, "env:", 4) == 0))
        report_usage(command, "%s", err->message);
    return report_failure("%s", err->message);
}

/* Attempts that go on failing say the same each time: once a minute is enough. */
static bool is_repeated(const char *message)
{
    enum { AGAIN_AFTER_S = 60 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char last[512];
    static int64_t last_boot_ns;
    pthread_mutex_lock(&lock);
    int64_t boot_ns = times_boot_ns();
    bool repeated =
        strncmp(last, message, sizeof last - 1) == 0 && boot_ns - last_boot_ns < AGAIN_AFTER_S * INT64_C(1000000000);
    if (!repeated) {
        snprintf(last, sizeof last, "%s", message);
        last_boot_ns = boot_ns;
    }
    pthread_mutex_unlock(&lock);
    return repeated;
}

void report_log(void *ctx, kz_log_level level, const char *message)
{
    (void)ctx;
    if (level == KZ_LOG_INFO || is_repeated(message))
        return;
    if (level == KZ_LOG_ERROR)
        report_failure("%s", message);
    else
        report_warning("%s", message);
}
