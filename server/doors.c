/* Who is let in: tokens, and without them no web page of somebody else's.
 *
 * A browser lets a page ask any address that its own name resolves to, so a name that is made to resolve to 127.0.0.1
 * (DNS rebinding) would open a server that only listens there. Such a request carries the page's name as its Host. */
#include "server/app.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool same(http_text text, const char *word, size_t length)
{
    return text.length == length && strncasecmp(text.at, word, length) == 0;
}

/* "localhost:7070" without the port, "[::1]:7070" without brackets too, a name without its last dot. */
static http_text host_of(http_text authority)
{
    if (authority.length && *authority.at == '[') {
        const char *end = memchr(authority.at, ']', authority.length);
        return end ? (http_text){authority.at + 1, (size_t)(end - authority.at) - 1} : authority;
    }
    const char *colon = memrchr(authority.at, ':', authority.length);
    if (colon)
        authority.length = (size_t)(colon - authority.at);
    if (authority.length && authority.at[authority.length - 1] == '.')
        authority.length--;
    return authority;
}

static bool is_loopback(http_text host)
{
    char text[64];
    struct in_addr v4;
    struct in6_addr v6;
    if (same(host, "localhost", 9) || same(host, "127.0.0.1", 9))
        return true;
    if (host.length > 10 && strncasecmp(host.at + host.length - 10, ".localhost", 10) == 0)
        return true;
    if (host.length >= sizeof text)
        return false;
    memcpy(text, host.at, host.length);
    text[host.length] = '\0';
    return (inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) ||
           (inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/* One of the names that the settings give the server, with blanks or commas between them. */
static bool is_ours(const app *a, http_text host)
{
    const char *names = a->settings->server_name;
    for (size_t length; names && *names; names += length) {
        names += strspn(names, ", \t");
        length = strcspn(names, ", \t");
        if (length && same(host, names, length))
            return true;
    }
    return false;
}

/* A page that came from this server asks with this server's name as its origin. */
static bool is_foreign(const app *a, const http_request *request, http_text origin)
{
    const http_text *host = http_header_find(request, "host");
    const char *slashes = memmem(origin.at, origin.length, "://", 3);
    if (!slashes) /* "null": a file, or a page that hides where it is from */
        return true;
    size_t skip = (size_t)(slashes - origin.at) + 3;
    http_text authority = {origin.at + skip, origin.length - skip};
    return !(host && same(authority, host->at, host->length)) && !is_ours(a, host_of(authority));
}

static bool has_token(app *a, const http_request *request)
{
    const http_text *authorization = http_header_find(request, "authorization");
    pthread_rwlock_rdlock(&a->reload_lock);
    bool ok = !a->tokens || (authorization && tokens_allow(a->tokens, authorization->at, authorization->length));
    pthread_rwlock_unlock(&a->reload_lock);
    return ok;
}

bool door_closed(app *a, const http_request *request, bool wants_token, http_reply *reply)
{
    if (wants_token && !has_token(a, request)) {
        http_reply_header(reply, "WWW-Authenticate", "Bearer");
        problem(reply, 401, "a token is needed", "this route wants Authorization: Bearer with a token of the server's");
        return true;
    }
    if (a->has_tokens)
        return false;
    const http_text *host = a->on_loopback ? http_header_find(request, "host") : NULL;
    if (host && !is_loopback(host_of(*host)) && !is_ours(a, host_of(*host))) {
        problem(reply, 403, "not a name of this server",
                "Host \"%.*s\" is neither loopback nor in server_name: add it there if it is right",
                host->length > 200 ? 200 : (int)host->length, host->at);
        return true;
    }
    const http_text *origin = http_header_find(request, "origin");
    if (origin && is_foreign(a, request, *origin)) {
        problem(reply, 403, "another site's page", "Origin \"%.*s\" is not this server: its pages may not ask here",
                origin->length > 200 ? 200 : (int)origin->length, origin->at);
        return true;
    }
    return false;
}
