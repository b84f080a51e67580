#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kz_status wrong(kz_error *err, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    *err = (kz_error){.status = KZ_INVALID};
    vsnprintf(err->message, sizeof err->message, form, list);
    va_end(list);
    return KZ_INVALID;
}

static bool read_number(const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    *number = read;
    return *text && !*end && !errno;
}

/* One of the words, by its place in the list. */
static kz_status choose(const char *name, const char *text, const char *const *words, int *choice, kz_error *err)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *choice = i;
            return KZ_OK;
        }
    return wrong(err, "option %s: \"%.40s\" is none of its words", name, text);
}

static kz_status set_backward(kz_options *o, const char *text, kz_error *err)
{
    if (strncmp(text, "wait:", 5) == 0) {
        o->backward = KZ_BACKWARD_WAIT;
        return read_number(text + 5, &o->max_backward_ms)
                   ? KZ_OK
                   : wrong(err, "option backward: \"%.40s\" is not wait:MS", text);
    }
    static const char *const words[] = {"fail", "wait", "logical", NULL};
    int choice = 0;
    kz_status status = choose("backward", text, words, &choice, err);
    if (status == KZ_OK)
        o->backward = (kz_backward)choice;
    return status;
}

static kz_status set_throughput(kz_options *o, const char *text, kz_error *err)
{
    unsigned min, max;
    char rest;
    if (sscanf(text, "%u:%u%c", &min, &max, &rest) != 2 || !min || min > max)
        return wrong(err, "option throughput: \"%.40s\" is not MIN:MAX with 1 <= MIN <= MAX", text);
    o->throughput_min_per_ms = min;
    o->throughput_max_per_ms = max;
    return KZ_OK;
}

kz_status kz_jni_option(kz_options *o, const char *name, const char *text, kz_error *err)
{
    static const char *const fallbacks[] = {"never", "fenced", "any", NULL};
    if (strcmp(name, "service") == 0) {
        o->service = text;
    } else if (strcmp(name, "layout") == 0) {
        o->layout = text;
    } else if (strcmp(name, "meta") == 0) {
        o->meta = text;
    } else if (strcmp(name, "backward") == 0) {
        return set_backward(o, text, err);
    } else if (strcmp(name, "throughput") == 0) {
        return set_throughput(o, text, err);
    } else if (strcmp(name, "timeout") == 0) {
        if (!read_number(text, &o->timeout_ms))
            return wrong(err, "option timeout: \"%.40s\" is not a number of milliseconds", text);
    } else if (strcmp(name, "fallback") == 0) {
        int choice = 0;
        kz_status status = choose(name, text, fallbacks, &choice, err);
        o->fallback = status ? o->fallback : (kz_fallback)choice;
        return status;
    } else {
        return wrong(err,
                     "there is no option \"%.40s\" (there are service, layout, meta, fallback, backward, "
                     "throughput, timeout)",
                     name);
    }
    return KZ_OK;
}
