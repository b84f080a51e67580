/* IDs as lines, against the text of each by itself. */
#include "cli/next/idlines.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

enum { IDS = 5000, LAST_FORMAT = FORMAT_JSON };

static struct id_lines lines;
static kz_id ids[IDS];

/* The line as it was before there was a quicker way. */
static void plain_line(kz_id id, enum id_format format, char line[static ID_LINE_ROOM])
{
    char text[KZ_TEXT_SIZE];
    if (format == FORMAT_JSON) {
        snprintf(line, ID_LINE_ROOM, "{\"id\":%" PRIu64 ",\"id_str\":\"%" PRIu64 "\"}\n", id, id);
        return;
    }
    if (format == FORMAT_EXTERNAL)
        kz_external_encode(NULL, id, text);
    else
        kz_text(id, (kz_form)format, text);
    snprintf(line, ID_LINE_ROOM, "%s\n", text);
}

/* Writes them at once and compares line by line; `lines` goes on from what it was given before. */
static void assert_lines(size_t count)
{
    static char written[IDS * ID_LINE_ROOM];
    const char *end = id_lines_write(&lines, ids, count, written), *at = written;
    for (size_t i = 0; i < count; i++) {
        char line[ID_LINE_ROOM];
        plain_line(ids[i], lines.format, line);
        size_t length = strlen(line);
        if (memcmp(at, line, length) != 0)
            fail_msg("format %d: %" PRIu64 " became %.*s, not %s", (int)lines.format, ids[i], (int)length, at, line);
        at += length;
    }
    assert_ptr_equal(at, end);
}

static void assert_run_from(kz_id first)
{
    for (kz_id i = 0; i < IDS; i++)
        ids[i] = first + i;
    assert_lines(IDS);
}

static void ids_that_follow_one_another_get_their_own_lines(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int format = 0; format <= LAST_FORMAT; format++) {
        id_lines_begin(&lines, (enum id_format)format, NULL);
        for (int run = 0; run < 64; run++)
            assert_run_from(test_random(&seed) >> run % 64);
    }
}

static void a_carry_changes_all_the_digits_it_reaches(void **state)
{
    (void)state;
    for (int format = 0; format <= LAST_FORMAT; format++) {
        id_lines_begin(&lines, (enum id_format)format, NULL);
        for (kz_id power = 10; power <= UINT64_MAX / 10; power *= 10)
            assert_run_from(power - IDS / 2);
        for (kz_id power = 62; power <= UINT64_MAX / 62; power *= 62)
            assert_run_from(power - IDS / 2);
        for (int bit = 4; bit < 64; bit++)
            assert_run_from((UINT64_C(1) << bit) - IDS / 2);
    }
}

static void lines_are_right_at_both_ends_of_64_bits(void **state)
{
    (void)state;
    for (int format = 0; format <= LAST_FORMAT; format++) {
        id_lines_begin(&lines, (enum id_format)format, NULL);
        assert_run_from(0);
        assert_run_from(UINT64_MAX - IDS + 1);
        assert_run_from(UINT64_MAX - IDS / 2); /* over the end, and on from 0 */
        assert_run_from(0);
    }
}

static void ids_in_any_order_get_their_own_lines(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int format = 0; format <= LAST_FORMAT; format++) {
        id_lines_begin(&lines, (enum id_format)format, NULL);
        for (int round = 0; round < 40; round++) {
            /* Leaps to anywhere, small steps to and fro, and back to the lowest. */
            kz_id id = 0;
            for (size_t i = 0; i < IDS; i++) {
                uint64_t chance = test_random(&seed);
                if (chance % 16 == 0)
                    id = test_random(&seed) >> chance / 16 % 64;
                else
                    id += chance / 16 % 9 - 3;
                ids[i] = id;
            }
            assert_lines(IDS);
        }
    }
}

static void keys_are_used_for_external_ids(void **state)
{
    (void)state;
    static const char key[] = "1 speck 000102030405060708090a0b0c0d0e0f";
    kz_external_keys *keys;
    char written[ID_LINE_ROOM], text[KZ_EXTERNAL_SIZE];
    const kz_id id = UINT64_C(116264089600000000);
    assert_ok(kz_external_keys_parse(&keys, key, strlen(key), NULL));
    id_lines_begin(&lines, FORMAT_EXTERNAL, keys);
    assert_int_equal(id_lines_write(&lines, &id, 1, written) - written, KZ_EXTERNAL_SIZE);
    kz_external_encode(keys, id, text);
    assert_memory_equal(written, text, KZ_EXTERNAL_SIZE - 1);
    kz_external_keys_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_that_follow_one_another_get_their_own_lines),
        cmocka_unit_test(a_carry_changes_all_the_digits_it_reaches),
        cmocka_unit_test(lines_are_right_at_both_ends_of_64_bits),
        cmocka_unit_test(ids_in_any_order_get_their_own_lines),
        cmocka_unit_test(keys_are_used_for_external_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
