/* kazahana doctor: looks at the clock, the source and the layout, and says what to do. */
#include "cli/args.h"
#include "cli/doctor/doctor_clock.h"
#include "cli/doctor/doctor_table.h"
#include "cli/doctor/finding.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/source_url.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* What is examined, and as whom. */
struct patient {
    const char *url, *shown;
    kz_options options;
    kz_layout layout; /* the service's or the generator's, once one of them was seen */
    char holder[KZ_HOLDER_SIZE];
};

static void add_failure(struct findings *findings, const struct patient *patient, const kz_error *err)
{
    if (err->status == KZ_IN_USE)
        findings_add(findings, FINDING_WARN, "source", "as it should be if that is your own service", "%s: %s",
                     patient->shown, err->message);
    else
        findings_add(findings, FINDING_FAIL, "source",
                     err->status == KZ_MISMATCH ? "leave --layout out, or name another service with --service"
                                                : "correct the URL or what it points to",
                     "%s: %s", patient->shown, err->message);
}

/* Opens it as a program would, mints and closes. True if there was something to close. */
static bool check_minting(struct findings *findings, struct patient *patient)
{
    kz_generator *gen;
    kz_error err;
    kz_id id;
    int64_t begin_ns = times_boot_ns();
    if (kz_open(&gen, patient->url, &patient->options, &err) != KZ_OK) {
        add_failure(findings, patient, &err);
        return false;
    }
    kz_generator_layout(gen, &patient->layout);
    if (kz_mint(gen, &id, 1, patient->options.timeout_ms, &err) != KZ_OK)
        findings_add(findings, FINDING_FAIL, "source", "see to it before anything depends on this source", "%s: %s",
                     patient->shown, err.message);
    else
        findings_add(findings, FINDING_OK, "source", NULL, "%s opened and minted %" PRIu64 " in %.1f ms",
                     patient->shown, id, (double)(times_boot_ns() - begin_ns) * 1e-6);
    kz_close(gen);
    return true;
}

/* A lease file holds the secrets of the leases: whoever reads it can give them back, whoever writes it can grant them
 * twice. */
static void check_file(struct findings *findings, const char *url)
{
    struct stat facts;
    char path[4096];
    if (strncmp(url, "sqlite:", 7) != 0)
        return;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(url + 7, "?"), url + 7);
    if (stat(path, &facts) != 0 || !(facts.st_mode & (S_IROTH | S_IWOTH)))
        return;
    bool write = facts.st_mode & S_IWOTH;
    findings_add(findings, write ? FINDING_FAIL : FINDING_WARN, "file",
                 "chmod o-rwx, the same for the folder's other files",
                 "%s can be %s by everybody on this machine: it holds the secrets of the leases", path,
                 write ? "written" : "read");
}

/* A fixed node can be open once only, so the look at the source and the minting come one after the other. */
static void check_source(struct findings *findings, struct patient *patient)
{
    kz_source *source;
    kz_error err;
    if (source_file_is_missing(patient->url, &err) ||
        kz_source_open(&source, patient->url, &patient->options, &err) != KZ_OK) {
        add_failure(findings, patient, &err);
        return;
    }
    check_file(findings, kz_source_url(source));
    enum doctor_table table = doctor_check_table(findings, source, patient->options.service, &patient->layout);
    if (table == TABLE_NONE) {
        kz_source_close(source);
        if (check_minting(findings, patient) && patient->url)
            check_promise(findings, patient->url);
        return;
    }
    if (table == TABLE_ANSWERS && check_minting(findings, patient))
        doctor_check_released(findings, source, patient->holder);
    kz_source_close(source);
}

static void check_layout(struct findings *findings, const kz_layout *layout)
{
    kz_layout_facts facts;
    char last_day[TIMES_TEXT_SIZE], negative_day[TIMES_TEXT_SIZE], days_text[NUMBER_GROUPED_SIZE];
    char text[KZ_LAYOUT_TEXT_SIZE];
    const char *name = layout->name[0] ? layout->name : text;
    int64_t wall_ms = times_wall_ms();
    kz_layout_text(layout, text);
    kz_layout_describe(layout, &facts);
    times_day_text(facts.last_unix_ms, last_day);
    int64_t days = (facts.last_unix_ms - wall_ms) / DAY_MS;
    number_grouped(days < 0 ? 0 : (uint64_t)days, days_text);
    if (facts.first_unix_ms > wall_ms)
        findings_add(findings, FINDING_FAIL, "layout", "choose an earlier epoch, or set the clock",
                     "the epoch of %s is in the future: nothing can be minted", name);
    else if (facts.last_unix_ms < wall_ms)
        findings_add(findings, FINDING_FAIL, "layout", "move to a layout with more time bits or a later epoch",
                     "%s ran out on %s", name, last_day);
    else
        findings_add(findings, days < WARN_DAYS ? FINDING_WARN : FINDING_OK, "layout",
                     days < WARN_DAYS ? "plan the move to a layout with more time bits or a later epoch" : NULL,
                     "%s runs out on %s, in %s days", name, last_day, days_text);
    if (!facts.turns_negative)
        return;
    times_day_text(facts.negative_unix_ms, negative_day);
    findings_add(findings, FINDING_WARN, "sign", "compare as unsigned, or use a layout of 63 bits",
                 "64 bits: IDs are negative as signed integers from %s on", negative_day);
}

/* Who holds the lease while it is tried: told apart from whatever else this process or machine does. */
static void set_holder(struct patient *patient)
{
    char host[65] = "unknown";
    gethostname(host, sizeof host - 1);
    for (char *at = host; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20)
            *at = '_';
    snprintf(patient->holder, sizeof patient->holder, "{\"host\":\"%s\",\"pid\":\"%ld\",\"for\":\"doctor\"}", host,
             (long)getpid());
    patient->options.meta = patient->holder;
}

static void read_args(const struct command *command, int argc, char **argv, struct patient *patient, bool *json)
{
    enum { FROM, SERVICE, LAYOUT, JSON };
    static const struct arg_option options[] = {[FROM] = {"from", 0, true},
                                                [SERVICE] = {"service", 0, true},
                                                [LAYOUT] = {"layout", 0, true},
                                                [JSON] = {"json", 0, false},
                                                {0}};
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == FROM)
            patient->url = args.value;
        else if (option == SERVICE)
            patient->options.service = args.value;
        else if (option == LAYOUT)
            patient->options.layout = args.value;
        else
            *json = true;
    }
    args_no_operands(&args);
    args_layout(&args, patient->options.layout ? patient->options.layout : "kazahana", &patient->layout);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct patient patient = {0};
    char shown[SOURCE_SHOWN_SIZE];
    bool json = false;
    kz_options_init(&patient.options);
    patient.options.log = report_log;
    read_args(command, argc, argv, &patient, &json);
    patient.shown = source_shown(patient.url, shown);
    set_holder(&patient);
    struct output out;
    output_begin(&out);
    struct findings findings = {.out = &out, .json = json};
    doctor_check_clock(&findings);
    check_source(&findings, &patient);
    check_layout(&findings, &patient.layout);
    int written = output_end(&out);
    return findings.failed ? EXIT_FAILED : written;
}

static const char help[] =
    "Usage: kazahana doctor [--from URL] [--service S] [--layout L] [--json]\n"
    "\n"
    "Checks the clock, whether the source opens and mints, and how long the layout lasts. Of a lease table also: how "
    "fast\n"
    "it answers, whether it forgets leases in a crash, whether its clock agrees with this one, how many nodes are "
    "free;\n"
    "a lease is taken from it and given back. Each check is a line that begins with ok, warn or fail, with what to do\n"
    "below it. Exit status 1 if any check fails.\n"
    "\n"
    "      --from URL    the source to try, see kazahana next; unless given, the embedded default\n"
    "      --service S   the ID space in a lease table (default)\n"
    "      --layout L    the layout in use; unless given, the service's, else kazahana\n"
    "      --json        one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana doctor\n"
    "  kazahana doctor --from redis://localhost/0 --service payments\n"
    "  kazahana doctor --from static:7?state=/var/lib/app/node7 --layout snowflake --json\n";

const struct command doctor_command = {"doctor", "check the clock, the source and the layout", help, run};
