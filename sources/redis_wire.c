/* A stream to a Redis server, in the clear or over TLS, on which every step has a deadline. hiredis has sockets too,
 * but no TLS in this version, and it bounds each read instead of the whole exchange. */
#include "sources/redis_wire.h"
#include "core/error.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef KZ_NO_TLS
#define SSL_free(session)              ((void)(session))
#define SSL_CTX_free(tls)              ((void)(tls))
#define SSL_read(session, data, size)  (-1)
#define SSL_write(session, data, size) (-1)
#define SSL_peek(session, data, size)  (-1)
#define SSL_get_error(session, result) (result)
#define SSL_ERROR_WANT_READ            (-1)
#define ERR_clear_error()              ((void)0)
#else
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

int64_t kz__wire_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void kz__wire_close(kz__wire *wire)
{
    SSL_free(wire->session);
    wire->session = NULL;
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
}

void kz__wire_free(kz__wire *wire)
{
    kz__wire_close(wire);
    SSL_CTX_free(wire->tls);
    wire->tls = NULL;
}

/* Waits for the socket. KZ_UNAVAILABLE when the time is over. */
static kz_status wait_for(kz__wire *wire, short events, int64_t deadline_ms, const char *doing, kz_error *err)
{
    for (;;) {
        int64_t left_ms = deadline_ms - kz__wire_now_ms();
        struct pollfd p = {.fd = wire->fd, .events = events};
        int ready = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (ready > 0)
            return KZ_OK;
        if (ready == 0)
            return kz__fail(err, KZ_UNAVAILABLE, "%s: no answer within %" PRId64 " ms while %s", wire->address->name,
                            wire->address->timeout_ms, doing);
        if (errno != EINTR)
            return kz__fail(err, KZ_UNAVAILABLE, "%s: poll: %s", wire->address->name, strerror(errno));
    }
}

static kz_status connect_one(kz__wire *wire, const struct addrinfo *to, int64_t deadline_ms, kz_error *err)
{
    wire->fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->ai_protocol);
    if (wire->fd < 0)
        return kz__fail(err, KZ_SYSTEM, "%s: no socket: %s", wire->address->name, strerror(errno));
    int failure = connect(wire->fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) {
        kz_status status = wait_for(wire, POLLOUT, deadline_ms, "connecting", err);
        if (status)
            return status;
        socklen_t size = sizeof failure;
        getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    }
    if (failure)
        return kz__fail(err, KZ_UNAVAILABLE, "cannot connect to %s: %s", wire->address->name, strerror(failure));
    int on = 1;
    setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(wire->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return KZ_OK;
}

static kz_status connect_any(kz__wire *wire, int64_t deadline_ms, kz_error *err)
{
    struct addrinfo *list = NULL;
    kz_status status = kz__wire_resolve(wire->address, deadline_ms, &list, err);
    if (status)
        return status;
    int64_t left = 0;
    for (const struct addrinfo *to = list; to; to = to->ai_next)
        left++;
    status = KZ_UNAVAILABLE;
    /* Each has its part of what is left, so that one that is silent does not take the time of the next. */
    for (const struct addrinfo *to = list; to; to = to->ai_next, left--) {
        int64_t now_ms = kz__wire_now_ms();
        status = connect_one(wire, to, now_ms + (deadline_ms - now_ms) / left, err);
        if (!status)
            break;
        kz__wire_close(wire);
    }
    freeaddrinfo(list);
    return status;
}

#ifdef KZ_NO_TLS

static kz_status tls_settings(kz__wire *wire, kz_error *err)
{
    return kz__fail(err, KZ_UNSUPPORTED, "%s: this build has no TLS: use redis: or a build that has it",
                    wire->address->name);
}

/* Without settings there is no session. */
static kz_status tls_begin(kz__wire *wire, int64_t deadline_ms, kz_error *err)
{
    (void)deadline_ms;
    return tls_settings(wire, err);
}

static kz_status tls_again(kz__wire *wire, int result, int64_t deadline_ms, const char *doing, kz_error *err)
{
    (void)result;
    (void)doing;
    return tls_begin(wire, deadline_ms, err);
}

#else

static const char *certificate_advice(long verified)
{
    switch (verified) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "renew it; or is this machine's clock wrong?";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "call the server by a name that it has";
    default:
        return "name the authority's with ?cacert=FILE";
    }
}

/* After an SSL call gave `result`: KZ_OK if it is worth another try. */
static kz_status tls_again(kz__wire *wire, int result, int64_t deadline_ms, const char *doing, kz_error *err)
{
    switch (SSL_get_error(wire->session, result)) {
    case SSL_ERROR_WANT_READ:
        return wait_for(wire, POLLIN, deadline_ms, doing, err);
    case SSL_ERROR_WANT_WRITE:
        return wait_for(wire, POLLOUT, deadline_ms, doing, err);
    case SSL_ERROR_SSL: {
        long verified = SSL_get_verify_result(wire->session);
        if (verified != X509_V_OK && !wire->address->insecure)
            return kz__fail(err, KZ_STORE, "%s: its certificate cannot be trusted: %s (%s)", wire->address->name,
                            X509_verify_cert_error_string(verified), certificate_advice(verified));
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());
        return kz__fail(err, KZ_UNAVAILABLE, "%s: TLS failed while %s: %s", wire->address->name, doing,
                        reason ? reason : "unknown reason");
    }
    default:
        return kz__fail(err, KZ_UNAVAILABLE, "%s closed the connection while %s", wire->address->name, doing);
    }
}

static kz_status tls_settings(kz__wire *wire, kz_error *err)
{
    wire->tls = SSL_CTX_new(TLS_client_method());
    if (!wire->tls)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for TLS");
    SSL_CTX_set_min_proto_version(wire->tls, TLS1_2_VERSION);
    SSL_CTX_set_verify(wire->tls, wire->address->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    int loaded = *wire->address->cacert ? SSL_CTX_load_verify_locations(wire->tls, wire->address->cacert, NULL)
                                        : SSL_CTX_set_default_verify_paths(wire->tls);
    if (loaded != 1 && !wire->address->insecure)
        return kz__fail(err, KZ_INVALID, "%s: no certificates can be read from %s", wire->address->name,
                        *wire->address->cacert ? wire->address->cacert : "the system's store");
    return KZ_OK;
}

/* OpenSSL writes to a socket with write(), which raises SIGPIPE when the other side is gone: a library may not do that
 * to a program. So it gets a stream of ours. */
static int stream_write(BIO *bio, const char *data, int size)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(fd, data, (size_t)size, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int stream_read(BIO *bio, char *data, int size)
{
    int fd = (int)(intptr_t)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(fd, data, (size_t)size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long stream_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *stream_method;

static void make_stream_method(void)
{
    stream_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kazahana");
    if (!stream_method)
        return;
    BIO_meth_set_write(stream_method, stream_write);
    BIO_meth_set_read(stream_method, stream_read);
    BIO_meth_set_ctrl(stream_method, stream_control);
}

static BIO *stream_new(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_stream_method);
    BIO *bio = stream_method ? BIO_new(stream_method) : NULL;
    if (bio) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

static kz_status tls_begin(kz__wire *wire, int64_t deadline_ms, kz_error *err)
{
    wire->session = SSL_new(wire->tls);
    BIO *stream = stream_new(wire->fd);
    if (!wire->session || !stream) {
        BIO_free(stream);
        return kz__fail(err, KZ_NO_MEMORY, "no memory for TLS");
    }
    SSL_set_bio(wire->session, stream, stream);
    /* An address is checked as an address, a name as a name. */
    X509_VERIFY_PARAM *check = SSL_get0_param(wire->session);
    if (X509_VERIFY_PARAM_set1_ip_asc(check, wire->address->host) != 1) {
        X509_VERIFY_PARAM_set1_host(check, wire->address->host, 0);
        SSL_set_tlsext_host_name(wire->session, wire->address->host);
    }
    for (;;) {
        ERR_clear_error();
        int result = SSL_connect(wire->session);
        if (result == 1)
            return KZ_OK;
        kz_status status = tls_again(wire, result, deadline_ms, "agreeing on TLS", err);
        if (status)
            return status;
    }
}

#endif

kz_status kz__wire_connect(kz__wire *wire, int64_t deadline_ms, kz_error *err)
{
    kz_status status = KZ_OK;
    if (wire->address->tls && !wire->tls)
        status = tls_settings(wire, err);
    if (!status)
        status = connect_any(wire, deadline_ms, err);
    if (!status && wire->address->tls)
        status = tls_begin(wire, deadline_ms, err);
    if (status)
        kz__wire_close(wire);
    return status;
}

kz_status kz__wire_write(kz__wire *wire, const char *data, size_t size, int64_t deadline_ms, kz_error *err)
{
    while (size) {
        ERR_clear_error();
        ssize_t sent =
            wire->session ? SSL_write(wire->session, data, (int)size) : send(wire->fd, data, size, MSG_NOSIGNAL);
        kz_status status = KZ_OK;
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        } else if (wire->session) {
            status = tls_again(wire, (int)sent, deadline_ms, "sending", err);
        } else if (errno == EAGAIN) {
            status = wait_for(wire, POLLOUT, deadline_ms, "sending", err);
        } else if (errno != EINTR) {
            status =
                kz__fail(err, KZ_UNAVAILABLE, "%s closed the connection: %s", wire->address->name, strerror(errno));
        }
        if (status)
            return status;
    }
    return KZ_OK;
}

kz_status kz__wire_read(kz__wire *wire, char *data, size_t room, size_t *size, int64_t deadline_ms, kz_error *err)
{
    for (;;) {
        ERR_clear_error();
        ssize_t got = wire->session ? SSL_read(wire->session, data, (int)room) : recv(wire->fd, data, room, 0);
        kz_status status = KZ_OK;
        if (got > 0) {
            *size = (size_t)got;
            return KZ_OK;
        }
        if (wire->session)
            status = tls_again(wire, (int)got, deadline_ms, "waiting for its answer", err);
        else if (got == 0)
            status = kz__fail(err, KZ_UNAVAILABLE, "%s closed the connection", wire->address->name);
        else if (errno == EAGAIN)
            status = wait_for(wire, POLLIN, deadline_ms, "waiting for its answer", err);
        else if (errno != EINTR)
            status = kz__fail(err, KZ_UNAVAILABLE, "%s: %s", wire->address->name, strerror(errno));
        if (status)
            return status;
    }
}

bool kz__wire_is_stale(kz__wire *wire)
{
    char byte;
    if (!wire->session)
        return !(recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN);
    /* TLS has messages of its own that may wait there; this reads those, and stops at ours. */
    ERR_clear_error();
    int got = SSL_peek(wire->session, &byte, 1);
    return got > 0 || SSL_get_error(wire->session, got) != SSL_ERROR_WANT_READ;
}
