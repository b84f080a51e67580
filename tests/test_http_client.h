/* A server under test, and clients that speak to it byte by byte. */
#ifndef KZ_TESTS_TEST_HTTP_CLIENT_H
#define KZ_TESTS_TEST_HTTP_CLIENT_H

#include "test.h"

#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOST      "Host: a\r\n"
#define QUEUE_MAX 4096

/* Answers that come later, in any order. */
static struct later {
    pthread_mutex_t lock;
    pthread_cond_t some;
    struct {
        http_reply *reply;
        http_text query;
    } queue[QUEUE_MAX];
    size_t count;
    bool held, over;
    unsigned seed;
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

static atomic_int observed_refusals, observed_answers;

#define PATIENCE_MS 60000

static inline int64_t mono_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static inline void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static inline void *answer_later(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&later.lock);
    for (;;) {
        while ((later.count == 0 || later.held) && !(later.over && later.count == 0))
            pthread_cond_wait(&later.some, &later.lock);
        if (later.count == 0)
            break;
        size_t i = (size_t)rand_r(&later.seed) % later.count;
        http_reply *reply = later.queue[i].reply;
        http_text query = later.queue[i].query;
        later.queue[i] = later.queue[--later.count];
        pthread_mutex_unlock(&later.lock);
        /* The request still stands where it stood, although its handler has long returned. */
        http_reply_write(reply, query.at, query.length);
        http_reply_send(reply);
        pthread_mutex_lock(&later.lock);
    }
    pthread_mutex_unlock(&later.lock);
    return NULL;
}

#define HANDLED 7

/* /now?X answers X; /later?X answers X from another thread; /big?N answers N bytes; anything else its body. */
static inline http_outcome handle(void *app, const http_request *request, http_reply *reply)
{
    (void)app;
    http_text path = request->path, query = request->query;
    http_reply_type(reply, "text/plain");
    http_reply_tag(reply, HANDLED);
    if (path.length == 4 && memcmp(path.at, "/now", 4) == 0) {
        http_reply_write(reply, query.at, query.length);
    } else if (path.length == 4 && memcmp(path.at, "/big", 4) == 0) {
        int width = 0; /* the query is not a terminated text */
        for (size_t i = 0; i < query.length && query.at[i] >= '0' && query.at[i] <= '9'; i++)
            width = width * 10 + (query.at[i] - '0');
        http_reply_printf(reply, "%0*d", width, 0);
    } else if (path.length == 6 && memcmp(path.at, "/later", 6) == 0) {
        pthread_mutex_lock(&later.lock);
        later.queue[later.count].reply = reply;
        later.queue[later.count++].query = query;
        pthread_cond_signal(&later.some);
        pthread_mutex_unlock(&later.lock);
        return HTTP_LATER;
    } else {
        http_reply_write(reply, request->body.at, request->body.length);
    }
    return HTTP_DONE;
}

static inline void observe(void *app, unsigned loop, unsigned tag, int status, int64_t ns)
{
    (void)app, (void)loop, (void)status;
    if (ns < 0)
        abort();
    atomic_fetch_add(tag == HANDLED ? &observed_answers : &observed_refusals, 1);
}

typedef struct fixture {
    http_server *server;
    http_settings settings;
    pthread_t answerers[2];
} fixture;

/* Deadlines that no machine misses; a test that is about one sets its own. */
static inline http_settings test_settings(void)
{
    return (http_settings){.address = "127.0.0.1",
                           .loops = 2,
                           .connections_max = 1000,
                           .request_ms = PATIENCE_MS,
                           .idle_ms = PATIENCE_MS,
                           .write_ms = PATIENCE_MS,
                           .handler = handle,
                           .observe = observe};
}

static inline void begin(fixture *f, const http_settings *settings)
{
    f->settings = *settings;
    later.over = later.held = false;
    observed_refusals = observed_answers = 0;
    const char *error = http_server_start(&f->server, settings);
    if (error)
        fail_msg("%s", error);
    for (int i = 0; i < 2; i++)
        pthread_create(&f->answerers[i], NULL, answer_later, NULL);
}

static inline void answer_all(fixture *f)
{
    pthread_mutex_lock(&later.lock);
    later.held = false;
    later.over = true;
    pthread_cond_broadcast(&later.some);
    pthread_mutex_unlock(&later.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(f->answerers[i], NULL);
}

static inline void hold_later(bool held)
{
    pthread_mutex_lock(&later.lock);
    later.held = held;
    pthread_cond_broadcast(&later.some);
    pthread_mutex_unlock(&later.lock);
}

/* Until that many answers are owed. */
static inline void wait_owed(size_t count)
{
    for (int64_t until = mono_ms() + PATIENCE_MS; mono_ms() < until; pause_ms(1)) {
        pthread_mutex_lock(&later.lock);
        bool enough = later.count >= count;
        pthread_mutex_unlock(&later.lock);
        if (enough)
            return;
    }
    fail_msg("no %zu answers owed", count);
}

static inline void end(fixture *f)
{
    http_server_stop(f->server, 2000);
    http_server_free(f->server);
    answer_all(f);
}

typedef struct client {
    int fd;
    size_t start, end;
    char buffer[65536];
    char body[1 << 20];
    size_t body_length;
    bool closes; /* the answer said so */
} client;

static inline int connect_to(const fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(http_server_port(f->server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

static inline client *client_open(const fixture *f)
{
    client *c = malloc(sizeof *c);
    c->fd = connect_to(f);
    c->start = c->end = 0;
    return c;
}

static inline void client_close(client *c)
{
    close(c->fd);
    free(c);
}

static inline void say(client *c, const char *text)
{
    size_t length = strlen(text);
    if (send(c->fd, text, length, MSG_NOSIGNAL) != (ssize_t)length)
        fail_msg("send: %s", strerror(errno));
}

/* The next byte of the answer, or -1 at the end; a reset is -2. */
static inline int next_byte(client *c)
{
    if (c->start == c->end) {
        ssize_t got = recv(c->fd, c->buffer, sizeof c->buffer, 0);
        if (got <= 0)
            return got == 0 ? -1 : -2;
        c->start = 0;
        c->end = (size_t)got;
    }
    return (unsigned char)c->buffer[c->start++];
}

/* The status of the next answer, its body in c->body; -1 if the connection ended in front of it, -2 if it was reset. */
static inline int hear(client *c)
{
    char line[512];
    int status = 0;
    long length = 0;
    c->closes = false;
    for (size_t at = 0, lines = 0;;) {
        int byte = next_byte(c);
        if (byte < 0)
            return byte;
        line[at++] = (char)byte;
        if (byte != '\n')
            continue;
        line[at] = 0;
        if (lines++ == 0)
            assert_int_equal(sscanf(line, "HTTP/1.1 %d ", &status), 1);
        sscanf(line, "Content-Length: %ld", &length);
        if (strcmp(line, "Connection: close\r\n") == 0)
            c->closes = true;
        if (at == 2)
            break;
        at = 0;
    }
    c->body_length = (size_t)length;
    for (long i = 0; i < length; i++) {
        int byte = next_byte(c);
        if (byte < 0)
            return byte;
        c->body[i] = (char)byte;
    }
    c->body[length] = 0;
    return status;
}

static inline void assert_hears(client *c, int status, const char *body)
{
    assert_int_equal(hear(c), status);
    if (body)
        assert_string_equal(c->body, body);
}

#endif
