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
    const char *query[3]; /* the keys it takes */
} route;

#define PATH(text)           {text, sizeof(text) - 1}, text
#define PATH_AND(text, rest) {text, sizeof(text) - 1}, text rest

static const route routes[ROUTES] = {
    [ROUTE_NONE] = {.method = "other", .label = "none"},
    [ROUTE_ID] = {"GET", PATH("/id"), get_id, false, false},
    [ROUTE_IDS] = {"GET", PATH("/ids"), get_ids, false, false, {"count"}},
    [ROUTE_DECODE] = {"GET", PATH_AND("/decode/", "{id}"), get_decode, true, false, {"layout"}},
    [ROUTE_ACQUIRE] = {"POST", PATH("/lease"), post_lease, false, true},
    [ROUTE_RELEASE] = {"DELETE", PATH_AND("/lease/", "{id}"), delete_lease, true, true, {"serviceId"}},
    [ROUTE_LEASES] = {"GET", PATH("/leases"), get_leases, false, true, {"limit", "after"}},
    [ROUTE_TIME] = {"GET", PATH("/time"), get_time, false, false},
    [ROUTE_HEALTH] = {"GET", PATH("/health"), get_health, false, false},
    [ROUTE_LIVE] = {"GET", PATH("/health/live"), get_live, false, false},
    [ROUTE_READY] = {"GET", PATH("/health/ready"), get_health, false, false},
    [ROUTE_METRICS] = {"GET", PATH("/metrics"), get_metrics, false, false},
    [ROUTE_OPENAPI] = {"GET", PATH("/openapi.json"), get_openapi, false, false},
    [ROUTE_ROOT] = {"GET", PATH("/"), get_root, false, false},
    [ROUTE_UI] = {"GET", PATH_AND("/ui/", "{file}"), get_ui, true, false},
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
    case KZ_UNKNOWN_KEY:
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
        return problem(reply, 500, "internal error", "%s", detail);
    default:
        return problem(reply, 503, kz_status_text(status), "%s", detail);
    }
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

/* `allow`: the methods of the path, if it is there for others. */
static route_name find(http_text method, http_text path, char allow[static 64])
{
    *allow = '\0';
    for (int r = ROUTE_NONE + 1; r < ROUTES; r++) {
        if (!path_fits(&routes[r], path))
            continue;
        if (same(method, routes[r].method))
            return (route_name)r;
        size_t length = strlen(allow);
        snprintf(allow + length, 64 - length, "%s%s%s", length ? ", " : "", routes[r].method,
                 strcmp(routes[r].method, "GET") == 0 ? ", HEAD" : "");
    }
    return ROUTE_NONE;
}

http_outcome app_handle(void *ctx, const http_request *request, http_reply *reply)
{
    app *a = ctx;
    char decoded[HTTP_TARGET_MAX + 1], allow[64], message[UNKNOWN_SIZE];
    http_text path = request->path;
    if (memchr(path.at, '%', path.length)) {
        if (!percent_decode(path, false, decoded, sizeof decoded, &path.length))
            return problem(reply, 400, "not a path", "a percent sign in the path is not followed by two hex digits");
        path.at = decoded;
    }
    route_name name = find(request->method, path, allow);
    const route *r = &routes[name];
    http_reply_tag(reply, name);
    if (door_closed(a, request, r->wants_token, reply))
        return HTTP_DONE;
    int shown = path.length > 200 ? 200 : (int)path.length;
    if (name == ROUTE_NONE && *allow) {
        http_reply_header(reply, "Allow", allow);
        return problem(reply, 405, "not by this method", "%.*s answers to %s", shown, path.at, allow);
    }
    if (name == ROUTE_NONE)
        return problem(reply, 404, "no such path", "there is nothing at %.*s; see /openapi.json", shown, path.at);
    if (request->query.length && !query_is_known(request, r->query, message))
        return problem(reply, 400, "not a valid query", "%s", message);
    call c = {a, request, reply, {path.at + r->path.length, path.length - r->path.length}};
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
