/* An ID as somebody typed it: which form it is in, and its value. */
#include "cli/idtext.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool has_letter(const char *text)
{
    for (; *text; text++)
        if (isalpha((unsigned char)*text))
            return true;
    return false;
}

/* Also mistyped ones, so that the message is about what is wrong with the UUID. */
static bool looks_like_uuid(const char *text)
{
    int hyphens = 0;
    for (const char *at = text; *at; at++)
        hyphens += *at == '-';
    return hyphens == 4 || strlen(text) == 36;
}

static enum id_format detect(const char *text)
{
    size_t length = strlen(text);
    if (length && strspn(text, "0123456789") == length)
        return FORMAT_DECIMAL;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return FORMAT_HEX;
    if (length == 13 && has_letter(text))
        return FORMAT_BASE32;
    if (looks_like_uuid(text))
        return FORMAT_UUID;
    return FORMAT_DETECT;
}

static kz_status refuse(kz_error *err, const char *text)
{
    err->status = KZ_INVALID;
    snprintf(err->message, sizeof err->message,
             "\"%.64s\" is not a decimal, 0x, base32 or UUID text; kazahana decode --format F reads base62, base64url "
             "and other forms",
             text);
    return KZ_INVALID;
}

/* Puts the text before the message, unless the message has it already. */
static kz_status name_text(kz_status status, const char *text, kz_error *err)
{
    char message[KZ_MESSAGE_SIZE];
    if (status == KZ_OK || strstr(err->message, text))
        return status;
    memcpy(message, err->message, sizeof message);
    snprintf(err->message, sizeof err->message, "\"%.64s\": %.300s", text, message);
    return status;
}

kz_status idtext_read(const char *text, enum id_format format, const kz_external_keys *keys, struct idtext *read,
                      kz_error *err)
{
    kz_status status;
    if (format == FORMAT_DETECT)
        format = detect(text);
    read->is_uuid = format == FORMAT_UUID;
    switch (format) {
    case FORMAT_DECIMAL:
    case FORMAT_HEX:
    case FORMAT_BASE32:
    case FORMAT_BASE62:
    case FORMAT_BASE64URL:
        status = kz_text_parse(text, (kz_form)format, &read->id, err);
        break;
    case FORMAT_EXTERNAL:
        status = kz_external_decode(keys, text, &read->id, err);
        break;
    case FORMAT_UUID:
        status = kz_uuid_from_text(text, &read->uuid, err);
        break;
    default:
        return refuse(err, text);
    }
    return name_text(status, text, err);
}
