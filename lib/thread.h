/* Which thread this is. */
#ifndef KZ_LIB_THREAD_H
#define KZ_LIB_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* A number that no other living thread has, and neither 0 nor 1. The thread pointer takes one instruction where
 * pthread_self is a call into another library. */
static inline uintptr_t kz__this_thread(void)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_thread_pointer)
    return (uintptr_t)__builtin_thread_pointer();
#endif
#endif
    return (uintptr_t)pthread_self();
}

#endif
