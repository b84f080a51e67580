/* IDs as text and as bytes. */
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

static const kz_form forms[] = {KZ_DECIMAL, KZ_HEX, KZ_BASE32, KZ_BASE62, KZ_BASE64URL};
enum { FORMS = sizeof forms / sizeof *forms };

static const kz_id edges[] = {0,
                              1,
                              9,
                              10,
                              99,
                              100,
                              99999999,
                              100000000,
                              9999999999999999,
                              10000000000000000,
                              UINT64_C(839299365868340223),
                              UINT64_C(839299365868340224),
                              INT64_MAX,
                              UINT64_C(1) << 63,
                              UINT64_MAX - 1,
                              UINT64_MAX};

static void assert_text(kz_id id, kz_form form, const char *expected)
{
    char text[KZ_TEXT_SIZE];
    assert_int_equal(kz_text(id, form, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void assert_reads(const char *text, kz_form form, kz_id expected)
{
    kz_id id = ~expected;
    assert_ok(kz_text_parse(text, form, &id, NULL));
    assert_true(id == expected);
}

/* Refused, with a message that has `part` in it, and the output left alone. */
static void assert_refused(const char *text, kz_form form, const char *part)
{
    kz_id id = 4711;
    kz_error err;
    assert_int_equal(kz_text_parse(text, form, &id, &err), KZ_INVALID);
    assert_int_equal(err.status, KZ_INVALID);
    assert_contains(err.message, part);
    assert_true(id == 4711);
    assert_int_equal(kz_text_parse(text, form, &id, NULL), KZ_INVALID);
}

static void assert_round_trip(kz_id id)
{
    for (int f = 0; f < FORMS; f++) {
        char text[KZ_TEXT_SIZE];
        kz_id back = ~id;
        size_t length = kz_text(id, forms[f], text);
        if (length != strlen(text) || kz_text_parse(text, forms[f], &back, NULL) != KZ_OK || back != id)
            fail_msg("form %d of %" PRIu64 " is '%s', which reads as %" PRIu64, (int)forms[f], id, text, back);
    }
}

static void every_form_reads_back_what_it_wrote(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_round_trip(edges[i]);
    uint64_t seed = 1;
    for (int i = 0; i < 1000000; i++)
        assert_round_trip(test_random(&seed) >> (i % 64));
}

static void decimal_agrees_with_the_c_library(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 100000; i++) {
        kz_id id = test_random(&seed) >> (i % 64);
        char expected[KZ_TEXT_SIZE];
        snprintf(expected, sizeof expected, "%" PRIu64, id);
        assert_text(id, KZ_DECIMAL, expected);
    }
}

static void fixed_length_texts_sort_like_the_numbers(void **state)
{
    (void)state;
    uint64_t seed = 3;
    const kz_form sorting[] = {KZ_HEX, KZ_BASE32, KZ_BASE62};
    for (int i = 0; i < 100000; i++) {
        kz_id a = test_random(&seed) >> (i % 64), b = test_random(&seed) >> (i % 64);
        for (size_t f = 0; f < 3; f++) {
            char first[KZ_TEXT_SIZE], second[KZ_TEXT_SIZE];
            kz_text(a, sorting[f], first);
            kz_text(b, sorting[f], second);
            int order = strcmp(first, second);
            assert_true(a < b ? order < 0 : a > b ? order > 0 : order == 0);
        }
    }
}

static void the_largest_id_has_these_texts(void **state)
{
    (void)state;
    assert_text(UINT64_MAX, KZ_DECIMAL, "18446744073709551615");
    assert_text(UINT64_MAX, KZ_HEX, "ffffffffffffffff");
    assert_text(UINT64_MAX, KZ_BASE32, "FZZZZZZZZZZZZ");
    assert_text(UINT64_MAX, KZ_BASE62, "LygHa16AHYF");
    assert_text(UINT64_MAX, KZ_BASE64URL, "__________8");
}

static void an_unknown_form_writes_nothing_and_reads_nothing(void **state)
{
    (void)state;
    char text[KZ_TEXT_SIZE] = "x";
    assert_int_equal(kz_text(7, (kz_form)5, text), 0);
    assert_string_equal(text, "");
    assert_refused("7", (kz_form)5, "form 5");
}

static void decimal_refuses_signs_blanks_and_what_is_too_large(void **state)
{
    (void)state;
    assert_reads("00000000000000000007", KZ_DECIMAL, 7);
    assert_refused("", KZ_DECIMAL, "not 0");
    assert_refused("-1", KZ_DECIMAL, "'-' at position 1");
    assert_refused("+1", KZ_DECIMAL, "'+' at position 1");
    assert_refused(" 1", KZ_DECIMAL, "' ' at position 1");
    assert_refused("1\n", KZ_DECIMAL, "0x0a at position 2");
    assert_refused("12a", KZ_DECIMAL, "'a' at position 3");
    assert_refused("18446744073709551616", KZ_DECIMAL, "18446744073709551616 is above");
    assert_refused("99999999999999999999", KZ_DECIMAL, "above");
    assert_refused("000000000000000000007", KZ_DECIMAL, "not 21");
}

static void hex_reads_one_to_sixteen_digits_of_either_case(void **state)
{
    (void)state;
    assert_reads("0x1F", KZ_HEX, 31);
    assert_reads("0X1f", KZ_HEX, 31);
    assert_reads("f", KZ_HEX, 15);
    assert_reads("FFFFFFFFFFFFFFFF", KZ_HEX, UINT64_MAX);
    assert_refused("", KZ_HEX, "not 0");
    assert_refused("0x", KZ_HEX, "not 0");
    assert_refused("0x0x1", KZ_HEX, "'x' at position 4");
    assert_refused("12g", KZ_HEX, "'g' at position 3");
    assert_refused("10000000000000000", KZ_HEX, "not 17");
}

static void base32_reads_o_as_zero_and_i_and_l_as_one(void **state)
{
    (void)state;
    assert_reads("o1221h8qlmmzr", KZ_BASE32, UINT64_C(38352658567418872));
    assert_reads("OI221H8QLMMZR", KZ_BASE32, UINT64_C(38352658567418872));
    assert_reads("0i221H8Q1MMZR", KZ_BASE32, UINT64_C(38352658567418872));
}

static void base32_refuses_u_other_lengths_and_a_65th_bit(void **state)
{
    (void)state;
    assert_refused("00000000000U0", KZ_BASE32, "'U' at position 12");
    assert_refused("000000000000", KZ_BASE32, "not 12");
    assert_refused("00000000000000", KZ_BASE32, "not 14");
    assert_refused("G000000000000", KZ_BASE32, "G000000000000 is above");
    assert_reads("F000000000000", KZ_BASE32, UINT64_C(15) << 60);
}

static void base62_refuses_what_is_above_64_bits(void **state)
{
    (void)state;
    assert_reads("LygHa16AHYF", KZ_BASE62, UINT64_MAX);
    assert_refused("LygHa16AHYG", KZ_BASE62, "above");
    assert_refused("zzzzzzzzzzz", KZ_BASE62, "above");
    assert_refused("-0000000000", KZ_BASE62, "'-' at position 1");
    assert_refused("0000000000", KZ_BASE62, "not 10");
}

static void base64url_refuses_padding_the_other_alphabet_and_spare_bits(void **state)
{
    (void)state;
    assert_reads("ASNFZ4mrze8", KZ_BASE64URL, UINT64_C(0x0123456789abcdef));
    assert_refused("ASNFZ4mrze", KZ_BASE64URL, "not 10");
    assert_refused("ASNFZ4mrze8=", KZ_BASE64URL, "not 12");
    assert_refused("ASNFZ4mrz+8", KZ_BASE64URL, "'+' at position 10");
    assert_refused("ASNFZ4mrze!", KZ_BASE64URL, "'!' at position 11");
    assert_refused("ASNFZ4mrz\xc3\xa9", KZ_BASE64URL, "0xc3 at position 10");
    assert_refused("ASNFZ4mrze9", KZ_BASE64URL, "'9'");
}

static void a_very_long_text_is_refused_by_its_length(void **state)
{
    (void)state;
    char text[5000];
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int f = 0; f < FORMS; f++)
        assert_refused(text, forms[f], "4999");
}

static void bytes_are_big_endian(void **state)
{
    (void)state;
    uint8_t bytes[8];
    const uint8_t expected[8] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    kz_id_to_bytes(UINT64_C(0x0123456789abcdef), bytes);
    assert_memory_equal(bytes, expected, 8);
    assert_true(kz_id_from_bytes(expected) == UINT64_C(0x0123456789abcdef));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_reads_back_what_it_wrote),
        cmocka_unit_test(decimal_agrees_with_the_c_library),
        cmocka_unit_test(fixed_length_texts_sort_like_the_numbers),
        cmocka_unit_test(the_largest_id_has_these_texts),
        cmocka_unit_test(an_unknown_form_writes_nothing_and_reads_nothing),
        cmocka_unit_test(decimal_refuses_signs_blanks_and_what_is_too_large),
        cmocka_unit_test(hex_reads_one_to_sixteen_digits_of_either_case),
        cmocka_unit_test(base32_reads_o_as_zero_and_i_and_l_as_one),
        cmocka_unit_test(base32_refuses_u_other_lengths_and_a_65th_bit),
        cmocka_unit_test(base62_refuses_what_is_above_64_bits),
        cmocka_unit_test(base64url_refuses_padding_the_other_alphabet_and_spare_bits),
        cmocka_unit_test(a_very_long_text_is_refused_by_its_length),
        cmocka_unit_test(bytes_are_big_endian),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
