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

/* What makes the two commands different. */
struct direction {
    enum id_format read_as;
    bool to_external;
};

static bool read_text(const struct direction *direction, const kz_external_keys *keys, const char *text, kz_id *id,
                      kz_error *err)
{
    struct idtext read;
    if (idtext_read(text, direction->read_as, keys, &read, err) != KZ_OK)
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
    char *at = output_room(out, KZ_TEXT_SIZE + 1);
    size_t length = KZ_EXTERNAL_SIZE - 1;
    if (direction->to_external)
        kz_external_encode(keys, id, at);
    else
        length = kz_text(id, KZ_DECIMAL, at);
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

static int convert(const struct command *command, const struct direction *direction, int argc, char **argv)
{
    static const struct arg_option options[] = {{"key-file", 0, true}, {0}};
    const char *key_file = NULL;
    kz_external_keys *keys = NULL;
    kz_error err;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    if (!direction->to_external)
        args.hyphen_operand_length = KZ_EXTERNAL_SIZE - 1;
    while (args_next(&args) >= 0)
        key_file = args.value;
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
    return convert(command, &(struct direction){FORMAT_DETECT, true}, argc, argv);
}

static int run_internal(const struct command *command, int argc, char **argv)
{
    return convert(command, &(struct direction){FORMAT_EXTERNAL, false}, argc, argv);
}

static const char external_help[] =
    "Usage: kazahana external [ID]... [--key-file F]\n"
    "\n"
    "Turns IDs into 11 characters that show neither order nor time, for URLs. kazahana internal turns them back.\n"
    "Without an ID, or with -, reads one a line from standard input. IDs are read as kazahana decode reads them.\n"
    "\n"
    "      --key-file F   lines of: NUMBER xtea|speck HEXSECRET, with a number from 0 to 3 and a secret of 16 bytes "
    "or\n"
    "                     more. The first key encodes, all decode. Without it a public mixer is used, which hides the\n"
    "                     order from the eye but not from somebody who knows it\n"
    "\n"
    "Examples:\n"
    "  kazahana external 115601729128497151\n"
    "  echo \"1 xtea $(openssl rand -hex 32)\" > keys && chmod 600 keys\n"
    "  kazahana external --key-file keys 115601729128497151\n"
    "  kazahana next -n 1000 --from static:7 | kazahana external --key-file keys\n";

static const char internal_help[] =
    "Usage: kazahana internal [TEXT]... [--key-file F]\n"
    "\n"
    "Turns external IDs back into decimal ones. Without a text, or with -, reads one a line from standard input.\n"
    "Texts may begin with a hyphen.\n"
    "\n"
    "      --key-file F   the keys (see kazahana external --help); every key in it decodes\n"
    "\n"
    "Examples:\n"
    "  kazahana internal PAKqR3WCkr0\n"
    "  kazahana internal --key-file keys < texts > ids\n";

const struct command external_command = {"external", "turn IDs into texts that hide order and time", external_help,
                                         run_external};
const struct command internal_command = {"internal", "turn such texts back into IDs", internal_help, run_internal};
