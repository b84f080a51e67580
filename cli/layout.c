/* kazahana layout: what a layout can hold, and how long it lasts. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>

enum { JAVASCRIPT_BITS = 53, NOTES_MAX = 7, NOTE_SIZE = 200, DAY_MS = 86400000 };

struct notes {
    int count;
    char texts[NOTES_MAX][NOTE_SIZE];
};

static int total_bits(const kz_layout *layout)
{
    return layout->time_bits + layout->node_bits + layout->seq_bits;
}

/* What a layout is examined for. */
struct question {
    int64_t wall_ms;
    bool has_above;
    kz_id above; /* the largest ID that there is already */
};

/* Do its IDs sort above one that exists? If not, an epoch with which they do, at the beginning of a day. */
static void add_above(const kz_layout *layout, const struct question *question, struct notes *notes)
{
    char *note = notes->texts[notes->count++];
    char text[KZ_LAYOUT_TEXT_SIZE], at[24];
    kz_text(question->above, KZ_DECIMAL, at);
    kz_id first;
    if (kz_min_id(layout, question->wall_ms, &first, NULL) == KZ_OK && first > question->above) {
        snprintf(note, NOTE_SIZE, "ok: IDs made from now on sort after %s", at);
        return;
    }
    int low_bits = layout->node_bits + layout->seq_bits;
    uint64_t steps = low_bits < 64 ? (question->above >> low_bits) + 1 : 1;
    kz_layout earlier = *layout;
    earlier.name[0] = '\0';
    bool fits = steps <= (uint64_t)question->wall_ms / layout->unit_ms;
    if (fits) {
        earlier.epoch_ms = question->wall_ms - (int64_t)(steps * layout->unit_ms);
        earlier.epoch_ms -= earlier.epoch_ms % DAY_MS;
        fits = kz_min_id(&earlier, question->wall_ms, &first, NULL) == KZ_OK && first > question->above;
    }
    kz_layout_text(&earlier, text);
    if (fits)
        snprintf(note, NOTE_SIZE, "warning: IDs made now are not above %s: take an earlier epoch, such as %s", at,
                 text);
    else
        snprintf(note, NOTE_SIZE,
                 "warning: IDs made now are not above %s, with no epoch since 1970: take more node or sequence bits",
                 at);
}

/* What somebody should know before choosing it. */
static void collect_notes(const kz_layout *layout, const kz_layout_facts *facts, const struct question *question,
                          struct notes *notes)
{
    int64_t wall_ms = question->wall_ms;
    char day[TIMES_TEXT_SIZE];
    notes->count = 0;
    if (facts->last_unix_ms < wall_ms) {
        times_day_text(facts->last_unix_ms, day);
        snprintf(notes->texts[notes->count++], NOTE_SIZE, "warning: it ran out on %s: nothing can be minted", day);
    }
    if (facts->first_unix_ms > wall_ms)
        snprintf(notes->texts[notes->count++], NOTE_SIZE,
                 "warning: its epoch is in the future: nothing can be minted until then");
    if (facts->turns_negative) {
        times_day_text(facts->negative_unix_ms, day);
        snprintf(notes->texts[notes->count++], NOTE_SIZE,
                 "warning: from %s on its IDs are negative as signed 64-bit integers: compare them as unsigned", day);
    }
    if (layout->flags & KZ_LAYOUT_DECODE_ONLY)
        snprintf(notes->texts[notes->count++], NOTE_SIZE, "note: can be decoded, not minted");
    if (!layout->node_bits)
        snprintf(notes->texts[notes->count++], NOTE_SIZE, "note: no node bits: one generator in all, and no leases");
    if (total_bits(layout) > JAVASCRIPT_BITS)
        snprintf(notes->texts[notes->count++], NOTE_SIZE,
                 "note: over 53 bits: hand its IDs to JavaScript as strings, as numbers they lose digits");
    if (question->has_above)
        add_above(layout, question, notes);
}

static void print_block(struct output *out, const kz_layout *layout, const struct question *question)
{
    kz_layout_facts facts;
    struct notes notes;
    char text[KZ_LAYOUT_TEXT_SIZE], first[KZ_TIME_TEXT_SIZE], last[KZ_TIME_TEXT_SIZE];
    char day[TIMES_TEXT_SIZE], age[TIMES_TEXT_SIZE];
    char one[NUMBER_GROUPED_SIZE], two[NUMBER_GROUPED_SIZE];
    kz_layout_describe(layout, &facts);
    kz_layout_text(layout, text);
    kz_time_text(facts.first_unix_ms, first);
    kz_time_text(facts.last_unix_ms, last);
    times_day_text(facts.last_unix_ms, day);
    times_age(facts.last_unix_ms, question->wall_ms, age);
    output_style(out, STYLE_BOLD);
    output_format(out, "%s%s%s", layout->name, layout->name[0] ? "  " : "", text);
    output_style(out, STYLE_PLAIN);
    output_format(out, "\n  bits       %d: %d time, %d node, %d sequence%s; %" PRIu32 " reserved\n", total_bits(layout),
                  layout->time_bits, layout->node_bits, layout->seq_bits,
                  layout->flags & KZ_LAYOUT_NODE_LOWEST ? " above the node" : "", facts.reserved_bits);
    output_format(out, "  epoch      %s\n", first);
    output_format(out, "  runs out   %s (%s), %s\n", day, age, last);
    output_format(out, "  capacity   %s IDs per ", number_grouped(facts.ids_per_step, one));
    if (layout->unit_ms == 1)
        output_text(out, "ms");
    else
        output_format(out, "%" PRIu32 " ms", layout->unit_ms);
    output_text(out, " and node");
    if (facts.ids_per_step <= UINT64_MAX / 1000)
        output_format(out, ", %s a second", number_grouped(facts.ids_per_step * 1000 / layout->unit_ms, two));
    output_text(out, "\n");
    output_format(out, "  nodes      %s, of which %s leasable nodes", number_grouped(facts.nodes, one),
                  number_grouped(facts.leasable_nodes, two));
    output_text(out, facts.leasable_nodes ? " (the upper half is for fallback)\n" : "\n");
    collect_notes(layout, &facts, question, &notes);
    for (int i = 0; i < notes.count; i++)
        output_format(out, "  %s\n", notes.texts[i]);
}

static void print_json(struct output *out, const kz_layout *layout, const struct question *question)
{
    kz_layout_facts facts;
    struct notes notes;
    char text[KZ_LAYOUT_TEXT_SIZE], first[KZ_TIME_TEXT_SIZE], last[KZ_TIME_TEXT_SIZE], negative[KZ_TIME_TEXT_SIZE];
    kz_layout_describe(layout, &facts);
    kz_layout_text(layout, text);
    kz_time_text(facts.first_unix_ms, first);
    kz_time_text(facts.last_unix_ms, last);
    output_text(out, "{\"name\":");
    if (layout->name[0])
        output_json(out, layout->name);
    else
        output_text(out, "null");
    output_format(out,
                  ",\"layout\":\"%s\",\"time_bits\":%d,\"node_bits\":%d,\"seq_bits\":%d,\"reserved_bits\":%" PRIu32
                  ",\"unit_ms\":%" PRIu32 ",\"epoch\":\"%s\",\"epoch_ms\":%" PRId64
                  ",\"last\":\"%s\",\"last_ms\":%" PRId64,
                  text, layout->time_bits, layout->node_bits, layout->seq_bits, facts.reserved_bits, layout->unit_ms,
                  first, layout->epoch_ms, last, facts.last_unix_ms);
    output_format(out, ",\"nodes\":%" PRIu64 ",\"leasable_nodes\":%" PRIu64 ",\"ids_per_step\":%" PRIu64, facts.nodes,
                  facts.leasable_nodes, facts.ids_per_step);
    if (facts.turns_negative) {
        kz_time_text(facts.negative_unix_ms, negative);
        output_format(out, ",\"negative_from\":\"%s\"", negative);
    }
    output_format(out, ",\"decode_only\":%s,\"notes\":[", layout->flags & KZ_LAYOUT_DECODE_ONLY ? "true" : "false");
    collect_notes(layout, &facts, question, &notes);
    for (int i = 0; i < notes.count; i++) {
        output_text(out, i ? "," : "");
        output_json(out, notes.texts[i]);
    }
    output_text(out, "]}\n");
}

static void print_presets(struct output *out, int64_t wall_ms)
{
    const kz_layout *layout;
    output_style(out, STYLE_BOLD);
    output_format(out, "%-10s %-10s %-25s %-12s %8s %10s", "preset", "bits", "epoch", "runs out", "nodes", "IDs/ms");
    output_style(out, STYLE_PLAIN);
    output_text(out, "\n");
    for (size_t i = 0; (layout = kz_layout_preset(i)); i++) {
        kz_layout_facts facts;
        char bits[16], epoch[KZ_TIME_TEXT_SIZE], day[TIMES_TEXT_SIZE], nodes[NUMBER_GROUPED_SIZE], ids[48];
        kz_layout_describe(layout, &facts);
        snprintf(bits, sizeof bits, "%d-%d-%d", layout->time_bits, layout->node_bits, layout->seq_bits);
        kz_time_text(facts.first_unix_ms, epoch);
        times_day_text(facts.last_unix_ms, day);
        number_grouped(facts.ids_per_step, ids);
        if (layout->unit_ms != 1)
            snprintf(ids, sizeof ids, "%.1f", (double)facts.ids_per_step / layout->unit_ms);
        output_format(out, "%-10s %-10s %-25s %-12s %8s %10s%s%s\n", layout->name, bits, epoch, day,
                      number_grouped(facts.nodes, nodes), ids, facts.last_unix_ms < wall_ms ? "  ran out" : "",
                      layout->flags & KZ_LAYOUT_DECODE_ONLY ? "  decode only" : "");
    }
}

static int run(const struct command *command, int argc, char **argv)
{
    enum { ABOVE, JSON };
    static const struct arg_option options[] = {[ABOVE] = {"above", 0, true}, [JSON] = {"json", 0, false}, {0}};
    struct question question = {.wall_ms = times_wall_ms()};
    kz_layout layout;
    kz_error err;
    bool json = false;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == JSON)
            json = true;
        else if (kz_text_parse(args.value, KZ_DECIMAL, &question.above, &err) == KZ_OK)
            question.has_above = true;
        else
            report_usage(command, "--above %s: %s", args.value, err.message);
    }
    if (args.operand_count > 1)
        report_usage(command, "unexpected argument %s", args.operands[1]);
    if (question.has_above && !args.operand_count)
        report_usage(command, "--above is for one layout: name it, such as kazahana");
    if (args.operand_count)
        args_layout(&args, args.operands[0], &layout);

    struct output out;
    output_begin(&out);
    if (args.operand_count && json)
        print_json(&out, &layout, &question);
    else if (args.operand_count)
        print_block(&out, &layout, &question);
    else if (!json)
        print_presets(&out, question.wall_ms);
    else
        for (size_t i = 0; kz_layout_preset(i); i++)
            print_json(&out, kz_layout_preset(i), &question);
    return output_end(&out);
}

static const char help[] =
    "Usage: kazahana layout [L] [--above ID] [--json]\n"
    "\n"
    "Says what a layout can hold, how long it lasts and what to beware of. Without L, a table of the presets.\n"
    "\n"
    "L is a preset's name or TIME-NODE-SEQ@EPOCH: bits for the time in milliseconds, for the node and for the "
    "sequence,\n"
    "at most 64 in all; the epoch is a date, a time or Unix milliseconds.\n"
    "\n"
    "      --above ID   the largest ID that there is already: do those made from now on sort after it? If not, which\n"
    "                   epoch puts them above\n"
    "      --json       one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana layout\n"
    "  kazahana layout kazahana\n"
    "  kazahana layout 41-10-12@2024-01-01\n"
    "  kazahana layout kazahana --above 2122318185536442368\n";

const struct command layout_command = {"layout", "capacity, lifetime and overflow date of a layout", help, run};
