/* Bytes to requests: what is understood, what is refused, and that it does not matter how the bytes were split. */
#include "test.h"

#include "server/http_parse.h"
#include "server/http_reply.h"

#include <stdio.h>

#define HOST "Host: a\r\n"

static http_parser parser;

static int setup(void **state)
{
    (void)state;
    http_parser_init(&parser);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_parser_free(&parser);
    return 0;
}

static const http_request *parse(const char *bytes)
{
    size_t took;
    http_parser_reset(&parser);
    http_progress progress = http_parse(&parser, bytes, strlen(bytes), &took);
    if (progress != HTTP_PARSE_WHOLE)
        fail_msg("'%s' is not a whole request: %d %s", bytes, parser.status, parser.why ? parser.why : "");
    assert_int_equal(took, strlen(bytes));
    return &parser.request;
}

/* The same refusal for one byte at a time as for all at once. */
static void assert_refused_bytes(const char *bytes, size_t length, int status)
{
    size_t took;
    http_parser_reset(&parser);
    if (http_parse(&parser, bytes, length, &took) != HTTP_PARSE_REFUSED)
        fail_msg("'%.60s' was not refused", bytes);
    if (parser.status != status)
        fail_msg("'%.60s' was refused with %d (%s), not %d", bytes, parser.status, parser.why, status);
    assert_non_null(parser.why);
    const char *why = parser.why;
    http_parser_reset(&parser);
    http_progress progress = HTTP_PARSE_MORE;
    for (size_t i = 0; i < length && progress == HTTP_PARSE_MORE; i++)
        progress = http_parse(&parser, bytes + i, 1, &took);
    assert_int_equal(progress, HTTP_PARSE_REFUSED);
    assert_int_equal(parser.status, status);
    assert_string_equal(parser.why, why);
}

static void assert_refused(const char *bytes, int status)
{
    assert_refused_bytes(bytes, strlen(bytes), status);
}

static void assert_text(http_text text, const char *expected)
{
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.at, expected, text.length);
}

static void a_request_is_taken_apart(void **state)
{
    (void)state;
    const http_request *request =
        parse("GET /ids?count=3&x HTTP/1.1\r\n" HOST "Accept:  text/plain \t\r\nEmpty:\r\n\r\n");
    assert_text(request->method, "GET");
    assert_text(request->path, "/ids");
    assert_text(request->query, "count=3&x");
    assert_int_equal(request->header_count, 3);
    assert_text(*http_header_find(request, "ACCEPT"), "text/plain");
    assert_text(*http_header_find(request, "empty"), "");
    assert_null(http_header_find(request, "Accep"));
    assert_text(request->body, "");
    assert_true(request->keep_alive);
    assert_false(request->head);
}

static void a_body_is_as_long_as_its_content_length(void **state)
{
    (void)state;
    const char *bytes = "POST /lease HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}GET";
    size_t took;
    assert_int_equal(http_parse(&parser, bytes, strlen(bytes), &took), HTTP_PARSE_WHOLE);
    assert_int_equal(took, strlen(bytes) - 3);
    assert_text(parser.request.body, "{}");
}

static void chunks_are_joined_and_trailers_ignored(void **state)
{
    (void)state;
    const http_request *request = parse("POST /lease HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
                                        "5\r\nhello\r\n6;why=not\r\n world\r\n0\r\nX: y\r\n\r\n");
    assert_text(request->body, "hello world");
    assert_int_equal(request->header_count, 2);
}

static void head_is_handled_as_get(void **state)
{
    (void)state;
    const http_request *request = parse("HEAD /id HTTP/1.1\r\n" HOST "\r\n");
    assert_text(request->method, "GET");
    assert_true(request->head);
}

static void keep_alive_follows_the_version_and_the_connection_header(void **state)
{
    (void)state;
    assert_true(parse("GET / HTTP/1.1\r\n" HOST "\r\n")->keep_alive);
    assert_false(parse("GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n")->keep_alive);
    assert_false(parse("GET / HTTP/1.0\r\n\r\n")->keep_alive);
    assert_true(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->keep_alive);
}

static void an_absolute_target_gives_its_path(void **state)
{
    (void)state;
    const http_request *request = parse("GET http://a:7070/id?x=1 HTTP/1.1\r\n" HOST "\r\n");
    assert_text(request->path, "/id");
    assert_text(request->query, "x=1");
    request = parse("GET http://a?x=1 HTTP/1.1\r\n" HOST "\r\n");
    assert_text(request->path, "/");
    assert_text(request->query, "x=1");
    assert_text(parse("GET http://a HTTP/1.1\r\n" HOST "\r\n")->path, "/");
    assert_text(parse("OPTIONS * HTTP/1.1\r\n" HOST "\r\n")->path, "*");
}

static void an_upgrade_is_answered_as_if_it_had_not_been_asked_for(void **state)
{
    (void)state;
    assert_text(parse("GET /id HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")->path, "/id");
}

static void empty_lines_before_a_request_are_skipped(void **state)
{
    (void)state;
    assert_text(parse("\r\n\r\nGET /id HTTP/1.1\r\n" HOST "\r\n")->path, "/id");
}

static void what_could_smuggle_a_request_is_refused(void **state)
{
    (void)state;
    static const char *const probes[] = {
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST "Content-Length\t: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n" HOST " Content-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\n Content-Length: 5\r\n" HOST "\r\nhello",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "X: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "X:\r\n c\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        assert_refused(probes[i], 400);
}

static void a_transfer_coding_other_than_chunked_is_not_implemented(void **state)
{
    (void)state;
    assert_refused("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501);
    assert_refused("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501);
    assert_refused("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501);
}

static void a_malformed_head_is_refused(void **state)
{
    (void)state;
    assert_refused("GET / HTTP/1.1\r\n\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\n" HOST ": nameless\r\n\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\n" HOST "X: a\001b\r\n\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\n" HOST "X: a\177b\r\n\r\n", 400);
    assert_refused("GET  / HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET /  HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET / HTTP/1.1 \r\n" HOST "\r\n", 505);
    assert_refused("GET /#top HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET id HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET * HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET /\303\244 HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused("GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400);
    assert_refused_bytes("GET /i\0d HTTP/1.1\r\n" HOST "\r\n", 29, 400);
    assert_refused_bytes("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n", 35, 400);
    assert_refused_bytes("\x16\x03\x01\x02\x00\x01", 6, 400);
}

static void methods_and_versions_that_are_not_known_are_refused(void **state)
{
    (void)state;
    assert_refused("BREW /pot HTTP/1.1\r\n" HOST "\r\n", 405);
    assert_refused("get / HTTP/1.1\r\n" HOST "\r\n", 405);
    assert_refused("CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n", 501);
    assert_refused("GET / HTTP/1.2\r\n" HOST "\r\n", 505);
    assert_refused("GET / HTTP/3.0\r\n" HOST "\r\n", 505);
    assert_refused("GET / HTTP/2.0\r\n" HOST "\r\n", 505);
    assert_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    assert_refused("OPTIONS * RTSP/1.0\r\n" HOST "\r\n", 505);
}

static void a_client_that_expects_100_continue_is_told_once(void **state)
{
    (void)state;
    const char *head = "POST /lease HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
    size_t took;
    assert_int_equal(http_parse(&parser, head, strlen(head) - 1, &took), HTTP_PARSE_MORE);
    assert_false(http_parser_wants_continue(&parser));
    assert_int_equal(http_parse(&parser, head + strlen(head) - 1, 1, &took), HTTP_PARSE_MORE);
    assert_true(http_parser_wants_continue(&parser));
    assert_false(http_parser_wants_continue(&parser));
    assert_int_equal(http_parse(&parser, "{}", 2, &took), HTTP_PARSE_WHOLE);
    assert_refused("POST / HTTP/1.1\r\n" HOST "Expect: miracles\r\nContent-Length: 2\r\n\r\n{}", 417);
    assert_refused("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 70000\r\n\r\n", 413);
}

static char text[HTTP_BODY_MAX * 8];

static void targets_up_to_the_limit_are_taken(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        sprintf(text, "GET /%0*d HTTP/1.1\r\n" HOST "\r\n", HTTP_TARGET_MAX - 1 + over, 0);
        if (over)
            assert_refused(text, 414);
        else
            assert_int_equal(parse(text)->path.length, HTTP_TARGET_MAX);
    }
}

static void heads_up_to_the_limit_are_taken(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        size_t length = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" HOST);
        length += (size_t)sprintf(text + length, "X: %0*d\r\n\r\n", (int)(HTTP_HEAD_MAX - length - 7) + over, 0);
        assert_int_equal(length, HTTP_HEAD_MAX + over);
        if (over)
            assert_refused(text, 431);
        else
            assert_int_equal(parse(text)->header_count, 2);
    }
}

static void headers_up_to_the_limit_are_taken(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        size_t length = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" HOST);
        for (int i = 1; i < HTTP_HEADERS_MAX + over; i++)
            length += (size_t)sprintf(text + length, "X: %d\r\n", i);
        sprintf(text + length, "\r\n");
        if (over)
            assert_refused(text, 431);
        else
            assert_int_equal(parse(text)->header_count, HTTP_HEADERS_MAX);
    }
}

static void bodies_up_to_the_limit_are_taken(void **state)
{
    (void)state;
    for (int over = 0; over <= 1; over++) {
        sprintf(text, "POST / HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n%0*d", HTTP_BODY_MAX + over,
                HTTP_BODY_MAX + over, 0);
        if (over)
            assert_refused(text, 413);
        else
            assert_int_equal(parse(text)->body.length, HTTP_BODY_MAX);
        size_t length = (size_t)sprintf(text, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
        length += (size_t)sprintf(text + length, "8000\r\n%0*d\r\n", 0x8000, 0);
        length += (size_t)sprintf(text + length, "%x\r\n%0*d\r\n", 0x8000 + over, 0x8000 + over, 0);
        sprintf(text + length, "0\r\n\r\n");
        if (over)
            assert_refused(text, 413);
        else
            assert_int_equal(parse(text)->body.length, HTTP_BODY_MAX);
    }
}

static void a_body_in_chunks_of_one_byte_is_taken_and_endless_framing_is_not(void **state)
{
    (void)state;
    size_t length = (size_t)sprintf(text, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < HTTP_BODY_MAX; i++)
        length += (size_t)sprintf(text + length, "1\r\nx\r\n");
    sprintf(text + length, "0\r\n\r\n");
    assert_int_equal(parse(text)->body.length, HTTP_BODY_MAX);

    const char *head = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5;";
    size_t took, fed = 0;
    http_parser_reset(&parser);
    assert_int_equal(http_parse(&parser, head, strlen(head), &took), HTTP_PARSE_MORE);
    while (http_parse(&parser, "xxxxxxxxxxxxxxxx", 16, &took) == HTTP_PARSE_MORE)
        assert_true((fed += took) < 1 << 20);
    assert_int_equal(parser.status, 413);
}

static void the_split_does_not_matter(void **state)
{
    (void)state;
    const char *bytes = "\r\nGET /ids?count=3 HTTP/1.1\r\n" HOST "Accept: text/plain\r\nX:\r\n\r\n"
                        "POST /lease HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\nhello world"
                        "POST /lease HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                        "5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nT: u\r\n\r\n"
                        "HEAD /id HTTP/1.1\r\n" HOST "\r\n";
    size_t length = strlen(bytes);
    /* Cut in two anywhere, then into single bytes. */
    for (size_t cut = 1; cut <= length; cut++) {
        http_parser_reset(&parser);
        int whole = 0;
        for (size_t at = 0, took; at < length; at += took) {
            size_t piece = cut == length ? 1 : at < cut ? cut - at : length - at;
            http_progress progress = http_parse(&parser, bytes + at, piece, &took);
            assert_int_not_equal(progress, HTTP_PARSE_REFUSED);
            if (progress == HTTP_PARSE_MORE)
                continue;
            const http_request *request = &parser.request;
            static const char *const paths[] = {"/ids", "/lease", "/lease", "/id"};
            static const char *const bodies[] = {"", "hello world", "hello world", ""};
            static const size_t headers[] = {3, 2, 2, 1};
            assert_text(request->path, paths[whole]);
            assert_text(request->body, bodies[whole]);
            assert_int_equal(request->header_count, headers[whole]);
            whole++;
            http_parser_reset(&parser);
        }
        assert_int_equal(whole, 4);
    }
}

static void assert_built(const http_reply *reply, bool head, http_after after, const char *expected)
{
    http_bytes out = {0};
    assert_true(http_reply_build(reply, head, after, &out));
    assert_int_equal(out.length, strlen(expected));
    assert_memory_equal(out.at, expected, out.length);
    http_bytes_clear(&out, 0);
}

/* What the parser makes of the bytes after a reset; how many of them it used. */
static size_t parse_next(const char *bytes, http_progress expected)
{
    size_t took;
    http_parser_reset(&parser);
    assert_int_equal(http_parse(&parser, bytes, strlen(bytes), &took), expected);
    return took;
}

static void the_same_bytes_again_are_the_same_request(void **state)
{
    (void)state;
    static const char one[] = "GET /id?a HTTP/1.1\r\n" HOST "X: 1\r\n\r\n";
    for (int i = 0; i < 3; i++) {
        const http_request *request = parse(one);
        assert_text(request->path, "/id");
        assert_text(request->query, "a");
        assert_int_equal(request->header_count, 2);
        assert_text(*http_header_find(request, "x"), "1");
        assert_true(request->keep_alive);
    }
    http_parser_reset(&parser);
    assert_true(parser.kept);

    /* Others are not taken for it: in one byte, in the last one, longer, shorter, or with more behind it. */
    assert_text(*http_header_find(parse("GET /id?a HTTP/1.1\r\n" HOST "X: 2\r\n\r\n"), "x"), "2");
    parse(one);
    parse_next("GET /id?a HTTP/1.1\r\n" HOST "X: 1\r\n\rX", HTTP_PARSE_REFUSED);
    parse(one);
    assert_int_equal(parse("GET /id?a HTTP/1.1\r\n" HOST "X: 1\r\nY: 2\r\n\r\n")->header_count, 3);
    parse(one);
    assert_int_equal(parse("GET /id?a HTTP/1.1\r\n" HOST "\r\n")->header_count, 1);
    parse(one);
    assert_int_equal(parse_next("GET /id?a HTTP/1.1\r\n" HOST "X: 1\r\n\r\nGET", HTTP_PARSE_WHOLE), strlen(one));
    assert_int_equal(parse_next("GET /id?a HTTP/1.1\r\n" HOST, HTTP_PARSE_MORE), 29);
    size_t took;
    assert_int_equal(http_parse(&parser, "Z: 9\r\n\r\n", 8, &took), HTTP_PARSE_WHOLE);
    assert_text(*http_header_find(&parser.request, "z"), "9");
}

static void what_has_a_body_or_a_token_is_not_kept(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "POST /lease HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}",
        "POST /lease HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /leases HTTP/1.1\r\n" HOST "authorization: Bearer x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        parse(requests[i]);
        http_parser_reset(&parser);
        assert_false(parser.kept);
        parse(requests[i]);
    }
    parse_next("GET / HTTP/1.1\r\nHost : a\r\n\r\n", HTTP_PARSE_REFUSED);
    http_parser_reset(&parser);
    assert_false(parser.kept);
}

#define FRESH "Cache-Control: no-store\r\n" /* no two clients may get one answer */

static void answers_say_their_length_and_what_happens_to_the_connection(void **state)
{
    (void)state;
    http_reply reply = {0};
    http_reply_reset(&reply);
    http_reply_printf(&reply, "{\"id\":%d}", 7);
    assert_built(&reply, false, HTTP_KEEP,
                 "HTTP/1.1 200 OK\r\n" FRESH "Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"id\":7}");
    assert_built(&reply, true, HTTP_CLOSE,
                 "HTTP/1.1 200 OK\r\n" FRESH
                 "Content-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n");
    http_reply_status(&reply, 204);
    assert_built(&reply, false, HTTP_KEEP_10, "HTTP/1.1 204 No Content\r\n" FRESH "Connection: keep-alive\r\n\r\n");
    http_reply_problem(&reply, 503, "say \"when\"");
    http_reply_header(&reply, "Retry-After", "1\r\nX: 2");
    assert_built(&reply, false, HTTP_KEEP,
                 "HTTP/1.1 503 Service Unavailable\r\n" FRESH
                 "Content-Type: application/problem+json\r\nContent-Length: 89\r\n"
                 "Retry-After: 1  X: 2\r\n\r\n"
                 "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
                 "\"detail\":\"say \\\"when\\\"\"}");
    http_reply_reset(&reply);
    for (int i = 0; i < 1000; i++)
        http_reply_printf(&reply, "%0300d", i);
    assert_int_equal(reply.body.length, 300000);
    http_reply_free(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_taken_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_is_as_long_as_its_content_length, setup, teardown),
        cmocka_unit_test_setup_teardown(chunks_are_joined_and_trailers_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(head_is_handled_as_get, setup, teardown),
        cmocka_unit_test_setup_teardown(keep_alive_follows_the_version_and_the_connection_header, setup, teardown),
        cmocka_unit_test_setup_teardown(an_absolute_target_gives_its_path, setup, teardown),
        cmocka_unit_test_setup_teardown(an_upgrade_is_answered_as_if_it_had_not_been_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_lines_before_a_request_are_skipped, setup, teardown),
        cmocka_unit_test_setup_teardown(what_could_smuggle_a_request_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_transfer_coding_other_than_chunked_is_not_implemented, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_head_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(methods_and_versions_that_are_not_known_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_expects_100_continue_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(targets_up_to_the_limit_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_up_to_the_limit_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_up_to_the_limit_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(bodies_up_to_the_limit_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_in_chunks_of_one_byte_is_taken_and_endless_framing_is_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_split_does_not_matter, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_bytes_again_are_the_same_request, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_a_body_or_a_token_is_not_kept, setup, teardown),
        cmocka_unit_test(answers_say_their_length_and_what_happens_to_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
