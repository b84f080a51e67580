/* The examples in vectors/ids.json, which every implementation of these forms must agree with. */
#include "core/cipher.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

static json_t *vectors;

static const struct {
    const char *name;
    kz_form form;
} forms[] = {
    {"decimal", KZ_DECIMAL}, {"hex", KZ_HEX}, {"base32", KZ_BASE32}, {"base62", KZ_BASE62}, {"base64url", KZ_BASE64URL},
};
enum { FORMS = sizeof forms / sizeof *forms };

static int load(void **state)
{
    (void)state;
    const char *path = getenv("KZ_TEST_VECTORS");
    json_error_t error;
    if (!path) {
        fprintf(stderr, "KZ_TEST_VECTORS must name vectors/ids.json\n");
        return -1;
    }
    vectors = json_load_file(path, 0, &error);
    if (!vectors)
        fprintf(stderr, "%s: %s\n", path, error.text);
    return vectors ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(vectors);
    return 0;
}

/* A section, which must have something in it. */
static json_t *section(const char *name)
{
    json_t *found = json_object_get(vectors, name);
    if (!found || (json_is_array(found) ? json_array_size(found) : json_object_size(found)) == 0)
        fail_msg("no section '%s'", name);
    return found;
}

static const char *text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text)
        fail_msg("no text '%s'", name);
    return text;
}

static int64_t number_of(json_t *object, const char *name)
{
    json_t *number = json_object_get(object, name);
    if (!json_is_integer(number))
        fail_msg("no number '%s'", name);
    return json_integer_value(number);
}

static uint64_t read_id(const char *text, kz_form form)
{
    kz_id id = 0;
    kz_error err;
    if (kz_text_parse(text, form, &id, &err))
        fail_msg("'%s': %s", text, err.message);
    return id;
}

static uint64_t hex_of(json_t *object, const char *name)
{
    return read_id(text_of(object, name), KZ_HEX);
}

static uint64_t id_of(json_t *object)
{
    return read_id(text_of(object, "id"), KZ_DECIMAL);
}

static void key_of(const char *hex, uint8_t key[static 16])
{
    assert_int_equal(strlen(hex), 32);
    for (int half = 0; half < 2; half++) {
        char digits[17];
        memcpy(digits, hex + 16 * half, 16);
        digits[16] = 0;
        kz_id_to_bytes(read_id(digits, KZ_HEX), key + 8 * half);
    }
}

static void presets_have_the_bits_and_epochs_of_the_vectors(void **state)
{
    (void)state;
    const char *name;
    json_t *v;
    json_object_foreach(section("layouts"), name, v)
    {
        kz_layout layout;
        kz_error err;
        if (kz_layout_parse(name, &layout, &err))
            fail_msg("%s", err.message);
        assert_int_equal(layout.time_bits, number_of(v, "time_bits"));
        assert_int_equal(layout.node_bits, number_of(v, "node_bits"));
        assert_int_equal(layout.seq_bits, number_of(v, "seq_bits"));
        assert_true(layout.epoch_ms == number_of(v, "epoch_ms"));
        assert_string_equal(layout.name, name);
    }
}

static void ids_decode_as_in_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("ids"), i, v)
    {
        kz_layout layout;
        kz_parts parts;
        kz_id id = id_of(v), least, most;
        assert_ok(kz_layout_parse(text_of(v, "layout"), &layout, NULL));
        assert_ok(kz_decode(&layout, id, &parts, NULL));
        assert_true(parts.unix_ms == number_of(v, "unix_ms"));
        assert_int_equal(parts.node, number_of(v, "node"));
        assert_int_equal(parts.seq, number_of(v, "seq"));
        if (json_object_get(v, "fallback"))
            assert_int_equal(parts.fallback, json_is_true(json_object_get(v, "fallback")));
        /* The instant's smallest and largest ID enclose it, and have its time. */
        assert_ok(kz_min_id(&layout, parts.unix_ms, &least, NULL));
        assert_ok(kz_max_id(&layout, parts.unix_ms, &most, NULL));
        assert_true(least <= id && id <= most);
        unsigned low_bits = layout.node_bits + layout.seq_bits;
        assert_true(least == id >> low_bits << low_bits);
        assert_true(most - least == (UINT64_C(1) << low_bits) - 1);
    }
}

static void texts_are_those_of_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("text"), i, v)
    {
        kz_id id = id_of(v);
        for (int f = 0; f < FORMS; f++) {
            const char *expected = text_of(v, forms[f].form == KZ_DECIMAL ? "id" : forms[f].name);
            char text[KZ_TEXT_SIZE];
            assert_int_equal(kz_text(id, forms[f].form, text), strlen(expected));
            assert_string_equal(text, expected);
            assert_true(read_id(expected, forms[f].form) == id);
        }
    }
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    json_t *bad = section("text_bad");
    size_t seen = 0;
    for (int f = 0; f < FORMS; f++) {
        json_t *texts = json_object_get(bad, forms[f].name), *v;
        size_t i;
        seen += texts != NULL;
        json_array_foreach(texts, i, v)
        {
            kz_id id = 4711;
            kz_error err;
            assert_status(kz_text_parse(json_string_value(v), forms[f].form, &id, &err), KZ_INVALID);
            assert_true(err.message[0] != 0);
            assert_true(id == 4711);
        }
    }
    assert_int_equal(seen, json_object_size(bad));
}

static void lenient_base32_reads_as_in_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("text_lenient"), i, v)
    {
        char text[KZ_TEXT_SIZE];
        kz_text(read_id(text_of(v, "base32"), KZ_BASE32), KZ_BASE32, text);
        assert_string_equal(text, text_of(v, "reads_as"));
    }
}

static void mixed_ids_are_those_of_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("external_no_secret"), i, v)
    {
        kz_id id = id_of(v), back;
        char text[KZ_EXTERNAL_SIZE];
        assert_true(kz__mix(id) == hex_of(v, "mixed"));
        kz_external_encode(NULL, id, text);
        assert_string_equal(text, text_of(v, "external"));
        assert_ok(kz_external_decode(NULL, text, &back, NULL));
        assert_true(back == id);
    }
}

static void xtea_is_that_of_the_vectors(void **state)
{
    (void)state;
    json_t *v = section("xtea");
    uint8_t key[16];
    kz__xtea xtea;
    key_of(text_of(v, "key"), key);
    kz__xtea_expand(&xtea, key);
    assert_int_equal(number_of(v, "cycles"), KZ__XTEA_CYCLES);
    assert_true(kz__xtea_encrypt(&xtea, hex_of(v, "plain")) == hex_of(v, "cipher"));
    assert_true(kz__xtea_decrypt(&xtea, hex_of(v, "cipher")) == hex_of(v, "plain"));
}

/* Words in an array, put together to one number. */
static uint64_t pair_of(json_t *words, size_t first)
{
    uint64_t high = read_id(json_string_value(json_array_get(words, first)), KZ_HEX);
    return high << 32 | read_id(json_string_value(json_array_get(words, first + 1)), KZ_HEX);
}

static void speck_is_that_of_the_vectors(void **state)
{
    (void)state;
    json_t *v = section("speck64_128");
    json_t *words = json_object_get(v, "key_words");
    uint8_t key[16];
    kz__speck speck;
    kz_id_to_bytes(pair_of(words, 0), key);
    kz_id_to_bytes(pair_of(words, 2), key + 8);
    kz__speck_expand(&speck, key);
    uint64_t plain = pair_of(json_object_get(v, "plain"), 0), cipher = pair_of(json_object_get(v, "cipher"), 0);
    assert_true(kz__speck_encrypt(&speck, plain) == cipher);
    assert_true(kz__speck_decrypt(&speck, cipher) == plain);
}

static uint64_t encrypt(const char *algorithm, const uint8_t key[static 16], uint64_t block)
{
    kz__xtea xtea;
    kz__speck speck;
    if (strcmp(algorithm, "xtea") == 0) {
        kz__xtea_expand(&xtea, key);
        return kz__xtea_encrypt(&xtea, block);
    }
    assert_string_equal(algorithm, "speck");
    kz__speck_expand(&speck, key);
    return kz__speck_encrypt(&speck, block);
}

static void keyed_ids_are_those_of_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("external_keyed"), i, v)
    {
        kz_id id = id_of(v), back;
        uint8_t derived[16];
        key_of(text_of(v, "derived_key"), derived);
        assert_true(encrypt(text_of(v, "algorithm"), derived, id) == hex_of(v, "block"));

        char line[256], text[KZ_EXTERNAL_SIZE];
        snprintf(line, sizeof line, "%d %s %s\n", (int)number_of(v, "key_number"), text_of(v, "algorithm"),
                 text_of(v, "secret_hex"));
        kz_external_keys *keys;
        assert_ok(kz_external_keys_parse(&keys, line, strlen(line), NULL));
        kz_external_encode(keys, id, text);
        assert_string_equal(text, text_of(v, "external"));
        assert_ok(kz_external_decode(keys, text, &back, NULL));
        assert_true(back == id);
        kz_external_keys_free(keys);
    }
}

/* The keys of a vector; NULL for the mixer. */
static kz_external_keys *keys_of(json_t *v)
{
    char line[256];
    kz_external_keys *keys = NULL;
    if (!json_object_get(v, "algorithm"))
        return NULL;
    snprintf(line, sizeof line, "%d %s %s\n", (int)number_of(v, "key_number"), text_of(v, "algorithm"),
             text_of(v, "secret_hex"));
    assert_ok(kz_external_keys_parse(&keys, line, strlen(line), NULL));
    return keys;
}

static void typed_ids_are_those_of_the_vectors(void **state)
{
    (void)state;
    int64_t latest_ms = number_of(vectors, "external_typed_latest_unix_ms");
    size_t i;
    json_t *v;
    json_array_foreach(section("external_typed"), i, v)
    {
        kz_id id = id_of(v), back = id + 1;
        kz_external_keys *keys = keys_of(v);
        const char *type = text_of(v, "type");
        char text[KZ_EXTERNAL_TYPED_SIZE];
        assert_ok(kz_external_encode_typed(keys, type, id, text, NULL));
        assert_string_equal(text, text_of(v, "external"));
        assert_ok(kz_external_decode_typed(keys, type, text, NULL, latest_ms, &back, NULL));
        assert_true(back == id);
        kz_external_keys_free(keys);
    }
}

static void bad_typed_ids_and_types_are_refused(void **state)
{
    (void)state;
    int64_t latest_ms = number_of(vectors, "external_typed_latest_unix_ms");
    size_t i;
    json_t *v;
    kz_id id = 4711;
    kz_error err;
    char text[KZ_EXTERNAL_TYPED_SIZE];
    json_array_foreach(section("external_typed_bad"), i, v)
    {
        kz_external_keys *keys = keys_of(v);
        kz_status status =
            kz_external_decode_typed(keys, text_of(v, "type"), text_of(v, "external"), NULL, latest_ms, &id, &err);
        if (status != KZ_INVALID)
            fail_msg("%s passes as type %s", text_of(v, "external"), text_of(v, "type"));
        assert_true(err.message[0] != 0 && id == 4711);
        kz_external_keys_free(keys);
    }
    json_array_foreach(section("external_types_bad"), i, v)
    {
        assert_status(kz_external_encode_typed(NULL, json_string_value(v), 1, text, &err), KZ_INVALID);
        assert_status(kz_external_decode_typed(NULL, json_string_value(v), "user_AAAAAAAAAAA", NULL, 0, &id, &err),
                      KZ_INVALID);
    }
}

static void monouuids_are_those_of_the_vectors(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("monouuid"), i, v)
    {
        int64_t expected_ns = (int64_t)read_id(text_of(v, "unix_ns"), KZ_DECIMAL), ns;
        uint32_t node;
        kz_uuid uuid, made;
        kz_monouuid *gen;
        char text[KZ_UUID_TEXT_SIZE];
        assert_ok(kz_uuid_from_text(text_of(v, "text"), &uuid, NULL));
        assert_true(kz_monouuid_valid(&uuid));
        assert_ok(kz_monouuid_parse(&uuid, &node, &ns, NULL));
        assert_int_equal(node, number_of(v, "node"));
        assert_true(ns == expected_ns);
        assert_ok(kz_monouuid_new(&gen, node, NULL, NULL));
        assert_ok(kz_monouuid_next_at(gen, expected_ns, &made));
        kz_monouuid_free(gen);
        kz_uuid_text(&made, text);
        assert_string_equal(text, text_of(v, "text"));
    }
}

static void bad_monouuids_are_refused(void **state)
{
    (void)state;
    size_t i;
    json_t *v;
    json_array_foreach(section("monouuid_bad"), i, v)
    {
        kz_uuid uuid;
        if (kz_uuid_from_text(json_string_value(v), &uuid, NULL) == KZ_OK && kz_monouuid_valid(&uuid))
            fail_msg("%s passes", json_string_value(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_bits_and_epochs_of_the_vectors),
        cmocka_unit_test(ids_decode_as_in_the_vectors),
        cmocka_unit_test(texts_are_those_of_the_vectors),
        cmocka_unit_test(bad_texts_are_refused),
        cmocka_unit_test(lenient_base32_reads_as_in_the_vectors),
        cmocka_unit_test(mixed_ids_are_those_of_the_vectors),
        cmocka_unit_test(xtea_is_that_of_the_vectors),
        cmocka_unit_test(speck_is_that_of_the_vectors),
        cmocka_unit_test(keyed_ids_are_those_of_the_vectors),
        cmocka_unit_test(typed_ids_are_those_of_the_vectors),
        cmocka_unit_test(bad_typed_ids_and_types_are_refused),
        cmocka_unit_test(monouuids_are_those_of_the_vectors),
        cmocka_unit_test(bad_monouuids_are_refused),
    };
    return cmocka_run_group_tests_name("vectors", tests, load, unload);
}
