/* Random bytes from the kernel, and secrets of leases. */
#include "host/random.h"
#include "core/error.h"
#include "core/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define SECRET_BYTES 16

kz_status kz__random(void *bytes, size_t size, kz_error *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = getrandom((char *)bytes + done, size - done, 0);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            return kz__fail(err, KZ_SYSTEM, "the kernel gives no random numbers: %s", strerror(errno));
    }
    return KZ_OK;
}

kz_status kz__secrets_draw(char (*secrets)[KZ_SECRET_SIZE], size_t count, kz_error *err)
{
    uint8_t bytes[KZ_GRANT_LEASES_MAX * SECRET_BYTES];
    if (count > KZ_GRANT_LEASES_MAX)
        count = KZ_GRANT_LEASES_MAX;
    kz_status status = kz__random(bytes, count * SECRET_BYTES, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        kz__hex(bytes + i * SECRET_BYTES, SECRET_BYTES, secrets[i]);
    explicit_bzero(bytes, sizeof bytes);
    return KZ_OK;
}
