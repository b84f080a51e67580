/* Random bytes from the kernel. */
#include "lib/random.h"
#include "core/error.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

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
