/* UTF-8: whatever leaves the server as JSON must be it, also where it repeats what somebody sent. */
#ifndef KZ_SERVER_UTF8_H
#define KZ_SERVER_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the UTF-8 character at `at`, a text's; 0 if it is none, or a control character. */
static inline size_t utf8_length(const unsigned char *at)
{
    static const struct {
        unsigned char mask, value;
        unsigned low;
    } kinds[] = {{0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    for (size_t i = 0; i < 3; i++) {
        if ((*at & kinds[i].mask) != kinds[i].value)
            continue;
        unsigned code = *at & (unsigned char)~kinds[i].mask;
        for (size_t k = 1; k <= i + 1; k++) {
            if ((at[k] & 0xC0) != 0x80)
                return 0;
            code = code << 6 | (at[k] & 0x3F);
        }
        bool good = code >= kinds[i].low && code >= 0xA0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        return good ? i + 2 : 0;
    }
    return 0;
}

#endif
