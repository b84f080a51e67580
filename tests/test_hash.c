/* SHA-256, HMAC and HKDF against what their standards print (FIPS 180, RFC 4231, RFC 5869). */
#include "core/hash.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const char *hex(const uint8_t *bytes, size_t size)
{
    static char text[129];
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static void assert_sha256(const char *text, const char *expected)
{
    uint8_t hash[KZ__SHA256_SIZE];
    kz__sha256(text, strlen(text), hash);
    assert_string_equal(hex(hash, sizeof hash), expected);
}

static void sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    assert_sha256("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                  "mnopqrstnopqrstu",
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters_have_the_hash_of_the_standard(void **state)
{
    (void)state;
    const size_t size = 1000000;
    uint8_t hash[KZ__SHA256_SIZE];
    char *letters = malloc(size);
    memset(letters, 'a', size);
    kz__sha256(letters, size, hash);
    assert_string_equal(hex(hash, sizeof hash), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

/* Where a block ends, the length goes into it or into one more: 143 lengths on both sides of two blocks. The sum of
 * all hashes was made by another implementation. */
static void every_length_around_a_block_is_padded_rightly(void **state)
{
    (void)state;
    uint8_t bytes[143], all[143 * KZ__SHA256_SIZE], hash[KZ__SHA256_SIZE];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    for (size_t i = 0; i < sizeof bytes; i++)
        kz__sha256(bytes, i, all + i * KZ__SHA256_SIZE);
    kz__sha256(all, sizeof all, hash);
    assert_string_equal(hex(hash, sizeof hash), "93e14a6c29d50b924ebfc54f37ddda994a1551396bc05267edff8245ade290b8");
}

static void hmac_is_that_of_rfc_4231(void **state)
{
    (void)state;
    uint8_t key[131], sum[KZ__SHA256_SIZE];
    memset(key, 0x0b, 20);
    kz__hmac_sha256(key, 20, "Hi There", 8, sum);
    assert_string_equal(hex(sum, sizeof sum), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    kz__hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, sum);
    assert_string_equal(hex(sum, sizeof sum), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    kz__hmac_sha256(key, sizeof key, text, strlen(text), sum);
    assert_string_equal(hex(sum, sizeof sum), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* Test case 3: no salt, no info; its first 32 bytes. */
static void hkdf_is_that_of_rfc_5869(void **state)
{
    (void)state;
    uint8_t secret[22], key[KZ__SHA256_SIZE], derived[32];
    memset(secret, 0x0b, sizeof secret);
    kz__hkdf_extract(secret, sizeof secret, key);
    assert_string_equal(hex(key, sizeof key), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
    kz__hkdf_expand(key, "", derived, sizeof derived);
    assert_string_equal(hex(derived, sizeof derived),
                        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

static void bytes_are_the_same_only_if_all_are(void **state)
{
    (void)state;
    uint8_t a[33] = {0}, b[33] = {0};
    assert_true(kz__same_bytes(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] = 0x80;
        assert_false(kz__same_bytes(a, b, sizeof a));
        b[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_that_of_the_standard),
        cmocka_unit_test(a_million_letters_have_the_hash_of_the_standard),
        cmocka_unit_test(every_length_around_a_block_is_padded_rightly),
        cmocka_unit_test(hmac_is_that_of_rfc_4231),
        cmocka_unit_test(hkdf_is_that_of_rfc_5869),
        cmocka_unit_test(bytes_are_the_same_only_if_all_are),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
