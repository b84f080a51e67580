/* A query: whatever it holds, an answer about it is a short text, a key that is known is found, and nothing is read
 * beyond its end. */
#include "target.h"

#include "server/app.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"count", "serviceId", NULL};
    char *copy = malloc(size ? size : 1), message[UNKNOWN_SIZE], value[64];
    MUST(copy);
    memcpy(copy, data, size);
    http_request request = {.query = {copy, size}};
    memset(message, 'x', sizeof message);
    bool good = query_is_known(&request, known, message);
    if (!good) {
        MUST(memchr(message, '\0', sizeof message));
        MUST(strchr(message, '"'));
    }
    for (size_t i = 0; known[i]; i++) {
        memset(value, 'x', sizeof value);
        query_found found = query_value(&request, known[i], value, sizeof value);
        MUST(found != QUERY_VALUE || memchr(value, '\0', sizeof value));
        MUST(!good || found != QUERY_VALUE || strlen(value) <= size);
    }
    free(copy);
    return 0;
}
