/* Memory that a forked child finds zeroed. */
#include "host/page.h"
#include "core/error.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

kz_status kz__page_new(void **page, size_t size, kz_error *err)
{
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator: %s", strerror(errno));
    if (madvise(mapped, size, MADV_WIPEONFORK)) {
        kz_status status = kz__fail(err, KZ_SYSTEM,
                                    "fork cannot be noticed here (MADV_WIPEONFORK: %s): Linux 4.14 or "
                                    "later is needed",
                                    strerror(errno));
        munmap(mapped, size);
        return status;
    }
    *page = mapped;
    return KZ_OK;
}

void kz__page_free(void *page, size_t size)
{
    if (page)
        munmap(page, size);
}
