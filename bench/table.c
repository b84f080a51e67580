/* What was found, for people and for programs. */
#include "bench/table.h"

#include "commit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void read_cpu(char *name, size_t size)
{
    snprintf(name, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, size, "%s", colon + 2);
        break;
    }
    fclose(file);
}

void machine_read(machine *m)
{
    struct utsname system;
    read_cpu(m->cpu, sizeof m->cpu);
    m->cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&system))
        snprintf(m->kernel, sizeof m->kernel, "unknown kernel");
    else
        snprintf(m->kernel, sizeof m->kernel, "%s %s %s", system.sysname, system.release, system.machine);
}

static const char *verdict(const row *r)
{
    if (!r->goal)
        return "";
    if (isnan(r->ratio))
        return "not measured";
    return (r->at_least ? r->ratio >= r->limit : r->ratio <= r->limit) ? "met" : "missed";
}

static void show(char *text, size_t size, const char *before, double value, bool percent)
{
    if (isnan(value))
        snprintf(text, size, "-");
    else if (percent)
        snprintf(text, size, "%s%.2f %%", before, 100 * value);
    else
        snprintf(text, size, value < 0.1 ? "%s%.3fx" : "%s%.2fx", before, value);
}

static void show_ns(char *text, size_t size, double ns)
{
    if (isnan(ns))
        snprintf(text, size, "-");
    else
        snprintf(text, size, ns < 10000 ? "%.2f" : "%.0f", ns);
}

static void print_row(FILE *out, const row *r)
{
    char number[8] = "", ratio[24], low[24], high[24], limit[24] = "", ns[16], denominator_ns[16];
    if (r->goal) {
        snprintf(number, sizeof number, "%d", r->goal);
        show(limit, sizeof limit, r->at_least ? ">= " : "<= ", r->limit, r->percent);
    }
    show_ns(ns, sizeof ns, r->ns);
    show_ns(denominator_ns, sizeof denominator_ns, r->denominator_ns);
    show(ratio, sizeof ratio, "", r->ratio, r->percent);
    show(low, sizeof low, "", r->low, r->percent);
    show(high, sizeof high, "", r->high, r->percent);
    fprintf(out, "%-4s %-40s %8s  %-28s %8s  %9s  %8s..%-9s %-10s %s\n", number, r->what, ns, r->denominator,
            denominator_ns, ratio, low, high, limit, verdict(r));
}

static void print_ledger(FILE *out, const ledger *l)
{
    fprintf(out, "%-45s %12" PRIu64 " %6" PRIu64 " %9" PRIu64 " %7" PRIu64 " %8" PRIu64, l->name, l->checked, l->twins,
            l->disorder, l->future, l->garbled);
    if (l->age_samples)
        fprintf(out, "   %" PRIu64 " of %" PRIu64 " late, by %" PRId64 " ms at most", l->late, l->age_samples,
                l->late_max_ms);
    fputc('\n', out);
}

void print_table(FILE *out, const machine *m, const row *rows, size_t row_count, const ledger *const *ledgers,
                 size_t ledger_count)
{
    fprintf(out, "%s, %ld cores; %s; kazahana %s; %s\n", m->cpu, m->cores, m->kernel, BENCH_COMMIT, COMPILER);
    fprintf(out, "Medians over the rounds, with the quartiles of the ratio. With two threads: ns of a thread for one "
                 "operation.\n\n");
    fprintf(out, "%-4s %-40s %8s  %-28s %8s  %9s  %19s %-10s %s\n", "goal", "what", "ns", "denominator", "ns", "ratio",
            "quartiles", "wanted", "verdict");
    for (size_t i = 0; i < row_count; i++)
        print_row(out, &rows[i]);
    if (!ledger_count)
        return;
    fprintf(out, "\n%-45s %12s %6s %9s %7s %8s   %s\n", "checked", "results", "twins", "disorder", "future", "garbled",
            "millisecond over before the call began");
    for (size_t i = 0; i < ledger_count; i++)
        print_ledger(out, ledgers[i]);
    if (check_clock_went_back())
        fprintf(out, "\nThe clock was set back meanwhile: IDs from the future do not count.\n");
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
    fputc('"', out);
}

static void put_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\": ", key);
    put_string(out, text);
    fputs(", ", out);
}

static void put_number(FILE *out, const char *key, double value)
{
    if (isnan(value))
        fprintf(out, "\"%s\": null, ", key);
    else
        fprintf(out, "\"%s\": %.6g, ", key, value);
}

static void put_row(FILE *out, const row *r)
{
    fputs("    {", out);
    if (r->goal)
        fprintf(out, "\"goal\": %d, ", r->goal);
    put_text(out, "what", r->what);
    put_number(out, "ns", r->ns);
    put_text(out, "denominator", r->denominator);
    put_number(out, "denominator_ns", r->denominator_ns);
    put_number(out, "ratio", r->ratio);
    put_number(out, "ratio_low", r->low);
    put_number(out, "ratio_high", r->high);
    if (r->goal) {
        put_number(out, r->at_least ? "at_least" : "at_most", r->limit);
        put_text(out, "verdict", verdict(r));
    }
    fprintf(out, "\"rounds\": %zu}", r->rounds);
}

static void put_ledger(FILE *out, const ledger *l)
{
    fputs("    {", out);
    put_text(out, "name", l->name);
    fprintf(out,
            "\"checked\": %" PRIu64 ", \"twins\": %" PRIu64 ", \"disorder\": %" PRIu64 ", \"future\": %" PRIu64
            ", \"garbled\": %" PRIu64,
            l->checked, l->twins, l->disorder, l->future, l->garbled);
    if (l->age_samples)
        fprintf(out, ", \"age_samples\": %" PRIu64 ", \"late\": %" PRIu64 ", \"late_max_ms\": %" PRId64, l->age_samples,
                l->late, l->late_max_ms);
    fputc('}', out);
}

void print_json(FILE *out, const machine *m, const row *rows, size_t row_count, const ledger *const *ledgers,
                size_t ledger_count)
{
    fputs("{\n  ", out);
    put_text(out, "cpu", m->cpu);
    fprintf(out, "\"cores\": %ld, ", m->cores);
    put_text(out, "kernel", m->kernel);
    put_text(out, "commit", BENCH_COMMIT);
    put_text(out, "compiler", COMPILER);
    fprintf(out, "\"clock_went_back\": %s,\n  \"rows\": [\n", check_clock_went_back() ? "true" : "false");
    for (size_t i = 0; i < row_count; i++) {
        put_row(out, &rows[i]);
        fputs(i + 1 < row_count ? ",\n" : "\n", out);
    }
    fputs("  ],\n  \"checked\": [\n", out);
    for (size_t i = 0; i < ledger_count; i++) {
        put_ledger(out, ledgers[i]);
        fputs(i + 1 < ledger_count ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
}
