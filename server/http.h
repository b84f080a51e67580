/* HTTP/1.1 as the routes see it: a request that has arrived whole, and the answer to it. Bytes become requests in
 * server/http_parse.c, a pure function over a buffer; sockets are server/loop.c's business. */
#ifndef KZ_SERVER_HTTP_H
#define KZ_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything from outside has a limit. */
#define HTTP_HEAD_MAX    16384 /* request line and headers */
#define HTTP_BODY_MAX    65536
#define HTTP_TARGET_MAX  4096
#define HTTP_HEADERS_MAX 64

typedef struct http_text {
    const char *at;
    size_t length;
} http_text;

typedef struct http_header {
    http_text name, value;
} http_header;

typedef struct http_request {
    http_text method; /* "GET" */
    bool head;        /* it was HEAD: handled as GET, and the loop leaves the body out of the answer */
    http_text path;   /* "/ids", percent signs as sent */
    http_text query;  /* "count=3", without the question mark; empty if there is none */
    http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    http_text body;
    bool keep_alive;
} http_request;

/* The value of a header, whatever its case; NULL if there is none. */
const http_text *http_header_find(const http_request *request, const char *name);

/* An answer in the making. The loop owns it; `body` grows as needed. */
typedef struct http_reply http_reply;

void http_reply_status(http_reply *reply, int status);
void http_reply_tag(http_reply *reply, unsigned tag);              /* what `observe` is told about it; 0 unless set */
void http_reply_type(http_reply *reply, const char *content_type); /* kept: a literal */
void http_reply_header(http_reply *reply, const char *name, const char *value); /* copied; Retry-After, Allow, ... */
void http_reply_kept(http_reply *reply); /* a cache may keep it, and has to ask each time whether it still holds */
void http_reply_write(http_reply *reply, const char *bytes, size_t length);
void http_reply_printf(http_reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A handler fills the reply and returns HTTP_DONE; or it returns HTTP_LATER and some thread calls http_reply_send when
 * the answer is ready, exactly once. Until then the request and the reply stay where they are, and pipelined requests
 * behind it wait, so that answers leave in order. A client that went away meanwhile changes nothing for the handler. */
typedef enum http_outcome { HTTP_DONE, HTTP_LATER } http_outcome;

typedef http_outcome (*http_handler)(void *app, const http_request *request, http_reply *reply);

/* From any thread, after HTTP_LATER. */
void http_reply_send(http_reply *reply);

typedef struct http_settings {
    const char *address; /* "127.0.0.1" or "::1" */
    uint16_t port;       /* 0: any; see http_server_port */
    const char *path;    /* instead of both: a Unix socket's, made with mode 0660; NULL: none */
    int fd;              /* instead of all: a socket that listens already, and is not closed; 0: none */
    unsigned loops;      /* threads, each with its own listening socket (SO_REUSEPORT) */
    unsigned connections_max;
    int64_t request_ms;             /* from a request's first byte to its last: slow headers and slow bodies are cut */
    int64_t idle_ms;                /* between requests */
    int64_t write_ms;               /* an answer that is not taken */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain */
    unsigned handshakes_max;        /* of TLS, under way at the same time; 0: no limit */
    http_handler handler;
    void *app;
    /* One call for each request that was answered, or refused before it reached the handler (then the tag is 0). `loop`
     * is the number of the loop, whose thread calls: what is kept for each of them needs no lock. `ns` is from the
     * request's last byte until its answer leaves with those of its batch. Must be quick. NULL: none. */
    void (*observe)(void *app, unsigned loop, unsigned tag, int status, int64_t ns);
    void (*log)(void *app, int level, const char *message); /* syslog's levels; NULL: none */
    /* One call for each request that the handler answered: who asked for what, and what came of it. NULL: none. */
    void (*access)(void *app, const http_request *request, const char *peer, int status, size_t bytes, int64_t ns);
} http_settings;

typedef struct http_server http_server;

typedef struct http_counts {
    uint64_t connections_now, connections_total;
    uint64_t refused_total;  /* connections over connections_max */
    uint64_t cut_total;      /* connections that missed a deadline of a request or a write */
    uint64_t requests_total; /* answered or refused */
} http_counts;

/* NULL on success, else what went wrong, in static or thread-local memory. *server is set before the first request can
 * come, and NULL again if it failed. */
const char *http_server_start(http_server **server, const http_settings *settings);
uint16_t http_server_port(const http_server *server);
void http_server_counts(const http_server *server, http_counts *counts);
/* Stops accepting, answers what is under way, closes idle connections, waits for at most `grace_ms`.
 * An answer that is still owed then may still be sent, even after http_server_free: it goes nowhere. */
void http_server_stop(http_server *server, int64_t grace_ms);
/* Of one that was stopped. NULL is allowed. */
void http_server_free(http_server *server);

#endif
