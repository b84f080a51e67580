/* What a whole head says. Its spans must tile it: between them nothing but one space, one colon, CR LF and the blanks
 * around values. So a bare LF, a folded line or a blank before the colon cannot hide, whatever the grammar let pass. */
#include "http_head.h"

#include <strings.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool crlf_at(const char *head, size_t length, size_t at)
{
    return at + 2 <= length && head[at] == '\r' && head[at + 1] == '\n';
}

/* The request line, after empty lines before it, which some clients send. `next` is the first header. */
static int check_line(const http_parser *parser, size_t *next, const char **why)
{
    const char *head = parser->bytes.at;
    size_t length = parser->head_length, at = 0;
    while (crlf_at(head, length, at))
        at += 2;
    size_t method_end = (size_t)parser->method.at + parser->method.length;
    size_t target_end = (size_t)parser->target.at + parser->target.length;
    *why = "the request line is not METHOD SP TARGET SP VERSION CR LF";
    if (parser->method.at != at || parser->target.at != method_end + 1 || head[method_end] != ' ' ||
        head[target_end] != ' ' || !crlf_at(head, length, target_end + 9))
        return 400;
    const char *version = head + target_end + 1;
    *why = "the version of HTTP is neither 1.0 nor 1.1";
    if (memcmp(version, "HTTP/1.", 7) != 0 || (version[7] != '0' && version[7] != '1'))
        return 505;
    *next = target_end + 11;
    return 0;
}

static int check_tiles(http_parser *parser, size_t at, const char **why)
{
    const char *head = parser->bytes.at;
    size_t length = parser->head_length;
    *why = "a header is folded over several lines";
    if (parser->folded)
        return 400;
    *why = "a header is not NAME: VALUE CR LF";
    for (size_t i = 0; i < parser->request.header_count; i++) {
        http_span *name = &parser->names[i], *value = &parser->values[i];
        if (name->at != at || name->length == 0)
            return 400;
        at += name->length;
        if (head[at] != ':')
            return 400;
        at++;
        while (is_blank(head[at]))
            at++;
        if (value->length == 0)
            value->at = (uint16_t)at;
        else if (value->at != at)
            return 400;
        at += value->length;
        while (is_blank(head[at]))
            at++;
        if (!crlf_at(head, length, at))
            return 400;
        at += 2;
        while (value->length && is_blank(head[value->at + value->length - 1]))
            value->length--;
    }
    return crlf_at(head, length, at) && at + 2 == length ? 0 : 400;
}

/* An origin's path, an absolute http URL, or the asterisk of OPTIONS, in visible ASCII and without a fragment. */
static int check_target(const http_parser *parser, const char **why)
{
    const char *target = parser->bytes.at + parser->target.at;
    size_t length = parser->target.length;
    *why = "the request target has a character that is not allowed";
    for (size_t i = 0; i < length; i++)
        if (target[i] <= ' ' || target[i] >= 0x7f || target[i] == '#')
            return 400;
    *why = "the request target is neither a path nor an http URL";
    if (target[0] == '/' || (length > 7 && strncasecmp(target, "http://", 7) == 0) ||
        (length > 8 && strncasecmp(target, "https://", 8) == 0))
        return 0;
    return length == 1 && target[0] == '*' && parser->llhttp.method == HTTP_OPTIONS ? 0 : 400;
}

/* Others are refused with what the path answers to. */
static int check_method(const http_parser *parser, const char **why)
{
    *why = "there is no way through this server to another";
    return parser->llhttp.method == HTTP_CONNECT ? 501 : 0;
}

/* Of a name as long as the header's. The first letter decides nearly always. */
static bool is_named(const http_parser *parser, size_t i, const char *name)
{
    const char *at = parser->bytes.at + parser->names[i].at;
    return (*at | 0x20) == *name && strncasecmp(at, name, parser->names[i].length) == 0;
}

static bool has_value(const http_parser *parser, size_t i, const char *value, size_t length)
{
    return parser->values[i].length == length &&
           strncasecmp(parser->bytes.at + parser->values[i].at, value, length) == 0;
}

/* Digits only: no sign, no list, no blank. llhttp has refused what overflows. */
static bool length_of(const http_parser *parser, size_t i, size_t *length)
{
    const char *digits = parser->bytes.at + parser->values[i].at;
    size_t count = parser->values[i].length;
    *length = 0;
    for (size_t k = 0; k < count; k++) {
        if (digits[k] < '0' || digits[k] > '9')
            return false;
        if (*length <= HTTP_BODY_MAX)
            *length = *length * 10 + (size_t)(digits[k] - '0');
    }
    return count > 0;
}

static int check_headers(const http_parser *parser, http_framing *framing, const char **why)
{
    bool http_10 = parser->llhttp.http_minor == 0;
    size_t hosts = 0, lengths = 0, codings = 0;
    bool expects = false;
    for (size_t i = 0; i < parser->request.header_count; i++) {
        switch (parser->names[i].length) {
        case 4:
            hosts += is_named(parser, i, "host");
            break;
        case 6:
            if (!is_named(parser, i, "expect"))
                break;
            expects = true;
            *why = "only 100-continue can be expected";
            if (!has_value(parser, i, "100-continue", 12))
                return 417;
            break;
        case 13:
            framing->secret |= is_named(parser, i, "authorization");
            break;
        case 14:
            if (!is_named(parser, i, "content-length"))
                break;
            *why = "Content-Length is not a number";
            if (!length_of(parser, i, &framing->length))
                return 400;
            *why = "Content-Length is given twice";
            if (lengths++)
                return 400;
            break;
        case 17:
            if (!is_named(parser, i, "transfer-encoding"))
                break;
            *why = "the only transfer coding known here is chunked, once";
            if (codings++ || !has_value(parser, i, "chunked", 7))
                return 501;
            break;
        }
    }
    *why = "Content-Length and Transfer-Encoding exclude each other";
    if (lengths && codings)
        return 400;
    *why = "HTTP/1.0 has no Transfer-Encoding";
    if (codings && http_10)
        return 400;
    *why = "one Host header is wanted";
    if (hosts > 1 || (hosts == 0 && !http_10))
        return 400;
    *why = "the body is larger than 65536 bytes";
    if (framing->length > HTTP_BODY_MAX)
        return 413;
    framing->chunked = codings > 0;
    framing->wants_continue = expects && !http_10 && (framing->chunked || framing->length);
    return 0;
}

int http_head_check(http_parser *parser, http_framing *framing, const char **why)
{
    size_t headers_at = 0;
    int status = check_line(parser, &headers_at, why);
    if (!status)
        status = check_tiles(parser, headers_at, why);
    if (!status)
        status = check_method(parser, why);
    if (!status)
        status = check_target(parser, why);
    if (!status)
        status = check_headers(parser, framing, why);
    if (!status)
        *why = NULL;
    parser->request.keep_alive = llhttp_should_keep_alive(&parser->llhttp);
    return status;
}

static void fill_target(http_request *request, http_text target)
{
    if (target.at[0] != '/' && target.at[0] != '*') {
        const char *host = (const char *)memchr(target.at, ':', target.length) + 3;
        size_t left = target.length - (size_t)(host - target.at);
        size_t skip = 0;
        while (skip < left && host[skip] != '/' && host[skip] != '?')
            skip++;
        target = (http_text){host + skip, left - skip};
    }
    const char *mark = target.length ? memchr(target.at, '?', target.length) : NULL;
    request->path = target;
    request->query = (http_text){"", 0};
    if (mark) {
        request->path.length = (size_t)(mark - target.at);
        request->query = (http_text){mark + 1, target.length - request->path.length - 1};
    }
    if (request->path.length == 0)
        request->path = (http_text){"/", 1};
}

void http_head_fill(http_parser *parser)
{
    const char *head = parser->bytes.at;
    http_request *request = &parser->request;
    request->head = parser->llhttp.method == HTTP_HEAD;
    request->method =
        request->head ? (http_text){"GET", 3} : (http_text){head + parser->method.at, parser->method.length};
    fill_target(request, (http_text){head + parser->target.at, parser->target.length});
    for (size_t i = 0; i < request->header_count; i++) {
        request->headers[i].name = (http_text){head + parser->names[i].at, parser->names[i].length};
        request->headers[i].value = (http_text){head + parser->values[i].at, parser->values[i].length};
    }
    request->body = (http_text){head + parser->head_length, parser->bytes.length - parser->head_length};
}

const http_text *http_header_find(const http_request *request, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < request->header_count; i++)
        if (request->headers[i].name.length == length && strncasecmp(request->headers[i].name.at, name, length) == 0)
            return &request->headers[i].value;
    return NULL;
}
