/* Options as texts: one table of names, kinds, bounds and help, behind the command line, the config file, the
 * environment and every binding. */
#include "core/error.h"
#include "core/values.h"
#include "lib/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)

typedef enum kind { TEXT, SERVICE, LAYOUT, CHOICE, MS, COUNT, PART, BACKWARD, THROUGHPUT } kind;

typedef struct option {
    kz_option_info info;
    kind kind;
    size_t at;
    int64_t max;
} option;

#define AT(field) offsetof(kz_options, field)

/* The order is that of the help. */
static const option options[] = {
    {{"service", "NAME", "the ID space of a lease table; default"}, SERVICE, AT(service), 0},
    {{"layout", "L", "a preset, or TIME-NODE-SEQ@EPOCH"}, LAYOUT, AT(layout), 0},
    {{"backward", "fail|wait:MS|logical", "when the clock goes back; wait:5000"}, BACKWARD, 0, DAY_MS},
    {{"fallback", "never|fenced|any", "IDs without a lease; fenced"}, CHOICE, AT(fallback), 0},
    {{"throughput", "MIN:MAX", "IDs a millisecond to lease for; 256:256"}, THROUGHPUT, 0, 0},
    {{"timeout", "MS", "how long a call may sleep; 10000; 0: never; forever"}, MS, AT(timeout_ms), INT64_MAX},
    {{"seq_start", "zero|random", "where sequences begin; zero"}, CHOICE, AT(seq_start), 0},
    {{"clock", "precise|coarse", "which clock to read; precise"}, CHOICE, AT(clock), 0},
    {{"keeper", "thread|caller", "who asks for leases; thread"}, CHOICE, AT(keeper), 0},
    {{"max_ahead", "MS", "how far logical may be ahead of the clock; 1000"}, MS, AT(max_ahead_ms), DAY_MS},
    {{"renew_at", "PART", "the part of a lease after which to ask for the next; 0.9"}, PART, AT(renew_at), 0},
    {{"retry_initial", "MS", "the pause after a failure, doubling; 1000"}, MS, AT(retry_initial_ms), 3600000},
    {{"retry_max", "MS", "up to this; 60000"}, MS, AT(retry_max_ms), 3600000},
    {{"meta", "JSON", "who holds a lease, for people; host and pid"}, TEXT, AT(meta), 0},
    {{"max_services", "COUNT", "services that clients may make a table have; 0: no limit"}, COUNT, AT(max_services), 0},
};

const kz_option_info *kz_option_at(size_t index)
{
    return index < sizeof options / sizeof options[0] ? &options[index].info : NULL;
}

/* `fail`, `logical`, `wait`, `wait:MS` */
static kz_status read_backward(const char *text, int64_t max_ms, kz_options *to, kz_error *err)
{
    int choice;
    if (strncmp(text, "wait:", 5) != 0) {
        if (kz__choice_parse(text, "fail|wait|logical", &choice, NULL))
            return kz__fail(err, KZ_INVALID, "\"%.100s\" is not one of fail, wait, wait:MS, logical", text);
        to->backward = (kz_backward)choice;
        return KZ_OK;
    }
    if (text[5] == '-' || kz__ms_parse(text + 5, max_ms, &to->max_backward_ms, NULL))
        return kz__fail(err, KZ_INVALID, "\"%.100s\" is not wait:MS (at most a day) or wait:forever", text);
    to->backward = KZ_BACKWARD_WAIT;
    return KZ_OK;
}

/* `MIN:MAX`, or one number for both. */
static kz_status read_throughput(const char *text, kz_options *to, kz_error *err)
{
    char min_text[24];
    const char *colon = strchr(text, ':'), *max_text = colon ? colon + 1 : text;
    uint64_t min, max;
    snprintf(min_text, sizeof min_text, "%.*s", colon && colon - text < 24 ? (int)(colon - text) : 23, text);
    if (kz_number_parse(min_text, 0, UINT64_MAX, &min, NULL) || kz_number_parse(max_text, 0, UINT32_MAX, &max, NULL))
        return kz__fail(err, KZ_INVALID, "\"%.100s\" is not MIN:MAX IDs a millisecond, such as 256:4096", text);
    if (!min || min > max)
        return kz__fail(err, KZ_INVALID, "\"%.100s\": MIN must be at least 1 and at most MAX", text);
    to->throughput_min_per_ms = (uint32_t)min;
    to->throughput_max_per_ms = (uint32_t)max;
    return KZ_OK;
}

static kz_status read_part(const char *text, double *part, kz_error *err)
{
    char *end;
    double read = strtod(text, &end);
    if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || !(read >= 0.1 && read <= 0.99))
        return kz__fail(err, KZ_INVALID, "\"%.100s\" is not a part from 0.1 to 0.99", text);
    *part = read;
    return KZ_OK;
}

static kz_status read_value(const option *o, const char *text, kz_options *to, kz_error *err)
{
    void *field = (char *)to + o->at;
    kz_layout layout;
    uint64_t number;
    int choice;
    kz_status status = KZ_OK;
    switch (o->kind) {
    case SERVICE:
    case LAYOUT:
        status = o->kind == SERVICE ? kz__service_name_check(text, err) : kz_layout_parse(text, &layout, err);
        if (status)
            return status;
        /* fall through */
    case TEXT:
        *(const char **)field = text;
        return KZ_OK;
    case CHOICE:
        if ((status = kz__choice_parse(text, o->info.takes, &choice, err)))
            return status;
        memcpy(field, &choice, sizeof choice); /* enums are ints */
        return KZ_OK;
    case MS:
        return kz__ms_parse(text, o->max, field, err);
    case COUNT:
        if ((status = kz_number_parse(text, 0, UINT32_MAX, &number, err)) == KZ_OK)
            *(uint32_t *)field = (uint32_t)number;
        return status;
    case PART:
        return read_part(text, field, err);
    case BACKWARD:
        return read_backward(text, o->max, to, err);
    case THROUGHPUT:
        return read_throughput(text, to, err);
    }
    return status;
}

/* Hyphens count as underscores. */
static bool is_named(const char *name, const char *given)
{
    while (*name && (*name == *given || (*name == '_' && *given == '-'))) {
        name++;
        given++;
    }
    return !*name && !*given;
}

kz_status kz_options_set(kz_options *to, const char *name, const char *text, kz_error *err)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const option *o = &options[i];
        if (!is_named(o->info.name, name))
            continue;
        kz_error why = {0};
        kz_status status = o->at < to->struct_size
                               ? read_value(o, text, to, &why)
                               : kz__fail(&why, KZ_INVALID, "call kz_options_init first, and build with this header");
        return status ? kz__fail(err, status, "%s: %s", o->info.name, why.message) : KZ_OK;
    }
    return kz__fail(err, KZ_NOT_FOUND, "there is no option %.100s", name);
}
