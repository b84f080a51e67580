/* Who holds a lease: a JSON object of texts, written by whoever took it, so nothing about it is taken on trust. */
#include "cli/holder.h"

#include <stdio.h>
#include <string.h>

/* A text of at most KZ_HOLDER_SIZE bytes decodes to no more than that. */
struct pair {
    char name[KZ_HOLDER_SIZE], value[KZ_HOLDER_SIZE];
};

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of a \u, as UTF-8. Half of a pair, and zero, become U+FFFD: such texts need not survive. */
static const char *read_unicode(const char *at, char **to)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++, at++) {
        int digit = hex_digit(*at);
        if (digit < 0)
            return NULL;
        code = code << 4 | (unsigned)digit;
    }
    if (!code || (code >= 0xd800 && code <= 0xdfff))
        code = 0xfffd;
    if (code < 0x80) {
        *(*to)++ = (char)code;
    } else if (code < 0x800) {
        *(*to)++ = (char)(0xc0 | code >> 6);
        *(*to)++ = (char)(0x80 | (code & 0x3f));
    } else {
        *(*to)++ = (char)(0xe0 | code >> 12);
        *(*to)++ = (char)(0x80 | (code >> 6 & 0x3f));
        *(*to)++ = (char)(0x80 | (code & 0x3f));
    }
    return at;
}

/* A JSON string from its opening quote on; what follows it, or NULL. */
static const char *read_string(const char *at, char text[static KZ_HOLDER_SIZE])
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char *to = text;
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        if (!*at)
            return NULL;
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        const char *escape = *at ? strchr(escapes, *at) : NULL;
        if (escape) {
            *to++ = meanings[escape - escapes];
            at++;
        } else if (*at != 'u' || !(at = read_unicode(at + 1, &to))) {
            return NULL;
        }
    }
    *to = '\0';
    return at + 1;
}

/* The next pair of the object, from its brace or the comma before it on; what follows it, or NULL. */
static const char *read_pair(const char *at, struct pair *pair)
{
    at = read_string(skip_blanks(at + 1), pair->name);
    if (!at || *(at = skip_blanks(at)) != ':')
        return NULL;
    at = read_string(skip_blanks(at + 1), pair->value);
    return at ? skip_blanks(at) : NULL;
}

/* An object of texts and nothing behind it. */
static bool is_object(const char *holder)
{
    struct pair pair;
    if (strlen(holder) >= KZ_HOLDER_SIZE || *holder != '{')
        return false;
    if (*skip_blanks(holder + 1) == '}')
        return !*skip_blanks(skip_blanks(holder + 1) + 1);
    const char *at = holder;
    do
        at = read_pair(at, &pair);
    while (at && *at == ',');
    return at && *at == '}' && !*skip_blanks(at + 1);
}

static bool is_empty(const char *holder)
{
    return *skip_blanks(holder + 1) == '}';
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
    struct pair pair;
    size_t used = 0;
    text[0] = '\0';
    if (!is_object(holder)) {
        snprintf(text, HOLDER_TEXT_SIZE, "%s", holder);
    } else if (!is_empty(holder)) {
        const char *at = holder;
        do {
            at = read_pair(at, &pair);
            int length =
                snprintf(text + used, HOLDER_TEXT_SIZE - used, "%s%s=%s", used ? " " : "", pair.name, pair.value);
            used += length > 0 ? (size_t)length : 0;
        } while (*at == ',' && used < HOLDER_TEXT_SIZE);
    }
    clean(text);
    if (!*text)
        strcpy(text, "-");
}

void holder_json(struct output *out, const char *holder)
{
    struct pair pair;
    if (!is_object(holder)) {
        output_json(out, holder);
        return;
    }
    const char *at = holder;
    output_text(out, "{");
    while (!is_empty(holder) && (*at == '{' || *at == ',')) {
        bool first = at == holder;
        at = read_pair(at, &pair);
        output_text(out, first ? "" : ",");
        output_json(out, pair.name);
        output_text(out, ":");
        output_json(out, pair.value);
    }
    output_text(out, "}");
}

size_t holder_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}
