/* The http:// source against a server that answers whatever it is told to: nothing is believed unchecked, and nothing
 * secret is repeated. What a real server does is tested in tests/faults/test_server.py. */
#include "tests/test.h"

#include "host/clock.h"
#include "sources/all.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TOKEN "very-secret-token-0123456789"

/* ------------------------------------------------------------------------------------------------- the server */

enum { REQUESTS_MAX = 32, REQUEST_SIZE = 8192 };

typedef struct reply {
    int status;       /* 0: `body` is all the bytes; -1: closes without a word; -2: never answers */
    const char *body; /* @ stands for the request's ID */
    size_t filler;    /* so many blanks behind the body */
} reply;

typedef struct responder {
    int listener, port, quit[2];
    const reply *replies; /* one for each request, the last one for all that follow */
    size_t reply_count;
    pthread_t thread;
    /* Written by the thread, read after it has ended or after the answer came. */
    size_t seen, connections;
    char requests[REQUESTS_MAX][REQUEST_SIZE];
} responder;

/* A whole request, or false when the other side is gone or the test is over. */
static bool hear(const responder *r, int fd, char *text)
{
    size_t length = 0;
    for (;;) {
        text[length] = 0;
        const char *end = strstr(text, "\r\n\r\n"), *size = strcasestr(text, "content-length:");
        if (end && length >= (size_t)(end + 4 - text) + (size && size < end ? strtoul(size + 15, NULL, 10) : 0))
            return true;
        struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = r->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents || length + 1 >= REQUEST_SIZE)
            return false;
        ssize_t got = recv(fd, text + length, REQUEST_SIZE - 1 - length, 0);
        if (got <= 0)
            return false;
        length += (size_t)got;
    }
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        length -= (size_t)sent;
    }
}

static void say(int fd, const reply *answer, const char *request)
{
    static const char key[] = "\"requestId\":\"";
    const char *id = strstr(request, key);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (const char *at = answer->body; *at; at++) {
        if (*at == '@' && id)
            fprintf(out, "%.32s", id + sizeof key - 1);
        else
            fputc(*at, out);
    }
    for (size_t i = 0; i < answer->filler; i++)
        fputc(' ', out);
    fclose(out);
    char head[256];
    int size = answer->status ? snprintf(head, sizeof head,
                                         "HTTP/1.1 %d Said\r\nContent-Type: application/json\r\nLocation: "
                                         "http://127.0.0.1:1/\r\nContent-Length: %zu\r\n\r\n",
                                         answer->status, answer->status == 204 ? 0 : length)
                              : 0;
    send_all(fd, head, (size_t)size);
    if (answer->status != 204)
        send_all(fd, text, length);
    free(text);
}

static void serve_connection(responder *r, int fd)
{
    char request[REQUEST_SIZE];
    while (hear(r, fd, request)) {
        const reply *answer = &r->replies[r->seen < r->reply_count ? r->seen : r->reply_count - 1];
        if (r->seen < REQUESTS_MAX)
            strcpy(r->requests[r->seen], request);
        r->seen++;
        if (answer->status == -1)
            return;
        if (answer->status == -2) {
            struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = r->quit[0], .events = POLLIN}};
            poll(both, 2, -1);
            return;
        }
        say(fd, answer, request);
        if (!answer->status)
            return;
    }
}

static void *serve(void *ctx)
{
    responder *r = ctx;
    for (;;) {
        struct pollfd both[2] = {{.fd = r->listener, .events = POLLIN}, {.fd = r->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents)
            return NULL;
        int fd = accept(r->listener, NULL, NULL);
        r->connections++;
        serve_connection(r, fd);
        close(fd);
    }
}

static responder *responder_begin(int listener, const reply *replies, size_t count)
{
    responder *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->replies = replies;
    r->reply_count = count;
    r->listener = listener;
    assert_int_equal(listen(r->listener, 8), 0);
    assert_int_equal(pipe(r->quit), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, serve, r), 0);
    return r;
}

static responder *responder_start(const reply *replies, size_t count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    responder *r = responder_begin(listener, replies, count);
    r->port = ntohs(address.sin_port);
    return r;
}

#define START(...) responder_start((const reply[]){__VA_ARGS__}, sizeof((const reply[]){__VA_ARGS__}) / sizeof(reply))

/* What it heard can be read then. */
static void responder_stop(responder *r)
{
    assert_int_equal(write(r->quit[1], "x", 1), 1);
    pthread_join(r->thread, NULL);
    close(r->quit[0]);
    close(r->quit[1]);
    close(r->listener);
}

static void responder_free(responder *r)
{
    responder_stop(r);
    free(r);
}

/* A port on which nobody listens. */
static int dead_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* ------------------------------------------------------------------------------------------------- the source */

typedef struct table {
    void *source;
    kz_source_facts facts;
    kz_error err;
    kz_grant grant;
} table;

static kz_status table_try(table *t, const char *url, const char *layout, int64_t timeout_ms)
{
    kz_layout parsed;
    if (layout)
        assert_ok(kz_layout_parse(layout, &parsed, NULL));
    kz_source_options options = {.layout = layout ? &parsed : NULL,
                                 .fallback = KZ_FALLBACK_FENCED,
                                 .service = "default",
                                 .clock = &kz__machine_clock,
                                 .timeout_ms = timeout_ms};
    memset(t, 0, sizeof *t);
    return kz__source_http.open(&t->source, url, &options, &t->facts, &t->err);
}

static void table_open(table *t, int port, const char *more)
{
    char url[512];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, more);
    if (table_try(t, url, NULL, 2000))
        fail_msg("%s: %s", url, t->err.message);
}

static void table_close(table *t)
{
    kz__source_http.close(t->source, false);
}

static const kz_acquire asked = {
    .service = "default",
    .holder = "{\"host\":\"test\",\"pid\":\"7\"}",
    .throughput_per_ms = 256,
    .request_id = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}};

static kz_status table_acquire(table *t)
{
    return kz__source_http.acquire(t->source, &asked, &t->grant, &t->err);
}

static kz_status table_release(table *t)
{
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign("secret", 5, 1800000000500, signature);
    return kz__source_http.release(
        t->source, &(kz_release){.service = "default", .id = 5, .timestamp_ms = 1800000000500, .signature = signature},
        &t->err);
}

#define LEASE(id, more)                                                                                                \
    "{\"id\":" id ",\"created\":1800000000000,\"expired\":1800000600000,\"secret\":\"0123456789abcdef\","              \
    "\"customEpoch\":1767225600000,\"bitReserve\":1,\"bitTs\":41,\"bitId\":14,\"bitSeq\":8" more "}"
#define TWIN   ",\"fallbackCreated\":1800000000000,\"fallbackExpired\":1800002400000"
#define ANSWER "{\"leases\":[" LEASE("5", TWIN) "],\"serverTime\":1800000000007,\"generation\":9,\"requestId\":\"@\"}"

/* -------------------------------------------------------------------------------------------------------- URLs */

static void urls_of_one_or_several_servers_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "http://127.0.0.1:7070",   "http://localhost",      "http://a:7070,b:7070",
        "http://[::1]:7070",       "http://a:7070/",        "http://a,b,[::1],c-d.example:1",
        "http://a?service=orders", "http://a?token=" TOKEN,
    };
    static const struct {
        const char *url, *part;
    } bad[] = {
        {"http:", "write http://host:port"},
        {"http://", "not a host"},
        {"http://a,", "not a host"},
        {"http://,a", "not a host"},
        {"http://a:0", "not a port"},
        {"http://a:65536", "not a port"},
        {"http://a:7x", "not a port"},
        {"http://[::1", "not a host"},
        {"http://[::1]x", "not a port"},
        {"http://a b:1", "not a host"},
        {"http://a%20b:1", "not a host"},
        {"http://a\r\nX: y", "not a host"},
        {"http://a/lease", "has no path"},
        {"http://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16"},
        {"http://user:hidden@a:7070", "no login"},
        {"http://a?lease=2s", "unknown parameter \"lease\""},
        {"http://a?service=x/y", "not the name of a service"},
        {"http://a?cacert=/x", "for https://"},
        {"http://a?token=a%20b", "not a token"},
        {"http://a?token=a%0d%0aX:y", "not a token"},
        {"http://a?token=", "not a token"},
        {"http://a?token=x&token-file=/y", "not both"},
        {"http://a?token-file=/nonexistent/file", "/nonexistent/file"},
        {"http://a?token=" TOKEN "%", "%25"},
        {"http://a?token=" TOKEN "&token=" TOKEN, "given twice"},
        {"http://a?" TOKEN, "name=value"},
    };
    table t;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (table_try(&t, good[i], NULL, 1000))
            fail_msg("%s: %s", good[i], t.err.message);
        assert_int_equal(t.facts.flags, 0);
        assert_string_equal(t.facts.layout.name, "kazahana");
        table_close(&t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kz_status status = table_try(&t, bad[i].url, NULL, 1000);
        if (status != (strstr(bad[i].url, "nonexistent") ? KZ_SYSTEM : KZ_INVALID))
            fail_msg("%s gave %s", bad[i].url, kz_status_name(status));
        assert_contains(t.err.message, bad[i].part);
        assert_null(strstr(t.err.message, TOKEN));
        assert_null(strstr(t.err.message, "hidden"));
    }
    assert_status(table_try(&t, "http://a", "mastodon", 1000), KZ_INVALID);
}

static void an_unreachable_server_is_found_out_by_the_first_request(void **state)
{
    (void)state;
    table t;
    int port = dead_port();
    char name[64];
    table_open(&t, port, "");
    assert_status(table_acquire(&t), KZ_UNAVAILABLE);
    snprintf(name, sizeof name, "http://127.0.0.1:%d: ", port);
    assert_contains(t.err.message, name);
    assert_status(table_release(&t), KZ_UNAVAILABLE);
    table_close(&t);
    assert_ok(table_try(&t, "http://no-such-host.invalid:7070", NULL, 1000));
    assert_status(table_acquire(&t), KZ_UNAVAILABLE);
    table_close(&t);
}

/* ----------------------------------------------------------------------------------------------------- acquire */

static void acquire_asks_as_agreed_and_takes_what_is_granted(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0});
    table t;
    /* Nothing of this may be heeded. */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    table_open(&t, r->port, "?service=orders");
    if (table_acquire(&t))
        fail_msg("%s", t.err.message);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    responder_stop(r);
    const char *request = r->requests[0];
    assert_memory_equal(request, "POST /lease HTTP/1.1\r\n", 22);
    assert_contains(request, "\"serviceId\":\"orders\"");
    assert_contains(request, "\"meta\":{\"host\":\"test\",\"pid\":\"7\"}");
    assert_contains(request, "\"throughputPerMs\":256");
    assert_contains(request, "\"requestId\":\"00112233445566778899aabbccddeeff\"");
    assert_contains(request, "Content-Type: application/json\r\n");
    assert_null(strcasestr(request, "Authorization"));
    assert_null(strcasestr(request, "Expect"));
    assert_int_equal(t.grant.count, 1);
    assert_int_equal(t.grant.source_ms, 1800000000007);
    assert_int_equal(t.grant.generation, 9);
    const kz_lease *lease = &t.grant.leases[0];
    assert_int_equal(lease->id, 5);
    assert_int_equal(lease->created_ms, 1800000000000);
    assert_int_equal(lease->expired_ms, 1800000600000);
    assert_int_equal(lease->fallback_created_ms, 1800000000000);
    assert_int_equal(lease->fallback_expired_ms, 1800002400000);
    assert_int_equal(lease->epoch_ms, 1767225600000);
    assert_int_equal(lease->reserved_bits, 1);
    assert_int_equal(lease->time_bits, 41);
    assert_int_equal(lease->node_bits, 14);
    assert_int_equal(lease->seq_bits, 8);
    assert_string_equal(lease->secret, "0123456789abcdef");
    table_close(&t);
    free(r);
}

static void a_server_of_the_bare_protocol_will_do(void **state)
{
    (void)state;
    responder *r = START({200, "{\"leases\":[" LEASE("5", "") "," LEASE("6", "") "]}", 0});
    table t;
    table_open(&t, r->port, "");
    assert_ok(table_acquire(&t));
    assert_int_equal(t.grant.count, 2);
    assert_int_equal(t.grant.source_ms, 1800000000000);
    assert_int_equal(t.grant.generation, 0);
    assert_int_equal(t.grant.leases[1].fallback_created_ms, t.grant.leases[1].fallback_expired_ms);
    table_close(&t);
    responder_free(r);
}

#define WITH(part)                                                                                                     \
    "{\"leases\":[{\"id\":5,\"created\":1800000000000,\"expired\":1800000600000,\"secret\":\"s\","                     \
    "\"customEpoch\":1767225600000,\"bitReserve\":1,\"bitTs\":41,\"bitId\":14" part "}]"
#define SEQ ",\"bitSeq\":8"

static void an_answer_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        kz_status status;
        const char *part;
    } cases[] = {
        {"", KZ_STORE, "not valid JSON"},
        {"<html>hello</html>", KZ_STORE, "not valid JSON"},
        {"[]", KZ_STORE, "not a JSON object"},
        {"null", KZ_STORE, "JSON"},
        {"{}", KZ_STORE, "list of leases"},
        {"{\"leases\":{}}", KZ_STORE, "list of leases"},
        {"{\"leases\":[]}", KZ_STORE, "list of leases"},
        {"{\"leases\":[5]}", KZ_STORE, "missing"},
        {"{\"leases\":[" LEASE("5", "") "]} x", KZ_STORE, "not valid JSON"},
        {"{\"leases\":[" LEASE("5", ",\"id\":6") "]}", KZ_STORE, "not valid JSON"},
        {"{\"leases\":[],\"leases\":[" LEASE("5", "") "]}", KZ_STORE, "not valid JSON"},
        {"{\"leases\":[" LEASE("5", "") "," LEASE("5", "") "]}", KZ_STORE, "overlap"},
        {"{\"leases\":[" LEASE("\"5\"", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("5.0", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("-1", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("8192", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("true", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("99999999999999999999", "") "]}", KZ_STORE, "not valid JSON"},
        {"{\"leases\":[" LEASE("1e3", "") "]}", KZ_STORE, "answer's id"},
        {"{\"leases\":[" LEASE("5", ",\"fallbackExpired\":1800000000000") "]}", KZ_STORE, "fallbackCreated"},
        {"{\"leases\":[" LEASE("5", ",\"fallbackCreated\":2,\"fallbackExpired\":1") "]}", KZ_STORE, "fallbackExpired"},
        {WITH("") "}", KZ_STORE, "bitSeq"},
        {WITH(",\"bitSeq\":9") "}", KZ_STORE, "65 bits"},
        {WITH(",\"bitSeq\":33") "}", KZ_STORE, "bitSeq"},
        {WITH(",\"bitSeq\":null") "}", KZ_STORE, "bitSeq"},
        {WITH(SEQ) ",\"serverTime\":\"now\"}", KZ_STORE, "serverTime"},
        {WITH(SEQ) ",\"serverTime\":9000000000000000000}", KZ_STORE, "serverTime"},
        {WITH(SEQ) ",\"serverTime\":1800000600000}", KZ_STORE, "over already"},
        {WITH(SEQ) ",\"generation\":-1,\"requestId\":\"@\"}", KZ_STORE, "generation"},
        {WITH(SEQ) ",\"requestId\":\"ffeeddccbbaa99887766554433221100\"}", KZ_UNAVAILABLE, "somebody else"},
        {WITH(SEQ) ",\"requestId\":7}", KZ_UNAVAILABLE, "somebody else"},
        {WITH(SEQ) ",\"generation\":7}", KZ_UNAVAILABLE, "somebody else"},
        {"{\"leases\":[{\"id\":5,\"created\":1800000000000,\"expired\":1800000000000,\"secret\":\"s\","
         "\"customEpoch\":0,\"bitReserve\":1,\"bitTs\":41,\"bitId\":14,\"bitSeq\":8}]}",
         KZ_STORE, "expired"},
        {"{\"leases\":[{\"id\":5,\"created\":1,\"expired\":2,\"secret\":\"\","
         "\"customEpoch\":0,\"bitReserve\":1,\"bitTs\":41,\"bitId\":14,\"bitSeq\":8}]}",
         KZ_STORE, "secret"},
        {"{\"leases\":[{\"id\":5,\"created\":1,\"expired\":2,\"secret\":\"s\\u0000t\","
         "\"customEpoch\":0,\"bitReserve\":1,\"bitTs\":41,\"bitId\":14,\"bitSeq\":8}]}",
         KZ_STORE, "not valid JSON"},
        {"{\"leases\":[{\"id\":0,\"created\":1,\"expired\":2,\"secret\":\"s\","
         "\"customEpoch\":0,\"bitReserve\":1,\"bitTs\":55,\"bitId\":0,\"bitSeq\":8}]}",
         KZ_STORE, "bitId"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        responder *r = START({200, cases[i].body, 0});
        table t;
        static kz_grant untouched;
        table_open(&t, r->port, "");
        memset(&t.grant, 0x5a, sizeof t.grant);
        memset(&untouched, 0x5a, sizeof untouched);
        kz_status status = table_acquire(&t);
        if (status != cases[i].status)
            fail_msg("case %zu gave %s (%s)", i, kz_status_name(status), t.err.message);
        assert_contains(t.err.message, cases[i].part);
        assert_contains(t.err.message, "http://127.0.0.1:");
        assert_memory_equal(&t.grant, &untouched, sizeof untouched);
        table_close(&t);
        responder_free(r);
    }
}

static void bytes_that_are_no_answer_are_refused(void **state)
{
    (void)state;
    static const struct {
        reply answer;
        kz_status status;
    } cases[] = {
        {{0, "hello\r\n\r\n", 0}, KZ_STORE},
        {{0, "SSH-2.0-OpenSSH_9.2\r\n", 0}, KZ_STORE},
        {{0, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 0}, KZ_UNAVAILABLE},
        {{0, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{", 0}, KZ_STORE},
        {{0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0}, KZ_UNAVAILABLE},
        {{0, "", 0}, KZ_UNAVAILABLE},
        {{-1, "", 0}, KZ_UNAVAILABLE},
        {{200, "{", 1 << 20}, KZ_STORE},
        {{0, "HTTP/1.1 200 OK\r\n\r\n", 1 << 20}, KZ_STORE},
        {{302, "", 0}, KZ_STORE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        responder *r = responder_start(&cases[i].answer, 1);
        table t;
        table_open(&t, r->port, "");
        kz_status status = table_acquire(&t);
        if (status != cases[i].status)
            fail_msg("case %zu gave %s (%s)", i, kz_status_name(status), t.err.message);
        assert_true(*t.err.message);
        table_close(&t);
        responder_free(r);
    }
}

static void an_answer_of_the_largest_size_is_read(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 262144 - sizeof ANSWER + 1 - 31});
    table t;
    table_open(&t, r->port, "");
    assert_ok(table_acquire(&t));
    table_close(&t);
    responder_free(r);
    r = START({200, ANSWER, 262144 - sizeof ANSWER + 1 - 30});
    table_open(&t, r->port, "");
    assert_status(table_acquire(&t), KZ_STORE);
    assert_contains(t.err.message, "more than 262144 bytes");
    table_close(&t);
    responder_free(r);
}

static int64_t boot_ms(void)
{
    return kz__machine_clock.boot_ns(NULL) / KZ__NS_PER_MS;
}

static void a_server_that_never_answers_costs_no_more_than_the_time_allowed(void **state)
{
    (void)state;
    responder *r = START({-2, "", 0}), *second = START({-2, "", 0});
    char url[128];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d,127.0.0.1:%d", r->port, second->port);
    assert_ok(table_try(&t, url, NULL, 400));
    int64_t before_ms = boot_ms();
    assert_status(table_acquire(&t), KZ_UNAVAILABLE);
    int64_t took_ms = boot_ms() - before_ms;
    assert_in_range(took_ms, 350, 1500);
    table_close(&t);
    responder_stop(r);
    responder_stop(second);
    assert_int_equal(r->seen, 1);
    assert_int_equal(second->seen, 1);
    free(r);
    free(second);
}

/* --------------------------------------------------------------------------------------------------- refusals */

#define PROBLEM(title, detail) "{\"type\":\"about:blank\",\"title\":\"" title "\",\"detail\":\"" detail "\"}"

static void refusals_keep_their_meaning(void **state)
{
    (void)state;
    static const struct {
        reply answer;
        kz_status status;
        const char *part;
    } cases[] = {
        {{400, PROBLEM("Bad Request", "throughput 0"), 0}, KZ_INVALID, "answered 400: throughput 0"},
        {{401, PROBLEM("Unauthorized", "who are you"), 0}, KZ_FORBIDDEN, "KAZAHANA_TOKEN"},
        {{403, PROBLEM("Forbidden", "not you"), 0}, KZ_FORBIDDEN, "not you"},
        {{404, PROBLEM("Not Found", "no service x"), 0}, KZ_NOT_FOUND, "no service x"},
        {{408, "", 0}, KZ_UNAVAILABLE, "408"},
        {{409, PROBLEM("Conflict", "other arguments"), 0}, KZ_CONFLICT, "other arguments"},
        {{413, "", 0}, KZ_STORE, "413"},
        {{429, PROBLEM("Too Many Requests", "slowly"), 0}, KZ_UNAVAILABLE, "slowly"},
        {{429, PROBLEM("No machine ID free", "wait"), 0}, KZ_NO_FREE_NODE, "wait"},
        {{503, PROBLEM("Service Unavailable", "service default has no machine ID free: wait"), 0},
         KZ_NO_FREE_NODE,
         "no machine ID free"},
        {{503, PROBLEM("Service Unavailable", "the store is down"), 0}, KZ_UNAVAILABLE, "the store is down"},
        {{500, "<h1>oops</h1>", 0}, KZ_UNAVAILABLE, "500"},
        {{502, "", 0}, KZ_UNAVAILABLE, "502"},
        {{204, "", 0}, KZ_STORE, "204"},
        {{400, PROBLEM("Bad", "a\\u001b[31mb\\r\\nc\\u0085d\\u007fe"), 0}, KZ_INVALID, ": a[31mbcde"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        responder *r = responder_start(&cases[i].answer, 1);
        table t;
        table_open(&t, r->port, "");
        kz_status status = table_acquire(&t);
        if (status != cases[i].status)
            fail_msg("case %zu gave %s (%s)", i, kz_status_name(status), t.err.message);
        assert_contains(t.err.message, cases[i].part);
        table_close(&t);
        responder_free(r);
    }
}

static void a_layout_that_is_not_the_services_is_refused_and_the_lease_given_back(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0}, {204, "", 0}, {200, ANSWER, 0});
    char url[64];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", r->port);
    assert_ok(table_try(&t, url, "snowflake", 2000));
    assert_status(table_acquire(&t), KZ_MISMATCH);
    assert_contains(t.err.message, "41-14-8@2026-01-01");
    assert_contains(t.err.message, "41-10-12@2024-01-01");
    table_close(&t);
    assert_ok(table_try(&t, url, "kazahana", 2000));
    assert_ok(table_acquire(&t));
    table_close(&t);
    responder_stop(r);
    assert_memory_equal(r->requests[1], "DELETE /lease/5?serviceId=default HTTP/1.1\r\n", 44);
    assert_contains(r->requests[1], "\"timestamp\":1800000000007");
    free(r);
}

/* ---------------------------------------------------------------------------------------------------- failover */

static void the_next_server_is_asked_when_one_is_down_and_remembered(void **state)
{
    (void)state;
    responder *broken = START({500, "", 0}), *closing = START({-1, "", 0}), *well = START({200, ANSWER, 0});
    char url[256];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", dead_port(), broken->port,
             closing->port, well->port);
    assert_ok(table_try(&t, url, NULL, 4000));
    for (int i = 0; i < 3; i++)
        if (table_acquire(&t))
            fail_msg("%s", t.err.message);
    table_close(&t);
    responder_stop(broken);
    responder_stop(closing);
    responder_stop(well);
    assert_int_equal(broken->seen, 1);
    assert_int_equal(closing->seen, 1);
    assert_int_equal(well->seen, 3);
    assert_int_equal(well->connections, 1);
    /* Asking twice is asking once: the servers heard the same request. */
    const char *body = strstr(broken->requests[0], "\r\n\r\n");
    assert_string_equal(body, strstr(well->requests[0], "\r\n\r\n"));
    free(broken);
    free(closing);
    free(well);
}

static void no_machine_id_free_is_an_answer_and_not_asked_of_the_next(void **state)
{
    (void)state;
    responder *full = START({503, PROBLEM("No machine ID free", ""), 0}), *other = START({200, ANSWER, 0});
    char url[128];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d,127.0.0.1:%d", full->port, other->port);
    assert_ok(table_try(&t, url, NULL, 4000));
    assert_status(table_acquire(&t), KZ_NO_FREE_NODE);
    table_close(&t);
    responder_stop(full);
    responder_stop(other);
    assert_int_equal(other->seen, 0);
    free(full);
    free(other);
}

static void when_none_answers_the_message_names_them_all(void **state)
{
    (void)state;
    int a = dead_port(), b = dead_port();
    responder *broken = START({500, "", 0});
    char url[128], name[32];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", a, b, broken->port);
    assert_ok(table_try(&t, url, NULL, 4000));
    assert_status(table_acquire(&t), KZ_UNAVAILABLE);
    const int ports[] = {a, b, broken->port};
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "127.0.0.1:%d", ports[i]);
        assert_contains(t.err.message, name);
    }
    table_close(&t);
    responder_free(broken);
}

static void a_server_behind_a_unix_socket_is_reached(void **state)
{
    (void)state;
    char folder[] = "/tmp/kazahana-http.XXXXXX", url[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const reply replies[] = {{200, ANSWER, 0}};
    table t;
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/k.sock", folder);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    responder *r = responder_begin(listener, replies, 1);
    snprintf(url, sizeof url, "http+unix://%s", address.sun_path);
    assert_ok(table_try(&t, url, NULL, 10000));
    assert_ok(table_acquire(&t));
    assert_int_equal(t.grant.leases[0].id, 5);
    table_close(&t);
    responder_stop(r);
    assert_contains(r->requests[0], "POST /lease HTTP/1.1");
    assert_contains(r->requests[0], "Host: localhost");
    free(r);
    /* Nobody there, and no path at all. */
    assert_ok(table_try(&t, url, NULL, 1000));
    assert_status(table_acquire(&t), KZ_UNAVAILABLE);
    assert_contains(t.err.message, address.sun_path);
    table_close(&t);
    assert_status(table_try(&t, "http+unix://k.sock", NULL, 1000), KZ_INVALID);
    unlink(address.sun_path);
    rmdir(folder);
}

static void what_was_used_is_told_once(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0}, {200, ANSWER, 0}, {204, "", 0});
    char url[64];
    kz_options options;
    kz_generator *gen;
    kz_error err;
    kz_id id;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", r->port);
    kz_options_init(&options);
    options.keeper = KZ_KEEPER_CALLER;
    if (kz_open(&gen, url, &options, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < 3; i++)
        assert_ok(kz_next(gen, &id));
    kz_close(gen);
    responder_stop(r);
    assert_null(strstr(r->requests[0], "\"used\""));
    assert_contains(r->requests[1], "DELETE /lease/5");
    assert_contains(r->requests[1], "\"used\":{\"ids\":3,\"fenced\":0,\"unfenced\":0,\"exhausted\":0,\"clockBack\":0}");
    free(r);
}

/* libcurl calls that "out of memory". */
static void a_header_without_an_end_is_the_servers_doing_and_the_next_is_asked(void **state)
{
    (void)state;
    enum { FILLER = 512 * 1024 };
    responder *wordy = START({0, "HTTP/1.1 200 Said\r\nX-Long:", FILLER}), *fine = START({200, ANSWER, 0});
    char url[64];
    table t;
    snprintf(url, sizeof url, "http://127.0.0.1:%d,127.0.0.1:%d", wordy->port, fine->port);
    assert_ok(table_try(&t, url, NULL, 10000));
    assert_ok(table_acquire(&t));
    table_close(&t);
    table_open(&t, wordy->port, "");
    assert_status(table_acquire(&t), KZ_STORE);
    assert_contains(t.err.message, "a header that is too long");
    table_close(&t);
    responder_free(wordy);
    responder_free(fine);
}

/* ------------------------------------------------------------------------------------------------------- token */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_token_is_sent_and_never_shown(void **state)
{
    (void)state;
    /* A server that repeats what it was sent. */
    responder *r = START({403, PROBLEM("Forbidden", "token " TOKEN " and again " TOKEN " is wrong"), 0});
    char path[] = "/tmp/kazahana-token.XXXXXX", more[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "# ours\n\n  " TOKEN " \nanother-token-that-is-not-used\n");
    snprintf(more, sizeof more, "?token-file=%s", path);
    const char *const ways[] = {"?token=" TOKEN, more, ""};
    setenv("KAZAHANA_TOKEN", TOKEN, 1);
    for (size_t i = 0; i < 3; i++) {
        table t;
        table_open(&t, r->port, ways[i]);
        assert_status(table_acquire(&t), KZ_FORBIDDEN);
        assert_contains(t.err.message, "answered 403: token ***");
        assert_null(strstr(t.err.message, TOKEN));
        table_close(&t);
    }
    unsetenv("KAZAHANA_TOKEN");
    responder_stop(r);
    for (size_t i = 0; i < 3; i++)
        assert_contains(r->requests[i], "Authorization: Bearer " TOKEN "\r\n");
    unlink(path);
    free(r);
}

static void a_token_file_written_anew_is_read_again(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0}, {401, "", 0}, {200, ANSWER, 0}, {401, "", 0});
    char path[] = "/tmp/kazahana-token.XXXXXX", more[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "the-first-token-of-all\n");
    snprintf(more, sizeof more, "?token-file=%s", path);
    table t;
    table_open(&t, r->port, more);
    assert_ok(table_acquire(&t));
    write_file(path, "the-second-token-of-all\n");
    assert_ok(table_acquire(&t));
    assert_status(table_acquire(&t), KZ_FORBIDDEN);
    table_close(&t);
    responder_stop(r);
    assert_int_equal(r->seen, 4);
    assert_contains(r->requests[1], "the-first-token-of-all");
    assert_contains(r->requests[2], "the-second-token-of-all");
    unlink(path);
    free(r);
}

static void token_files_without_a_token_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# only a comment\n", "two words\n", "caf\xc3\xa9\n"};
    char path[] = "/tmp/kazahana-token.XXXXXX", url[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(url, sizeof url, "http://a?token-file=%s", path);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        table t;
        write_file(path, texts[i]);
        assert_status(table_try(&t, url, NULL, 1000), KZ_INVALID);
        assert_contains(t.err.message, path);
        assert_null(strstr(t.err.message, "words"));
    }
    unlink(path);
}

/* ------------------------------------------------------------------------------------ release, time, table, health */

static void release_names_the_lease_and_is_signed(void **state)
{
    (void)state;
    responder *r = START({204, "", 0}, {404, PROBLEM("Not Found", "not out"), 0}, {403, "", 0}, {400, "", 0});
    table t;
    table_open(&t, r->port, "");
    assert_ok(table_release(&t));
    assert_status(table_release(&t), KZ_NOT_FOUND);
    assert_contains(t.err.message, "not out");
    assert_status(table_release(&t), KZ_FORBIDDEN);
    assert_status(table_release(&t), KZ_INVALID);
    kz_release bad = {.service = "default", .id = 5, .signature = "\"},{"};
    assert_status(kz__source_http.release(t.source, &bad, &t.err), KZ_INVALID);
    bad.signature = NULL;
    assert_status(kz__source_http.release(t.source, &bad, &t.err), KZ_INVALID);
    table_close(&t);
    responder_stop(r);
    char signature[KZ_SIGNATURE_SIZE], body[160];
    kz_release_sign("secret", 5, 1800000000500, signature);
    snprintf(body, sizeof body, "\r\n\r\n{\"signature\":\"%s\",\"timestamp\":1800000000500}", signature);
    assert_memory_equal(r->requests[0], "DELETE /lease/5?serviceId=default HTTP/1.1\r\n", 44);
    assert_string_equal(strstr(r->requests[0], "\r\n\r\n"), body);
    assert_int_equal(r->seen, 4);
    assert_int_equal(r->connections, 1);
    free(r);
}

static void time_is_read_and_nonsense_refused(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0}, {200, "{\"serverTime\":1800000000123,\"generation\":4}", 0},
                         {200, "{\"serverTime\":1800000000124}", 0}, {200, "{\"serverTime\":\"x\"}", 0},
                         {200, "{\"serverTime\":-1}", 0}, {200, "17", 0}, {404, "", 0});
    int64_t ms = 5;
    uint64_t generation = 6;
    table t;
    table_open(&t, r->port, "");
    assert_ok(table_acquire(&t));
    assert_ok(kz__source_http.now(t.source, &ms, &generation, &t.err));
    assert_int_equal(ms, 1800000000123);
    assert_int_equal(generation, 4);
    assert_ok(kz__source_http.now(t.source, &ms, &generation, &t.err));
    assert_int_equal(generation, 0);
    for (int i = 0; i < 3; i++)
        assert_status(kz__source_http.now(t.source, &ms, &generation, &t.err), KZ_STORE);
    assert_status(kz__source_http.now(t.source, &ms, &generation, &t.err), KZ_UNSUPPORTED);
    assert_contains(t.err.message, "has no /time");
    assert_int_equal(ms, 1800000000124);
    table_close(&t);
    responder_stop(r);
    /* A GET behind a POST has no body left over from it. */
    assert_memory_equal(r->requests[1], "GET /time HTTP/1.1\r\n", 20);
    assert_null(strcasestr(r->requests[1], "content-length"));
    assert_string_equal(strstr(r->requests[1], "\r\n\r\n"), "\r\n\r\n");
    free(r);
}

typedef struct listing {
    size_t count, enough;
    kz_lease_info lines[8];
} listing;

static bool note_line(void *ctx, const kz_lease_info *info)
{
    listing *l = ctx;
    l->lines[l->count++] = *info;
    return l->count < l->enough;
}

#define LINE(service, id, holder)                                                                                      \
    "{\"service\":\"" service "\",\"id\":" id ",\"meta\":" holder                                                      \
    ",\"bitId\":14,\"bitSeq\":8,\"created\":1,\"expired\":2,\"fallbackCreated\":1,\"fallbackExpired\":3}"

static void a_listing_goes_on_from_page_to_page(void **state)
{
    (void)state;
    responder *r = START({200, "{\"leases\":[" LINE("a", "1", "{\"host\":\"x\"}") "],\"next\":\"a/1 &?\"}", 0},
                         {200, "{\"leases\":[],\"next\":\"more\"}", 0},
                         {200, "{\"leases\":[" LINE("b", "2", "\"{}\"") "],\"next\":null}", 0});
    listing l = {.enough = 8};
    table t;
    table_open(&t, r->port, "");
    if (kz__source_http.list(t.source, NULL, note_line, &l, &t.err))
        fail_msg("%s", t.err.message);
    assert_int_equal(l.count, 2);
    assert_string_equal(l.lines[0].service, "a");
    assert_string_equal(l.lines[0].holder, "{\"host\":\"x\"}");
    assert_string_equal(l.lines[1].holder, "{}");
    assert_int_equal(l.lines[1].id, 2);
    assert_int_equal(l.lines[1].created_ms, 1);
    assert_int_equal(l.lines[1].expired_ms, 2);
    assert_int_equal(l.lines[1].fallback_created_ms, 1);
    assert_int_equal(l.lines[1].fallback_expired_ms, 3);
    assert_int_equal(l.lines[1].node_bits, 14);
    assert_int_equal(l.lines[1].seq_bits, 8);
    assert_int_equal(l.lines[1].nodes, 1);
    assert_int_equal(l.lines[1].kind, KZ_LINE_LEASE);
    table_close(&t);
    responder_stop(r);
    assert_int_equal(r->seen, 3);
    assert_memory_equal(r->requests[0], "GET /leases?limit=256 HTTP/1.1\r\n", 32);
    assert_memory_equal(r->requests[1], "GET /leases?limit=256&after=a%2F1%20%26%3F HTTP/1.1\r\n", 53);
    free(r);
}

static void a_listing_begins_where_it_is_told(void **state)
{
    (void)state;
    responder *r = START({200, "{\"leases\":[],\"next\":null}", 0}, {200, "{\"leases\":[],\"next\":null}", 0});
    listing l = {.enough = 8};
    table t;
    table_open(&t, r->port, "");
    assert_ok(kz__source_http.list(t.source, &(kz_list_from){.service = "pay", .id = 17}, note_line, &l, &t.err));
    assert_ok(kz__source_http.list(t.source, &(kz_list_from){.service = "pay"}, note_line, &l, &t.err));
    table_close(&t);
    responder_stop(r);
    assert_int_equal(r->seen, 2);
    assert_memory_equal(r->requests[0], "GET /leases?limit=256&after=pay%3A16 HTTP/1.1\r\n", 47);
    assert_memory_equal(r->requests[1], "GET /leases?limit=256&after=pay HTTP/1.1\r\n", 42);
    free(r);
}

static void a_listing_ends_when_enough_was_seen_or_it_makes_no_sense(void **state)
{
    (void)state;
    responder *r = START(
        {200, "{\"leases\":[" LINE("a", "1", "{}") "," LINE("a", "2", "{}") "],\"next\":\"x\"}", 0},
        {200, "{\"leases\":[" LINE("a", "1", "{}") "],\"next\":\"x\"}", 0}, {200, "{\"leases\":[],\"next\":\"x\"}", 0},
        {200, "{\"leases\":[" LINE("a b", "1", "{}") "]}", 0}, {200, "{\"leases\":[" LINE("a", "1", "7") "]}", 0},
        {200, "{\"leases\":[],\"next\":7}", 0}, {200, "{}", 0}, {401, "", 0});
    listing l = {.enough = 1};
    table t;
    table_open(&t, r->port, "");
    assert_ok(kz__source_http.list(t.source, NULL, note_line, &l, &t.err));
    assert_int_equal(l.count, 1);
    l.enough = 8;
    assert_status(kz__source_http.list(t.source, NULL, note_line, &l, &t.err), KZ_STORE);
    assert_contains(t.err.message, "does not end");
    for (int i = 0; i < 4; i++)
        assert_status(kz__source_http.list(t.source, NULL, note_line, &l, &t.err), KZ_STORE);
    assert_status(kz__source_http.list(t.source, NULL, note_line, &l, &t.err), KZ_FORBIDDEN);
    table_close(&t);
    responder_free(r);
}

static void health_says_what_the_server_says(void **state)
{
    (void)state;
    responder *r =
        START({200,
               "{\"status\":\"UP\",\"components\":{\"store\":{\"status\":\"UP\",\"durable\":true,\"leases\":3,"
               "\"nodesFree\":509,\"layout\":\"41-10-12@2024-01-01\",\"leaseMs\":2000}}}",
               0},
              {200, "{\"serverTime\":1800000000123,\"generation\":4}", 0}, {200, "{\"status\":\"UP\"}", 0},
              {200, "{\"serverTime\":1800000000123,\"generation\":4}", 0}, {503, "{\"status\":\"DOWN\"}", 0});
    kz_source_health health;
    table t;
    table_open(&t, r->port, "");
    assert_ok(kz__source_http.health(t.source, "default", &health, &t.err));
    assert_int_equal(health.source_ms, 1800000000123);
    assert_int_equal(health.generation, 4);
    assert_int_equal(health.leases_out, 3);
    assert_int_equal(health.nodes_free, 509);
    assert_int_equal(health.lease_ms, 2000);
    assert_true(health.durable);
    assert_string_equal(health.layout.name, "snowflake");
    assert_string_equal(health.note, "");
    assert_ok(kz__source_http.health(t.source, "default", &health, &t.err));
    assert_false(health.durable);
    assert_contains(health.note, "does not say");
    assert_status(kz__source_http.health(t.source, "default", &health, &t.err), KZ_UNAVAILABLE);
    table_close(&t);
    responder_free(r);
}

/* -------------------------------------------------------------------------------------------------------- fork */

static void a_child_leaves_the_parents_connection_alone(void **state)
{
    (void)state;
    responder *r = START({200, ANSWER, 0});
    table t;
    table_open(&t, r->port, "?token=" TOKEN);
    assert_ok(table_acquire(&t));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kz__source_http.close(t.source, true);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(table_acquire(&t));
    table_close(&t);
    responder_stop(r);
    assert_int_equal(r->connections, 1);
    free(r);
}

int main(void)
{
    unsetenv("KAZAHANA_TOKEN");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_of_one_or_several_servers_are_read),
        cmocka_unit_test(an_unreachable_server_is_found_out_by_the_first_request),
        cmocka_unit_test(acquire_asks_as_agreed_and_takes_what_is_granted),
        cmocka_unit_test(a_server_of_the_bare_protocol_will_do),
        cmocka_unit_test(an_answer_that_makes_no_sense_is_refused),
        cmocka_unit_test(bytes_that_are_no_answer_are_refused),
        cmocka_unit_test(an_answer_of_the_largest_size_is_read),
        cmocka_unit_test(a_server_that_never_answers_costs_no_more_than_the_time_allowed),
        cmocka_unit_test(refusals_keep_their_meaning),
        cmocka_unit_test(a_layout_that_is_not_the_services_is_refused_and_the_lease_given_back),
        cmocka_unit_test(the_next_server_is_asked_when_one_is_down_and_remembered),
        cmocka_unit_test(no_machine_id_free_is_an_answer_and_not_asked_of_the_next),
        cmocka_unit_test(when_none_answers_the_message_names_them_all),
        cmocka_unit_test(the_token_is_sent_and_never_shown),
        cmocka_unit_test(a_token_file_written_anew_is_read_again),
        cmocka_unit_test(token_files_without_a_token_are_refused),
        cmocka_unit_test(release_names_the_lease_and_is_signed),
        cmocka_unit_test(time_is_read_and_nonsense_refused),
        cmocka_unit_test(a_listing_goes_on_from_page_to_page),
        cmocka_unit_test(a_listing_begins_where_it_is_told),
        cmocka_unit_test(a_listing_ends_when_enough_was_seen_or_it_makes_no_sense),
        cmocka_unit_test(a_server_behind_a_unix_socket_is_reached),
        cmocka_unit_test(what_was_used_is_told_once),
        cmocka_unit_test(a_header_without_an_end_is_the_servers_doing_and_the_next_is_asked),
        cmocka_unit_test(health_says_what_the_server_says),
        cmocka_unit_test(a_child_leaves_the_parents_connection_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
