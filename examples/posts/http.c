/* libmicrohttpd calls `handle` when the headers are there, then for each piece of the body, then once more at its end.
 * Each thread of its pool has many connections and waits while one of them is answered. */
#include "http.h"

#include "log.h"

#include <microhttpd.h>

#include <netdb.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct http_server {
    struct MHD_Daemon *daemon;
    http_answer answer;
    void *ctx;
    const char *instance;
    int listener; /* ours to close once it was taken from the daemon; -1 before */
    _Atomic int under_way;
    _Atomic bool draining;
};

/* What was received of a request's body. */
typedef struct upload {
    size_t length, room;
    char body[];
} upload;

const char *http_query(const http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

void http_problem(http_reply *reply, unsigned status, const char *detail)
{
    json_decref(reply->body);
    reply->status = status;
    reply->problem = true;
    reply->body = json_pack("{s:s, s:s, s:i, s:o}", "type", "about:blank", "title", MHD_get_reason_phrase_for(status),
                            "status", (int)status, "detail", json_any_text(detail));
}

static void add_headers(const http_server *server, struct MHD_Response *response, const http_reply *reply)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Type", reply->problem ? "application/problem+json" : "application/json"},
        {"Cache-Control", "no-store"},
        {"X-Instance", server->instance},
        {"X-Node", reply->node},
        {"Location", reply->location},
        {"Allow", reply->allow},
        {"Retry-After", reply->retry_later ? "1" : NULL},
        {"Connection", server->draining ? "close" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (headers[i].value && *headers[i].value)
            MHD_add_response_header(response, headers[i].name, headers[i].value);
}

static enum MHD_Result send_reply(const http_server *server, struct MHD_Connection *connection, http_reply *reply)
{
    char *text = json_dumps(reply->body, JSON_COMPACT);
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (response)
        add_headers(server, response, reply);
    else
        free(text);
    json_decref(reply->body);
    if (!response)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(const http_server *server, struct MHD_Connection *connection, unsigned status,
                              const char *detail)
{
    http_reply reply = {0};
    http_problem(&reply, status, detail);
    return send_reply(server, connection, &reply);
}

/* The headers are there: room for the body that they announce, or a refusal before any of it is read. */
static enum MHD_Result begin(http_server *server, struct MHD_Connection *connection, upload **state)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    unsigned long long announced = length ? strtoull(length, NULL, 10) : 0;
    size_t room = announced <= HTTP_BODY_MAX ? (size_t)announced : 0;
    *state = malloc(sizeof **state + room);
    if (!*state)
        return MHD_NO;
    **state = (upload){.room = room};
    atomic_fetch_add(&server->under_way, 1);
    if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding"))
        return refuse(server, connection, MHD_HTTP_LENGTH_REQUIRED, "send the body whole, with its Content-Length");
    if (announced > HTTP_BODY_MAX) {
        char detail[96];
        snprintf(detail, sizeof detail, "a body of %llu bytes: at most %d are taken", announced, HTTP_BODY_MAX);
        return refuse(server, connection, MHD_HTTP_CONTENT_TOO_LARGE, detail);
    }
    return MHD_YES;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
    (void)version;
    http_server *server = ctx;
    if (!*state)
        return begin(server, connection, (upload **)state);
    upload *up = *state;
    if (*size) {
        if (*size > up->room - up->length)
            return MHD_NO;
        memcpy(up->body + up->length, data, *size);
        up->length += *size;
        *size = 0;
        return MHD_YES;
    }
    http_request request = {method, url, up->body, up->length, connection};
    http_reply reply = {.status = MHD_HTTP_OK};
    server->answer(server->ctx, &request, &reply);
    return send_reply(server, connection, &reply);
}

static void completed(void *ctx, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why)
{
    (void)connection;
    (void)why;
    http_server *server = ctx;
    if (*state)
        atomic_fetch_sub(&server->under_way, 1);
    free(*state);
    *state = NULL;
}

static void complain(void *ctx, const char *format, va_list args)
{
    (void)ctx;
    char text[256];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    log_event("warning", "http", json_pack("{s:o}", "message", json_any_text(text)));
}

/* The port is behind the last colon; an IPv6 address stands in brackets. */
static struct addrinfo *resolve(const char *listen, char message[HTTP_MESSAGE_SIZE])
{
    char host[128];
    const char *colon = strrchr(listen, ':');
    size_t length = colon ? (size_t)(colon - listen) : 0;
    if (!colon || !length || length >= sizeof host || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || atol(colon + 1) > 65535) {
        snprintf(message, HTTP_MESSAGE_SIZE, "'%s' is not ADDRESS:PORT, as 127.0.0.1:8080 or [::]:8080", listen);
        return NULL;
    }
    bool bracketed = *listen == '[' && listen[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length), listen + bracketed);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE}, *found;
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed)
        snprintf(message, HTTP_MESSAGE_SIZE, "'%s': %s", listen, gai_strerror(failed));
    return failed ? NULL : found;
}

http_server *http_start(const char *listen, const http_limits *limits, const char *instance, http_answer answer,
                        void *ctx, char message[HTTP_MESSAGE_SIZE])
{
    struct addrinfo *where = resolve(listen, message);
    if (!where)
        return NULL;
    http_server *server = calloc(1, sizeof *server);
    if (server) {
        *server = (http_server){.answer = answer, .ctx = ctx, .instance = instance, .listener = -1};
        unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG;
        if (where->ai_family == AF_INET6)
            flags |= MHD_USE_DUAL_STACK;
        server->daemon =
            MHD_start_daemon(flags, 0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, complain, NULL,
                             MHD_OPTION_SOCK_ADDR, where->ai_addr, MHD_OPTION_NOTIFY_COMPLETED, completed, server,
                             MHD_OPTION_THREAD_POOL_SIZE, (unsigned)limits->threads, MHD_OPTION_CONNECTION_LIMIT,
                             (unsigned)limits->max_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)limits->idle_s,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32 * 1024, MHD_OPTION_END);
    }
    freeaddrinfo(where);
    if (server && server->daemon)
        return server;
    snprintf(message, HTTP_MESSAGE_SIZE, "cannot listen on %s: is the port taken? The line above says more", listen);
    free(server);
    return NULL;
}

int http_port(const http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void http_drain(http_server *server)
{
    server->draining = true;
    server->listener = MHD_quiesce_daemon(server->daemon);
}

int http_under_way(http_server *server)
{
    return server->under_way;
}

void http_stop(http_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    if (server->listener >= 0)
        close(server->listener);
    free(server);
}
