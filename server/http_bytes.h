/* Bytes that grow at their end: a request as it arrives, an answer in the making. */
#ifndef KZ_SERVER_HTTP_BYTES_H
#define KZ_SERVER_HTTP_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct http_bytes {
    char *at;
    size_t length, room;
} http_bytes;

/* Room for `more` bytes past the end. Doubles, so that one byte at a time costs no more than all at once. */
static inline bool http_bytes_reserve(http_bytes *bytes, size_t more)
{
    if (bytes->room - bytes->length >= more)
        return true;
    size_t room = bytes->room ? bytes->room : 256;
    while (room - bytes->length < more)
        room *= 2;
    char *at = realloc(bytes->at, room);
    if (!at)
        return false;
    bytes->at = at;
    bytes->room = room;
    return true;
}

static inline bool http_bytes_add(http_bytes *bytes, const char *more, size_t length)
{
    if (!http_bytes_reserve(bytes, length))
        return false;
    if (length)
        memcpy(bytes->at + bytes->length, more, length);
    bytes->length += length;
    return true;
}

/* Empty again. The memory stays for the next use unless it is more than `keep`. */
static inline void http_bytes_clear(http_bytes *bytes, size_t keep)
{
    bytes->length = 0;
    if (bytes->room <= keep)
        return;
    free(bytes->at);
    bytes->at = NULL;
    bytes->room = 0;
}

#endif
