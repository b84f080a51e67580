/* moremur, XTEA and Speck64/128, forward and back. */
#include "core/cipher.h"

uint64_t kz__mix(uint64_t value)
{
    value ^= value >> 27;
    value *= UINT64_C(0x3c79ac492ba7b653);
    value ^= value >> 33;
    value *= UINT64_C(0x1c69b3f74ac4ae35);
    value ^= value >> 27;
    return value;
}

/* The steps backwards; the multipliers are inverse modulo 2^64. A shift of 33 is undone by itself; one of 27 leaves
 * the bits from 54 on to be undone once more. */
uint64_t kz__unmix(uint64_t value)
{
    value ^= value >> 27 ^ value >> 54;
    value *= UINT64_C(0xc47c8f6b6bafb41d);
    value ^= value >> 33;
    value *= UINT64_C(0xc09c5fe5bd6dfddb);
    value ^= value >> 27 ^ value >> 54;
    return value;
}

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t rotate_right(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

static uint32_t rotate_left(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static uint64_t join(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

void kz__xtea_expand(kz__xtea *xtea, const uint8_t key[static 16])
{
    uint32_t sum = 0;
    for (int i = 0; i < 2 * KZ__XTEA_CYCLES; i += 2) {
        xtea->round[i] = sum + word(key + 4 * (sum & 3));
        sum += 0x9e3779b9;
        xtea->round[i + 1] = sum + word(key + 4 * (sum >> 11 & 3));
    }
}

static uint32_t xtea_spread(uint32_t value)
{
    return (value << 4 ^ value >> 5) + value;
}

uint64_t kz__xtea_encrypt(const kz__xtea *xtea, uint64_t block)
{
    uint32_t high = (uint32_t)(block >> 32), low = (uint32_t)block;
    for (int i = 0; i < 2 * KZ__XTEA_CYCLES; i += 2) {
        high += xtea_spread(low) ^ xtea->round[i];
        low += xtea_spread(high) ^ xtea->round[i + 1];
    }
    return join(high, low);
}

uint64_t kz__xtea_decrypt(const kz__xtea *xtea, uint64_t block)
{
    uint32_t high = (uint32_t)(block >> 32), low = (uint32_t)block;
    for (int i = 2 * KZ__XTEA_CYCLES; i > 0; i -= 2) {
        low -= xtea_spread(high) ^ xtea->round[i - 1];
        high -= xtea_spread(low) ^ xtea->round[i - 2];
    }
    return join(high, low);
}

void kz__speck_expand(kz__speck *speck, const uint8_t key[static 16])
{
    uint32_t left[3] = {word(key + 8), word(key + 4), word(key)};
    uint32_t right = word(key + 12);
    for (uint32_t i = 0; i < KZ__SPECK_ROUNDS; i++) {
        speck->round[i] = right;
        uint32_t *next = &left[i % 3];
        *next = (rotate_right(*next, 8) + right) ^ i;
        right = rotate_left(right, 3) ^ *next;
    }
}

uint64_t kz__speck_encrypt(const kz__speck *speck, uint64_t block)
{
    uint32_t high = (uint32_t)(block >> 32), low = (uint32_t)block;
#pragma GCC unroll 27
    for (int i = 0; i < KZ__SPECK_ROUNDS; i++) {
        high = (rotate_right(high, 8) + low) ^ speck->round[i];
        low = rotate_left(low, 3) ^ high;
    }
    return join(high, low);
}

uint64_t kz__speck_decrypt(const kz__speck *speck, uint64_t block)
{
    uint32_t high = (uint32_t)(block >> 32), low = (uint32_t)block;
#pragma GCC unroll 27
    for (int i = KZ__SPECK_ROUNDS; i-- > 0;) {
        low = rotate_right(low ^ high, 3);
        high = rotate_left((high ^ speck->round[i]) - low, 8);
    }
    return join(high, low);
}
