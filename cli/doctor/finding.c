/* One result of kazahana doctor: what was found and what to do about it. */
#include "cli/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    enum output_style style;
} levels[] = {
    [FINDING_OK] = {"ok", STYLE_GREEN},
    [FINDING_WARN] = {"warn", STYLE_YELLOW},
    [FINDING_FAIL] = {"fail", STYLE_RED},
};

static void print_json(struct output *out, enum finding_level level, const char *check, const char *detail,
                       const char *advice)
{
    output_format(out, "{\"check\":\"%s\",\"result\":\"%s\",\"detail\":", check, levels[level].name);
    output_json(out, detail);
    if (advice) {
        output_text(out, ",\"advice\":");
        output_json(out, advice);
    }
    output_text(out, "}\n");
}

static void print_line(struct output *out, enum finding_level level, const char *check, const char *detail,
                       const char *advice)
{
    output_style(out, levels[level].style);
    output_format(out, "%-4s", levels[level].name);
    output_style(out, STYLE_PLAIN);
    output_format(out, "  %-10s %s\n", check, detail);
    if (advice)
        output_format(out, "                 -> %s\n", advice);
}

void findings_add(struct findings *findings, enum finding_level level, const char *check, const char *advice,
                  const char *format, ...)
{
    char detail[768];
    va_list values;
    va_start(values, format);
    vsnprintf(detail, sizeof detail, format, values);
    va_end(values);
    if (findings->json)
        print_json(findings->out, level, check, detail, advice);
    else
        print_line(findings->out, level, check, detail, advice);
    output_flush(findings->out);
    findings->failed += level == FINDING_FAIL;
}
