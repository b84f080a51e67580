/* The log: a line is put together in one buffer and leaves with one write, so that lines of threads never mix. */
#include "server/log.h"
#include "server/utf8.h"

#include <kazahana.h>

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
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

static void begin_line(line *l, bool json)
{
    char when[KZ_TIME_TEXT_SIZE];
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    kz_time_text((int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000, when);
    add_pair(l, json, "time", when);
}

static void write_line(line *l, bool json)
{
    close_with(l, json ? "}\n" : "\n");
    ssize_t wrote;
    do
        wrote = write(STDERR_FILENO, l->text, l->length);
    while (wrote < 0 && errno == EINTR);
}

/* ---- repeated events ----
 *
 * What happens at every request may happen a million times a second. A line that was just written is kept back for a
 * second, and so are lines of an event that has had its share; the next one says how many there were. */

#define REPEAT_MS    1000
#define EVENT_LINES  20 /* of one event, with different texts */
#define REPEATS_KEPT 32
#define REPEAT_SIZE  1024

typedef struct repeat {
    uint64_t key; /* of a line, or of an event */
    int64_t since_ms;
    unsigned lines, kept_back; /* since then */
    size_t length;
    char text[REPEAT_SIZE]; /* the last one kept back, without its time */
} repeat;

static pthread_mutex_t repeat_lock = PTHREAD_MUTEX_INITIALIZER;
static repeat of_lines[REPEATS_KEPT], of_events[REPEATS_KEPT]; /* apart, so that lines do not displace their event */

static uint64_t hash(const char *text, size_t length)
{
    uint64_t sum = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
    return sum;
}

static int64_t mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void tell_repeat(repeat *r, bool json)
{
    char count[16];
    line l = {0};
    if (!r->kept_back)
        return;
    begin_line(&l, json);
    add(&l, r->text, r->length);
    snprintf(count, sizeof count, "%u", r->kept_back);
    add_pair(&l, json, "repeated", count);
    write_line(&l, json);
    r->kept_back = 0;
}

/* The lock is held. */
static bool may_pass(repeat *repeats, uint64_t key, unsigned limit, const char *text, size_t length, bool json)
{
    int64_t now_ms = mono_ms();
    repeat *found = NULL, *oldest = repeats;
    for (repeat *r = repeats; r < repeats + REPEATS_KEPT; r++) {
        if (r->key == key)
            found = r;
        if (r->since_ms < oldest->since_ms)
            oldest = r;
        if (now_ms - r->since_ms >= REPEAT_MS)
            tell_repeat(r, json);
    }
    repeat *r = found ? found : oldest;
    if (!found || now_ms - r->since_ms >= REPEAT_MS) {
        tell_repeat(r, json); /* of another, that makes room */
        *r = (repeat){.key = key, .since_ms = now_ms};
    }
    if (r->lines < limit) {
        r->lines++;
        return true;
    }
    r->kept_back++;
    if (length <= REPEAT_SIZE) { /* a longer one cannot be closed; an earlier one stands for it */
        memcpy(r->text, text, length);
        r->length = length;
    }
    return false;
}

void log_flush(void)
{
    pthread_mutex_lock(&repeat_lock);
    for (int i = 0; i < REPEATS_KEPT; i++) {
        tell_repeat(&of_lines[i], atomic_load(&json_now));
        tell_repeat(&of_events[i], atomic_load(&json_now));
    }
    pthread_mutex_unlock(&repeat_lock);
}

static void log_pairs(int level, bool often, const char *event, va_list args)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    if (level > atomic_load(&level_now))
        return;
    int saved = errno;
    bool json = atomic_load(&json_now);
    line l = {0};
    begin_line(&l, json);
    size_t after_time = l.length;
    add_pair(&l, json, "level", levels[level < 0 ? 0 : level > 3 ? 3 : level]);
    add_pair(&l, json, "event", event);
    for (const char *name; (name = va_arg(args, const char *));) {
        const char *value = va_arg(args, const char *);
        add_pair(&l, json, name, value ? value : "");
        if (!value)
            break;
    }
    const char *text = l.text + after_time;
    size_t length = l.length - after_time;
    pthread_mutex_lock(&repeat_lock);
    bool pass = !often || (may_pass(of_lines, hash(text, length), 1, text, length, json) &&
                           may_pass(of_events, hash(event, strlen(event)), EVENT_LINES, text, length, json));
    pthread_mutex_unlock(&repeat_lock);
    if (pass)
        write_line(&l, json);
    errno = saved;
}

void log_event(int level, const char *event, ...)
{
    va_list args;
    va_start(args, event);
    log_pairs(level, false, event, args);
    va_end(args);
}

void log_often(int level, const char *event, ...)
{
    va_list args;
    va_start(args, event);
    log_pairs(level, true, event, args);
    va_end(args);
}
