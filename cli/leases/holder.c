/* Who holds a lease: a JSON object of texts, written by whoever took it, so nothing about it is taken on trust. */
#include "cli/leases/holder.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: not an object of texts. */
static json_t *read_object(const char *holder)
{
    const char *name;
    json_t *value, *object = json_loads(holder, JSON_REJECT_DUPLICATES, NULL);
    bool texts = json_is_object(object);
    json_object_foreach(object, name, value) texts = texts && json_is_string(value);
    if (texts)
        return object;
    json_decref(object);
    return NULL;
}

/* What could command a terminal becomes question marks: the controls of one byte, and those that UTF-8 has in two. */
static void clean(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        if (*at < 0x20 || *at == 0x7f)
            *at = '?';
        else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
            at[0] = at[1] = '?';
    }
}

void holder_text(const char *holder, char text[static HOLDER_TEXT_SIZE])
{
    json_t *value, *object = read_object(holder);
    const char *name;
    size_t used = 0;
    text[0] = '\0';
    json_object_foreach(object, name, value)
    {
        int length =
            snprintf(text + used, HOLDER_TEXT_SIZE - used, "%s%s=%s", used ? " " : "", name, json_string_value(value));
        used += length > 0 ? (size_t)length : 0;
        if (used >= HOLDER_TEXT_SIZE)
            break;
    }
    if (!object)
        snprintf(text, HOLDER_TEXT_SIZE, "%s", holder);
    json_decref(object);
    clean(text);
    if (!*text)
        strcpy(text, "-");
}

void holder_json(struct output *out, const char *holder)
{
    json_t *object = read_object(holder);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (text)
        output_text(out, text);
    else
        output_json(out, holder);
    free(text);
    json_decref(object);
}

size_t holder_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}
