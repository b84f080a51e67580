/* madvise as some emulated kernels have it: all is well, and nothing is done. */
#include <sys/mman.h>

int __wrap_madvise(void *at, size_t size, int advice);

int __wrap_madvise(void *at, size_t size, int advice)
{
    (void)at;
    (void)size;
    (void)advice;
    return 0;
}
