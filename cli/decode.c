/* kazahana decode: says what an ID contains. */
#include "cli/args.h"
#include "cli/idtext.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
    enum id_format format;
    const kz_layout *layout; /* NULL: every preset */
    kz_external_keys *keys;
    bool json;
    int64_t wall_ms;
};

/* A text, read and found to be good. */
struct decoded {
    struct idtext text;
    kz_parts parts; /* with a layout */
    uint32_t node;  /* of a UUID */
    int64_t unix_ns;
};

static const struct {
    const char *name;
    kz_form form;
} forms[] = {
    {"decimal", KZ_DECIMAL}, {"hex", KZ_HEX}, {"base32", KZ_BASE32}, {"base62", KZ_BASE62}, {"base64url", KZ_BASE64URL},
};

enum { FORMS = sizeof forms / sizeof *forms };

static bool decode(const struct job *job, const char *text, struct decoded *decoded, kz_error *err)
{
    if (idtext_read(text, job->format, job->keys, &decoded->text, err) != KZ_OK)
        return false;
    if (decoded->text.is_uuid)
        return kz_monouuid_parse(&decoded->text.uuid, &decoded->node, &decoded->unix_ns, err) == KZ_OK;
    return !job->layout || kz_decode(job->layout, decoded->text.id, &decoded->parts, err) == KZ_OK;
}

static void print_uuid(const struct job *job, struct output *out, const struct decoded *decoded)
{
    char uuid_text[KZ_UUID_TEXT_SIZE], time_text[TIMES_TEXT_SIZE], age[TIMES_TEXT_SIZE];
    kz_uuid_text(&decoded->text.uuid, uuid_text);
    times_ns_text(decoded->unix_ns, time_text);
    times_age(decoded->unix_ns / 1000000, job->wall_ms, age);
    if (job->json) {
        output_format(out, "{\"uuid\":\"%s\",\"time\":\"%s\",\"unix_ns\":\"%" PRId64 "\",\"node\":%" PRIu32 "}\n",
                      uuid_text, time_text, decoded->unix_ns, decoded->node);
        return;
    }
    output_style(out, STYLE_BOLD);
    output_text(out, uuid_text);
    output_style(out, STYLE_PLAIN);
    output_format(out, "\n  time       %s (%s)\n  node       %" PRIu32 "\n", time_text, age, decoded->node);
}

/* "time":...,"node":... without the braces, as both JSON shapes have it. */
static void print_json_parts(const struct job *job, struct output *out, const kz_layout *layout, const kz_parts *parts)
{
    char time_text[KZ_TIME_TEXT_SIZE];
    kz_time_text(parts->unix_ms, time_text);
    output_format(out, "\"time\":\"%s\",\"unix_ms\":%" PRId64 ",\"node\":%" PRIu32 ",\"sequence\":%" PRIu32, time_text,
                  parts->unix_ms, parts->node, parts->seq);
    if (layout->flags & KZ_LAYOUT_FALLBACK)
        output_format(out, ",\"fallback\":%s", parts->fallback ? "true" : "false");
    output_format(out, ",\"future\":%s", parts->unix_ms > job->wall_ms ? "true" : "false");
}

static void print_json(const struct job *job, struct output *out, const struct decoded *decoded)
{
    kz_id id = decoded->text.id;
    char text[KZ_TEXT_SIZE], layout_text[KZ_LAYOUT_TEXT_SIZE];
    output_format(out, "{\"id\":\"%" PRIu64 "\"", id);
    for (size_t i = 1; i < FORMS; i++) {
        kz_text(id, forms[i].form, text);
        output_format(out, ",\"%s\":\"%s\"", forms[i].name, text);
    }
    kz_external_encode(job->keys, id, text);
    output_format(out, ",\"external\":\"%s\",", text);
    if (job->layout) {
        kz_layout_text(job->layout, layout_text);
        output_format(out, "\"layout\":\"%s\",", job->layout->name[0] ? job->layout->name : layout_text);
        print_json_parts(job, out, job->layout, &decoded->parts);
    } else {
        const kz_layout *layout;
        output_text(out, "\"layouts\":[");
        for (size_t i = 0; (layout = kz_layout_preset(i)); i++) {
            kz_parts parts;
            bool fits = kz_decode(layout, id, &parts, NULL) == KZ_OK;
            output_format(out, "%s{\"layout\":\"%s\",\"fits\":%s", i ? "," : "", layout->name, fits ? "true" : "false");
            if (fits) {
                output_text(out, ",");
                print_json_parts(job, out, layout, &parts);
            }
            output_text(out, "}");
        }
        output_text(out, "]");
    }
    output_text(out, "}\n");
}

static void print_forms(const struct job *job, struct output *out, kz_id id)
{
    char text[KZ_TEXT_SIZE];
    for (size_t i = 0; i < FORMS; i++) {
        kz_text(id, forms[i].form, text);
        output_format(out, "  %-10s %s\n", forms[i].name, text);
    }
    kz_external_encode(job->keys, id, text);
    output_format(out, "  external   %s (%s)\n", text, job->keys ? "with the first key" : "without a key");
}

static void print_block(const struct job *job, struct output *out, const struct decoded *decoded)
{
    const kz_layout *layout = job->layout;
    const kz_parts *parts = &decoded->parts;
    char layout_text[KZ_LAYOUT_TEXT_SIZE], time_text[KZ_TIME_TEXT_SIZE], age[TIMES_TEXT_SIZE];
    kz_layout_text(layout, layout_text);
    kz_time_text(parts->unix_ms, time_text);
    times_age(parts->unix_ms, job->wall_ms, age);
    if (layout->name[0])
        output_format(out, "  layout     %s (%s)\n", layout->name, layout_text);
    else
        output_format(out, "  layout     %s\n", layout_text);
    output_format(out, "  time       %s (%s%s)\n", time_text, age,
                  parts->unix_ms > job->wall_ms ? ", in the future" : "");
    output_format(out, "  node       %" PRIu32 "\n  sequence   %" PRIu32 "\n", parts->node, parts->seq);
    if (layout->flags & KZ_LAYOUT_FALLBACK)
        output_format(out, "  fallback   %s\n", parts->fallback ? "yes: from the upper half of the nodes" : "no");
}

static void print_table(const struct job *job, struct output *out, kz_id id)
{
    output_style(out, STYLE_BOLD);
    output_format(out, "  %-10s %-26s %10s %10s", "layout", "time", "node", "sequence");
    output_style(out, STYLE_PLAIN);
    output_text(out, "\n");
    const kz_layout *layout;
    for (size_t i = 0; (layout = kz_layout_preset(i)); i++) {
        kz_parts parts;
        if (kz_decode(layout, id, &parts, NULL) != KZ_OK) {
            output_format(out, "  %-10s does not fit in its %d bits\n", layout->name,
                          layout->time_bits + layout->node_bits + layout->seq_bits);
            continue;
        }
        char time_text[KZ_TIME_TEXT_SIZE];
        kz_time_text(parts.unix_ms, time_text);
        output_format(out, "  %-10s %-26s %10" PRIu32 " %10" PRIu32 "%s%s\n", layout->name, time_text, parts.node,
                      parts.seq, parts.fallback ? "  fallback" : "",
                      parts.unix_ms > job->wall_ms ? "  in the future" : "");
    }
}

static void print(const struct job *job, struct output *out, const struct decoded *decoded, bool first)
{
    if (!job->json && !first)
        output_text(out, "\n");
    if (decoded->text.is_uuid) {
        print_uuid(job, out, decoded);
    } else if (job->json) {
        print_json(job, out, decoded);
    } else {
        output_style(out, STYLE_BOLD);
        output_format(out, "%" PRIu64, decoded->text.id);
        output_style(out, STYLE_PLAIN);
        output_text(out, "\n");
        if (job->layout)
            print_block(job, out, decoded);
        else
            print_table(job, out, decoded->text.id);
        print_forms(job, out, decoded->text.id);
    }
}

static int decode_operands(const struct job *job, struct output *out, char **texts, int count)
{
    struct decoded *decoded = calloc((size_t)count, sizeof *decoded);
    kz_error err;
    int result = EXIT_DONE;
    if (!decoded)
        return report_failure("out of memory");
    for (int i = 0; i < count && result == EXIT_DONE; i++)
        if (!decode(job, texts[i], &decoded[i], &err))
            result = report_failure("%s", err.message);
    for (int i = 0; i < count && result == EXIT_DONE; i++)
        print(job, out, &decoded[i], i == 0);
    free(decoded);
    return result;
}

static int decode_lines(const struct job *job, struct output *out)
{
    struct lines lines;
    struct decoded decoded;
    kz_error err;
    char *line;
    int found;
    lines_begin(&lines, out);
    for (bool first = true; (found = lines_next(&lines, &line)) > 0 && !out->error; first = false) {
        if (!decode(job, line, &decoded, &err))
            return report_failure("line %" PRIu64 ": %s", lines.number, err.message);
        print(job, out, &decoded, first);
    }
    return found < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { LAYOUT, FORMAT, KEY_FILE, JSON };
    static const struct arg_option options[] = {
        [LAYOUT] = {"layout", 0, true},
        [FORMAT] = {"format", 0, true},
        [KEY_FILE] = {"key-file", 0, true},
        [JSON] = {"json", 0, false},
        {0},
    };
    static const char *const names[] = {"dec", "hex", "base32", "base62", "base64url", "external", "uuid", NULL};
    static const enum id_format formats[] = {FORMAT_DECIMAL,   FORMAT_HEX,      FORMAT_BASE32, FORMAT_BASE62,
                                             FORMAT_BASE64URL, FORMAT_EXTERNAL, FORMAT_UUID};
    struct job job = {.format = FORMAT_DETECT, .wall_ms = times_wall_ms()};
    const char *layout_text = NULL, *key_file = NULL;
    kz_layout layout;
    kz_error err;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    args.hyphen_operand_length = KZ_BASE64URL_LEN;
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == LAYOUT)
            layout_text = args.value;
        else if (option == FORMAT)
            job.format = formats[args_choice(&args, names)];
        else if (option == KEY_FILE)
            key_file = args.value;
        else
            job.json = true;
    }
    bool from_stdin = args.operand_count == 0 || (args.operand_count == 1 && strcmp(args.operands[0], "-") == 0);
    if (args.operand_count == 0 && isatty(STDIN_FILENO))
        report_usage(command, "no ID given");
    if (layout_text)
        args_layout(&args, layout_text, &layout);
    if (key_file && kz_external_keys_load(&job.keys, key_file, &err) != KZ_OK)
        return report_failure("%s", err.message);
    job.layout = layout_text ? &layout : NULL;
    struct output out;
    output_begin(&out);
    int result = from_stdin ? decode_lines(&job, &out) : decode_operands(&job, &out, args.operands, args.operand_count);
    int written = output_end(&out);
    kz_external_keys_free(job.keys);
    return result ? result : written;
}

static const char help[] =
    "Usage: kazahana decode ID... [--layout L] [--format F] [--key-file F] [--json]\n"
    "\n"
    "Says what an ID contains: time, node, sequence. Without --layout, what each preset would make of it. Of a UUID\n"
    "made by kazahana uuid it says the node and the nanosecond. Without an ID, or with -, reads one a line from\n"
    "standard input.\n"
    "\n"
    "      --layout L     a preset (see kazahana layout) or TIME-NODE-SEQ@EPOCH\n"
    "      --format F     what the IDs are written in: dec, hex, base32, base62, base64url, external, uuid. Without\n"
    "                     it: all digits are dec, 0x is hex, 13 characters with a letter are base32, and a UUID\n"
    "                     looks like one\n"
    "      --key-file F   keys for external IDs (see kazahana external)\n"
    "      --json         one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana decode 175928847299117063\n"
    "  kazahana decode 175928847299117063 --layout discord\n"
    "  kazahana decode 01221H8Q1MMZR --layout tsid --json\n"
    "  kazahana decode 0124e053-3580-7000-8e35-500000100001\n"
    "  kazahana decode --format external PAKqR3WCkr0\n";

const struct command decode_command = {"decode", "say what an ID contains", help, run};
