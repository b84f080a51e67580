/* What stands in a request's target: percent signs, and a query whose every key is known and there once. */
#include "cli/suggest.h"
#include "server/app.h"

#include <stdio.h>
#include <string.h>

int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

bool percent_decode(http_text text, bool plus_is_blank, char *value, size_t size, size_t *length)
{
    size_t n = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = plus_is_blank && text.at[i] == '+' ? ' ' : text.at[i];
        if (c == '%') {
            int high = i + 2 < text.length ? hex_digit(text.at[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_digit(text.at[i + 2]);
            if (low < 0 || high + low == 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (n + 1 >= size)
            return false;
        value[n++] = c;
    }
    value[n] = '\0';
    *length = n;
    return true;
}

/* The pair at the front of `*rest`, which then goes on behind it. False: there is none. */
static bool next_pair(http_text *rest, http_text *key, http_text *value)
{
    while (rest->length && *rest->at == '&')
        *rest = (http_text){rest->at + 1, rest->length - 1};
    if (!rest->length)
        return false;
    const char *stop = memchr(rest->at, '&', rest->length);
    size_t length = stop ? (size_t)(stop - rest->at) : rest->length;
    const char *equals = memchr(rest->at, '=', length);
    *key = (http_text){rest->at, equals ? (size_t)(equals - rest->at) : length};
    *value = equals ? (http_text){equals + 1, length - key->length - 1} : (http_text){NULL, 0};
    *rest = (http_text){rest->at + length, rest->length - length};
    return true;
}

query_found query_value(const http_request *request, const char *name, char *value, size_t size)
{
    http_text rest = request->query, key, raw;
    char decoded[64];
    size_t length;
    while (next_pair(&rest, &key, &raw))
        if (percent_decode(key, true, decoded, sizeof decoded, &length) && strcmp(decoded, name) == 0)
            return raw.at && percent_decode(raw, true, value, size, &length) ? QUERY_VALUE : QUERY_BAD;
    return QUERY_ABSENT;
}

void explain_unknown(const char *name, const char *const *known, char message[static UNKNOWN_SIZE])
{
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    int length = snprintf(message, UNKNOWN_SIZE, "\"%.60s\" is not known here", name);
    for (size_t i = 0; known[i]; i++) {
        size_t distance = suggest_distance(name, known[i]);
        if (distance < least) {
            least = distance;
            nearest = known[i];
        }
    }
    if (nearest && suggest_is_near(name, least)) {
        snprintf(message + length, UNKNOWN_SIZE - (size_t)length, ": did you mean \"%s\"?", nearest);
        return;
    }
    for (size_t i = 0; known[i] && length < UNKNOWN_SIZE; i++)
        length +=
            snprintf(message + length, UNKNOWN_SIZE - (size_t)length, "%s%s", i ? ", " : ": known are ", known[i]);
}

bool query_is_known(const http_request *request, const char *const *known, char message[static UNKNOWN_SIZE])
{
    http_text rest = request->query, key, value;
    unsigned seen = 0;
    while (next_pair(&rest, &key, &value)) {
        char name[64] = "";
        size_t length, i = 0;
        if (!percent_decode(key, true, name, sizeof name, &length))
            snprintf(name, sizeof name, "%.*s", key.length < 60 ? (int)key.length : 60, key.at);
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i]) {
            explain_unknown(name, known, message);
            return false;
        }
        if (seen & 1u << i || !value.at) {
            snprintf(message, UNKNOWN_SIZE, seen & 1u << i ? "\"%s\" is given twice" : "\"%s\" needs a value: %s=...",
                     name, name);
            return false;
        }
        seen |= 1u << i;
    }
    return true;
}
