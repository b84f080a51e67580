/* From a request to its route: the table, who is allowed, and what an error looks like. */
#include "server/app.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct route {
    const char *method, *path;
    http_outcome (*handle)(call *c);
    bool has_rest; /* something follows the path: /decode/{id} */
    bool wants_token;
} route;

static const route routes[ROUTE_NONE] = {
    [ROUTE_ID] = {"GET", "/id", get_id, false, false},
    [ROUTE_IDS] = {"GET", "/ids", get_ids, false, false},
    [ROUTE_DECODE] = {"GET", "/decode/", get_decode, true, false},
    [ROUTE_ACQUIRE] = {"POST", "/lease", post_lease, false, true},
    [ROUTE_RELEASE] = {"DELETE", "/lease/", delete_lease, true, true},
    [ROUTE_LEASES] = {"GET", "/leases", get_leases, false, true},
    [ROUTE_TIME] = {"GET", "/time", get_time, false, false},
    [ROUTE_HEALTH] = {"GET", "/health", get_health, false, false},
    [ROUTE_LIVE] = {"GET", "/health/live", get_live, false, false},
    [ROUTE_READY] = {"GET", "/health/ready", get_health, false, false},
    [ROUTE_METRICS] = {"GET", "/metrics", get_metrics, false, false},
    [ROUTE_OPENAPI] = {"GET", "/openapi.json", get_openapi, false, false},
};

const char *const route_labels[ROUTES] = {
    [ROUTE_ID] = "/id",
    [ROUTE_IDS] = "/ids",
    [ROUTE_DECODE] = "/decode/{id}",
    [ROUTE_ACQUIRE] = "/lease",
    [ROUTE_RELEASE] = "/lease/{id}",
    [ROUTE_LEASES] = "/leases",
    [ROUTE_TIME] = "/time",
    [ROUTE_HEALTH] = "/health",
    [ROUTE_LIVE] = "/health/live",
    [ROUTE_READY] = "/health/ready",
    [ROUTE_METRICS] = "/metrics",
    [ROUTE_OPENAPI] = "/openapi.json",
    [ROUTE_NONE] = "none",
};

const double http_bucket_s[HTTP_BUCKETS] = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 1};

/* --------------------------------------------------------------------------------------------------------- errors */

void write_json_text(http_reply *reply, const char *text)
{
    http_reply_write(reply, "\"", 1);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            http_reply_printf(reply, "\\%c", *c);
        else if (*c < 0x20)
            http_reply_printf(reply, "\\u%04x", *c);
        else
            http_reply_write(reply, (const char *)c, 1);
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

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static bool decode(http_text text, char *value, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i] == '+' ? ' ' : text.at[i];
        if (c == '%') {
            int high = i + 2 < text.length ? hex_value(text.at[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_value(text.at[i + 2]);
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

bool query_value(const http_request *request, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    const char *at = request->query.at, *end = at + request->query.length;
    while (at < end) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        const char *stop = next ? next : end;
        if ((size_t)(stop - at) > length && memcmp(at, name, length) == 0 && at[length] == '=')
            return decode((http_text){at + length + 1, (size_t)(stop - at) - length - 1}, value, size);
        at = stop + 1;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------- dispatch */

static bool same(http_text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static bool path_fits(const route *r, http_text path)
{
    size_t length = strlen(r->path);
    if (!r->has_rest)
        return same(path, r->path);
    return path.length > length && memcmp(path.at, r->path, length) == 0 &&
           !memchr(path.at + length, '/', path.length - length);
}

static bool allowed(app *a, const http_request *request)
{
    const http_text *authorization = http_header_find(request, "authorization");
    pthread_rwlock_rdlock(&a->reload_lock);
    bool ok = !a->tokens || (authorization && tokens_allow(a->tokens, authorization->at, authorization->length));
    pthread_rwlock_unlock(&a->reload_lock);
    return ok;
}

static http_outcome refuse_token(http_reply *reply)
{
    http_reply_header(reply, "WWW-Authenticate", "Bearer");
    return problem(reply, 401, "a token is needed",
                   "this route wants Authorization: Bearer with a token of the server's");
}

static route_name find(const http_request *request, const char **other_method)
{
    for (int r = 0; r < ROUTE_NONE; r++) {
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
    if (name == ROUTE_NONE && other_method) {
        http_reply_header(reply, "Allow", other_method);
        return problem(reply, 405, "not by this method", "%.*s answers to %s", (int)request->path.length,
                       request->path.at, other_method);
    }
    if (name == ROUTE_NONE)
        return problem(reply, 404, "no such path", "there is nothing at %.*s; see /openapi.json",
                       request->path.length > 200 ? 200 : (int)request->path.length, request->path.at);
    const route *r = &routes[name];
    if (r->wants_token && !allowed(a, request))
        return refuse_token(reply);
    size_t length = strlen(r->path);
    call c = {a, request, reply, {request->path.at + length, request->path.length - length}};
    return r->handle(&c);
}

void app_observe(void *ctx, const http_request *request, int status, int64_t ns)
{
    app *a = ctx;
    const char *ignored;
    route_counts *counts = &a->routes[request ? find(request, &ignored) : ROUTE_NONE];
    size_t bucket = 0;
    while (bucket < HTTP_BUCKETS && (double)ns / 1e9 > http_bucket_s[bucket])
        bucket++;
    atomic_fetch_add_explicit(&counts->by_class[status / 100 % 6], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->sum_ns, (uint64_t)ns, memory_order_relaxed);
}
