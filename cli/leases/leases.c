/* kazahana leases: who holds what, until when. */
#include "cli/args.h"
#include "cli/leases/holder.h"
#include "cli/leases/lease_bars.h"
#include "cli/leases/lease_rows.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/source_url.h"
#include "cli/stop.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { EVERY_MS = 1000, ROWS_UNKNOWN = 24, COLUMNS_UNKNOWN = 80, ROWS_AROUND = 3 };

struct view {
    const char *url, *service;
    bool json, watch;
    bool bars;       /* on a terminal: bars instead of columns of times */
    bool screen;     /* one picture that is drawn over and over */
    const char *end; /* of a line */
    struct lease_rows leases;
};

/* 2026-01-01T00:00:00Z: a lease is no matter of milliseconds. A dash for what is not known or never comes. */
static void second_text(int64_t unix_ms, char text[static KZ_TIME_TEXT_SIZE])
{
    if (!unix_ms || unix_ms == INT64_MAX) {
        strcpy(text, "-");
        return;
    }
    kz_time_text(unix_ms, text);
    char *dot = strchr(text, '.');
    if (dot)
        strcpy(dot, "Z");
}

/* Unix ms; null: not known, or never. */
static void print_json_time(struct output *out, const char *name, int64_t unix_ms)
{
    if (unix_ms == INT64_MAX)
        output_format(out, ",\"%s\":null", name);
    else
        output_format(out, ",\"%s\":%" PRId64, name, unix_ms);
}

/* The names are those of GET /leases; left_ms is by the table's clock. */
static void print_json_row(struct output *out, const kz_lease_info *row, int64_t source_ms)
{
    output_text(out, "{\"service\":");
    output_json(out, row->service);
    output_format(out, ",\"id\":%" PRIu32, row->id);
    if (row->kind == KZ_LINE_RESERVED)
        output_format(out, ",\"kind\":\"reserved\",\"nodes\":%" PRIu32, row->nodes);
    if (row->node_bits)
        output_format(out, ",\"bitId\":%u,\"bitSeq\":%u", row->node_bits, row->seq_bits);
    print_json_time(out, "created", row->created_ms ? row->created_ms : INT64_MAX);
    print_json_time(out, "expired", row->expired_ms);
    print_json_time(out, "fallbackCreated", row->fallback_created_ms);
    print_json_time(out, "fallbackExpired", row->fallback_expired_ms);
    if (row->expired_ms != INT64_MAX)
        output_format(out, ",\"left_ms\":%" PRId64, row->expired_ms > source_ms ? row->expired_ms - source_ms : 0);
    output_text(out, ",\"meta\":");
    holder_json(out, row->holder);
    output_text(out, "}\n");
}

static void print_padded(struct output *out, const char *text, size_t width)
{
    size_t used = holder_width(text);
    output_text(out, text);
    output_format(out, "%*s", (int)(width > used ? width - used : 0), "");
}

static void print_row(struct output *out, const struct view *view, const kz_lease_info *row, size_t service_width,
                      size_t holder_width)
{
    char holder[HOLDER_TEXT_SIZE], since[KZ_TIME_TEXT_SIZE], until[KZ_TIME_TEXT_SIZE], twin[KZ_TIME_TEXT_SIZE] = "-";
    char left[TIMES_TEXT_SIZE] = "ended";
    holder_text(row->holder, holder);
    second_text(row->created_ms, since);
    second_text(row->expired_ms, until);
    if (row->fallback_expired_ms > row->expired_ms)
        second_text(row->fallback_expired_ms, twin);
    if (row->expired_ms == INT64_MAX)
        strcpy(left, "-");
    else if (row->expired_ms > view->leases.source_ms)
        times_span_text(row->expired_ms - view->leases.source_ms, left);
    print_padded(out, row->service, service_width);
    output_format(out, "  %6" PRIu32 "  ", row->id);
    print_padded(out, holder, holder_width);
    output_format(out, "  %-20s  %-20s  %8s  %s%s", since, until, left, twin, view->end);
}

static void print_table(struct output *out, const struct view *view)
{
    const struct lease_rows *leases = &view->leases;
    size_t service_width = strlen("SERVICE"), holder_column = strlen("HOLDER");
    if (!leases->count) {
        output_format(out, "no leases%s", view->end);
        return;
    }
    for (size_t i = 0; i < leases->count; i++) {
        char holder[HOLDER_TEXT_SIZE];
        holder_text(leases->rows[i].holder, holder);
        size_t service = strlen(leases->rows[i].service), width = holder_width(holder);
        service_width = service > service_width ? service : service_width;
        holder_column = width > holder_column ? width : holder_column;
    }
    output_style(out, STYLE_BOLD);
    output_format(out, "%-*s  %6s  %-*s  %-20s  %-20s  %8s  %s", (int)service_width, "SERVICE", "NODE",
                  (int)holder_column, "HOLDER", "SINCE", "UNTIL", "LEFT", "TWIN UNTIL");
    output_style(out, STYLE_PLAIN);
    output_text(out, view->end);
    for (size_t i = 0; i < leases->count; i++)
        print_row(out, view, &leases->rows[i], service_width, holder_column);
}

static struct winsize terminal_size(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
        size = (struct winsize){.ws_row = ROWS_UNKNOWN, .ws_col = COLUMNS_UNKNOWN};
    return size;
}

static void print(struct output *out, const struct view *view)
{
    if (view->bars)
        lease_bars_print(out, &view->leases, terminal_size().ws_col, SIZE_MAX, view->end);
    else if (!view->json)
        print_table(out, view);
    for (size_t i = 0; view->json && i < view->leases.count; i++)
        print_json_row(out, &view->leases.rows[i], view->leases.source_ms);
}

/* ------------------------------------------------------------------------------------------------- watching */

/* The other screen of the terminal, without a cursor and without wrapping, so that a line stays one line. */
static void screen_begin(struct output *out)
{
    output_text(out, "\033[?1049h\033[?25l\033[?7l");
}

static void screen_end(struct output *out)
{
    output_text(out, "\033[?7h\033[?25h\033[?1049l");
}

static void draw(struct output *out, struct view *view, const char *trouble)
{
    char shown[SOURCE_SHOWN_SIZE], now[KZ_TIME_TEXT_SIZE];
    struct winsize size = terminal_size();
    second_text(view->leases.source_ms, now);
    output_text(out, "\033[H");
    output_format(out, "%s  %zu lease%s, Ctrl-C ends  %s%s", now, view->leases.count,
                  view->leases.count == 1 ? "" : "s", source_shown(view->url, shown), view->end);
    if (trouble) {
        output_style(out, STYLE_RED);
        output_text(out, trouble);
        output_style(out, STYLE_PLAIN);
    }
    output_text(out, view->end);
    /* The end of a line clears from the cursor on, which does not leave the last column. */
    lease_bars_print(out, &view->leases, size.ws_col - 1U,
                     size.ws_row > ROWS_AROUND ? size.ws_row - (size_t)ROWS_AROUND : 1, view->end);
    output_text(out, "\033[J");
}

/* Once a second until a signal. A source that does not answer for a while is no reason to stop looking. */
static int watch(struct output *out, struct view *view, kz_source *source)
{
    kz_error err;
    kz_status status = KZ_OK;
    int64_t next_boot_ns = times_boot_ns();
    if (view->screen)
        screen_begin(out);
    for (bool first = true; !stop_signal() && !out->error; first = false) {
        if (!first) {
            stop_leave_when_overdue(!view->screen);
            status = lease_rows_read(&view->leases, source, view->service, &err);
            stop_leave_when_overdue(false);
        }
        if (stop_signal())
            break;
        if (view->screen) {
            draw(out, view, status == KZ_OK ? NULL : err.message);
        } else if (status != KZ_OK) {
            report_log(NULL, KZ_LOG_WARNING, err.message);
        } else {
            output_text(out, first ? "" : "\n");
            print(out, view);
        }
        output_flush(out);
        next_boot_ns += EVERY_MS * INT64_C(1000000);
        if (next_boot_ns < times_boot_ns())
            next_boot_ns = times_boot_ns();
        stop_or_sleep_until(next_boot_ns);
    }
    if (view->screen)
        screen_end(out);
    int written = output_end(out);
    return stop_signal() ? 128 + stop_signal() : written;
}

static int show(struct view *view, kz_source *source)
{
    struct output out;
    kz_error err;
    if (lease_rows_read(&view->leases, source, view->service, &err) != KZ_OK)
        return report_failure("%s", err.message);
    output_begin(&out);
    const char *terminal = getenv("TERM");
    view->bars = !view->json && out.terminal && terminal && strcmp(terminal, "dumb") != 0;
    view->screen = view->watch && view->bars;
    view->end = view->screen ? "\033[K\n" : "\n";
    if (view->watch) {
        stop_watch();
        return watch(&out, view, source);
    }
    print(&out, view);
    return output_end(&out);
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { FROM, SERVICE, JSON, WATCH };
    static const struct arg_option options[] = {[FROM] = {"from", 0, true},
                                                [SERVICE] = {"service", 0, true},
                                                [JSON] = {"json", 0, false},
                                                [WATCH] = {"watch", 0, false},
                                                {0}};
    struct view view = {0};
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == FROM)
            view.url = args.value;
        else if (option == SERVICE)
            view.service = args.value;
        else if (option == JSON)
            view.json = true;
        else
            view.watch = true;
    }
    args_no_operands(&args);

    kz_source *source;
    kz_options source_options;
    kz_error err;
    kz_options_init(&source_options);
    source_options.log = report_log;
    if (view.service)
        source_options.service = view.service;
    if (source_file_is_missing(view.url, &err))
        return report_failure("%s", err.message);
    if (kz_source_open(&source, view.url, &source_options, &err) != KZ_OK)
        return report_unopened(command, view.url, &err);
    int result = show(&view, source);
    lease_rows_free(&view.leases);
    kz_source_close(source);
    return result;
}

static const char help[] =
    "Usage: kazahana leases [--from URL] [--service S] [--json] [--watch]\n"
    "\n"
    "Shows who holds which node of a lease table, since when and until when, by the table's own clock. A twin is the "
    "same\n"
    "place in the fallback half, which its holder may use when it cannot reach the table. Secrets are never shown.\n"
    "On a terminal each lease is a bar over time: used, left, and pale its twin, with now marked.\n"
    "\n"
    "      --from URL    a lease table: sqlite:/path/leases.db, redis://host/db, postgres://host/db; or TSID slots:\n"
    "                    tsid+redis://host/db; unless given, the embedded default (see kazahana next)\n"
    "      --service S   of this service alone\n"
    "      --json        one object a line\n"
    "      --watch       again every second, until Ctrl-C; piped, with an empty line between\n"
    "\n"
    "Examples:\n"
    "  kazahana leases\n"
    "  kazahana leases --from redis://localhost/0 --service payments --watch\n"
    "  kazahana leases --json | jq -r .meta.host | sort | uniq -c\n";

const struct command leases_command = {"leases", "who holds which node, until when", help, run};
