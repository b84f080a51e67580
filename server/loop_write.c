/* Answers on their way: all of a batch in one write, the rest kept when the client does not take it, and the end of a
 * connection. */
#include "loop.h"

#include <sys/socket.h>

struct loop_write {
    uv_write_t request;
    http_conn *conn;
    char bytes[];
};

static void observe(http_loop *loop, const http_request *request, int status, uint64_t began_ns)
{
    loop_count(&loop->requests_total);
    if (!loop->settings->observe)
        return;
    uint64_t mono_ns = uv_hrtime();
    loop->settings->observe(loop->settings->app, request, status, (int64_t)(mono_ns - began_ns));
    loop->mark_ns = mono_ns;
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
    bool built = http_reply_build(&exchange->reply, request->head, after, &loop->out);
    observe(loop, request, exchange->reply.failed ? 500 : exchange->reply.status, exchange->began_ns);
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
    conn->last = true;
    bool built = http_reply_build(&reply, false, HTTP_CLOSE, &loop->out);
    http_reply_free(&reply);
    observe(loop, NULL, status, loop->mark_ns);
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

void conn_flush(http_conn *conn)
{
    http_bytes *out = &conn->loop->out;
    if (conn->tls && !conn->closed) {
        bool encrypted = tls_write(conn->tls, out->at, out->length);
        out->length = 0;
        if (!encrypted || !tls_send(conn->tls, out))
            conn_close(conn);
    }
    if (out->length && !conn->closed) {
        uv_buf_t buf = uv_buf_init(out->at, (unsigned)out->length);
        int written = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
        if (written < 0 && written != UV_EAGAIN) {
            conn_close(conn);
        } else {
            size_t gone = written > 0 ? (size_t)written : 0;
            if (gone < out->length)
                keep_rest(conn, out->at + gone, out->length - gone);
        }
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
    uv_os_fd_t fd;
    if (conn->closed || conn->eof || uv_fileno((uv_handle_t *)&conn->tcp, &fd) < 0 || shutdown(fd, SHUT_WR) < 0) {
        conn_close(conn);
        return;
    }
    conn->lingering = true;
    deadline_set(conn, LOOP_LINGER, uv_now(&conn->loop->uv));
    conn_read_start(conn);
}
