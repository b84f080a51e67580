/* kazahana external and internal: to the public form of an ID and back. */
#include "cli/args.h"
#include "cli/idtext.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What makes the two commands different, and what was asked for. */
struct direction {
    bool to_external;
    const char *type; /* NULL: none */
    const char *layout_text;
    kz_layout layout; /* of the IDs that a type may stand for */
};

static bool read_text(const struct direction *direction, const kz_external_keys *keys, const char *text, kz_id *id,
                      kz_error *err)
{
    if (direction->type && !direction->to_external)
        return kz_external_decode_typed(keys, direction->type, text, &direction->layout, 0, id, err) == KZ_OK;
    struct idtext read;
    if (idtext_read(text, direction->to_external ? FORMAT_DETECT : FORMAT_EXTERNAL, keys, &read, err) != KZ_OK)
        return false;
    if (read.is_uuid) {
        *err = (kz_error){.status = KZ_UNSUPPORTED, .message = "a UUID has no external form: only 64-bit IDs have one"};
        return false;
    }
    *id = read.id;
    return true;
}

static void print(const struct direction *direction, const kz_external_keys *keys, struct output *out, kz_id id)
{
    char *at = output_room(out, KZ_EXTERNAL_TYPED_SIZE + 1);
    size_t length = KZ_EXTERNAL_SIZE - 1;
    if (!direction->to_external)
        length = kz_text(id, KZ_DECIMAL, at);
    else if (!direction->type)
        kz_external_encode(keys, id, at);
    else if (kz_external_encode_typed(keys, direction->type, id, at, NULL) == KZ_OK)
        length = strlen(at);
    at[length] = '\n';
    output_took(out, length + 1);
}

static int convert_operands(const struct direction *direction, const kz_external_keys *keys, struct output *out,
                            char **texts, int count)
{
    kz_id *ids = calloc((size_t)count, sizeof *ids);
    kz_error err;
    int result = EXIT_DONE;
    if (!ids)
        return report_failure("out of memory");
    for (int i = 0; i < count && result == EXIT_DONE; i++)
        if (!read_text(direction, keys, texts[i], &ids[i], &err))
            result = report_failure("%s", err.message);
    for (int i = 0; i < count && result == EXIT_DONE; i++)
        print(direction, keys, out, ids[i]);
    free(ids);
    return result;
}

static int convert_lines(const struct direction *direction, const kz_external_keys *keys, struct output *out)
{
    struct lines lines;
    kz_error err;
    kz_id id;
    char *line;
    int found;
    lines_begin(&lines, out);
    while ((found = lines_next(&lines, &line)) > 0 && !out->error) {
        if (!read_text(direction, keys, line, &id, &err))
            return report_failure("line %" PRIu64 ": %s", lines.number, err.message);
        print(direction, keys, out, id);
    }
    return found < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* Is it a type, and a layout? */
static void check_type(const struct command *command, struct direction *direction)
{
    kz_error err;
    char text[KZ_EXTERNAL_TYPED_SIZE];
    if (direction->type && kz_external_encode_typed(NULL, direction->type, 0, text, &err) != KZ_OK)
        report_usage(command, "--type: %s", err.message);
    if (direction->layout_text && !direction->type)
        report_usage(command, "--layout goes with --type");
    const char *layout = direction->layout_text ? direction->layout_text : "kazahana";
    if (kz_layout_parse(layout, &direction->layout, &err) != KZ_OK)
        report_usage(command, "--layout: %s", err.message);
}

static int convert(const struct command *command, struct direction *direction, int argc, char **argv)
{
    /* Only reading back needs the layout. */
    static const struct arg_option options[] = {{"key-file", 0, true}, {"type", 0, true}, {0}};
    static const struct arg_option internal_options[] = {
        {"key-file", 0, true}, {"type", 0, true}, {"layout", 0, true}, {0}};
    const char *key_file = NULL;
    const char **const values[] = {&key_file, &direction->type, &direction->layout_text};
    kz_external_keys *keys = NULL;
    kz_error err;
    struct args args;
    args_begin(&args, command, direction->to_external ? options : internal_options, argc, argv);
    if (!direction->to_external)
        args.hyphen_operand_length = KZ_EXTERNAL_SIZE - 1;
    for (int option; (option = args_next(&args)) >= 0;)
        *values[option] = args.value;
    check_type(command, direction);
    bool from_stdin = args.operand_count == 0 || (args.operand_count == 1 && strcmp(args.operands[0], "-") == 0);
    if (args.operand_count == 0 && isatty(STDIN_FILENO))
        report_usage(command, direction->to_external ? "no ID given" : "no text given");
    if (key_file && kz_external_keys_load(&keys, key_file, &err) != KZ_OK)
        return report_failure("%s", err.message);
    struct output out;
    output_begin(&out);
    int result = from_stdin ? convert_lines(direction, keys, &out)
                            : convert_operands(direction, keys, &out, args.operands, args.operand_count);
    int written = output_end(&out);
    kz_external_keys_free(keys);
    return result ? result : written;
}

static int run_external(const struct command *command, int argc, char **argv)
{
    return convert(command, &(struct direction){.to_external = true}, argc, argv);
}

static int run_internal(const struct command *command, int argc, char **argv)
{
    return convert(command, &(struct direction){0}, argc, argv);
}

static const char external_help[] =
    "Usage: kazahana external [ID]... [--key-file F] [--type T]\n"
    "\n"
    "Turns IDs into 11 characters that show neither order nor time, for URLs. kazahana internal turns them back.\n"
    "Without an ID, or with -, reads one a line from standard input. IDs are read as kazahana decode reads them.\n"
    "\n"
    "      --key-file F   lines of: NUMBER xtea|speck HEXSECRET, with a number from 0 to 3 and a secret of 16 bytes "
    "or\n"
    "                     more. The first key encodes, all decode. Without it a public mixer is used, which hides the\n"
    "                     order from the eye but not from somebody who knows it\n"
    "      --type T       writes T_ in front: 1 to 16 of a-z and 0-9, beginning with a letter. With a key the type is "
    "a\n"
    "                     part of it: what was written as user_ cannot be read as order_\n"
    "\n"
    "Examples:\n"
    "  kazahana external 115601729128497151\n"
    "  echo \"1 xtea $(openssl rand -hex 32)\" > keys && chmod 600 keys\n"
    "  kazahana external --key-file keys --type user 115601729128497151\n"
    "  kazahana next -n 1000 --from static:7 | kazahana external --key-file keys\n";

static const char internal_help[] =
    "Usage: kazahana internal [TEXT]... [--key-file F] [--type T [--layout L]]\n"
    "\n"
    "Turns external IDs back into decimal ones. Without a text, or with -, reads one a line from standard input.\n"
    "Texts may begin with a hyphen.\n"
    "\n"
    "      --key-file F   the keys (see kazahana external --help); every key in it decodes\n"
    "      --type T       the texts must begin with T_. With a key, a text that was made for another type is found out "
    "by\n"
    "                     what it turns into: no ID of the layout, or one of the future\n"
    "      --layout L     the layout of the IDs (default kazahana)\n"
    "\n"
    "Examples:\n"
    "  kazahana internal PAKqR3WCkr0\n"
    "  kazahana internal --key-file keys --type user < texts > ids\n";

const struct command external_command = {"external", "turn IDs into texts that hide order and time", external_help,
                                         run_external};
const struct command internal_command = {"internal", "turn such texts back into IDs", internal_help, run_internal};
