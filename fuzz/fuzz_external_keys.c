/* Key files: what is read can encode and decode. */
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Not a text: nothing ends it but its length. */
    char *lines = malloc(size ? size : 1);
    MUST(lines);
    if (size)
        memcpy(lines, data, size);
    kz_external_keys *keys = NULL;
    kz_error err;
    kz_status status = kz_external_keys_parse(&keys, lines, size, &err);
    if (status) {
        must_explain(&err, status);
        MUST(!keys);
    } else {
        char text[KZ_EXTERNAL_SIZE];
        kz_id back;
        kz_external_encode(keys, UINT64_C(0x0123456789abcdef), text);
        MUST(kz_external_decode(keys, text, &back, NULL) == KZ_OK && back == UINT64_C(0x0123456789abcdef));
    }
    kz_external_keys_free(keys);
    free(lines);
    return 0;
}
