/* TLS 1.2 and later by OpenSSL, over memory BIOs. */
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A BIO that has held more is given back once it is empty: idle connections stay small. */
#define BIO_KEEP_MAX 8192

struct tls_session {
    SSL *ssl;
    bool was_ready;
    size_t in_peak, out_peak;
};

static _Thread_local char message[512];

static const char *explain(const char *what, const char *path)
{
    char detail[256] = "unknown error";
    unsigned long error = ERR_peek_last_error();
    if (error)
        ERR_error_string_n(error, detail, sizeof detail);
    ERR_clear_error();
    snprintf(message, sizeof message, "%s %s: %s", what, path, detail);
    return message;
}

static int choose_http_11(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                          unsigned offered_length, void *unused)
{
    (void)ssl, (void)unused;
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;
    if (SSL_select_next_proto(&found, length, ours, sizeof ours - 1, offered, offered_length) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL says "system lib" for a file that is not there. */
static const char *unreadable(const char *what, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return NULL;
    }
    snprintf(message, sizeof message, "cannot read the %s %s: %s", what, path, strerror(errno));
    return message;
}

const char *tls_context_open(tls_context **context, const char *cert_path, const char *key_path)
{
    const char *error = unreadable("certificate", cert_path);
    if (!error)
        error = unreadable("key", key_path);
    if (error)
        return error;
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return explain("cannot set up", "TLS");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0); /* clients keep their connections, and tickets would cost each of them 5 KB */
    SSL_CTX_set_alpn_select_cb(ctx, choose_http_11, NULL);
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_path) != 1)
        error = explain("cannot use the certificate", cert_path);
    else if (SSL_CTX_use_PrivateKey_file(ctx, key_path, SSL_FILETYPE_PEM) != 1)
        error = explain("cannot use the key", key_path);
    else if (SSL_CTX_check_private_key(ctx) != 1)
        error = explain("the certificate does not belong to the key", key_path);
    if (error)
        SSL_CTX_free(ctx);
    else
        *context = (tls_context *)ctx;
    return error;
}

void tls_context_close(tls_context *context)
{
    SSL_CTX_free((SSL_CTX *)context);
}

tls_session *tls_session_open(tls_context *context)
{
    tls_session *session = calloc(1, sizeof *session);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *ssl = SSL_new((SSL_CTX *)context);
    if (!session || !in || !out || !ssl) {
        free(session);
        BIO_free(in);
        BIO_free(out);
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_mem_eof_return(in, -1);
    BIO_set_mem_eof_return(out, -1);
    SSL_set_bio(ssl, in, out);
    SSL_set_accept_state(ssl);
    session->ssl = ssl;
    return session;
}

void tls_session_close(tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    free(session);
}

bool tls_ready(const tls_session *session)
{
    return SSL_is_init_finished(session->ssl);
}

bool tls_receive(tls_session *session, const char *bytes, size_t length)
{
    BIO *in = SSL_get_rbio(session->ssl);
    if (length > INT_MAX || BIO_write(in, bytes, (int)length) != (int)length)
        return false;
    if (BIO_pending(in) > (int)session->in_peak)
        session->in_peak = (size_t)BIO_pending(in);
    return true;
}

static void shrink_in(tls_session *session)
{
    BIO *fresh;
    if (session->in_peak <= BIO_KEEP_MAX || BIO_pending(SSL_get_rbio(session->ssl)) || !(fresh = BIO_new(BIO_s_mem())))
        return;
    BIO_set_mem_eof_return(fresh, -1);
    SSL_set0_rbio(session->ssl, fresh);
    session->in_peak = 0;
}

int tls_read(tls_session *session, char *plain, int size)
{
    ERR_clear_error();
    int got = SSL_read(session->ssl, plain, size);
    if (!session->was_ready && tls_ready(session)) {
        /* What the handshake needed is more than a request does. */
        session->was_ready = true;
        session->in_peak = session->out_peak = BIO_KEEP_MAX + 1;
    }
    if (got > 0)
        return got;
    switch (SSL_get_error(session->ssl, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        shrink_in(session);
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_ENDED;
    default:
        ERR_clear_error();
        return TLS_BROKEN;
    }
}

bool tls_write(tls_session *session, const char *plain, size_t length)
{
    ERR_clear_error();
    while (length > 0) {
        int part = length > INT_MAX ? INT_MAX : (int)length;
        int written = SSL_write(session->ssl, plain, part);
        if (written <= 0)
            return false;
        plain += written;
        length -= (size_t)written;
    }
    return true;
}

void tls_end(tls_session *session)
{
    ERR_clear_error();
    if (tls_ready(session))
        SSL_shutdown(session->ssl);
    ERR_clear_error();
}

bool tls_send(tls_session *session, http_bytes *out)
{
    BIO *bio = SSL_get_wbio(session->ssl);
    int waits = BIO_pending(bio);
    if (waits <= 0)
        return true;
    if (!http_bytes_reserve(out, (size_t)waits) || BIO_read(bio, out->at + out->length, waits) != waits)
        return false;
    out->length += (size_t)waits;
    if (waits > (int)session->out_peak)
        session->out_peak = (size_t)waits;
    BIO *fresh;
    if (session->out_peak > BIO_KEEP_MAX && (fresh = BIO_new(BIO_s_mem()))) {
        BIO_set_mem_eof_return(fresh, -1);
        SSL_set0_wbio(session->ssl, fresh);
        session->out_peak = 0;
    }
    return true;
}
