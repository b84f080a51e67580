/* A head that has arrived whole: is it one that every reader would read the same way, and what does it say? */
#ifndef KZ_SERVER_HTTP_HEAD_H
#define KZ_SERVER_HTTP_HEAD_H

#include "http_parse.h"

typedef struct http_framing {
    size_t length; /* of the body, if it is not chunked */
    bool chunked, wants_continue;
    bool secret; /* it carries a token */
} http_framing;

/* 0, or the status to refuse it with and the reason. */
int http_head_check(http_parser *parser, http_framing *framing, const char **why);
/* Makes `parser->request` point into the bytes, which must not move any more. */
void http_head_fill(http_parser *parser);

#endif
