/* Answers: what a handler puts into one, and its bytes on the wire. */
#include "http_reply.h"

#include <stdarg.h>
#include <stdio.h>

static const struct reason {
    int status;
    const char *text;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Unknown";
}

void http_reply_reset(http_reply *reply)
{
    reply->status = 200;
    reply->tag = 0;
    reply->type = (http_text){"application/json", 16};
    reply->kept = false;
    reply->failed = false;
    http_bytes_clear(&reply->headers, 1024);
    http_bytes_clear(&reply->body, 4096);
}

void http_reply_free(http_reply *reply)
{
    http_bytes_clear(&reply->headers, 0);
    http_bytes_clear(&reply->body, 0);
}

void http_reply_status(http_reply *reply, int status)
{
    reply->status = status;
}

void http_reply_tag(http_reply *reply, unsigned tag)
{
    reply->tag = tag;
}

void http_reply_type(http_reply *reply, const char *content_type)
{
    reply->type = (http_text){content_type, strlen(content_type)};
}

void http_reply_kept(http_reply *reply)
{
    reply->kept = true;
}

void http_reply_header(http_reply *reply, const char *name, const char *value)
{
    http_bytes *headers = &reply->headers;
    size_t name_length = strlen(name), value_length = strlen(value);
    if (!http_bytes_reserve(headers, name_length + value_length + 4)) {
        reply->failed = true;
        return;
    }
    http_bytes_add(headers, name, name_length);
    http_bytes_add(headers, ": ", 2);
    /* A line end in a value would start a header of its own. */
    for (size_t i = 0; i < value_length; i++)
        headers->at[headers->length++] = value[i] == '\r' || value[i] == '\n' ? ' ' : value[i];
    http_bytes_add(headers, "\r\n", 2);
}

void http_reply_write(http_reply *reply, const char *bytes, size_t length)
{
    if (!http_bytes_add(&reply->body, bytes, length))
        reply->failed = true;
}

void http_reply_printf(http_reply *reply, const char *format, ...)
{
    http_bytes *body = &reply->body;
    size_t more = 128;
    for (int tries = 0; tries < 2; tries++) {
        if (!http_bytes_reserve(body, more))
            break;
        va_list args;
        va_start(args, format);
        int length = vsnprintf(body->at + body->length, body->room - body->length, format, args);
        va_end(args);
        if (length < 0)
            break;
        if ((size_t)length < body->room - body->length) {
            body->length += (size_t)length;
            return;
        }
        more = (size_t)length + 1;
    }
    reply->failed = true;
}

void http_reply_problem(http_reply *reply, int status, const char *detail)
{
    http_reply_reset(reply);
    reply->status = status;
    http_reply_type(reply, "application/problem+json");
    http_reply_printf(reply, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"",
                      reason_of(status), status);
    for (; *detail; detail++) {
        if (*detail == '"' || *detail == '\\')
            http_reply_write(reply, "\\", 1);
        http_reply_write(reply, detail, 1);
    }
    http_reply_write(reply, "\"}", 2);
}

static char *put(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    return to + length;
}

#define PUT(to, literal) put(to, literal, sizeof(literal) - 1)

static char *put_number(char *to, size_t number)
{
    char digits[20];
    size_t count = 0;
    do
        digits[sizeof digits - ++count] = (char)('0' + number % 10);
    while (number /= 10);
    return put(to, digits + sizeof digits - count, count);
}

static char *put_status(char *to, int status)
{
    if (status == 200)
        return PUT(to, "HTTP/1.1 200 OK\r\n");
    to = PUT(to, "HTTP/1.1 ");
    to = put_number(to, (size_t)status);
    *to++ = ' ';
    const char *reason = reason_of(status);
    to = put(to, reason, strlen(reason));
    return PUT(to, "\r\n");
}

static bool build_failed(http_after after, http_bytes *out)
{
    static const char keep[] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    static const char close[] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (after == HTTP_KEEP)
        return http_bytes_add(out, keep, sizeof keep - 1);
    return http_bytes_add(out, close, sizeof close - 1);
}

bool http_reply_build(const http_reply *reply, bool head, http_after after, http_bytes *out)
{
    if (reply->failed)
        return build_failed(after, out);
    bool no_content = reply->status == 204 || reply->status == 304;
    size_t body = head || no_content ? 0 : reply->body.length;
    /* Fixed texts and numbers together stay below 256 bytes. */
    if (!http_bytes_reserve(out, 256 + reply->type.length + reply->headers.length + body))
        return false;
    char *to = put_status(out->at + out->length, reply->status);
    /* A cache on the way may keep a 200 that says nothing else, and give one ID to two clients. */
    to = reply->kept ? PUT(to, "Cache-Control: no-cache\r\n") : PUT(to, "Cache-Control: no-store\r\n");
    if (!no_content) {
        to = PUT(to, "Content-Type: ");
        to = put(to, reply->type.at, reply->type.length);
        to = PUT(to, "\r\nContent-Length: ");
        to = put_number(to, reply->body.length);
        to = PUT(to, "\r\n");
    }
    if (after == HTTP_CLOSE)
        to = PUT(to, "Connection: close\r\n");
    else if (after == HTTP_KEEP_10)
        to = PUT(to, "Connection: keep-alive\r\n");
    if (reply->headers.length)
        to = put(to, reply->headers.at, reply->headers.length);
    to = PUT(to, "\r\n");
    if (body)
        to = put(to, reply->body.at, body);
    out->length = (size_t)(to - out->at);
    return true;
}
