/* kazahana layout: what a layout can hold, and how long it lasts. */
#include "cli/args.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>

enum { JAVASCRIPT_BITS = 53, NOTES_MAX = 6, NOTE_SIZE = 200 };

struct notes {
    int count;
    char texts[NOTES_MAX][NOTE_SIZE];
};

static int total_bits(const kz_layout *layout)
{
    return layout->time_bits + layout->node_bits + layout->seq_bits;
}

/* What somebody should know before choosing it. */
static void collect_notes(const kz_layout *layout, const kz_layout_facts *facts, int64_t wall_ms, struct notes *notes)
{
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
}

static void print_block(struct output *out, const kz_layout *layout, int64_t wall_ms)
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
    times_age(facts.last_unix_ms, wall_ms, age);
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
    collect_notes(layout, &facts, wall_ms, &notes);
    for (int i = 0; i < notes.count; i++)
        output_format(out, "  %s\n", notes.texts[i]);
}

static void print_json(struct output *out, const kz_layout *layout, int64_t wall_ms)
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
    collect_notes(layout, &facts, wall_ms, &notes);
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
    static const struct arg_option options[] = {{"json", 0, false}, {0}};
    bool json = false;
    struct args args;
    args_begin(&args, command, options, argc, argv);
    while (args_next(&args) >= 0)
        json = true;
    if (args.operand_count > 1)
        report_usage(command, "unexpected argument %s", args.operands[1]);

    kz_layout layout;
    kz_error err;
    if (args.operand_count && kz_layout_parse(args.operands[0], &layout, &err) != KZ_OK)
        return report_failure("%s", err.message);
    struct output out;
    int64_t wall_ms = times_wall_ms();
    output_begin(&out);
    if (args.operand_count && json)
        print_json(&out, &layout, wall_ms);
    else if (args.operand_count)
        print_block(&out, &layout, wall_ms);
    else if (!json)
        print_presets(&out, wall_ms);
    else
        for (size_t i = 0; kz_layout_preset(i); i++)
            print_json(&out, kz_layout_preset(i), wall_ms);
    return output_end(&out);
}

static const char help[] =
    "Usage: kazahana layout [L] [--json]\n"
    "\n"
    "Says what a layout can hold, how long it lasts and what to beware of. Without L, a table of the presets.\n"
    "\n"
    "L is a preset's name or TIME-NODE-SEQ@EPOCH: bits for the time in milliseconds, for the node and for the "
    "sequence,\n"
    "at most 64 in all; the epoch is a date, a time or Unix milliseconds.\n"
    "\n"
    "      --json   one object a line\n"
    "\n"
    "Examples:\n"
    "  kazahana layout\n"
    "  kazahana layout kazahana\n"
    "  kazahana layout 41-10-12@2024-01-01\n";

const struct command layout_command = {"layout", "capacity, lifetime and overflow date of a layout", help, run};
