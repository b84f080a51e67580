/* From a request to its route: the table, and what an error looks like. */
#include "server/app.h"
#include "server/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct route {
    const char *method;
    http_text path;    /* without what follows */
    const char *label; /* as the description has it */
    http_outcome (*handle)(call *c);
    bool has_rest; /* something follows the path: /decode/{id} */
    bool wants_token;
} route;

#define PATH(text)           {text, sizeof(text) - 1}, text
#define PATH_AND(text, rest) {text, sizeof(text) - 1}, text rest

static const route routes[ROUTES] = {
    [ROUTE_NONE] = {.method = "other", .label = "none"},
    [ROUTE_ID] = {"GET", PATH("/id"), get_id, false, false},
    [ROUTE_IDS] = {"GET", PATH("/ids"), get_ids, false, false},
    [ROUTE_DECODE] = {"GET", PATH_AND("/decode/", "{id}"), get_decode, true, false},
    [ROUTE_ACQUIRE] = {"POST", PATH("/lease"), post_lease, false, true},
    [ROUTE_RELEASE] = {"DELETE", PATH_AND("/lease/", "{id}"), delete_lease, true, true},
    [ROUTE_LEASES] = {"GET", PATH("/leases"), get_leases, false, true},
    [ROUTE_TIME] = {"GET", PATH("/time"), get_time, false, false},
    [ROUTE_HEALTH] = {"GET", PATH("/health"), get_health, false, false},
    [ROUTE_LIVE] = {"GET", PATH("/health/live"), get_live, false, false},
    [ROUTE_READY] = {"GET", PATH("/health/ready"), get_health, false, false},
    [ROUTE_METRICS] = {"GET", PATH("/metrics"), get_metrics, false, false},
    [ROUTE_OPENAPI] = {"GET", PATH("/openapi.json"), get_openapi, false, false},
};

const char *route_method(route_name name)
{
    return routes[name].method;
}

const char *route_path(route_name name)
{
    return routes[name].label;
}

const int64_t http_bucket_us[HTTP_BUCKETS] = {100, 500, 1000, 5000, 10000, 50000, 100000, 1000000};

/* --------------------------------------------------------------------------------------------------------- errors */

void write_json_text(http_reply *reply, const char *text)
{
    http_reply_write(reply, "\"", 1);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        size_t length = *c < 0x80 ? 1 : utf8_length(c);
        if (!length)
            http_reply_write(reply, "\\ufffd", 6);
        else if (*c == '"' || *c == '\\')
            http_reply_printf(reply, "\\%c", *c);
        else if (*c < 0x20)
            http_reply_printf(reply, "\\u%04x", *c);
        else
            http_reply_write(reply, (const char *)c, length);
        c += length ? length : 1;
    }
    http_reply_write(reply, "\"", 1);
}

http_outcome problem(http_reply *reply, int status, const char *title, const char *format, ...)
{
    char detail[KZ_MESSAGE_SIZE + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    http_reply_status(reply, status);
    http_reply_type(reply, "application/problem+json");
    if (status == 503 || status == 429)
        http_reply_header(reply, "Retry-After", "1");
    http_reply_printf(reply, "{\"type\":\"about:blank\",\"title\":");
    write_json_text(reply, title);
    http_reply_printf(reply, ",\"status\":%d,\"detail\":", status);
    write_json_text(reply, detail);
    http_reply_write(reply, "}", 1);
    return HTTP_DONE;
}

http_outcome problem_of(http_reply *reply, kz_status status, const char *detail)
{
    switch (status) {
    case KZ_INVALID:
        return problem(reply, 400, "not a valid request", "%s", detail);
    case KZ_FORBIDDEN:
        return problem(reply, 403, "wrong signature", "%s", detail);
    case KZ_NOT_FOUND:
        return problem(reply, 404, "no such lease", "%s", detail);
    case KZ_CONFLICT:
        return problem(reply, 409, "the same request with other arguments", "%s", detail);
    case KZ_NO_FREE_NODE:
        return problem(reply, 503, "no machine ID free", "%s", detail);
    case KZ_CLOCK_BACKWARD:
        return problem(reply, 503, "the clock went back", "%s", detail);
    case KZ_MISMATCH:
        return problem(reply, 409, "the service has another layout", "%s", detail);
    case KZ_NO_MEMORY:
    case KZ_SYSTEM:
        return problem(reply, 500, "the server is in trouble", "%s", detail);
    default:
        return problem(reply, 503, kz_status_text(status), "%s", detail);
    }
}

/* ---------------------------------------------------------------------------------------------------------- query */

int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static bool decode(http_text text, char *value, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i] == '+' ? ' ' : text.at[i];
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
    return true;
}

query_found query_value(const http_request *request, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    const char *at = request->query.at, *end = at + request->query.length;
    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        const char *stop = next ? next : end;
        if ((size_t)(stop - at) > length && memcmp(at, name, length) == 0 && at[length] == '=')
            return decode((http_text){at + length + 1, (size_t)(stop - at) - length - 1}, value, size) ? QUERY_VALUE
                                                                                                       : QUERY_BAD;
        at = stop + 1;
    }
    return QUERY_ABSENT;
}

/* ------------------------------------------------------------------------------------------------------- dispatch */

static bool same(http_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static bool path_fits(const route *r, http_text path)
{
    size_t length = r->path.length;
    if (path.length < length || (path.length > length) != r->has_rest || memcmp(path.at, r->path.at, length) != 0)
        return false;
    return !r->has_rest || !memchr(path.at + length, '/', path.length - length);
}

static route_name find(const http_request *request, const char **other_method)
{
    for (int r = ROUTE_NONE + 1; r < ROUTES; r++) {
        if (!path_fits(&routes[r], request->path))
            continue;
        if (same(request->method, routes[r].method))
            return (route_name)r;
        *other_method = routes[r].method;
    }
    return ROUTE_NONE;
}

http_outcome app_handle(void *ctx, const http_request *request, http_reply *reply)
{
    app *a = ctx;
    const char *other_method = NULL;
    route_name name = find(request, &other_method);
    http_reply_tag(reply, name);
    if (door_closed(a, request, routes[name].wants_token, reply))
        return HTTP_DONE;
    if (name == ROUTE_NONE && other_method) {
        http_reply_header(reply, "Allow", other_method);
        return problem(reply, 405, "not by this method", "%.*s answers to %s", (int)request->path.length,
                       request->path.at, other_method);
    }
    if (name == ROUTE_NONE)
        return problem(reply, 404, "no such path", "there is nothing at %.*s; see /openapi.json",
                       request->path.length > 200 ? 200 : (int)request->path.length, request->path.at);
    const route *r = &routes[name];
    call c = {a, request, reply, {request->path.at + r->path.length, request->path.length - r->path.length}};
    return r->handle(&c);
}

static void add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

void app_observe(void *ctx, unsigned loop, unsigned tag, int status, int64_t ns)
{
    app *a = ctx;
    route_counts *counts = &a->counts[loop][tag];
    size_t bucket = 0;
    while (bucket < HTTP_BUCKETS && ns > http_bucket_us[bucket] * 1000)
        bucket++;
    add(&counts->by_class[status / 100 % 6], 1);
    add(&counts->buckets[bucket], 1);
    add(&counts->sum_ns, (uint64_t)ns);
}
