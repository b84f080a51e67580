/* SHA-256, and HMAC and HKDF over it. */
#include "core/hash.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 64 };

/* ----------------------------------------------------------------------------------------------------- SHA-256 */

#ifdef KZ_OWN_CRYPTO

typedef struct sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[BLOCK];
} sha256;

static uint32_t read_word(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_word(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (24 - 8 * i));
}

static uint32_t rotate_right(uint32_t word, unsigned by)
{
    return word >> by | word << (32 - by);
}

static void sha256_mix(uint32_t state[static 8], const uint8_t block[static BLOCK])
{
    static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = read_word(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += mixed[i];
    explicit_bzero(w, sizeof w);
}

static void sha256_begin(sha256 *s)
{
    *s = (sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void sha256_add(sha256 *s, const void *data, size_t size)
{
    const uint8_t *from = data;
    while (size) {
        size_t used = s->size % BLOCK, take = BLOCK - used < size ? BLOCK - used : size;
        memcpy(s->block + used, from, take);
        s->size += take;
        from += take;
        size -= take;
        if (s->size % BLOCK == 0)
            sha256_mix(s->state, s->block);
    }
}

/* The end carries the length, in bits. */
static void sha256_end(sha256 *s, uint8_t hash[static KZ__SHA256_SIZE])
{
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = s->size * 8;
    uint8_t length[8];
    write_word(length, (uint32_t)(bits >> 32));
    write_word(length + 4, (uint32_t)bits);
    size_t used = s->size % BLOCK;
    sha256_add(s, padding, used < BLOCK - 8 ? BLOCK - 8 - used : 2 * BLOCK - 8 - used);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++)
        write_word(hash + 4 * i, s->state[i]);
    explicit_bzero(s, sizeof *s);
}

#else

/* The newer calls look for a provider under a lock. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

typedef SHA256_CTX sha256;

static void sha256_begin(sha256 *s)
{
    SHA256_Init(s);
}

static void sha256_add(sha256 *s, const void *data, size_t size)
{
    SHA256_Update(s, data, size);
}

static void sha256_end(sha256 *s, uint8_t hash[static KZ__SHA256_SIZE])
{
    SHA256_Final(hash, s);
    explicit_bzero(s, sizeof *s);
}

#endif

void kz__sha256(const void *data, size_t size, uint8_t hash[static KZ__SHA256_SIZE])
{
    sha256 s;
    sha256_begin(&s);
    sha256_add(&s, data, size);
    sha256_end(&s, hash);
}

/* ----------------------------------------------------------------------------------------------- HMAC and HKDF */

static void hash_padded(const uint8_t key[static BLOCK], uint8_t pad, const void *data, size_t size,
                        uint8_t hash[static KZ__SHA256_SIZE])
{
    uint8_t padded[BLOCK];
    sha256 s;
    for (int i = 0; i < BLOCK; i++)
        padded[i] = key[i] ^ pad;
    sha256_begin(&s);
    sha256_add(&s, padded, sizeof padded);
    sha256_add(&s, data, size);
    sha256_end(&s, hash);
    explicit_bzero(padded, sizeof padded);
}

void kz__hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                     uint8_t sum[static KZ__SHA256_SIZE])
{
    uint8_t block[BLOCK] = {0}, inner[KZ__SHA256_SIZE];
    if (key_size > BLOCK)
        kz__sha256(key, key_size, block);
    else if (key_size)
        memcpy(block, key, key_size);
    hash_padded(block, 0x36, data, size, inner);
    hash_padded(block, 0x5c, inner, sizeof inner, sum);
    explicit_bzero(block, sizeof block);
    explicit_bzero(inner, sizeof inner);
}

void kz__hkdf_extract(const void *secret, size_t size, uint8_t key[static KZ__SHA256_SIZE])
{
    kz__hmac_sha256(NULL, 0, secret, size, key);
}

void kz__hkdf_expand(const uint8_t key[static KZ__SHA256_SIZE], const char *info, uint8_t *derived, size_t size)
{
    uint8_t text[KZ__HKDF_INFO_MAX + 1], sum[KZ__SHA256_SIZE];
    size_t length = strlen(info);
    assert(length <= KZ__HKDF_INFO_MAX && size <= sizeof sum);
    memcpy(text, info, length);
    text[length] = 1; /* the first round */
    kz__hmac_sha256(key, KZ__SHA256_SIZE, text, length + 1, sum);
    memcpy(derived, sum, size);
    explicit_bzero(sum, sizeof sum);
}

void kz__hex(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

bool kz__same_bytes(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differ = 0;
    for (size_t i = 0; i < size; i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}
