/* The server: loops on threads, each with its own listening socket; how they start, accept and stop. */
#include "loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#define BACKLOG 4096

static _Thread_local char message[256];

static const char *explain(const http_settings *settings, const char *what, int error)
{
    if (settings->path)
        snprintf(message, sizeof message, "cannot %s unix:%s: %s", what, settings->path, strerror(error));
    else
        snprintf(message, sizeof message, "cannot %s %s:%u: %s", what, settings->address, settings->port,
                 strerror(error));
    return message;
}

http_conn *conn_new(http_loop *loop)
{
    http_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->loop = loop;
    conn->deadline = LOOP_NO_DEADLINE;
    uv_tcp_init(&loop->uv, &conn->tcp);
    conn->tcp.data = conn;
    loop->open++;
    return conn;
}

static void on_handle_closed(uv_handle_t *handle)
{
    (void)handle;
}

/* With the last connection gone a stopping loop has nothing left to run for. */
static void finish(http_loop *loop)
{
    mailbox_close(loop->mailbox);
    loop->mailbox = NULL;
    uv_close((uv_handle_t *)&loop->wake, on_handle_closed);
    uv_close((uv_handle_t *)&loop->tick, on_handle_closed);
    uv_close((uv_handle_t *)&loop->quiet, on_handle_closed);
    uv_close((uv_handle_t *)&loop->grace, on_handle_closed);
    uv_close((uv_handle_t *)&loop->prepare, on_handle_closed);
}

void loop_conn_gone(http_loop *loop)
{
    if (--loop->open == 0 && loop->stopping)
        finish(loop);
}

static void on_connection(uv_stream_t *listener, int status)
{
    http_loop *loop = listener->data;
    const http_settings *settings = loop->settings;
    if (status < 0) {
        if (settings->log)
            settings->log(settings->app, LOG_WARNING, uv_strerror(status));
        return;
    }
    http_conn *conn = conn_new(loop);
    if (!conn)
        return;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) == 0) {
        conn_open(conn);
        return;
    }
    loop->turned_away++;
    conn_close(conn);
}

/* Clients that the kernel has already let in are answered too. */
static void accept_backlog(http_loop *loop)
{
    uv_os_fd_t listener;
    if (uv_fileno((uv_handle_t *)&loop->listener, &listener) < 0)
        return;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        http_conn *conn = conn_new(loop);
        if (!conn || uv_tcp_open(&conn->tcp, fd) < 0) {
            close(fd);
            if (conn) {
                loop->turned_away++;
                conn_close(conn);
            }
            continue;
        }
        conn_open(conn);
    }
}

/* Clients with a request on the way have had their time: it was answered, and told them to close. */
static void on_quiet(uv_timer_t *timer)
{
    http_loop *loop = timer->data;
    loop->quiet_over = true;
    for (http_conn *conn = loop->oldest[LOOP_IDLE], *next; conn; conn = next) {
        next = conn->later_one;
        conn_close_if_idle(conn);
    }
}

static void close_if_conn(uv_handle_t *handle, void *arg)
{
    http_loop *loop = arg;
    if (handle->type == UV_TCP && handle != (uv_handle_t *)&loop->listener)
        conn_close(handle->data);
}

static void on_grace_over(uv_timer_t *timer)
{
    http_loop *loop = timer->data;
    uv_walk(&loop->uv, close_if_conn, loop);
}

static void stop(http_loop *loop)
{
    int64_t grace_ms = atomic_load(&loop->server->grace_ms);
    loop->stopping = true;
    accept_backlog(loop);
    uv_close((uv_handle_t *)&loop->listener, on_handle_closed);
    if (loop->open == 0) {
        finish(loop);
        return;
    }
    int64_t quiet_ms = grace_ms / 4 < LOOP_QUIET_MS ? grace_ms / 4 : LOOP_QUIET_MS;
    uv_timer_start(&loop->quiet, on_quiet, (uint64_t)quiet_ms, 0);
    uv_timer_start(&loop->grace, on_grace_over, (uint64_t)grace_ms, 0);
}

static void on_wake(uv_async_t *wake)
{
    http_loop *loop = wake->data;
    for (http_exchange *exchange = mailbox_take(loop->mailbox), *next; exchange; exchange = next) {
        next = exchange->next;
        if (exchange->conn)
            conn_answered(exchange->conn);
        else
            exchange_put(loop, exchange);
    }
    if (!loop->stopping && atomic_load(&loop->server->stopping))
        stop(loop);
}

/* Before the loop waits: what it did until now is over. */
static void on_prepare(uv_prepare_t *prepare)
{
    http_loop *loop = prepare->data;
    loop_observe(loop);
    loop->mark_ns = 0;
}

static void *run(void *arg)
{
    http_loop *loop = arg;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    return NULL;
}

static int parse_address(const http_settings *settings, uint16_t port, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof *address);
    if (uv_ip4_addr(settings->address, port, (struct sockaddr_in *)address) == 0)
        return 0;
    return uv_ip6_addr(settings->address, port, (struct sockaddr_in6 *)address);
}

/* A bound socket, or -1 with errno. */
static int bind_socket(const struct sockaddr_storage *address, bool shared)
{
    int one = 1, fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        (!shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) &&
        bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &size);
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* A socket of that path which nobody listens on is left over from a server that was killed. */
static int bind_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN) {
        close(fd);
        errno = EADDRINUSE;
        return -1;
    }
    struct stat facts;
    if (errno == ECONNREFUSED && lstat(path, &facts) == 0 && S_ISSOCK(facts.st_mode)) /* a plain file says that too */
        unlink(path);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && chmod(path, 0660) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* All loops accept from one socket: there is only one of a path, and only one was handed over. */
static const char *listen_shared(http_server *server, http_loop *loop, bool first)
{
    const http_settings *settings = &server->settings;
    if (first && settings->path) {
        server->listens = bind_path(settings->path);
        server->made_path = server->listens >= 0;
    } else if (first) {
        server->listens = fcntl(settings->fd, F_DUPFD_CLOEXEC, 3);
        server->port = bound_port(settings->fd);
    }
    int fd = server->listens < 0 ? -1 : fcntl(server->listens, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return explain(settings, "listen on", errno);
    int error = uv_tcp_open(&loop->listener, fd);
    if (error < 0)
        close(fd);
    else
        error = uv_listen((uv_stream_t *)&loop->listener, BACKLOG, on_connection);
    return error < 0 ? explain(settings, "listen on", -error) : NULL;
}

static const char *listen_on(http_server *server, http_loop *loop, bool first)
{
    const http_settings *settings = &server->settings;
    struct sockaddr_storage address;
    if (settings->path || settings->fd)
        return listen_shared(server, loop, first);
    if (parse_address(settings, first ? settings->port : server->port, &address) < 0)
        return explain(settings, "understand the address", EINVAL);
    bool shared = settings->loops > 1;
    if (first && shared && settings->port) {
        /* SO_REUSEPORT would let a second server take half of the first one's connections. */
        int probe = bind_socket(&address, false);
        if (probe < 0)
            return explain(settings, "listen on", errno);
        close(probe);
    }
    int fd = bind_socket(&address, shared);
    if (fd < 0)
        return explain(settings, "listen on", errno);
    server->port = bound_port(fd);
    int error = uv_tcp_open(&loop->listener, fd);
    if (error < 0)
        close(fd);
    else
        error = uv_listen((uv_stream_t *)&loop->listener, BACKLOG, on_connection);
    return error < 0 ? explain(settings, "listen on", -error) : NULL;
}

/* All handles exist from here on, so that one function takes a loop apart. */
static const char *loop_open(http_server *server, http_loop *loop)
{
    loop->server = server;
    loop->number = (unsigned)(loop - server->loops);
    loop->settings = &server->settings;
    int error = uv_loop_init(&loop->uv);
    if (error < 0) {
        loop->server = NULL;
        return uv_strerror(error);
    }
    uv_tcp_init(&loop->uv, &loop->listener);
    uv_timer_init(&loop->uv, &loop->tick);
    uv_timer_init(&loop->uv, &loop->quiet);
    uv_timer_init(&loop->uv, &loop->grace);
    uv_prepare_init(&loop->uv, &loop->prepare);
    loop->listener.data = loop->tick.data = loop->quiet.data = loop->grace.data = loop->wake.data = loop;
    loop->prepare.data = loop;
    error = uv_async_init(&loop->uv, &loop->wake, on_wake);
    if (error < 0)
        return uv_strerror(error);
    loop->wake.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    loop->mailbox = mailbox_open(&loop->wake);
    if (server->tls)
        loop->plain = malloc(LOOP_PLAIN_SIZE);
    return loop->mailbox && (!server->tls || loop->plain) ? NULL : "out of memory";
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

/* Of a loop that does not run, or no longer. */
static void loop_free(http_loop *loop)
{
    if (!loop->server)
        return;
    if (loop->mailbox)
        mailbox_close(loop->mailbox);
    uv_walk(&loop->uv, close_handle, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    exchange_pool_free(loop);
    http_bytes_clear(&loop->out, 0);
    free(loop->plain);
}

void http_server_free(http_server *server)
{
    if (!server)
        return;
    for (unsigned i = 0; i < server->settings.loops; i++)
        loop_free(&server->loops[i]);
    tls_context_close(server->tls);
    if (server->listens >= 0)
        close(server->listens);
    free(server->loops);
    free(server);
}

void http_server_stop(http_server *server, int64_t grace_ms)
{
    atomic_store(&server->grace_ms, grace_ms < 0 ? 0 : grace_ms);
    atomic_store(&server->stopping, true);
    for (unsigned i = 0; i < server->started; i++)
        uv_async_send(&server->loops[i].wake);
    for (unsigned i = 0; i < server->started; i++)
        pthread_join(server->loops[i].thread, NULL);
    server->started = 0;
    if (server->made_path)
        unlink(server->settings.path);
    server->made_path = false;
}

/* Signals are for the program's own threads; a blocked SIGPIPE is an error of the write. */
static const char *start_threads(http_server *server)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (unsigned i = 0; i < server->settings.loops && !error; i++) {
        error = pthread_create(&server->loops[i].thread, NULL, run, &server->loops[i]);
        server->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? "cannot start a thread" : NULL;
}

const char *http_server_start(http_server **out, const http_settings *settings)
{
    http_server *server = calloc(1, sizeof *server);
    if (!server)
        return "out of memory";
    const char *error = NULL;
    server->settings = *settings;
    server->listens = -1;
    if (server->settings.loops == 0)
        server->settings.loops = 1;
    server->loops = calloc(server->settings.loops, sizeof *server->loops);
    if (!server->loops) {
        free(server);
        return "out of memory";
    }
    if (settings->tls_cert)
        error = tls_context_open(&server->tls, settings->tls_cert, settings->tls_key);
    for (unsigned i = 0; i < server->settings.loops && !error; i++) {
        error = loop_open(server, &server->loops[i]);
        if (!error)
            error = listen_on(server, &server->loops[i], i == 0);
    }
    *out = server;
    if (!error)
        error = start_threads(server);
    if (error) {
        http_server_stop(server, 0);
        http_server_free(server);
        *out = NULL;
    }
    return error;
}

uint16_t http_server_port(const http_server *server)
{
    return server->port;
}

void http_server_counts(const http_server *server, http_counts *counts)
{
    *counts = (http_counts){.connections_now = atomic_load(&server->connections_now)};
    for (unsigned i = 0; i < server->settings.loops; i++) {
        const http_loop *loop = &server->loops[i];
        counts->connections_total += atomic_load_explicit(&loop->connections_total, memory_order_relaxed);
        counts->refused_total += atomic_load_explicit(&loop->refused_total, memory_order_relaxed);
        counts->cut_total += atomic_load_explicit(&loop->cut_total, memory_order_relaxed);
        counts->requests_total += atomic_load_explicit(&loop->requests_total, memory_order_relaxed);
    }
}
