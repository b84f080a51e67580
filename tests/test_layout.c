/* Layouts: reading, writing, what they hold, and taking IDs apart. */
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

static kz_layout layout_of(const char *text)
{
    kz_layout layout;
    kz_error err;
    if (kz_layout_parse(text, &layout, &err))
        fail_msg("%s: %s", text, err.message);
    return layout;
}

static void assert_refused(const char *text, const char *part)
{
    kz_layout layout, untouched;
    memset(&layout, 0x5a, sizeof layout);
    untouched = layout;
    kz_error err;
    kz_status status = kz_layout_parse(text, &layout, &err);
    if (status != KZ_INVALID)
        fail_msg("%s gave %s", text, kz_status_name(status));
    assert_int_equal(err.status, KZ_INVALID);
    assert_contains(err.message, part);
    assert_memory_equal(&layout, &untouched, sizeof layout);
    assert_status(kz_layout_parse(text, &layout, NULL), KZ_INVALID);
}

typedef struct preset {
    const char *name;
    int time, node, seq;
    int64_t epoch_ms;
    uint32_t unit_ms, flags;
} preset;

static void the_presets_are_those_that_are_documented(void **state)
{
    (void)state;
    const preset expected[] = {
        {"kazahana", 41, 14, 8, INT64_C(1767225600000), 1, KZ_LAYOUT_FALLBACK},
        {"snowflake", 41, 10, 12, INT64_C(1704067200000), 1, 0},
        {"tsid", 42, 10, 12, INT64_C(1577836800000), 1, 0},
        {"twitter", 41, 10, 12, INT64_C(1288834974657), 1, 0},
        {"discord", 42, 10, 12, INT64_C(1420070400000), 1, 0},
        {"instagram", 41, 13, 10, INT64_C(1314220021721), 1, 0},
        {"mastodon", 48, 0, 16, 0, 1, 0},
        {"sonyflake", 39, 16, 8, INT64_C(1735689600000), 10, KZ_LAYOUT_NODE_LOWEST | KZ_LAYOUT_DECODE_ONLY},
        {"js53", 41, 4, 8, INT64_C(1767225600000), 1, 0},
    };
    size_t count = sizeof expected / sizeof expected[0];
    for (size_t i = 0; i < count; i++) {
        const kz_layout *p = kz_layout_preset(i);
        const preset *e = &expected[i];
        assert_string_equal(p->name, e->name);
        assert_int_equal(p->time_bits, e->time);
        assert_int_equal(p->node_bits, e->node);
        assert_int_equal(p->seq_bits, e->seq);
        assert_int_equal(p->epoch_ms, e->epoch_ms);
        assert_int_equal(p->unit_ms, e->unit_ms);
        assert_int_equal(p->flags, e->flags);
        kz_layout by_name = layout_of(e->name);
        assert_memory_equal(&by_name, p, sizeof by_name);
    }
    assert_null(kz_layout_preset(count));
    assert_null(kz_layout_preset(SIZE_MAX));
}

static void a_written_layout_that_equals_a_preset_is_that_preset(void **state)
{
    (void)state;
    assert_string_equal(layout_of("41-14-8@2026-01-01").name, "kazahana");
    assert_int_equal(layout_of("41-14-8@2026-01-01").flags, KZ_LAYOUT_FALLBACK);
    assert_string_equal(layout_of("41-10-12@1288834974657").name, "twitter");
    assert_string_equal(layout_of("41-10-12@2024-01-01T09:00:00+09:00").name, "snowflake");
    assert_string_equal(layout_of("48-0-16@0").name, "mastodon");
    /* The same bits as sonyflake's, but in milliseconds and with the node above: not sonyflake. */
    kz_layout layout = layout_of("39-16-8@1735689600000");
    assert_string_equal(layout.name, "");
    assert_int_equal(layout.unit_ms, 1);
    assert_int_equal(layout.flags, 0);
    assert_string_equal(layout_of("41-14-8@2026-01-02").name, "");
    assert_string_equal(layout_of("41-13-9@2026-01-01").name, "");
}

static void an_epoch_is_a_date_a_time_or_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(layout_of("41-10-11@2026-01-01").epoch_ms, INT64_C(1767225600000));
    assert_int_equal(layout_of("41-10-11@2026-01-01T00:00:00.5Z").epoch_ms, INT64_C(1767225600500));
    assert_int_equal(layout_of("41-10-11@1767225600000").epoch_ms, INT64_C(1767225600000));
    assert_int_equal(layout_of("41-10-11@0").epoch_ms, 0);
    assert_int_equal(layout_of("41-10-11@9999-12-31T23:59:59.999Z").epoch_ms, INT64_C(253402300799999));
}

static void a_layout_that_cannot_be_is_refused_with_the_reason(void **state)
{
    (void)state;
    assert_refused("42-14-9@2026-01-01", "65 bits");
    assert_refused("63-1-1@2026-01-01", "65 bits");
    assert_refused("999-999-999@0", "2997 bits");
    assert_refused("0-32-32@0", "0 time bits");
    assert_refused("64-0-0@0", "64 time bits");
    assert_refused("10-33-1@0", "33 node");
    assert_refused("10-1-33@0", "33 sequence");
    assert_refused("41-14-8@-1", "between 1970 and 9999");
    assert_refused("41-14-8@1969-12-31", "between 1970 and 9999");
    assert_refused("41-14-8@253402300800000", "between 1970 and 9999");
    assert_refused("41-14-8@2026-02-30", "epoch is not a time");
    assert_refused("41-14-8@", "epoch is not a time");
    assert_refused("41-14-8@2026-01-01 ", "epoch is not a time");
    const char *const shapeless[] = {
        "",           "kazahana ",   "Kazahana", "snow",      "41-14-8",    "41-14@0",     "41-14-8-@0",
        "-41-14-8@0", "+41-14-8@0",  "41--8@0",  "41-14-@0",  " 41-14-8@0", "0041-14-8@0", "41_14_8@0",
        "@",          "41-14-8@@0x", "-",        "4 1-14-8@0"};
    for (size_t i = 0; i < sizeof shapeless / sizeof shapeless[0]; i++)
        assert_refused(shapeless[i], strcmp(shapeless[i], "41-14-8@@0x") == 0 ? "epoch" : "TIME-NODE-SEQ@EPOCH");
    char endless[200];
    memset(endless, '4', sizeof endless);
    endless[sizeof endless - 1] = 0;
    assert_refused(endless, "199 characters");
    kz_layout layout;
    kz_error err;
    assert_status(kz_layout_parse(NULL, &layout, &err), KZ_INVALID);
    assert_status(kz_layout_parse("kazahana", NULL, &err), KZ_INVALID);
}

static void assert_day(int64_t unix_ms, const char *expected)
{
    char text[KZ_TIME_TEXT_SIZE];
    kz_time_text(unix_ms, text);
    text[strlen(expected)] = 0;
    assert_string_equal(text, expected);
}

static void kazahana_has_8192_leasable_nodes_and_runs_out_in_2095(void **state)
{
    (void)state;
    kz_layout layout = layout_of("kazahana");
    kz_layout_facts facts;
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.reserved_bits, 1);
    assert_int_equal(facts.nodes, 16384);
    assert_int_equal(facts.leasable_nodes, 8192);
    assert_int_equal(facts.ids_per_step, 256);
    assert_int_equal(facts.first_unix_ms, layout.epoch_ms);
    assert_int_equal(facts.last_unix_ms, layout.epoch_ms + (INT64_C(1) << 41) - 1);
    assert_day(facts.last_unix_ms, "2095-09-07");
    assert_false(facts.turns_negative);
    assert_int_equal(facts.negative_unix_ms, 0);
}

static void a_layout_of_64_bits_turns_negative_half_way(void **state)
{
    (void)state;
    kz_layout layout = layout_of("41-14-9@2026-01-01");
    kz_layout_facts facts;
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.reserved_bits, 0);
    assert_true(facts.turns_negative);
    assert_int_equal(facts.negative_unix_ms, layout.epoch_ms + (INT64_C(1) << 40));
    assert_day(facts.negative_unix_ms, "2060-11-03");
    kz_id id;
    assert_ok(kz_max_id(&layout, facts.negative_unix_ms - 1, &id, NULL));
    assert_true((int64_t)id >= 0);
    assert_ok(kz_min_id(&layout, facts.negative_unix_ms, &id, NULL));
    assert_true((int64_t)id < 0);
}

static void odd_layouts_are_described_too(void **state)
{
    (void)state;
    kz_layout_facts facts;
    kz_layout layout = layout_of("mastodon");
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.nodes, 1);
    assert_int_equal(facts.leasable_nodes, 0);
    layout = layout_of("sonyflake");
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.last_unix_ms, layout.epoch_ms + 10 * (INT64_C(1) << 39) - 1);
    layout = layout_of("63-0-0@9999-12-31");
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.last_unix_ms, INT64_MAX);
    layout = layout_of("1-32-31@0");
    kz_layout_describe(&layout, &facts);
    assert_int_equal(facts.last_unix_ms, 1);
    assert_int_equal(facts.negative_unix_ms, 1);
    assert_int_equal(facts.nodes, UINT64_C(1) << 32);
}

/* Any layout of 64 bits at most. */
static kz_layout random_layout(uint64_t *random)
{
    unsigned time = 1 + (unsigned)(test_random(random) % 63);
    unsigned node = (unsigned)(test_random(random) % (64 - time < 32 ? 64 - time + 1 : 33));
    unsigned rest = 64 - time - node;
    unsigned seq = test_random(random) % 2 ? rest : (unsigned)(test_random(random) % (rest + 1));
    if (seq > 32)
        seq = 32;
    int64_t epoch_ms = (int64_t)(test_random(random) % UINT64_C(253402300800000));
    if (test_random(random) % 2)
        epoch_ms -= epoch_ms % 86400000;
    return (kz_layout){.epoch_ms = epoch_ms,
                       .unit_ms = 1,
                       .time_bits = (uint8_t)time,
                       .node_bits = (uint8_t)node,
                       .seq_bits = (uint8_t)seq};
}

static void random_layouts_survive_being_written_and_read(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < 20000; i++) {
        kz_layout layout = random_layout(&random);
        char text[KZ_LAYOUT_TEXT_SIZE];
        kz_layout_text(&layout, text);
        kz_layout again = layout_of(text);
        if (again.epoch_ms != layout.epoch_ms || again.time_bits != layout.time_bits ||
            again.node_bits != layout.node_bits || again.seq_bits != layout.seq_bits || again.unit_ms != 1)
            fail_msg("%s is read as another layout", text);
    }
    for (size_t i = 0; kz_layout_preset(i); i++) {
        char text[KZ_LAYOUT_TEXT_SIZE];
        kz_layout_text(kz_layout_preset(i), text);
        kz_layout again = layout_of(text);
        if (!(kz_layout_preset(i)->flags & KZ_LAYOUT_DECODE_ONLY))
            assert_memory_equal(&again, kz_layout_preset(i), sizeof again);
    }
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(kz_layout_preset(0), text);
    assert_string_equal(text, "41-14-8@2026-01-01");
    kz_layout_text(kz_layout_preset(3), text);
    assert_string_equal(text, "41-10-12@2010-11-04T01:42:54.657Z");
}

static void decoding_undoes_composing_in_random_layouts(void **state)
{
    (void)state;
    uint64_t random = 6;
    for (int i = 0; i < 100000; i++) {
        kz_layout layout = random_layout(&random);
        uint64_t field = test_random(&random) >> (64 - layout.time_bits);
        uint32_t node = layout.node_bits ? (uint32_t)(test_random(&random) >> (64 - layout.node_bits)) : 0;
        uint32_t seq = layout.seq_bits ? (uint32_t)(test_random(&random) >> (64 - layout.seq_bits)) : 0;
        kz_id id = ((field << layout.node_bits | node) << layout.seq_bits) | seq;
        kz_parts parts;
        assert_ok(kz_decode(&layout, id, &parts, NULL));
        uint64_t unix_ms = field + (uint64_t)layout.epoch_ms;
        int64_t expected_ms = unix_ms > INT64_MAX ? INT64_MAX : (int64_t)unix_ms;
        if (parts.node != node || parts.seq != seq || parts.unix_ms != expected_ms || parts.fallback)
            fail_msg("%u-%u-%u@%" PRId64 ": %" PRIu64 " is decoded wrongly", layout.time_bits, layout.node_bits,
                     layout.seq_bits, layout.epoch_ms, id);
        unsigned bits = layout.time_bits + layout.node_bits + layout.seq_bits;
        if (bits < 64) {
            kz_error err;
            kz_parts before = parts;
            assert_status(kz_decode(&layout, id | UINT64_C(1) << bits, &parts, &err), KZ_INVALID);
            assert_contains(err.message, "does not fit");
            assert_memory_equal(&parts, &before, sizeof parts);
        }
    }
}

static void min_and_max_enclose_exactly_the_ids_of_an_instant(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 50000; i++) {
        kz_layout layout = random_layout(&random);
        if (i % 16 == 0)
            layout = *kz_layout_preset((size_t)i / 16 % 9);
        kz_layout_facts facts;
        kz_layout_describe(&layout, &facts);
        uint64_t life = (uint64_t)facts.last_unix_ms - (uint64_t)facts.first_unix_ms;
        int64_t at_ms = facts.first_unix_ms + (int64_t)(test_random(&random) % (life + 1));
        kz_id min, max;
        assert_ok(kz_min_id(&layout, at_ms, &min, NULL));
        assert_ok(kz_max_id(&layout, at_ms, &max, NULL));
        kz_parts low, high;
        assert_ok(kz_decode(&layout, min, &low, NULL));
        assert_ok(kz_decode(&layout, max, &high, NULL));
        assert_true(low.unix_ms <= at_ms && at_ms < low.unix_ms + layout.unit_ms);
        assert_int_equal(low.unix_ms, high.unix_ms);
        assert_int_equal(low.node, 0);
        assert_int_equal(low.seq, 0);
        assert_int_equal(high.node, (UINT64_C(1) << layout.node_bits) - 1);
        assert_int_equal(high.seq, (UINT64_C(1) << layout.seq_bits) - 1);
        kz_id next;
        if (low.unix_ms + layout.unit_ms <= facts.last_unix_ms && facts.last_unix_ms != INT64_MAX) {
            assert_ok(kz_min_id(&layout, low.unix_ms + layout.unit_ms, &next, NULL));
            assert_int_equal(next, max + 1);
        }
    }
}

static void instants_outside_a_layouts_life_have_no_ids(void **state)
{
    (void)state;
    kz_layout layout = layout_of("kazahana");
    kz_layout_facts facts;
    kz_layout_describe(&layout, &facts);
    kz_id id = 99;
    kz_error err;
    const int64_t outside[] = {facts.first_unix_ms - 1, facts.last_unix_ms + 1, 0, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 6; i++) {
        assert_status(kz_min_id(&layout, outside[i], &id, &err), KZ_INVALID);
        assert_contains(err.message, "2026-01-01T00:00:00.000Z to 2095-09-07T15:47:35.551Z");
        assert_status(kz_max_id(&layout, outside[i], &id, NULL), KZ_INVALID);
        assert_int_equal(id, 99);
    }
    assert_ok(kz_min_id(&layout, facts.first_unix_ms, &id, NULL));
    assert_int_equal(id, 0);
    assert_ok(kz_max_id(&layout, facts.last_unix_ms, &id, NULL));
    assert_int_equal(id, INT64_MAX);
}

static void fallback_is_seen_in_kazahana_alone(void **state)
{
    (void)state;
    kz_layout kazahana = layout_of("kazahana"), other = layout_of("41-14-8@2026-01-02"),
              mastodon = layout_of("mastodon");
    kz_parts parts;
    kz_id top_node_bit = UINT64_C(1) << 21;
    assert_ok(kz_decode(&kazahana, top_node_bit, &parts, NULL));
    assert_true(parts.fallback);
    assert_int_equal(parts.node, 8192);
    assert_ok(kz_decode(&kazahana, top_node_bit - 1, &parts, NULL));
    assert_false(parts.fallback);
    assert_int_equal(parts.node, 8191);
    assert_ok(kz_decode(&other, top_node_bit, &parts, NULL));
    assert_false(parts.fallback);
    assert_ok(kz_decode(&mastodon, UINT64_MAX, &parts, NULL));
    assert_false(parts.fallback);
    assert_int_equal(parts.node, 0);
}

static void known_ids_are_taken_apart_rightly(void **state)
{
    (void)state;
    kz_layout layout = layout_of("discord");
    kz_parts parts;
    assert_ok(kz_decode(&layout, UINT64_C(175928847299117063), &parts, NULL));
    assert_int_equal(parts.unix_ms, INT64_C(1462015105796));
    assert_int_equal(parts.node, 32);
    assert_int_equal(parts.seq, 7);
    /* sonyflake: the sequence stands above the machine. */
    layout = layout_of("sonyflake");
    assert_ok(kz_decode(&layout, UINT64_C(3) << 24 | 5u << 16 | 77, &parts, NULL));
    assert_int_equal(parts.unix_ms, layout.epoch_ms + 30);
    assert_int_equal(parts.node, 77);
    assert_int_equal(parts.seq, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_presets_are_those_that_are_documented),
        cmocka_unit_test(a_written_layout_that_equals_a_preset_is_that_preset),
        cmocka_unit_test(an_epoch_is_a_date_a_time_or_milliseconds),
        cmocka_unit_test(a_layout_that_cannot_be_is_refused_with_the_reason),
        cmocka_unit_test(kazahana_has_8192_leasable_nodes_and_runs_out_in_2095),
        cmocka_unit_test(a_layout_of_64_bits_turns_negative_half_way),
        cmocka_unit_test(odd_layouts_are_described_too),
        cmocka_unit_test(random_layouts_survive_being_written_and_read),
        cmocka_unit_test(decoding_undoes_composing_in_random_layouts),
        cmocka_unit_test(min_and_max_enclose_exactly_the_ids_of_an_instant),
        cmocka_unit_test(instants_outside_a_layouts_life_have_no_ids),
        cmocka_unit_test(fallback_is_seen_in_kazahana_alone),
        cmocka_unit_test(known_ids_are_taken_apart_rightly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
