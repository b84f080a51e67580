/* Answers on their way: all of a batch in one write, the rest kept when the client does not take it, and the end of a
 * connection. */
#include "loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

struct loop_write {
    uv_write_t request;
    http_conn *conn;
    char bytes[];
};

uint64_t loop_mark(http_loop *loop)
{
    if (!loop->mark_ns && loop->settings->observe)
        loop->mark_ns = uv_hrtime();
    return loop->mark_ns;
}

void loop_observe(http_loop *loop)
{
    if (loop->answered_count == 0)
        return;
    const http_settings *settings = loop->settings;
    loop->mark_ns = settings->observe ? uv_hrtime() : 0;
    for (unsigned i = 0; i < loop->answered_count && settings->observe; i++) {
        const loop_answered *a = &loop->answered[i];
        settings->observe(settings->app, loop->number, a->tag, a->status, (int64_t)(loop->mark_ns - a->began_ns));
    }
    loop_count(&loop->requests_total, loop->answered_count);
    loop->answered_count = 0;
}

static void note_answer(http_loop *loop, unsigned tag, int status, uint64_t began_ns)
{
    if (loop->answered_count == LOOP_ANSWERED_MAX)
        loop_observe(loop);
    loop->answered[loop->answered_count++] = (loop_answered){began_ns, tag, status};
}

/* "127.0.0.1:50112", or "unix" for a socket of this machine. */
static void peer_text(const http_conn *conn, char text[static 64])
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[48] = "";
    getpeername(conn->fd, (struct sockaddr *)&address, &size);
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, 64, "%s:%u", host, ntohs(v4->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, 64, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        strcpy(text, "unix");
    }
}

static void tell_access(http_conn *conn, const http_exchange *exchange)
{
    const http_settings *settings = conn->loop->settings;
    const http_reply *reply = &exchange->reply;
    char peer[64];
    peer_text(conn, peer);
    settings->access(settings->app, &exchange->parser.request, peer, reply->failed ? 500 : reply->status,
                     reply->body.length, exchange->began_ns ? (int64_t)(uv_hrtime() - exchange->began_ns) : 0);
}

void conn_answer(http_conn *conn, http_exchange *exchange)
{
    http_loop *loop = conn->loop;
    const http_request *request = &exchange->parser.request;
    http_after after = exchange->parser.llhttp.http_minor ? HTTP_KEEP : HTTP_KEEP_10;
    if (!request->keep_alive || loop->stopping) {
        after = HTTP_CLOSE;
        conn->last = true;
    }
    if (loop->settings->access)
        tell_access(conn, exchange);
    bool built = http_reply_build(&exchange->reply, request->head, after, &loop->out);
    note_answer(loop, exchange->reply.tag, exchange->reply.failed ? 500 : exchange->reply.status, exchange->began_ns);
    exchange_put(loop, exchange);
    if (!built)
        conn_close(conn);
}

void conn_refuse(http_conn *conn, int status, const char *why)
{
    http_loop *loop = conn->loop;
    http_reply reply = {0};
    http_reply_problem(&reply, status, why);
    if (status == 503)
        http_reply_header(&reply, "Retry-After", "1");
    if (status == 405) /* of any path: the request was not read that far */
        http_reply_header(&reply, "Allow", "GET, HEAD, POST, DELETE");
    conn->last = true;
    bool built = http_reply_build(&reply, false, HTTP_CLOSE, &loop->out);
    http_reply_free(&reply);
    note_answer(loop, 0, status, loop_mark(loop));
    if (!built)
        conn_close(conn);
}

static void on_written(uv_write_t *request, int status)
{
    struct loop_write *write = (struct loop_write *)request;
    http_conn *conn = write->conn;
    conn->writing = NULL;
    free(write);
    if (conn->closed)
        return;
    if (status < 0)
        conn_close(conn);
    else
        conn_written(conn);
}

static void keep_rest(http_conn *conn, const char *bytes, size_t length)
{
    struct loop_write *write = malloc(sizeof *write + length);
    if (!write) {
        conn_close(conn);
        return;
    }
    memcpy(write->bytes, bytes, length);
    write->conn = conn;
    uv_buf_t buf = uv_buf_init(write->bytes, (unsigned)length);
    if (uv_write(&write->request, (uv_stream_t *)&conn->tcp, &buf, 1, on_written) < 0) {
        free(write);
        conn_close(conn);
        return;
    }
    conn->writing = write;
    deadline_set(conn, LOOP_WRITE, uv_now(&conn->loop->uv));
}

ssize_t conn_send(http_conn *conn, const char *bytes, size_t length)
{
    ssize_t sent;
    do
        sent = send(conn->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
}

/* Without libuv: its queue is empty, for nothing is flushed while a write is under way. */
void conn_flush(http_conn *conn)
{
    http_bytes *out = &conn->loop->out;
    loop_observe(conn->loop);
    if (conn->tls && !conn->closed) {
        bool encrypted = tls_write(conn->tls, out->at, out->length);
        out->length = 0;
        if (!encrypted || !tls_send(conn->tls, out))
            conn_close(conn);
    }
    if (out->length && !conn->closed) {
        ssize_t sent = conn_send(conn, out->at, out->length);
        if (sent < 0)
            conn_close(conn);
        else if ((size_t)sent < out->length)
            keep_rest(conn, out->at + sent, out->length - (size_t)sent);
    }
    http_bytes_clear(out, 2 * LOOP_BATCH_MAX);
}

void conn_linger(http_conn *conn)
{
    if (conn->tls) {
        tls_end(conn->tls);
        conn_flush(conn);
        if (conn->writing) /* and then again */
            return;
    }
    if (conn->closed || conn->eof || shutdown(conn->fd, SHUT_WR) < 0) {
        conn_close(conn);
        return;
    }
    conn->lingering = true;
    deadline_set(conn, LOOP_LINGER, uv_now(&conn->loop->uv));
    conn_read_start(conn);
}
