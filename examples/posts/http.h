/* HTTP by libmicrohttpd: a pool of threads, limits, and answers in JSON. */
#ifndef POSTS_HTTP_H
#define POSTS_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define HTTP_BODY_MAX     65536
#define HTTP_MESSAGE_SIZE 160

typedef struct http_request {
    const char *method;
    const char *path; /* decoded, without the query */
    const char *body; /* `body_length` bytes */
    size_t body_length;
    struct MHD_Connection *connection;
} http_request;

/* An answer. Texts that are empty, or NULL, are left out. */
typedef struct http_reply {
    unsigned status;
    json_t *body; /* taken over */
    bool problem; /* the body is application/problem+json */
    char location[64];
    char node[16];
    const char *allow;
    bool retry_later;
} http_reply;

/* Fills in the answer. Called by several threads at once; may block. */
typedef void (*http_answer)(void *ctx, const http_request *request, http_reply *reply);

/* The value of a parameter of the query; NULL if it is not there. */
const char *http_query(const http_request *request, const char *name);

/* Makes the answer an error: application/problem+json, whose title is that of the status. */
void http_problem(http_reply *reply, unsigned status, const char *detail);

typedef struct http_limits {
    int threads, max_connections, idle_s;
} http_limits;

typedef struct http_server http_server;

/* Listens on ADDRESS:PORT ("127.0.0.1:8080", "[::]:8080") and answers from then on; every answer names the instance.
 * NULL, and why, if it cannot. */
http_server *http_start(const char *listen, const http_limits *limits, const char *instance, http_answer answer,
                        void *ctx, char message[HTTP_MESSAGE_SIZE]);
int http_port(const http_server *server);

/* Takes no more connections. Those that are open are served, and closed after their next answer. */
void http_drain(http_server *server);
/* The number of requests that are being answered. */
int http_under_way(http_server *server);
/* Ends the threads and closes what is open. NULL is allowed. */
void http_stop(http_server *server);

#endif
