/* One connection: bytes in, requests to the handler one after the other, answers out in the same order. It waits in one
 * of four ways, each under a deadline of its own: for a request, for the rest of one, for the client to take an answer,
 * for the client to go. While an answer is owed by another thread it waits without one: that is the handler's time. */
#include "loop.h"

#include <assert.h>
#include <sys/socket.h>

static void advance(http_conn *conn, const char *bytes, size_t length);
static void settle(http_conn *conn);

static void on_closed(uv_handle_t *handle)
{
    http_conn *conn = handle->data;
    http_loop *loop = conn->loop;
    if (conn->counted)
        atomic_fetch_sub(&loop->server->connections_now, 1);
    else
        loop->turned_away--;
    free(conn);
    loop_conn_gone(loop);
}

static void handshake_over(http_conn *conn)
{
    if (conn->shakes)
        atomic_fetch_sub(&conn->loop->server->handshakes_now, 1);
    conn->shakes = false;
}

void conn_close(http_conn *conn)
{
    if (conn->closed)
        return;
    conn->closed = true;
    handshake_over(conn);
    deadline_set(conn, LOOP_NO_DEADLINE, 0);
    if (conn->reading)
        exchange_put(conn->loop, conn->reading);
    if (conn->owed && conn->owed_ready)
        exchange_put(conn->loop, conn->owed);
    else if (conn->owed) /* comes back through the mailbox, and finds nobody */
        conn->owed->conn = NULL;
    conn->reading = conn->owed = NULL;
    free(conn->held);
    conn->held = NULL;
    tls_session_close(conn->tls);
    conn->tls = NULL;
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    http_conn *conn = handle->data;
    *buf = uv_buf_init(conn->loop->read, LOOP_READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf)
{
    http_conn *conn = stream->data;
    if (length == 0)
        return;
    if (length < 0) {
        conn->eof = true;
        conn->reads = false;
        if (length != UV_EOF || conn->lingering)
            conn_close(conn);
        else
            settle(conn);
        return;
    }
    if (conn->lingering) {
        conn->lingered += (size_t)length;
        if (conn->lingered > LOOP_LINGER_BYTES)
            conn_close(conn);
        return;
    }
    if (!conn->tls)
        advance(conn, buf->base, (size_t)length);
    else if (tls_receive(conn->tls, buf->base, (size_t)length))
        advance(conn, NULL, 0);
    else
        conn_close(conn);
}

void conn_read_start(http_conn *conn)
{
    if (conn->reads || conn->eof || conn->closed)
        return;
    conn->reads = true;
    if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0)
        conn_close(conn);
}

static void read_stop(http_conn *conn)
{
    if (!conn->reads)
        return;
    conn->reads = false;
    uv_read_stop((uv_stream_t *)&conn->tcp);
}

/* Requests are begun only while nothing in front of them waits. */
static bool may_begin(const http_conn *conn)
{
    return !conn->owed && !conn->writing && !conn->last && !conn->closed;
}

static void handle(http_conn *conn, http_exchange *exchange)
{
    http_loop *loop = conn->loop;
    exchange->began_ns = loop_mark(loop);
    exchange->conn = conn;
    conn->owed = exchange;
    conn->owed_ready = false;
    const http_settings *settings = loop->settings;
    /* After HTTP_LATER the exchange may be in other hands: it is not touched before it comes back. */
    if (settings->handler(settings->app, &exchange->parser.request, &exchange->reply) == HTTP_LATER) {
        mailbox_owe(loop->mailbox);
        return;
    }
    conn->owed = NULL;
    conn_answer(conn, exchange);
}

/* As many requests as there are in the bytes, or until one has to wait; how many bytes were used. */
static size_t serve(http_conn *conn, const char *bytes, size_t length)
{
    http_loop *loop = conn->loop;
    size_t used = 0;
    while (used < length && may_begin(conn)) {
        if (!conn->reading) {
            conn->reading = exchange_take(loop);
            conn->began_ms = uv_now(&loop->uv);
            if (!conn->reading) {
                conn_refuse(conn, 503, "out of memory");
                break;
            }
        }
        http_exchange *exchange = conn->reading;
        size_t took;
        http_progress progress = http_parse(&exchange->parser, bytes + used, length - used, &took);
        used += took;
        if (progress == HTTP_PARSE_MORE) {
            static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
            if (http_parser_wants_continue(&exchange->parser) && !http_bytes_add(&loop->out, go_on, sizeof go_on - 1))
                conn_close(conn);
            break;
        }
        conn->reading = NULL;
        if (progress == HTTP_PARSE_WHOLE) {
            handle(conn, exchange);
        } else {
            conn_refuse(conn, exchange->parser.status, exchange->parser.why);
            exchange_put(loop, exchange);
        }
        if (loop->out.length > LOOP_BATCH_MAX)
            conn_flush(conn);
    }
    return used;
}

static void hold(http_conn *conn, const char *bytes, size_t length)
{
    if (length == 0 || conn->last || conn->closed)
        return;
    assert(!conn->held);
    conn->held = malloc(length);
    if (!conn->held) {
        conn_close(conn);
        return;
    }
    memcpy(conn->held, bytes, length);
    conn->held_length = length;
}

static void serve_held(http_conn *conn)
{
    char *bytes = conn->held;
    size_t length = conn->held_length;
    conn->held = NULL;
    size_t used = serve(conn, bytes, length);
    hold(conn, bytes + used, length - used);
    free(bytes);
}

/* Reads records for as long as their requests can be begun; the rest stays encrypted. */
static void serve_tls(http_conn *conn)
{
    http_loop *loop = conn->loop;
    while (may_begin(conn)) {
        int got = tls_read(conn->tls, loop->plain, LOOP_PLAIN_SIZE);
        if (conn->shakes && tls_ready(conn->tls))
            handshake_over(conn);
        if (got == TLS_MORE)
            return;
        if (got == TLS_ENDED) {
            conn->eof = true;
            read_stop(conn);
            return;
        }
        if (got == TLS_BROKEN) {
            loop->out.length = 0;
            if (tls_send(conn->tls, &loop->out) && loop->out.length) /* the alert, if the socket takes it */
                (void)conn_send(conn, loop->out.at, loop->out.length);
            conn_close(conn);
            return;
        }
        size_t used = serve(conn, loop->plain, (size_t)got);
        hold(conn, loop->plain + used, (size_t)got - used);
    }
}

static void advance(http_conn *conn, const char *bytes, size_t length)
{
    if (conn->closed || conn->lingering)
        return;
    if (conn->owed || conn->writing) {
        hold(conn, bytes, length);
        read_stop(conn);
        return;
    }
    if (conn->held) {
        serve_held(conn);
    } else if (length) {
        size_t used = serve(conn, bytes, length);
        hold(conn, bytes + used, length - used);
    }
    if (conn->tls)
        serve_tls(conn);
    conn_flush(conn);
    settle(conn);
}

/* After every event: what the connection waits for now. */
static void settle(http_conn *conn)
{
    http_loop *loop = conn->loop;
    if (conn->closed || conn->lingering)
        return;
    if (conn->writing) { /* flush has set the deadline; what is not taken must not grow */
        read_stop(conn);
    } else if (conn->owed) {
        deadline_set(conn, LOOP_NO_DEADLINE, 0);
        if (conn->held)
            read_stop(conn);
    } else if (conn->last) {
        conn_linger(conn);
    } else if (conn->eof) {
        conn_close(conn);
    } else if (conn->reading || (conn->tls && !tls_ready(conn->tls))) {
        deadline_set(conn, LOOP_REQUEST, conn->began_ms);
        conn_read_start(conn);
    } else if (loop->quiet_over) {
        conn_close(conn);
    } else {
        deadline_set(conn, LOOP_IDLE, uv_now(&loop->uv));
        conn_read_start(conn);
    }
}

void conn_open(http_conn *conn)
{
    http_loop *loop = conn->loop;
    http_server *server = loop->server;
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_fileno((uv_handle_t *)&conn->tcp, &conn->fd);
    if (atomic_fetch_add(&server->connections_now, 1) >= server->settings.connections_max) {
        atomic_fetch_sub(&server->connections_now, 1);
        loop_count(&loop->refused_total, 1);
        if (++loop->turned_away > LOOP_TURNED_AWAY_MAX || server->tls) {
            conn_close(conn);
            return;
        }
        conn_refuse(conn, 503, "too many connections");
        conn_flush(conn);
        settle(conn);
        return;
    }
    conn->counted = true;
    loop_count(&loop->connections_total, 1);
    conn->began_ms = uv_now(&loop->uv);
    unsigned most = server->settings.handshakes_max;
    conn->shakes = server->tls != NULL;
    if (conn->shakes && atomic_fetch_add(&server->handshakes_now, 1) >= most && most) {
        loop_count(&loop->refused_total, 1);
        conn_close(conn);
        return;
    }
    if (server->tls && !(conn->tls = tls_session_open(server->tls))) {
        conn_close(conn);
        return;
    }
    settle(conn);
}

void conn_answered(http_conn *conn)
{
    if (conn->writing) {
        conn->owed_ready = true;
        return;
    }
    http_exchange *exchange = conn->owed;
    conn->owed = NULL;
    conn_answer(conn, exchange);
    advance(conn, NULL, 0);
}

void conn_written(http_conn *conn)
{
    deadline_set(conn, LOOP_NO_DEADLINE, 0);
    if (conn->owed && conn->owed_ready)
        conn_answered(conn);
    else if (conn->owed)
        settle(conn);
    else
        advance(conn, NULL, 0);
}

void conn_expired(http_conn *conn, loop_deadline deadline)
{
    http_loop *loop = conn->loop;
    if (deadline == LOOP_REQUEST || deadline == LOOP_WRITE)
        loop_count(&loop->cut_total, 1);
    if (deadline == LOOP_REQUEST && conn->reading) {
        conn_refuse(conn, 408, "the request did not arrive in time");
        conn_flush(conn);
        settle(conn);
        return;
    }
    if (deadline == LOOP_WRITE) {
        /* The kernel would go on offering the bytes for minutes. */
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    conn_close(conn);
}

void conn_close_if_idle(http_conn *conn)
{
    char byte;
    if (recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
        conn_close(conn);
}
