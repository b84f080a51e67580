/* Releases: how they are signed, and what is checked before a lease is given back. */
#include "core/release.h"
#include "core/error.h"
#include "core/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void kz_release_sign(const char *secret, uint32_t id, int64_t timestamp_ms, char signature[static KZ_SIGNATURE_SIZE])
{
    char text[40];
    int length = snprintf(text, sizeof text, "%" PRIu32 ":%" PRId64, id, timestamp_ms);
    uint8_t sum[KZ__SHA256_SIZE];
    kz__hmac_sha256(secret, strlen(secret), text, (size_t)length, sum);
    kz__hex(sum, sizeof sum, signature);
}

kz_status kz__release_check(const kz_release *release, int64_t now_ms, kz_error *err)
{
    const char *signature = release->signature;
    if (!signature || strlen(signature) != KZ_SIGNATURE_SIZE - 1 ||
        strspn(signature, "0123456789abcdefABCDEF") != KZ_SIGNATURE_SIZE - 1)
        return kz__fail(err, KZ_INVALID, "a release is signed with %d hex digits", KZ_SIGNATURE_SIZE - 1);
    int64_t off_ms;
    if (__builtin_sub_overflow(release->timestamp_ms, now_ms, &off_ms) || off_ms > KZ__RELEASE_SKEW_MS ||
        off_ms < -KZ__RELEASE_SKEW_MS)
        return kz__fail(err, KZ_INVALID,
                        "a release of time %" PRId64 " is more than %d s off the table's, %" PRId64
                        ": use the source's time, and sign anew for every try",
                        release->timestamp_ms, KZ__RELEASE_SKEW_MS / 1000, now_ms);
    return KZ_OK;
}

bool kz__release_signed_with(const kz_release *release, const char *secret)
{
    char mine[KZ_SIGNATURE_SIZE], given[KZ_SIGNATURE_SIZE] = "";
    kz_release_sign(secret, release->id, release->timestamp_ms, mine);
    for (size_t i = 0; i < sizeof given - 1 && release->signature[i]; i++)
        given[i] = (char)(release->signature[i] >= 'A' && release->signature[i] <= 'F' ? release->signature[i] | 0x20
                                                                                       : release->signature[i]);
    return kz__same_bytes(mine, given, sizeof mine);
}

static bool signed_with(void *ctx, const char *secret)
{
    return kz__release_signed_with(ctx, secret);
}

kz_status kz__table_release_signed(const kz__rows *rows, kz__service *service, const kz_release *release,
                                   int64_t now_ms, kz_error *err)
{
    kz_status status = kz__release_check(release, now_ms, err);
    if (status)
        return status;
    return kz__table_release_if(rows, service, release->id, signed_with, (void *)(uintptr_t)release,
                                release->timestamp_ms, now_ms, err);
}
