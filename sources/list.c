/* The list of sources: adding one is a file and a line here. */
#include "sources/source.h"

#include <string.h>

static const kz__source_ops *const sources[] = {
    &kz__source_static,
    &kz__source_env,
    &kz__source_standalone,
};

const kz__source_ops *kz__source_find(const char *scheme)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        if (strcmp(sources[i]->scheme, scheme) == 0)
            return sources[i];
    return NULL;
}

const char *kz__source_schemes(void)
{
    return "static:, env:, standalone:";
}
