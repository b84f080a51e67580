/* The increasing nanoseconds and their UUIDs at the machine's time. */
#include "core/mono.h"
#include "lib/thread.h"

#include <time.h>

/* One reading for each call. KZ_OVERFLOW: past the year 2262. */
static kz_status read_wall(int64_t *wall_ns)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (wall.tv_sec < 0)
        *wall_ns = 0;
    else if (__builtin_mul_overflow((int64_t)wall.tv_sec, 1000000000, wall_ns) ||
             __builtin_add_overflow(*wall_ns, wall.tv_nsec, wall_ns))
        return KZ_OVERFLOW;
    return KZ_OK;
}

kz_status kz_mono_next(kz_mono *mono, int64_t *unix_ns)
{
    int64_t wall_ns;
    kz_status status = read_wall(&wall_ns);
    return status ? status : kz__mono_step(&mono->word, kz__this_thread(), wall_ns, unix_ns);
}

kz_status kz_monouuid_next(kz_monouuid *gen, kz_uuid *uuid)
{
    int64_t wall_ns;
    kz_status status = read_wall(&wall_ns);
    return status ? status : kz__monouuid_step(gen, kz__this_thread(), wall_ns, uuid);
}
