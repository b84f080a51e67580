/* Source URLs: scheme, body, and parameters that are all accounted for. */
#include "core/url.h"
#include "core/error.h"

#include <stdio.h>
#include <string.h>

/* What schemes and names of parameters are made of. */
#define NAME_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define SCHEME_CHARS NAME_CHARS "+"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX in place. False: a percent sign without two hex digits, or an encoded zero. */
static bool decode_percent(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_digit(in[1]);
        int low = high < 0 ? -1 : hex_digit(in[2]);
        if (low < 0 || high + low == 0)
            return false;
        *out++ = (char)(high << 4 | low);
        in += 2;
    }
    *out = '\0';
    return true;
}

static kz_status add_param(kz__url *url, char *piece, kz_error *err)
{
    char *value = strchr(piece, '=');
    size_t number = url->param_count + 1;
    if (!value || value == piece || piece + strspn(piece, NAME_CHARS) != value)
        return kz__fail(err, KZ_INVALID, "source %s: parameter %zu behind the ? is not of the form name=value",
                        url->scheme, number);
    *value++ = '\0';
    if (!decode_percent(value))
        return kz__fail(err, KZ_INVALID,
                        "source %s: %% in the value of parameter %zu must be followed by two hex digits (write %% as "
                        "%%25)",
                        url->scheme, number);
    if (kz__url_param(url, piece))
        return kz__fail(err, KZ_INVALID, "source %s: %s is given twice", url->scheme, piece);
    if (url->param_count == KZ__URL_PARAMS_MAX)
        return kz__fail(err, KZ_INVALID, "source %s: more than %d parameters", url->scheme, KZ__URL_PARAMS_MAX);
    url->params[url->param_count].name = piece;
    url->params[url->param_count].value = value;
    url->param_count++;
    return KZ_OK;
}

kz_status kz__url_no_scheme(const char *text, kz_error *err)
{
    bool harmless = *text && strspn(text, SCHEME_CHARS "/~") == strlen(text);
    return kz__fail(err, KZ_INVALID, "source %s%.64s%s is not a URL: expected something like static:7 or sqlite:/path",
                    harmless ? "\"" : "", harmless ? text : "(not shown)", harmless ? "\"" : "");
}

kz_status kz__url_parse(const char *text, kz__url *url, kz_error *err)
{
    size_t length = strlen(text);
    if (length >= sizeof url->text)
        return kz__fail(err, KZ_INVALID, "a source of %zu characters is too long (at most %d)", length,
                        KZ__URL_MAX - 1);
    memcpy(url->text, text, length + 1);
    url->param_count = 0;
    char *colon = strchr(url->text, ':');
    size_t scheme = strspn(text, SCHEME_CHARS);
    if (!colon || !scheme || colon != url->text + scheme)
        return kz__url_no_scheme(text, err);
    *colon = '\0';
    url->scheme = url->text;
    url->body = colon + 1;
    char *query = strchr(colon + 1, '?');
    if (query)
        *query++ = '\0';
    if (query && *url->body == '/' && strchr(query, '@'))
        return kz__fail(err, KZ_INVALID,
                        "source %s: an @ behind the first ?: write ? in a password as %%3F, and @ in a parameter as "
                        "%%40",
                        url->scheme);
    while (query) {
        char *next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        kz_status status = add_param(url, query, err);
        if (status)
            return status;
        query = next;
    }
    return KZ_OK;
}

kz_status kz__url_ports_check(const kz__url *url, kz_error *err)
{
    const char *login = strrchr(url->body, '@'), *at = login ? login + 1 : url->body + strspn(url->body, "/");
    const char *end = at + strcspn(at, "/");
    while (at < end) {
        size_t size = strcspn(at, ",/");
        const char *close = *at == '[' ? memchr(at, ']', size) : NULL;
        const char *colon = memchr(close ? close : at, ':', size - (close ? (size_t)(close - at) : 0));
        size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
        if (colon && (!digits || digits > 5 || colon + 1 + digits != at + size))
            return kz__fail(err, KZ_INVALID,
                            "source %s: what follows the colon behind the host is not a port (1..65535); a password "
                            "stands before an @: %s://user:password@host",
                            url->scheme, url->scheme);
        at += size + (at[size] == ',');
    }
    return KZ_OK;
}

const char *kz__url_param(const kz__url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].name, name) == 0)
            return url->params[i].value;
    return NULL;
}

kz_status kz__url_only(const kz__url *url, const char *const *known, kz_error *err)
{
    for (size_t i = 0; i < url->param_count; i++) {
        const char *const *k = known;
        while (*k && strcmp(*k, url->params[i].name) != 0)
            k++;
        if (*k)
            continue;
        char list[128] = "";
        for (k = known; *k; k++) {
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *k);
        }
        return kz__fail(err, KZ_INVALID, "source %s: unknown parameter \"%s\" (%s%s)", url->scheme, url->params[i].name,
                        *known ? "known: " : "it takes none", list);
    }
    return KZ_OK;
}
