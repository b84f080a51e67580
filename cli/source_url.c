/* A source's URL as it may be shown. */
#include "cli/source_url.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_on_this_machine(const char *url)
{
    static const char *const starts[] = {"static:", "env:", "sqlite:", "memory:", "standalone:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(url, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

const char *source_shown(const char *url, char text[static SOURCE_SHOWN_SIZE])
{
    if (!url || is_on_this_machine(url)) {
        snprintf(text, SOURCE_SHOWN_SIZE, "%s", url ? url : "the embedded default");
        return text;
    }
    /* The last @ of all: a login that was not written as it should be must not show in part. */
    const char *login_end = strrchr(url, '@'), *rest = login_end ? login_end + 1 : url;
    size_t scheme = strcspn(url, ":");
    scheme += url[scheme] == ':';
    scheme += strspn(url + scheme, "/");
    snprintf(text, SOURCE_SHOWN_SIZE, "%.*s%.*s", login_end ? (int)scheme : 0, url, (int)strcspn(rest, "?"), rest);
    return text;
}
