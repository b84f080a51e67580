/* An answer in the making, as the loop sees it. */
#ifndef KZ_SERVER_HTTP_REPLY_H
#define KZ_SERVER_HTTP_REPLY_H

#include "http.h"
#include "http_bytes.h"

struct http_reply {
    int status;
    unsigned tag;
    http_text type;
    http_bytes headers; /* whole lines */
    http_bytes body;
    bool kept;
    bool failed; /* memory ran out: it becomes a 500 */
};

/* What the answer says about the connection. HTTP/1.0 closes unless told otherwise. */
typedef enum http_after { HTTP_KEEP, HTTP_KEEP_10, HTTP_CLOSE } http_after;

/* A blank answer: 200, application/json. */
void http_reply_reset(http_reply *reply);
void http_reply_free(http_reply *reply);
/* application/problem+json, in place of whatever the answer was. */
void http_reply_problem(http_reply *reply, int status, const char *detail);
/* Adds the answer's bytes to `out`; false if memory ran out. `head`: without the body. */
bool http_reply_build(const http_reply *reply, bool head, http_after after, http_bytes *out);

#endif
