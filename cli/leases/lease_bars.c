/* A lease table as bars over time: from one lease before now to four after, as far as twins reach. */
#include "cli/leases/lease_bars.h"

#include "cli/leases/holder.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEFT_WIDTH = 7, HOLDER_MAX = 26, BAR_MIN = 10, LEASES_BEFORE = 1, LEASES_SHOWN = 5 };

/* One character of a bar, in a terminal's own characters or in ASCII. */
enum mark { NOTHING, USED, LEFT, TWIN, RESERVED, NOW, MARKS };

struct picture {
    struct output *out;
    const char *end;
    const char *const *marks;
    int64_t now_ms, lease_ms, from_ms;
    size_t node, holder, bar; /* widths of columns */
};

static const char *const *choose_marks(void)
{
    static const char *const ascii[MARKS] = {" ", "#", "=", ".", "/", "|"};
    static const char *const drawn[MARKS] = {" ", "█", "▒", "░", "╱", "│"};
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *locale = getenv(names[i]);
        if (locale && *locale)
            return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8") ? drawn : ascii;
    }
    return ascii;
}

/* `a 7` for `host=a pid=7`; everything else as it stands. */
static void short_holder(const kz_lease_info *row, char text[static HOLDER_TEXT_SIZE])
{
    holder_text(row->holder, text);
    char *pid = strstr(text, " pid=");
    if (strncmp(text, "host=", 5) == 0 && pid && !strchr(pid + 5, '=')) {
        memmove(pid + 1, pid + 5, strlen(pid + 5) + 1);
        memmove(text, text + 5, strlen(text + 5) + 1);
    }
}

/* Cut to so many characters of UTF-8, the last of them a dot where something is missing. */
static void cut(char *text, size_t width)
{
    if (holder_width(text) <= width)
        return;
    char *at = text;
    for (size_t n = 0; n + 1 < width; n++)
        do
            at++;
        while ((*at & 0xc0) == 0x80);
    strcpy(at, ".");
}

static void node_text(const kz_lease_info *row, char text[static 32])
{
    if (row->nodes > 1)
        snprintf(text, 32, "%" PRIu32 "-%" PRIu32, row->id, row->id + row->nodes - 1);
    else
        snprintf(text, 32, "%" PRIu32, row->id);
}

static int64_t longest_ms(const struct lease_rows *leases)
{
    int64_t longest = 0;
    for (size_t i = 0; i < leases->count; i++) {
        const kz_lease_info *row = &leases->rows[i];
        if (row->created_ms && row->expired_ms != INT64_MAX && row->kind != KZ_LINE_RESERVED &&
            row->expired_ms - row->created_ms > longest)
            longest = row->expired_ms - row->created_ms;
    }
    return longest ? longest : 600000;
}

static enum mark mark_at(const struct picture *p, const kz_lease_info *row, int64_t ms, int64_t next_ms)
{
    bool in_lease = next_ms > row->created_ms && ms < row->expired_ms;
    if (in_lease)
        return row->kind == KZ_LINE_RESERVED ? RESERVED : ms < p->now_ms ? USED : LEFT;
    return next_ms > row->fallback_created_ms && ms < row->fallback_expired_ms ? TWIN : NOTHING;
}

static void print_bar(const struct picture *p, const kz_lease_info *row)
{
    static const enum output_style styles[MARKS] = {
        [USED] = STYLE_GREEN, [LEFT] = STYLE_GREEN, [TWIN] = STYLE_DIM, [RESERVED] = STYLE_DIM, [NOW] = STYLE_BOLD};
    int64_t cell_ms = p->lease_ms * LEASES_SHOWN / (int64_t)p->bar;
    enum mark last = NOTHING;
    for (size_t i = 0; i < p->bar; i++) {
        int64_t ms = p->from_ms + (int64_t)i * cell_ms;
        bool now = ms <= p->now_ms && p->now_ms < ms + cell_ms;
        enum mark mark = now ? NOW : mark_at(p, row, ms, ms + cell_ms);
        if (mark != last) {
            output_style(p->out, STYLE_PLAIN);
            if (mark != NOTHING)
                output_style(p->out, styles[mark]);
        }
        output_text(p->out, p->marks[mark]);
        last = mark;
    }
    output_style(p->out, STYLE_PLAIN);
}

static void print_row(const struct picture *p, const kz_lease_info *row)
{
    char node[32], holder[HOLDER_TEXT_SIZE], left[TIMES_TEXT_SIZE] = "ended";
    node_text(row, node);
    short_holder(row, holder);
    cut(holder, p->holder);
    if (row->expired_ms == INT64_MAX)
        strcpy(left, "-");
    else if (row->expired_ms > p->now_ms)
        times_span_text(row->expired_ms - p->now_ms, left);
    output_format(p->out, "%*s  %s%*s  %*s  ", (int)p->node, node, holder, (int)(p->holder - holder_width(holder)), "",
                  LEFT_WIDTH, left);
    print_bar(p, row);
    output_text(p->out, p->end);
}

/* The times of the bars' ends, and of now where it stands. */
static void print_head(const struct picture *p)
{
    char from[KZ_TIME_TEXT_SIZE], now[KZ_TIME_TEXT_SIZE], to[KZ_TIME_TEXT_SIZE];
    kz_time_text(p->from_ms, from);
    kz_time_text(p->now_ms, now);
    kz_time_text(p->from_ms + p->lease_ms * LEASES_SHOWN, to);
    size_t before = p->bar * LEASES_BEFORE / LEASES_SHOWN;
    output_style(p->out, STYLE_BOLD);
    output_format(p->out, "%*s  %-*s  %*s  ", (int)p->node, "NODE", (int)p->holder, "HOLDER", LEFT_WIDTH, "LEFT");
    if (p->bar >= before + 23)
        output_format(p->out, "%*s%-*.*s%8.8s", (int)before, "", (int)(p->bar - before - 8), 12, "now", to + 11);
    output_style(p->out, STYLE_PLAIN);
    output_text(p->out, p->end);
}

static void measure(struct picture *p, const struct lease_rows *leases, size_t shown, size_t columns)
{
    p->node = strlen("NODE");
    p->holder = strlen("HOLDER");
    for (size_t i = 0; i < shown; i++) {
        char node[32], holder[HOLDER_TEXT_SIZE];
        node_text(&leases->rows[i], node);
        short_holder(&leases->rows[i], holder);
        size_t width = holder_width(holder);
        p->node = strlen(node) > p->node ? strlen(node) : p->node;
        p->holder = width > p->holder ? width : p->holder;
    }
    if (p->holder > HOLDER_MAX)
        p->holder = HOLDER_MAX;
    size_t others = p->node + LEFT_WIDTH + 6;
    if (columns < others + p->holder + BAR_MIN)
        p->holder = columns > others + BAR_MIN + 6 ? columns - others - BAR_MIN : 6;
    p->bar = columns > others + p->holder + BAR_MIN ? columns - others - p->holder : BAR_MIN;
}

void lease_bars_print(struct output *out, const struct lease_rows *leases, size_t columns, size_t lines,
                      const char *end)
{
    struct picture p = {.out = out, .end = end, .marks = choose_marks(), .now_ms = leases->source_ms};
    if (!leases->count) {
        output_format(out, "no leases%s", end);
        return;
    }
    p.lease_ms = longest_ms(leases);
    p.from_ms = p.now_ms - LEASES_BEFORE * p.lease_ms;
    measure(&p, leases, leases->count < lines ? leases->count : lines, columns);
    print_head(&p);
    bool several = strcmp(leases->rows[0].service, leases->rows[leases->count - 1].service) != 0;
    size_t shown = 0;
    for (size_t used = 2; shown < leases->count && used < lines; shown++, used++) {
        const kz_lease_info *row = &leases->rows[shown];
        if (several && (!shown || strcmp(row[-1].service, row->service) != 0)) {
            if (++used >= lines)
                break;
            output_format(out, "service %s%s", row->service, end);
        }
        print_row(&p, row);
    }
    if (shown < leases->count)
        output_format(out, "and %zu more%s", leases->count - shown, end);
}
