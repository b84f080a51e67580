/* Layouts: the presets, reading and writing them, what they can hold, and taking IDs apart. */
#include "core/error.h"
#include "core/plane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EPOCH_2020 INT64_C(1577836800000)
#define EPOCH_2024 INT64_C(1704067200000)
#define EPOCH_2026 INT64_C(1767225600000)

static const kz_layout presets[] = {
    {EPOCH_2026, 1, KZ_LAYOUT_FALLBACK, 41, 14, 8, "kazahana"},
    {EPOCH_2024, 1, 0, 41, 10, 12, "snowflake"},
    {EPOCH_2020, 1, 0, 42, 10, 12, "tsid"},
    {INT64_C(1288834974657), 1, 0, 41, 10, 12, "twitter"},
    {INT64_C(1420070400000), 1, 0, 42, 10, 12, "discord"},
    {INT64_C(1314220021721), 1, 0, 41, 13, 10, "instagram"},
    {0, 1, 0, 48, 0, 16, "mastodon"},
    {INT64_C(1735689600000), 10, KZ_LAYOUT_NODE_LOWEST | KZ_LAYOUT_DECODE_ONLY, 39, 16, 8, "sonyflake"},
    {EPOCH_2026, 1, 0, 41, 4, 8, "js53"},
};

#define PRESETS (sizeof presets / sizeof presets[0])

/* Room for the node and the sequence in the 32-bit fields of kz_parts. */
#define FIELD_BITS_MAX  32
#define LAYOUT_TEXT_MAX 64

const kz_layout *kz_layout_preset(size_t index)
{
    return index < PRESETS ? &presets[index] : NULL;
}

/* Reads 1 to 3 digits and the separator behind them. */
static const char *read_bits(const char *p, char separator, unsigned *bits)
{
    unsigned value = 0;
    const char *start = p;
    while (*p >= '0' && *p <= '9' && p - start < 3)
        value = value * 10 + (unsigned)(*p++ - '0');
    if (p == start || *p != separator)
        return NULL;
    *bits = value;
    return p + 1;
}

static kz_status check_bits(const char *text, unsigned time, unsigned node, unsigned seq, kz_error *err)
{
    if (time + node + seq > 64)
        return kz__fail(err, KZ_INVALID,
                        "layout %s needs %u bits, but an ID has 64: take some from time, node or sequence", text,
                        time + node + seq);
    if (time < 1 || time > 63)
        return kz__fail(err, KZ_INVALID, "layout %s has %u time bits, which must be 1 to 63", text, time);
    if (node > FIELD_BITS_MAX || seq > FIELD_BITS_MAX)
        return kz__fail(err, KZ_INVALID, "layout %s has %u node and %u sequence bits, but each may have %d at most",
                        text, node, seq, FIELD_BITS_MAX);
    return KZ_OK;
}

static kz_status parse_written(const char *text, kz_layout *layout, kz_error *err)
{
    unsigned time, node, seq;
    const char *p = read_bits(text, '-', &time);
    if (p)
        p = read_bits(p, '-', &node);
    if (p)
        p = read_bits(p, '@', &seq);
    if (!p)
        return kz__fail(
            err, KZ_INVALID,
            "layout \"%s\" is neither a preset (kazahana, snowflake, tsid, ...) nor TIME-NODE-SEQ@EPOCH such "
            "as 41-14-8@2026-01-01",
            text);
    kz_status status = check_bits(text, time, node, seq, err);
    if (status)
        return status;
    int64_t epoch_ms;
    kz_error why;
    if (kz_time_parse(p, &epoch_ms, &why))
        return kz__fail(err, KZ_INVALID, "layout %s: the epoch is not a time: %s", text, why.message);
    /* Within these bounds no sum of an epoch and a time field overflows, and every instant can be written. */
    if (epoch_ms < 0 || epoch_ms > INT64_C(253402300799999))
        return kz__fail(err, KZ_INVALID, "layout %s: the epoch must lie between 1970 and 9999", text);
    *layout = (kz_layout){.epoch_ms = epoch_ms,
                          .unit_ms = 1,
                          .time_bits = (uint8_t)time,
                          .node_bits = (uint8_t)node,
                          .seq_bits = (uint8_t)seq};
    return KZ_OK;
}

kz_status kz_layout_parse(const char *text, kz_layout *layout, kz_error *err)
{
    if (!text || !layout)
        return kz__fail(err, KZ_INVALID, "a layout and a place to put it are needed, one of them is NULL");
    for (size_t i = 0; i < PRESETS; i++) {
        if (strcmp(text, presets[i].name) == 0) {
            *layout = presets[i];
            return KZ_OK;
        }
    }
    if (strlen(text) > LAYOUT_TEXT_MAX)
        return kz__fail(err, KZ_INVALID, "a layout of %zu characters is too long", strlen(text));
    kz_layout written;
    kz_status status = parse_written(text, &written, err);
    if (status)
        return status;
    for (size_t i = 0; i < PRESETS; i++) {
        const kz_layout *p = &presets[i];
        if (p->epoch_ms == written.epoch_ms && p->unit_ms == written.unit_ms && p->time_bits == written.time_bits &&
            p->node_bits == written.node_bits && p->seq_bits == written.seq_bits && !(p->flags & KZ_LAYOUT_DECODE_ONLY))
            written = *p;
    }
    *layout = written;
    return KZ_OK;
}

void kz_layout_text(const kz_layout *layout, char text[static KZ_LAYOUT_TEXT_SIZE])
{
    char epoch[KZ_TIME_TEXT_SIZE];
    kz_time_text(layout->epoch_ms, epoch);
    char *midnight = strstr(epoch, "T00:00:00.000Z");
    if (midnight)
        *midnight = '\0';
    snprintf(text, KZ_LAYOUT_TEXT_SIZE, "%u-%u-%u@%s", layout->time_bits, layout->node_bits, layout->seq_bits, epoch);
}

/* The instant of a value of the time field; an instant too late to be written counts as the last one that can be. */
static int64_t instant(const kz_layout *layout, uint64_t field)
{
    int64_t unix_ms;
    if (field > INT64_MAX || __builtin_mul_overflow((int64_t)field, (int64_t)layout->unit_ms, &unix_ms) ||
        __builtin_add_overflow(unix_ms, layout->epoch_ms, &unix_ms))
        return INT64_MAX;
    return unix_ms;
}

void kz_layout_describe(const kz_layout *layout, kz_layout_facts *facts)
{
    unsigned bits = layout->time_bits + kz__slot_bits(layout);
    uint64_t steps = UINT64_C(1) << layout->time_bits;
    int64_t end = instant(layout, steps);
    *facts = (kz_layout_facts){
        .reserved_bits = 64 - bits,
        .nodes = UINT64_C(1) << layout->node_bits,
        .leasable_nodes = layout->node_bits ? UINT64_C(1) << (layout->node_bits - 1) : 0,
        .ids_per_step = UINT64_C(1) << layout->seq_bits,
        .first_unix_ms = layout->epoch_ms,
        .last_unix_ms = end == INT64_MAX ? end : end - 1,
        .turns_negative = bits == 64,
        .negative_unix_ms = bits == 64 ? instant(layout, steps / 2) : 0,
    };
}

kz_status kz_decode(const kz_layout *layout, kz_id id, kz_parts *parts, kz_error *err)
{
    unsigned slot_bits = kz__slot_bits(layout);
    unsigned bits = layout->time_bits + slot_bits;
    if (bits < 64 && id >> bits)
        return kz__fail(err, KZ_INVALID, "%" PRIu64 " does not fit in the %u bits of layout %u-%u-%u", id, bits,
                        layout->time_bits, layout->node_bits, layout->seq_bits);
    uint64_t slot = id & ((UINT64_C(1) << slot_bits) - 1);
    unsigned low_bits = layout->flags & KZ_LAYOUT_NODE_LOWEST ? layout->node_bits : layout->seq_bits;
    uint32_t low = (uint32_t)(slot & ((UINT64_C(1) << low_bits) - 1));
    uint32_t high = (uint32_t)(slot >> low_bits);
    bool node_lowest = layout->flags & KZ_LAYOUT_NODE_LOWEST;
    uint32_t node = node_lowest ? low : high;
    *parts = (kz_parts){
        .unix_ms = instant(layout, id >> slot_bits),
        .node = node,
        .seq = node_lowest ? high : low,
        .fallback = layout->flags & KZ_LAYOUT_FALLBACK && layout->node_bits && node >> (layout->node_bits - 1),
    };
    return KZ_OK;
}

/* The time field of an instant. */
static kz_status field_of(const kz_layout *layout, int64_t unix_ms, uint64_t *field, kz_error *err)
{
    kz_layout_facts facts;
    kz_layout_describe(layout, &facts);
    if (unix_ms >= facts.first_unix_ms && unix_ms <= facts.last_unix_ms) {
        *field = (uint64_t)(unix_ms - layout->epoch_ms) / layout->unit_ms;
        return KZ_OK;
    }
    char at[KZ_TIME_TEXT_SIZE], first[KZ_TIME_TEXT_SIZE], last[KZ_TIME_TEXT_SIZE];
    kz_time_text(unix_ms, at);
    kz_time_text(facts.first_unix_ms, first);
    kz_time_text(facts.last_unix_ms, last);
    return kz__fail(err, KZ_INVALID, "%s is outside the layout's life, %s to %s", at, first, last);
}

kz_status kz_min_id(const kz_layout *layout, int64_t unix_ms, kz_id *id, kz_error *err)
{
    uint64_t field;
    kz_status status = field_of(layout, unix_ms, &field, err);
    if (status == KZ_OK)
        *id = field << kz__slot_bits(layout);
    return status;
}

kz_status kz_max_id(const kz_layout *layout, int64_t unix_ms, kz_id *id, kz_error *err)
{
    uint64_t field;
    kz_status status = field_of(layout, unix_ms, &field, err);
    unsigned slot_bits = kz__slot_bits(layout);
    if (status == KZ_OK)
        *id = field << slot_bits | ((UINT64_C(1) << slot_bits) - 1);
    return status;
}
