/* From bytes to requests. llhttp reads the grammar; what it leaves open, or allows that a proxy in front might read
 * differently, is refused here. */
#include "http_parse.h"

#include "http_head.h"

#include <assert.h>
#include <ctype.h>

/* Bytes of chunk sizes, extensions and trailers: a body in chunks of one byte costs six times its size. */
#define CHUNKED_MAX (HTTP_HEAD_MAX + 8 * (size_t)HTTP_BODY_MAX)

#define KEPT_MAX 1024

static const char body_too_large[] = "the body is larger than 65536 bytes";
static const char target_too_long[] = "the request target is longer than 4096 bytes";
static const char out_of_memory[] = "out of memory";
static const char bad_framing[] = "a line of the chunked body does not end in CR LF";

/* What is noticed only at the end of a span may be overtaken by a fault inside it, and whether it is depends on the
 * split: so limits and folds are looked at when a part is complete. */
static int refuse(http_parser *parser, int status, const char *why)
{
    if (!parser->status) {
        parser->status = status;
        parser->why = why;
    }
    return HPE_USER;
}

static bool span_grow(http_parser *parser, http_span *span, bool first, const char *at, size_t length)
{
    size_t offset = parser->taken + (size_t)(at - parser->feed);
    if (first)
        *span = (http_span){(uint16_t)offset, 0};
    /* A gap is a folded line. */
    bool adjoins = offset == (size_t)span->at + span->length;
    span->length = (uint16_t)(span->length + length);
    return adjoins;
}

static int on_method(llhttp_t *llhttp, const char *at, size_t length)
{
    http_parser *parser = llhttp->data;
    span_grow(parser, &parser->method, parser->method.length == 0, at, length);
    return 0;
}

static int on_target(llhttp_t *llhttp, const char *at, size_t length)
{
    http_parser *parser = llhttp->data;
    span_grow(parser, &parser->target, parser->target.length == 0, at, length);
    return 0;
}

static int on_target_complete(llhttp_t *llhttp)
{
    http_parser *parser = llhttp->data;
    return parser->target.length > HTTP_TARGET_MAX ? refuse(parser, 414, target_too_long) : 0;
}

static int on_name(llhttp_t *llhttp, const char *at, size_t length)
{
    http_parser *parser = llhttp->data;
    size_t i = parser->request.header_count;
    if (parser->head_done || i == HTTP_HEADERS_MAX) /* a trailer: read, and ignored; or one too many, refused below */
        return 0;
    span_grow(parser, &parser->names[i], !parser->name_begun, at, length);
    parser->name_begun = true;
    return 0;
}

static int on_name_complete(llhttp_t *llhttp)
{
    http_parser *parser = llhttp->data;
    if (parser->head_done)
        return 0;
    if (parser->request.header_count == HTTP_HEADERS_MAX)
        return refuse(parser, 431, "more than 64 headers");
    parser->values[parser->request.header_count++] = (http_span){0, 0};
    parser->name_begun = parser->value_begun = false;
    return 0;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t length)
{
    http_parser *parser = llhttp->data;
    if (parser->head_done || length == 0)
        return 0;
    http_span *value = &parser->values[parser->request.header_count - 1];
    if (!span_grow(parser, value, !parser->value_begun, at, length))
        parser->folded = true;
    parser->value_begun = true;
    return 0;
}

static int on_head_complete(llhttp_t *llhttp)
{
    http_parser *parser = llhttp->data;
    parser->head_done = true;
    llhttp->upgrade = 0; /* we offer no other protocol: the request is answered as it stands */
    return HPE_PAUSED;
}

/* Between chunks every line ends in CR LF, and neither stands alone. */
static bool framing_is_clean(http_parser *parser, const char *end)
{
    for (const char *at = parser->clean; at < end; at++) {
        if ((*at == '\n') != parser->after_cr)
            return false;
        parser->after_cr = *at == '\r';
    }
    return true;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t length)
{
    http_parser *parser = llhttp->data;
    if (!framing_is_clean(parser, at))
        return refuse(parser, 400, bad_framing);
    parser->clean = at + length;
    if (!http_bytes_add(&parser->bytes, at, length))
        return refuse(parser, 503, out_of_memory);
    return 0;
}

/* The chunk's size is known before its bytes come. */
static int on_chunk(llhttp_t *llhttp)
{
    http_parser *parser = llhttp->data;
    if (llhttp->content_length > HTTP_BODY_MAX - (parser->bytes.length - parser->head_length))
        return refuse(parser, 413, body_too_large);
    return 0;
}

static int on_end(llhttp_t *llhttp)
{
    http_parser *parser = llhttp->data;
    parser->ended = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_method = on_method,
    .on_url = on_target,
    .on_url_complete = on_target_complete,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_complete,
    .on_header_value = on_value,
    .on_headers_complete = on_head_complete,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_end,
};

static void forget(http_parser *parser)
{
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &callbacks);
    parser->llhttp.data = parser;
    http_bytes_clear(&parser->bytes, 4096);
    parser->taken = parser->head_length = parser->body_left = 0;
    parser->stage = HTTP_IN_HEAD;
    parser->head_done = parser->name_begun = parser->value_begun = parser->folded = false;
    parser->ended = parser->after_cr = parser->wants_continue = parser->may_be_kept = parser->kept = false;
    parser->status = 0;
    parser->why = NULL;
    parser->method = parser->target = (http_span){0, 0};
    parser->request.header_count = 0;
}

void http_parser_init(http_parser *parser)
{
    parser->bytes = (http_bytes){0};
    forget(parser);
}

void http_parser_reset(http_parser *parser)
{
    parser->kept = parser->may_be_kept && parser->stage == HTTP_ENDED;
    if (!parser->kept)
        forget(parser);
}

/* Is this the request that was kept? */
static bool is_repeated(http_parser *parser, const char *bytes, size_t length)
{
    bool same = length >= parser->head_length && memcmp(bytes, parser->bytes.at, parser->head_length) == 0;
    if (same)
        parser->kept = false;
    else
        forget(parser);
    return same;
}

void http_parser_free(http_parser *parser)
{
    http_bytes_clear(&parser->bytes, 0);
}

static void refuse_as_llhttp(http_parser *parser, llhttp_errno_t error)
{
    const char *why = llhttp_get_error_reason(&parser->llhttp);
    switch (error) {
    case HPE_USER: /* a callback has said why */
        break;
    case HPE_INVALID_METHOD:
        if (isalpha((unsigned char)*llhttp_get_error_pos(&parser->llhttp)))
            refuse(parser, 405, "the method is not known here");
        else
            refuse(parser, 400, "this is not an HTTP request");
        break;
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        refuse(parser, 505, "the version of HTTP is neither 1.0 nor 1.1");
        break;
    default:
        refuse(parser, 400, why && *why ? why : "the request is malformed");
    }
}

/* llhttp over the next bytes; how many it used. */
static size_t execute(http_parser *parser, const char *bytes, size_t length, llhttp_errno_t *error)
{
    parser->feed = parser->clean = bytes;
    *error = llhttp_execute(&parser->llhttp, bytes, length);
    if (*error == HPE_OK)
        return length;
    return (size_t)(llhttp_get_error_pos(&parser->llhttp) - bytes);
}

static http_progress parse_head(http_parser *parser, const char *bytes, size_t length, size_t *took)
{
    size_t left = HTTP_HEAD_MAX - parser->taken;
    llhttp_errno_t error;
    size_t used = execute(parser, bytes, length < left ? length : left, &error);
    if (error != HPE_OK && error != HPE_PAUSED) {
        refuse_as_llhttp(parser, error);
        return HTTP_PARSE_REFUSED;
    }
    if (!http_bytes_add(&parser->bytes, bytes, used)) {
        refuse(parser, 503, out_of_memory);
        return HTTP_PARSE_REFUSED;
    }
    parser->taken += used;
    *took += used;
    if (!parser->head_done) {
        if (parser->taken < HTTP_HEAD_MAX)
            return HTTP_PARSE_MORE;
        if (parser->target.length > HTTP_TARGET_MAX)
            refuse(parser, 414, target_too_long);
        else
            refuse(parser, 431, "the request line and headers are larger than 16384 bytes");
        return HTTP_PARSE_REFUSED;
    }
    parser->head_length = parser->taken;
    http_framing framing = {0};
    parser->status = http_head_check(parser, &framing, &parser->why);
    if (parser->status)
        return HTTP_PARSE_REFUSED;
    parser->body_left = framing.length;
    parser->wants_continue = framing.wants_continue;
    parser->may_be_kept = !framing.chunked && !framing.length && !framing.secret && parser->head_length <= KEPT_MAX;
    if (framing.chunked) {
        parser->stage = HTTP_IN_CHUNKS;
        llhttp_resume(&parser->llhttp);
    } else {
        parser->stage = framing.length ? HTTP_IN_BODY : HTTP_ENDED;
    }
    return HTTP_PARSE_MORE;
}

static http_progress parse_body(http_parser *parser, const char *bytes, size_t length, size_t *took)
{
    size_t used = length < parser->body_left ? length : parser->body_left;
    if (!http_bytes_add(&parser->bytes, bytes, used)) {
        refuse(parser, 503, out_of_memory);
        return HTTP_PARSE_REFUSED;
    }
    parser->body_left -= used;
    *took += used;
    if (parser->body_left == 0)
        parser->stage = HTTP_ENDED;
    return HTTP_PARSE_MORE;
}

static http_progress parse_chunks(http_parser *parser, const char *bytes, size_t length, size_t *took)
{
    size_t left = CHUNKED_MAX - (parser->taken - parser->head_length);
    llhttp_errno_t error;
    size_t used = execute(parser, bytes, length < left ? length : left, &error);
    parser->taken += used;
    *took += used;
    if (!framing_is_clean(parser, bytes + used)) {
        parser->status = 0; /* it came first */
        refuse(parser, 400, bad_framing);
    } else if (error != HPE_OK && error != HPE_PAUSED)
        refuse_as_llhttp(parser, error);
    else if (parser->ended)
        parser->stage = HTTP_ENDED;
    else if (parser->taken - parser->head_length == CHUNKED_MAX)
        refuse(parser, 413, "the chunked body has more framing than it may");
    return parser->status ? HTTP_PARSE_REFUSED : HTTP_PARSE_MORE;
}

http_progress http_parse(http_parser *parser, const char *bytes, size_t length, size_t *took)
{
    *took = 0;
    assert(!parser->status && "a refused request is not fed again");
    if (length == 0)
        return HTTP_PARSE_MORE;
    if (parser->kept && is_repeated(parser, bytes, length)) {
        *took = parser->head_length;
        return HTTP_PARSE_WHOLE;
    }
    http_progress progress = HTTP_PARSE_MORE;
    if (parser->stage == HTTP_IN_HEAD)
        progress = parse_head(parser, bytes, length, took);
    if (progress == HTTP_PARSE_MORE && *took < length) {
        if (parser->stage == HTTP_IN_BODY)
            progress = parse_body(parser, bytes + *took, length - *took, took);
        else if (parser->stage == HTTP_IN_CHUNKS)
            progress = parse_chunks(parser, bytes + *took, length - *took, took);
    }
    if (progress == HTTP_PARSE_REFUSED || parser->stage != HTTP_ENDED)
        return progress;
    http_head_fill(parser);
    return HTTP_PARSE_WHOLE;
}

bool http_parser_wants_continue(http_parser *parser)
{
    bool waits = parser->wants_continue && parser->stage != HTTP_IN_HEAD && parser->bytes.length == parser->head_length;
    if (waits)
        parser->wants_continue = false;
    return waits;
}
