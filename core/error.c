/* Status names and texts, and how a kz_error is filled. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *kz_version(void)
{
    return KZ_VERSION;
}

const char *kz_status_name(kz_status status)
{
    switch (status) {
#define NAME(name, number, text)                                                                                       \
    case KZ_##name:                                                                                                    \
        return "KZ_" #name;
        KZ_STATUS_MAP(NAME)
#undef NAME
    }
    return "KZ_UNKNOWN";
}

const char *kz_status_text(kz_status status)
{
    switch (status) {
#define TEXT(name, number, text)                                                                                       \
    case KZ_##name:                                                                                                    \
        return text;
        KZ_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "a status this version does not know";
}

kz_status kz__fail(kz_error *err, kz_status status, const char *format, ...)
{
    if (!err)
        return status;
    *err = (kz_error){.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}
