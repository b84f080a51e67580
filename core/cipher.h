/* Permutations of 64 bits: a public mixer, and two block ciphers with their round keys laid out beforehand. */
#ifndef KZ_CORE_CIPHER_H
#define KZ_CORE_CIPHER_H

#include <stdint.h>

/* moremur: scatters, hides nothing from somebody who knows it. */
uint64_t kz__mix(uint64_t value);
uint64_t kz__unmix(uint64_t value);

/* A block is its high word followed by its low word; a key is 16 bytes read as four big-endian words. */

#define KZ__XTEA_CYCLES 32

typedef struct kz__xtea {
    uint32_t round[2 * KZ__XTEA_CYCLES]; /* the running sum plus the key word that goes with it */
} kz__xtea;

/* k[0..3] are the words in the order of the bytes. */
void kz__xtea_expand(kz__xtea *xtea, const uint8_t key[static 16]);
uint64_t kz__xtea_encrypt(const kz__xtea *xtea, uint64_t block);
uint64_t kz__xtea_decrypt(const kz__xtea *xtea, uint64_t block);

/* Speck64/128. */
#define KZ__SPECK_ROUNDS 27

typedef struct kz__speck {
    uint32_t round[KZ__SPECK_ROUNDS];
} kz__speck;

/* The words are k3, k2, k1, k0 in the order of the bytes, as the cipher's authors print them. */
void kz__speck_expand(kz__speck *speck, const uint8_t key[static 16]);
uint64_t kz__speck_encrypt(const kz__speck *speck, uint64_t block);
uint64_t kz__speck_decrypt(const kz__speck *speck, uint64_t block);

#endif
