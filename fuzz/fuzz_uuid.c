/* UUIDs: as text, and as bytes that may or may not be of a node and a nanosecond. */
#include "target.h"

static void check(const kz_uuid *uuid)
{
    char text[KZ_UUID_TEXT_SIZE];
    kz_uuid again, made;
    kz_error err;
    uint32_t node;
    int64_t unix_ns;
    kz_uuid_text(uuid, text);
    MUST(kz_uuid_from_text(text, &again, NULL) == KZ_OK && memcmp(&again, uuid, sizeof again) == 0);
    kz_status status = kz_monouuid_parse(uuid, &node, &unix_ns, &err);
    MUST(kz_monouuid_valid(uuid) == (status == KZ_OK));
    if (status) {
        must_explain(&err, status);
        return;
    }
    MUST(unix_ns >= 0 && node <= KZ_MONOUUID_NODE_MAX);
    /* Node 0 stands only in the least UUID of an instant, and nothing is given at the instant 0. */
    if (node == 0) {
        MUST(kz_monouuid_min(unix_ns, &made, NULL) == KZ_OK);
    } else if (unix_ns > 0) {
        kz_monouuid *gen;
        MUST(kz_monouuid_new(&gen, node, NULL, NULL) == KZ_OK);
        MUST(kz_monouuid_next_at(gen, unix_ns, &made) == KZ_OK);
        kz_monouuid_free(gen);
    } else {
        return;
    }
    MUST(memcmp(&made, uuid, sizeof made) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kz_uuid uuid;
    kz_error err;
    if (size == sizeof uuid) {
        memcpy(&uuid, data, sizeof uuid);
        check(&uuid);
    }
    char *text = text_of(data, size);
    kz_status status = kz_uuid_from_text(text, &uuid, &err);
    if (status)
        must_explain(&err, status);
    else
        check(&uuid);
    free(text);
    return 0;
}
