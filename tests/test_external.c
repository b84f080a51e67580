/* External IDs: the permutations, the keys, the texts. */
#include "core/cipher.h"
#include "random.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECRET       "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SHORT_SECRET "000102030405060708090a0b0c0d0e0f"

static kz_external_keys *keys_of(const char *text)
{
    kz_external_keys *keys = NULL;
    kz_error err = {.message = ""};
    if (kz_external_keys_parse(&keys, text, strlen(text), &err))
        fail_msg("%s", err.message);
    return keys;
}

/* Refused, with a message that has `part` in it and nothing of the secret. */
static void assert_keys_refused(const char *text, size_t length, const char *part)
{
    kz_external_keys *keys = NULL;
    kz_error err;
    assert_status(kz_external_keys_parse(&keys, text, length, &err), KZ_INVALID);
    assert_contains(err.message, part);
    assert_null(strstr(err.message, "0203"));
    assert_null(keys);
    assert_status(kz_external_keys_parse(&keys, text, length, NULL), KZ_INVALID);
}

static void refused(const char *text, const char *part)
{
    assert_keys_refused(text, strlen(text), part);
}

static void assert_decodes(const kz_external_keys *keys, const char *text, kz_id expected)
{
    kz_id id = ~expected;
    kz_error err = {.message = ""};
    if (kz_external_decode(keys, text, &id, &err) || id != expected)
        fail_msg("'%s' decodes to %" PRIu64 ", not %" PRIu64 " (%s)", text, id, expected, err.message);
}

static void assert_not_decoded(const kz_external_keys *keys, const char *text, kz_status status, const char *part)
{
    kz_id id = 4711;
    kz_error err;
    assert_int_equal(kz_external_decode(keys, text, &id, &err), status);
    assert_contains(err.message, part);
    assert_true(id == 4711);
    assert_int_equal(kz_external_decode(keys, text, &id, NULL), status);
}

static void every_permutation_is_undone_by_its_inverse(void **state)
{
    (void)state;
    kz__xtea xtea;
    kz__speck speck;
    const uint8_t key[16] = "sixteen bytes ok";
    kz__xtea_expand(&xtea, key);
    kz__speck_expand(&speck, key);
    uint64_t seed = 6;
    for (int i = 0; i < 1000000; i++) {
        uint64_t value = i < 64 ? UINT64_C(1) << i : test_random(&seed) >> (i % 64);
        assert_true(kz__unmix(kz__mix(value)) == value);
        assert_true(kz__mix(kz__unmix(value)) == value);
        assert_true(kz__xtea_decrypt(&xtea, kz__xtea_encrypt(&xtea, value)) == value);
        assert_true(kz__speck_decrypt(&speck, kz__speck_encrypt(&speck, value)) == value);
    }
}

static void every_text_reads_back_with_and_without_keys(void **state)
{
    (void)state;
    kz_external_keys *all[] = {NULL, keys_of("0 xtea " SECRET), keys_of("3 speck " SECRET "\n1 xtea " SECRET)};
    uint64_t seed = 7;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 300000; i++) {
            kz_id id = i == 0 ? UINT64_MAX : test_random(&seed) >> (i % 64);
            char text[KZ_EXTERNAL_SIZE];
            kz_external_encode(all[k], id, text);
            assert_int_equal(strlen(text), KZ_EXTERNAL_SIZE - 1);
            assert_decodes(all[k], text, id);
        }
        kz_external_keys_free(all[k]);
    }
}

static void the_first_key_encodes_and_all_decode(void **state)
{
    (void)state;
    kz_external_keys *old = keys_of("1 xtea " SECRET "\n");
    kz_external_keys *rotated = keys_of("# the new one first\n\n2 speck " SHORT_SECRET "\n1 xtea " SECRET "\n");
    char before[KZ_EXTERNAL_SIZE], after[KZ_EXTERNAL_SIZE];
    kz_external_encode(old, 12345, before);
    kz_external_encode(rotated, 12345, after);
    assert_string_not_equal(before, after);
    assert_decodes(rotated, before, 12345);
    assert_decodes(rotated, after, 12345);
    assert_not_decoded(old, after, KZ_UNKNOWN_KEY, "key 2");
    kz_external_keys_free(rotated);
    kz_external_keys_free(old);
}

static void without_keys_only_number_zero_is_known(void **state)
{
    (void)state;
    assert_decodes(NULL, "PAKqR3WCkr0", 1);
    assert_not_decoded(NULL, "PAKqR3WCkr1", KZ_UNKNOWN_KEY, "key 1");
    assert_not_decoded(NULL, "PAKqR3WCkr2", KZ_UNKNOWN_KEY, "key 2");
    assert_not_decoded(NULL, "PAKqR3WCkr3", KZ_UNKNOWN_KEY, "key 3");
}

static void a_text_that_is_not_eleven_characters_of_the_alphabet_is_refused(void **state)
{
    (void)state;
    assert_not_decoded(NULL, "", KZ_INVALID, "not 0");
    assert_not_decoded(NULL, "PAKqR3WCkr", KZ_INVALID, "not 10");
    assert_not_decoded(NULL, "PAKqR3WCkr0=", KZ_INVALID, "not 12");
    assert_not_decoded(NULL, "PAKqR3WC/r0", KZ_INVALID, "'/' at position 9");
    assert_not_decoded(NULL, "PAKqR3WCkr\x80", KZ_INVALID, "0x80 at position 11");
}

static void blanks_comments_and_line_ends_of_either_kind_are_passed_over(void **state)
{
    (void)state;
    kz_external_keys *keys = keys_of("\r\n# 0 xtea no\r\n   \n\t0\txtea   " SECRET "  \r\n\n  # end");
    char text[KZ_EXTERNAL_SIZE];
    kz_external_encode(keys, 1, text);
    assert_string_equal(text, "3bRNWmt7h1o");
    kz_external_keys_free(keys);
    kz_external_keys_free(NULL);
}

static void hex_of_either_case_is_the_same_secret(void **state)
{
    (void)state;
    kz_external_keys *keys = keys_of("0 xtea 000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
    assert_decodes(keys, "3bRNWmt7h1o", 1);
    kz_external_keys_free(keys);
}

static void wrong_keys_are_refused_by_line_without_showing_the_secret(void **state)
{
    (void)state;
    refused("", "no key");
    refused("# nothing\n\n", "no key");
    refused("0 xtea " SECRET "\n0 speck " SECRET, "line 2: a line above has the same key number");
    refused("\n4 xtea " SECRET, "line 2: the key number");
    refused("-1 xtea " SECRET, "line 1: the key number");
    refused("00 xtea " SECRET, "line 1: the key number");
    refused(SECRET, "line 1: the key number");
    refused("0 " SECRET, "line 1: the algorithm");
    refused("0 aes " SECRET, "line 1: the algorithm");
    refused("0 XTEA " SECRET, "line 1: the algorithm");
    refused("0 xte " SECRET, "line 1: the algorithm");
    refused("0", "line 1: the algorithm");
    refused("0 xtea", "line 1: there is no secret");
    refused("0 xtea " SECRET " 7", "line 1: there is something behind");
    refused("0 xtea " SHORT_SECRET "0", "line 1: the secret has an odd number");
    refused("0 xtea 000102030405060708090a0b0c0d0e", "line 1: the secret is shorter");
    refused("0 xtea 0x000102030405060708090a0b0c0d0e0f", "line 1: the secret has a character");
    assert_keys_refused("0 xtea " SHORT_SECRET "\0\0", 7 + 32 + 2, "line 1: the secret has a character");
}

static void a_secret_may_have_1024_bytes_and_no_more(void **state)
{
    (void)state;
    char text[7 + 2050 + 1] = "0 xtea ";
    memset(text + 7, 'a', 2050);
    refused(text, "line 1: the secret is longer");
    text[7 + 2048] = 0;
    kz_external_keys_free(keys_of(text));
}

/* A file with that content, whose name goes to `path`. */
static void write_file(char path[static 32], const char *content, size_t length)
{
    strcpy(path, "/tmp/kz-keys-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, length), length);
    close(fd);
}

static void keys_load_from_a_file(void **state)
{
    (void)state;
    char path[32];
    const char *content = "0 xtea " SECRET "\n";
    write_file(path, content, strlen(content));
    kz_external_keys *keys;
    assert_ok(kz_external_keys_load(&keys, path, NULL));
    assert_decodes(keys, "3bRNWmt7h1o", 1);
    kz_external_keys_free(keys);
    unlink(path);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    kz_external_keys *keys = NULL;
    kz_error err;
    assert_status(kz_external_keys_load(&keys, "/nonexistent/keys", &err), KZ_SYSTEM);
    assert_contains(err.message, "/nonexistent/keys");
    assert_status(kz_external_keys_load(&keys, "/tmp", &err), KZ_SYSTEM);
    assert_null(keys);
}

static void a_file_above_64_kib_is_refused_and_one_of_64_kib_is_not(void **state)
{
    (void)state;
    enum { LIMIT = 64 * 1024 };
    char path[32];
    char *content = malloc(LIMIT + 1);
    assert_non_null(content);
    memset(content, '\n', LIMIT + 1);
    memcpy(content, "0 xtea " SECRET, 7 + 64);
    kz_external_keys *keys = NULL;
    kz_error err;
    write_file(path, content, LIMIT + 1);
    assert_status(kz_external_keys_load(&keys, path, &err), KZ_INVALID);
    assert_contains(err.message, "64 KiB");
    assert_null(keys);
    unlink(path);
    write_file(path, content, LIMIT);
    assert_ok(kz_external_keys_load(&keys, path, &err));
    kz_external_keys_free(keys);
    unlink(path);
    free(content);
}

static void an_error_in_a_file_names_the_file_and_the_line(void **state)
{
    (void)state;
    char path[32];
    const char *content = "# keys\n0 rot13 " SECRET "\n";
    write_file(path, content, strlen(content));
    kz_external_keys *keys = NULL;
    kz_error err;
    assert_status(kz_external_keys_load(&keys, path, &err), KZ_INVALID);
    assert_contains(err.message, path);
    assert_contains(err.message, "line 2");
    assert_null(strstr(err.message, "0203"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_permutation_is_undone_by_its_inverse),
        cmocka_unit_test(every_text_reads_back_with_and_without_keys),
        cmocka_unit_test(the_first_key_encodes_and_all_decode),
        cmocka_unit_test(without_keys_only_number_zero_is_known),
        cmocka_unit_test(a_text_that_is_not_eleven_characters_of_the_alphabet_is_refused),
        cmocka_unit_test(blanks_comments_and_line_ends_of_either_kind_are_passed_over),
        cmocka_unit_test(hex_of_either_case_is_the_same_secret),
        cmocka_unit_test(wrong_keys_are_refused_by_line_without_showing_the_secret),
        cmocka_unit_test(a_secret_may_have_1024_bytes_and_no_more),
        cmocka_unit_test(keys_load_from_a_file),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(a_file_above_64_kib_is_refused_and_one_of_64_kib_is_not),
        cmocka_unit_test(an_error_in_a_file_names_the_file_and_the_line),
    };
    return cmocka_run_group_tests_name("external", tests, NULL, NULL);
}
