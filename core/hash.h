/* SHA-256, and HMAC and HKDF over it.
 *
 * SHA-256 is libcrypto's, by the calls that take no lock and fetch no provider: a child forked while another thread was
 * in libcrypto must not wait for a lock that nobody gives back. With KZ_OWN_CRYPTO it is our own, and libc is enough.
 */
#ifndef KZ_CORE_HASH_H
#define KZ_CORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KZ__SHA256_SIZE = 32 };

void kz__sha256(const void *data, size_t size, uint8_t hash[static KZ__SHA256_SIZE]);
void kz__hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
                     uint8_t sum[static KZ__SHA256_SIZE]);

/* HKDF-SHA256 without a salt, in its two steps. One round of the second is enough here: at most 32 bytes, and an `info`
 * of at most KZ__HKDF_INFO_MAX. */
enum { KZ__HKDF_INFO_MAX = 64 };
void kz__hkdf_extract(const void *secret, size_t size, uint8_t key[static KZ__SHA256_SIZE]);
void kz__hkdf_expand(const uint8_t key[static KZ__SHA256_SIZE], const char *info, uint8_t *derived, size_t size);

/* In lower case; `text` has room for 2 * count digits and a zero. */
void kz__hex(const uint8_t *bytes, size_t count, char *text);

/* Takes as long whatever the bytes are. */
bool kz__same_bytes(const void *a, const void *b, size_t size);

#endif
