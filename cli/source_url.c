/* A source's URL as it may be shown. */
#include "cli/source_url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_on_this_machine(const char *url)
{
    static const char *const starts[] = {"static:", "env:", "sqlite:", "memory:", "standalone:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(url, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* host, host:port or several with commas: what stands where a password would, without an @ behind it, is a port. */
static bool is_places(const char *text, size_t size)
{
    for (const char *end = text + size; text <= end;) {
        const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end, *colon = stop;
        while (colon > text && colon[-1] != ':' && colon[-1] != ']')
            colon--;
        if (colon > text && colon[-1] == ':' &&
            (colon == stop || stop - colon > 5 || strspn(colon, "0123456789") < (size_t)(stop - colon)))
            return false;
        text = stop + 1;
    }
    return true;
}

bool source_file_is_missing(const char *url, kz_error *err)
{
    char path[4096];
    if (!url || strncmp(url, "sqlite:", 7) != 0)
        return false;
    int length = snprintf(path, sizeof path, "%.*s", (int)strcspn(url + 7, "?"), url + 7);
    if (length <= 0 || (size_t)length >= sizeof path || access(path, F_OK) == 0 || errno != ENOENT)
        return false;
    *err = (kz_error){.status = KZ_NOT_FOUND};
    snprintf(err->message, sizeof err->message, "lease file %.300s: it is not there (the first kazahana next makes it)",
             path);
    return true;
}

const char *source_shown(const char *url, char text[static SOURCE_SHOWN_SIZE])
{
    if (!url || is_on_this_machine(url)) {
        snprintf(text, SOURCE_SHOWN_SIZE, "%s", url ? url : "the embedded default");
        return text;
    }
    /* The last @ of all: a login that was not written as it should be must not show in part. */
    const char *login_end = strrchr(url, '@');
    size_t scheme = strcspn(url, ":");
    scheme += url[scheme] == ':';
    scheme += strspn(url + scheme, "/");
    const char *rest = login_end ? login_end + 1 : url + scheme;
    bool shown = is_places(rest, strcspn(rest, "/?"));
    snprintf(text, SOURCE_SHOWN_SIZE, "%.*s%.*s", (int)scheme, url, shown ? (int)strcspn(rest, "?") : 3,
             shown ? rest : "...");
    return text;
}
