/* An ID as somebody typed it: which form it is in, and its value. */
#ifndef CLI_IDTEXT_H
#define CLI_IDTEXT_H

#include "kazahana.h"

/* The first five are kz_form's. */
enum id_format {
    FORMAT_DECIMAL = KZ_DECIMAL,
    FORMAT_HEX = KZ_HEX,
    FORMAT_BASE32 = KZ_BASE32,
    FORMAT_BASE62 = KZ_BASE62,
    FORMAT_BASE64URL = KZ_BASE64URL,
    FORMAT_EXTERNAL,
    FORMAT_JSON, /* for printing only */
    FORMAT_UUID, /* for reading only */
    FORMAT_DETECT
};

struct idtext {
    bool is_uuid;
    kz_id id;
    kz_uuid uuid;
};

/* Reads a text in a format, or finds out which one it is in: all digits are decimal, 0x is hexadecimal, 13 characters
 * with a letter are base32, a UUID looks like one. The message begins with the text. */
KZ_MUST_CHECK kz_status idtext_read(const char *text, enum id_format format, const kz_external_keys *keys,
                                    struct idtext *read, kz_error *err);

#endif
