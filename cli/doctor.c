/* kazahana doctor: looks at the clock, the source and the layout, and says what to do. */
#include "cli/args.h"
#include "cli/doctor_clock.h"
#include "cli/finding.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_MS = 86400000, WARN_DAYS = 730 };

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What the source's own kind means for the promise that no two IDs are equal. */
static void check_promise(struct findings *findings, const char *url)
{
    bool fixed = begins_with(url, "static:") || begins_with(url, "env:");
    const char *query = strchr(url, '?');
    bool state = query && (strstr(query, "?state=") || strstr(query, "&state="));
    if (begins_with(url, "standalone:"))
        findings_add(findings, FINDING_WARN, "promise",
                     "standalone: mints unfenced fallback IDs, which may have twins; give it a node number or a lease",
                     "a source without a coordinator");
    else if (fixed)
        findings_add(findings, FINDING_WARN, "promise",
                     state ? "make sure that the number is given out only once, or use leases"
                           : "add ?state=/path/file against a clock set back between runs, or use leases",
                     "nothing checks that nobody else uses this number%s",
                     state ? "; the state file guards restarts on this machine" : "");
}

static void check_source(struct findings *findings, const char *url, const char *layout)
{
    kz_generator *gen;
    kz_options options;
    kz_error err;
    kz_id id;
    kz_options_init(&options);
    options.layout = layout;
    options.log = report_log;
    const char *shown = url ? url : "the default source";
    int64_t begin_ns = times_boot_ns();
    if (kz_open(&gen, url, &options, &err) != KZ_OK) {
        if (!url && err.status == KZ_UNSUPPORTED)
            findings_add(findings, FINDING_WARN, "source", "name the source you use with --from", "%s", err.message);
        else if (err.status == KZ_IN_USE)
            findings_add(findings, FINDING_WARN, "source", "as it should be if that is your own service", "%s: %s",
                         shown, err.message);
        else
            findings_add(findings, FINDING_FAIL, "source", "correct the URL or what it points to", "%s: %s", shown,
                         err.message);
        return;
    }
    if (kz_mint(gen, &id, 1, options.timeout_ms, &err) != KZ_OK)
        findings_add(findings, FINDING_FAIL, "source", "see to it before anything depends on this source", "%s: %s",
                     shown, err.message);
    else
        findings_add(findings, FINDING_OK, "source", NULL, "%s opened and minted %" PRIu64 " in %.1f ms", shown, id,
                     (double)(times_boot_ns() - begin_ns) * 1e-6);
    kz_close(gen);
    if (url)
        check_promise(findings, url);
}

static void check_layout(struct findings *findings, const kz_layout *layout)
{
    kz_layout_facts facts;
    char last_day[TIMES_TEXT_SIZE], negative_day[TIMES_TEXT_SIZE], days_text[NUMBER_GROUPED_SIZE];
    int64_t wall_ms = times_wall_ms();
    kz_layout_describe(layout, &facts);
    times_day_text(facts.last_unix_ms, last_day);
    int64_t days = (facts.last_unix_ms - wall_ms) / DAY_MS;
    number_grouped(days < 0 ? 0 : (uint64_t)days, days_text);
    if (facts.first_unix_ms > wall_ms)
        findings_add(findings, FINDING_FAIL, "layout", "choose an earlier epoch, or set the clock",
                     "the epoch is in the future: nothing can be minted");
    else if (facts.last_unix_ms < wall_ms)
        findings_add(findings, FINDING_FAIL, "layout", "move to a layout with more time bits or a later epoch",
                     "ran out on %s", last_day);
    else
        findings_add(findings, days < WARN_DAYS ? FINDING_WARN : FINDING_OK, "layout",
                     days < WARN_DAYS ? "plan the move to a layout with more time bits or a later epoch" : NULL,
                     "runs out on %s, in %s days", last_day, days_text);
    if (!facts.turns_negative)
        return;
    times_day_text(facts.negative_unix_ms, negative_day);
    findings_add(findings, FINDING_WARN, "sign", "compare as unsigned, or use a layout of 63 bits",
                 "64 bits: IDs are negative as signed integers from %s on", negative_day);
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { FROM, LAYOUT, JSON };
    static const struct arg_option options[] = {
        [FROM] = {"from", 0, true}, [LAYOUT] = {"layout", 0, true}, [JSON] = {"json", 0, false}, {0}};
    const char *url = NULL, *layout_text = NULL;
    bool json = false;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == FROM)
            url = args.value;
        else if (option == LAYOUT)
            layout_text = args.value;
        else
            json = true;
    }
    args_no_operands(&args);
    kz_layout layout;
    kz_error err;
    if (kz_layout_parse(layout_text ? layout_text : "kazahana", &layout, &err) != KZ_OK)
        return report_failure("%s", err.message);
    struct output out;
    output_begin(&out);
    struct findings findings = {.out = &out, .json = json};
    doctor_check_clock(&findings);
    check_source(&findings, url, layout_text);
    check_layout(&findings, &layout);
    int written = output_end(&out);
    return findings.failed ? EXIT_FAILED : written;
}

static const char help[] =
    "Usage: kazahana doctor [--from URL] [--layout L] [--json]\n"
    "\n"
    "Checks the clock, whether the source opens and mints, and how long the layout lasts. Each check is a line that\n"
    "begins with ok, warn or fail, with what to do below it. Exit status 1 if any check fails.\n"
    "\n"
    "      --from URL   the source to try; one ID is minted from it\n"
    "      --layout L   the layout in use (kazahana)\n"
    "      --json       one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana doctor --from static:7\n"
    "  kazahana doctor --from static:7?state=/var/lib/app/node7 --layout snowflake --json\n";

const struct command doctor_command = {"doctor", "check the clock, the source and the layout", help, run};
