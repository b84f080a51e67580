/* IDs as lines. */
#include "cli/next/idlines.h"

#include <string.h>

static size_t write_text(struct id_lines *lines, kz_id id, char *at)
{
    size_t length = kz_text(id, (kz_form)lines->format, at);
    lines->digits_at = lines->digits_again_at = length - 2;
    return length;
}

/* {"id":N,"id_str":"N"}, as the server answers: JavaScript reads the string. */
static size_t write_json(struct id_lines *lines, kz_id id, char *line)
{
    static const char before[] = "{\"id\":", between[] = ",\"id_str\":\"", after[] = "\"}";
    char number[KZ_TEXT_SIZE], *at = line;
    size_t length = kz_text(id, KZ_DECIMAL, number);
    at = mempcpy(at, before, sizeof before - 1);
    at = mempcpy(at, number, length);
    lines->digits_at = (size_t)(at - line) - 2;
    at = mempcpy(at, between, sizeof between - 1);
    at = mempcpy(at, number, length);
    lines->digits_again_at = (size_t)(at - line) - 2;
    at = mempcpy(at, after, sizeof after - 1);
    return (size_t)(at - line);
}

/* One line, digit by digit. */
static size_t write_line(struct id_lines *lines, kz_id id, char *at)
{
    size_t length = lines->format == FORMAT_JSON ? write_json(lines, id, at) : write_text(lines, id, at);
    at[length] = '\n';
    return length + 1;
}

/* Keeps the line that was written for this ID, for all that are like it. */
static void keep_line(struct id_lines *lines, kz_id id, const char *line, size_t length)
{
    lines->first = id - id % lines->alike;
    /* No more than there are up to the last number of 64 bits. For the lowest this is 0, and that is wanted: some of
     * them have one digit only. */
    kz_id left = 0 - lines->first;
    lines->count = left < lines->alike ? left : lines->alike;
    lines->length = length;
    memcpy(lines->line, line, ID_LINE_ROOM);
}

void id_lines_begin(struct id_lines *lines, enum id_format format, const kz_external_keys *keys)
{
    /* The last character of base64url has four bits of the ID, the one before it six. */
    static const kz_id alike[] = {
        [FORMAT_DECIMAL] = 10 * 10,   [FORMAT_HEX] = 16 * 16, [FORMAT_BASE32] = 32 * 32, [FORMAT_BASE62] = 62 * 62,
        [FORMAT_BASE64URL] = 64 * 16, [FORMAT_EXTERNAL] = 0,  [FORMAT_JSON] = 10 * 10};
    *lines = (struct id_lines){.format = format, .keys = keys, .alike = alike[format]};
    for (kz_id i = 0; i < lines->alike; i++) {
        char line[ID_LINE_ROOM];
        write_line(lines, lines->alike + i, line);
        memcpy(lines->digits[i], line + lines->digits_at, 2);
    }
}

/* No two of them are alike: that is what they are for. */
static char *write_externals(const kz_external_keys *keys, const kz_id *ids, size_t count, char *at)
{
    for (size_t i = 0; i < count; i++) {
        kz_external_encode(keys, ids[i], at);
        at[KZ_EXTERNAL_SIZE - 1] = '\n';
        at += KZ_EXTERNAL_SIZE;
    }
    return at;
}

char *id_lines_write(struct id_lines *lines, const kz_id *ids, size_t count, char *at)
{
    if (lines->format == FORMAT_EXTERNAL)
        return write_externals(lines->keys, ids, count, at);
    for (size_t i = 0; i < count; i++) {
        kz_id number = ids[i] - lines->first;
        if (number < lines->count) {
            memcpy(at, lines->line, ID_LINE_ROOM);
            memcpy(at + lines->digits_at, lines->digits[number], 2);
            memcpy(at + lines->digits_again_at, lines->digits[number], 2);
            at += lines->length;
        } else {
            size_t length = write_line(lines, ids[i], at);
            keep_line(lines, ids[i], at, length);
            at += length;
        }
    }
    return at;
}
