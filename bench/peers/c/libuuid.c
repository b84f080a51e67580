/* libuuid: UUIDs of version 1. */
#include "harness.h"

#include <string.h>
#include <uuid/uuid.h>

enum { IDS = 2048 };

static void fill(void *ids, size_t count)
{
    uuid_t *uuids = ids;
    for (size_t i = 0; i < count; i++)
        uuid_generate_time(uuids[i]);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uuid_t));
}

int main(void)
{
    static const peer peers[] = {{"libuuid", sizeof(uuid_t), IDS, fill, by_bytes, NULL}};
    return serve(peers, 1);
}
