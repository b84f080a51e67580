/* From bytes to requests: a parser that is fed whatever has arrived. It knows no sockets and no clock, so that the same
 * bytes give the same request, or the same refusal, however they were split. */
#ifndef KZ_SERVER_HTTP_PARSE_H
#define KZ_SERVER_HTTP_PARSE_H

#include "http.h"
#include "http_bytes.h"

#include <llhttp.h>

typedef enum http_progress { HTTP_PARSE_MORE, HTTP_PARSE_WHOLE, HTTP_PARSE_REFUSED } http_progress;

/* Where a text lies in the head: offsets, because the bytes move while they grow. */
typedef struct http_span {
    uint16_t at, length;
} http_span;
_Static_assert(HTTP_HEAD_MAX <= UINT16_MAX, "a span must reach all of the head");

typedef struct http_parser {
    llhttp_t llhttp;
    http_bytes bytes; /* the head as it was sent, then the body without its framing */
    const char *feed; /* what llhttp is looking at; its first byte is byte number `taken` of the request */
    size_t taken;     /* bytes of this request so far */
    size_t head_length;
    size_t body_left;  /* of a body with a Content-Length */
    const char *clean; /* of a chunked body in `feed`: framing is checked up to here */
    enum { HTTP_IN_HEAD, HTTP_IN_BODY, HTTP_IN_CHUNKS, HTTP_ENDED } stage;
    bool head_done, name_begun, value_begun, folded, ended, after_cr, wants_continue;
    /* A client mostly says the same thing again. A request that is all head is kept after a reset until other bytes
     * come: the same ones are the same request, and are not parsed anew. */
    bool may_be_kept, kept;
    int status; /* why it was refused: a status, and a sentence that stays */
    const char *why;
    http_span method, target;
    http_span names[HTTP_HEADERS_MAX], values[HTTP_HEADERS_MAX];
    http_request request;
} http_parser;

void http_parser_init(http_parser *parser);
/* Ready for the next request; texts of the last one are gone. */
void http_parser_reset(http_parser *parser);
void http_parser_free(http_parser *parser);

/* Takes at most `length` bytes and says in `took` how many were its own.
 * MORE: all were taken, the request goes on. WHOLE: `parser->request` is filled, and good until reset.
 * REFUSED: `parser->status` and `parser->why` say why; nothing after it on this connection can be trusted. */
http_progress http_parse(http_parser *parser, const char *bytes, size_t length, size_t *took);

/* True once for a request that waits for "100 Continue" before it sends its body. */
bool http_parser_wants_continue(http_parser *parser);

#endif
