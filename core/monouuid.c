/* UUIDs of version 7 that carry a node and a nanosecond, and UUIDs as text.
 *
 *     48 bits  Unix milliseconds       4 bits   variant nibble, 8
 *      4 bits  version, 7             16 bits   magic, 0xE355
 *     12 bits  zero                   24 bits   node
 *                                     20 bits   nanoseconds within the millisecond, 0..999999
 */
#include "core/error.h"
#include "core/mono.h"
#include "core/text.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define NS_IN_MS      1000000
#define VERSION_7     UINT64_C(0x7000)
#define VARIANT_MAGIC UINT64_C(0x8e355)
#define MAGIC_SHIFT   44
#define NODE_SHIFT    20
#define NODE_MASK     KZ_MONOUUID_NODE_MAX
#define NS_MASK       0xfffff

struct kz_monouuid {
    kz__mono_word word;                         /* 48 bits hold every millisecond it can reach */
    _Alignas(KZ__CACHE_LINE) uint64_t low_bits; /* variant, magic and node */
};

static uint64_t low_bits_of(uint32_t node)
{
    return VARIANT_MAGIC << MAGIC_SHIFT | (uint64_t)node << NODE_SHIFT;
}

static void put_uuid(kz_uuid *uuid, uint64_t low_bits, int64_t unix_ns)
{
    uint64_t ns = (uint64_t)unix_ns;
    uint64_t high = htobe64(ns / NS_IN_MS << 16 | VERSION_7);
    uint64_t low = htobe64(low_bits | ns % NS_IN_MS);
    memcpy(uuid->bytes, &high, 8);
    memcpy(uuid->bytes + 8, &low, 8);
}

/* The node and time of one of ours. */
typedef struct contents {
    uint32_t node;
    int64_t unix_ns;
} contents;

/* Says what is wrong with a UUID that is not one of ours, NULL if nothing is. */
static const char *take_apart(const kz_uuid *uuid, contents *found)
{
    uint64_t high, low;
    memcpy(&high, uuid->bytes, 8);
    memcpy(&low, uuid->bytes + 8, 8);
    high = be64toh(high);
    low = be64toh(low);
    if ((high >> 12 & 15) != 7)
        return "its version is not 7";
    if (high & 0xfff)
        return "the 12 bits after the version are not zero";
    if (low >> 60 != VARIANT_MAGIC >> 16)
        return "its variant nibble is not 8";
    if (low >> MAGIC_SHIFT != VARIANT_MAGIC)
        return "its magic is not 0xE355";
    int64_t ms = (int64_t)(high >> 16);
    int64_t ns = (int64_t)(low & NS_MASK);
    if (ns >= NS_IN_MS)
        return "its nanoseconds within the millisecond are above 999999";
    int64_t unix_ns;
    if (__builtin_mul_overflow(ms, NS_IN_MS, &unix_ns) || __builtin_add_overflow(unix_ns, ns, &unix_ns))
        return "its time is past the year 2262";
    *found = (contents){(uint32_t)(low >> NODE_SHIFT) & NODE_MASK, unix_ns};
    return NULL;
}

kz_status kz_monouuid_parse(const kz_uuid *uuid, uint32_t *node, int64_t *unix_ns, kz_error *err)
{
    contents found;
    const char *wrong = take_apart(uuid, &found);
    if (wrong) {
        char text[KZ_UUID_TEXT_SIZE];
        kz_uuid_text(uuid, text);
        return kz__fail(err, KZ_INVALID, "%s is no UUID of a node and a nanosecond: %s", text, wrong);
    }
    *node = found.node;
    *unix_ns = found.unix_ns;
    return KZ_OK;
}

bool kz_monouuid_valid(const kz_uuid *uuid)
{
    contents found;
    return !take_apart(uuid, &found);
}

kz_status kz_monouuid_new(kz_monouuid **gen, uint32_t node, const kz_uuid *last, kz_error *err)
{
    if (node == 0 || node > KZ_MONOUUID_NODE_MAX)
        return kz__fail(err, KZ_INVALID, "node %u is not in 1..%u", node, KZ_MONOUUID_NODE_MAX);
    static const kz_uuid zero;
    int64_t last_ns = 0;
    if (last && memcmp(last, &zero, sizeof zero) != 0) {
        uint32_t last_node;
        kz_status status = kz_monouuid_parse(last, &last_node, &last_ns, err);
        if (status)
            return status;
        if (last_node != node) {
            char text[KZ_UUID_TEXT_SIZE];
            kz_uuid_text(last, text);
            return kz__fail(err, KZ_INVALID, "the last UUID %s is of node %u, not of node %u", text, last_node, node);
        }
    }
    kz_monouuid *made = aligned_alloc(KZ__CACHE_LINE, sizeof *made);
    if (!made)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator of UUIDs");
    kz__mono_init(&made->word, last_ns);
    made->low_bits = low_bits_of(node);
    *gen = made;
    return KZ_OK;
}

kz_status kz_monouuid_next_at(kz_monouuid *gen, int64_t now_ns, kz_uuid *uuid)
{
    int64_t unix_ns;
    kz_status status = kz__mono_claim_one(&gen->word, now_ns, &unix_ns);
    if (status)
        return status;
    put_uuid(uuid, gen->low_bits, unix_ns);
    return KZ_OK;
}

kz_status kz__monouuid_step(kz_monouuid *gen, uintptr_t self, int64_t wall_ns, kz_uuid *uuid)
{
    int64_t unix_ns;
    kz_status status = kz__mono_step(&gen->word, self, wall_ns, &unix_ns);
    if (status)
        return status;
    put_uuid(uuid, gen->low_bits, unix_ns);
    return KZ_OK;
}

void kz_monouuid_free(kz_monouuid *gen)
{
    free(gen);
}

/* Node 0, which no generator has, sorts before every node within the millisecond. */
kz_status kz_monouuid_min(int64_t unix_ns, kz_uuid *uuid, kz_error *err)
{
    if (unix_ns < 0)
        return kz__fail(err, KZ_INVALID, "%lld ns is before 1970, where these UUIDs begin", (long long)unix_ns);
    put_uuid(uuid, low_bits_of(0), unix_ns);
    return KZ_OK;
}

kz_status kz_monouuid_min_of(uint32_t node, int64_t unix_ns, kz_uuid *uuid, kz_error *err)
{
    if (node > KZ_MONOUUID_NODE_MAX)
        return kz__fail(err, KZ_INVALID, "node %u is not in 1..%u", node, KZ_MONOUUID_NODE_MAX);
    kz_status status = kz_monouuid_min(unix_ns, uuid, err);
    if (status == KZ_OK)
        put_uuid(uuid, low_bits_of(node), unix_ns);
    return status;
}

static bool dash_at(int index)
{
    return index == 8 || index == 13 || index == 18 || index == 23;
}

void kz_uuid_text(const kz_uuid *uuid, char text[KZ_AT_LEAST(KZ_UUID_TEXT_SIZE)])
{
    static const char digits[] = "0123456789abcdef";
    char *at = text;
    for (int i = 0; i < 16; i++) {
        if (dash_at((int)(at - text)))
            *at++ = '-';
        *at++ = digits[uuid->bytes[i] >> 4];
        *at++ = digits[uuid->bytes[i] & 15];
    }
    *at = 0;
}

kz_status kz_uuid_from_text(const char *text, kz_uuid *uuid, kz_error *err)
{
    size_t length = strlen(text);
    if (length != KZ_UUID_TEXT_SIZE - 1)
        return kz__fail(err, KZ_INVALID, "a UUID has 36 characters, not %zu", length);
    char shown[8];
    kz_uuid read = {{0}};
    int nibbles = 0;
    for (int i = 0; i < KZ_UUID_TEXT_SIZE - 1; i++) {
        if (dash_at(i)) {
            if (text[i] != '-')
                return kz__fail(err, KZ_INVALID, "a UUID has '-' at position %d, not %s", i + 1,
                                kz__show_char(text[i], shown));
            continue;
        }
        int value = kz__hex_value(text[i]);
        if (value < 0)
            return kz__fail(err, KZ_INVALID, "%s at position %d of a UUID is no hex digit",
                            kz__show_char(text[i], shown), i + 1);
        read.bytes[nibbles / 2] = (uint8_t)(read.bytes[nibbles / 2] << 4 | value);
        nibbles++;
    }
    *uuid = read;
    return KZ_OK;
}
