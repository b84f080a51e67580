/* External IDs: a text that decodes is the one text of its ID and key. */
#include "target.h"

static void check(const kz_external_keys *keys, const char *text, unsigned first_key)
{
    kz_error err;
    kz_id id, back;
    kz_status status = kz_external_decode(keys, text, &id, &err);
    if (status) {
        must_explain(&err, status);
        return;
    }
    char written[KZ_EXTERNAL_SIZE];
    kz_external_encode(keys, id, written);
    MUST(kz_external_decode(keys, written, &back, NULL) == KZ_OK && back == id);
    /* The first key wrote it anew; the text is the same if it was of that key before. */
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned number = (unsigned)(strchr(alphabet, text[10]) - alphabet) & 3;
    MUST((strcmp(text, written) == 0) == (number == first_key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kz_external_keys *keys;
    static const char lines[] = "2 speck 000102030405060708090a0b0c0d0e0f\n1 xtea 000102030405060708090a0b0c0d0e0f\n";
    if (!keys)
        MUST(kz_external_keys_parse(&keys, lines, sizeof lines - 1, NULL) == KZ_OK);
    char *text = text_of(data, size);
    check(NULL, text, 0);
    check(keys, text, 2);
    free(text);
    return 0;
}
