/* The log: a line is put together in one buffer and leaves with one write, so that lines of threads never mix. */
#include "server/log.h"
#include "server/utf8.h"

#include <kazahana.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE  4096
#define LINE_SPARE 8 /* for what closes a line that was cut: quote, brace, line end */

static _Atomic int level_now = LOG_AT_INFO;
static _Atomic bool json_now;

typedef struct line {
    size_t length;
    bool full;
    char text[LINE_SIZE];
} line;

void log_setup(int level, bool json)
{
    atomic_store(&json_now, json);
    log_set_level(level);
}

void log_set_level(int level)
{
    atomic_store(&level_now, level);
}

/* All of it or nothing, so that no escape is cut in two. */
static void add(line *l, const char *text, size_t length)
{
    if (l->full || l->length + length > LINE_SIZE - LINE_SPARE) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->length, text, length);
    l->length += length;
}

static void close_with(line *l, const char *text)
{
    size_t length = strlen(text);
    if (l->length + length <= LINE_SIZE) {
        memcpy(l->text + l->length, text, length);
        l->length += length;
    }
}

static void add_escaped(line *l, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = *at < 0x80 ? 1 : utf8_length(at);
        if (!length) {
            add(l, "\\ufffd", 6);
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            add(l, (char[]){'\\', (char)*at}, 2);
        } else if (*at == '\n') {
            add(l, "\\n", 2);
        } else if (*at < 0x20 || *at == 0x7F) {
            add(l, (char[]){'\\', 'u', '0', '0', hex[*at >> 4], hex[*at & 15]}, 6);
        } else {
            add(l, (const char *)at, length);
        }
        at += length;
    }
}

static bool is_plain(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7F)
            return false;
    return *text;
}

/* A pair goes in whole, or with its value cut and closed, or not at all. */
static void add_pair(line *l, bool json, const char *name, const char *value)
{
    if (l->full || l->length + strlen(name) + 8 > LINE_SIZE - LINE_SPARE) {
        l->full = true;
        return;
    }
    bool quoted = json || !is_plain(value);
    if (l->length)
        add(l, json ? "," : " ", 1);
    else if (json)
        add(l, "{", 1);
    if (json)
        add(l, "\"", 1);
    add(l, name, strlen(name));
    add(l, json ? "\":" : "=", json ? 2 : 1);
    if (quoted)
        add(l, "\"", 1);
    add_escaped(l, value);
    if (quoted)
        close_with(l, "\"");
}

void log_event(int level, const char *event, ...)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    if (level > atomic_load(&level_now))
        return;
    int saved = errno;
    bool json = atomic_load(&json_now);
    line l = {0};
    char when[KZ_TIME_TEXT_SIZE];
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    kz_time_text((int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000, when);
    add_pair(&l, json, "time", when);
    add_pair(&l, json, "level", levels[level < 0 ? 0 : level > 3 ? 3 : level]);
    add_pair(&l, json, "event", event);
    va_list args;
    va_start(args, event);
    for (const char *name; (name = va_arg(args, const char *));) {
        const char *value = va_arg(args, const char *);
        add_pair(&l, json, name, value ? value : "");
        if (!value)
            break;
    }
    va_end(args);
    close_with(&l, json ? "}\n" : "\n");
    ssize_t wrote;
    do
        wrote = write(STDERR_FILENO, l.text, l.length);
    while (wrote < 0 && errno == EINTR);
    errno = saved;
}
