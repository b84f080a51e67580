/* Random numbers that are the same in every run. */
#ifndef KZ_TESTS_RANDOM_H
#define KZ_TESTS_RANDOM_H

#include <stdint.h>

/* splitmix64 */
static inline uint64_t test_random(uint64_t *seed)
{
    uint64_t value = *seed += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

#endif
