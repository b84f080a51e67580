/* TLS without sockets: ciphertext goes in and comes out as bytes, so that the loop alone reads and writes. */
#ifndef KZ_SERVER_TLS_H
#define KZ_SERVER_TLS_H

#include "http_bytes.h"

typedef struct tls_context tls_context; /* certificate and key; any number of threads may share it */
typedef struct tls_session tls_session; /* one connection */

/* NULL on success, else what went wrong, in thread-local memory. */
const char *tls_context_open(tls_context **context, const char *cert_path, const char *key_path);
void tls_context_close(tls_context *context);

tls_session *tls_session_open(tls_context *context);
void tls_session_close(tls_session *session);
bool tls_ready(const tls_session *session); /* the handshake is done */

/* Ciphertext that has arrived. False: out of memory. */
bool tls_receive(tls_session *session, const char *bytes, size_t length);
enum { TLS_MORE = 0, TLS_ENDED = -1, TLS_BROKEN = -2 };
/* Goes on with the handshake; then plaintext: how much, or TLS_MORE when ciphertext is wanted, TLS_ENDED when the
 * client has said that it sends no more, TLS_BROKEN when this is not TLS. */
int tls_read(tls_session *session, char *plain, int size);
bool tls_write(tls_session *session, const char *plain, size_t length);
/* Says that we send no more. */
void tls_end(tls_session *session);
/* Moves the ciphertext that waits to be sent to the end of `out`. False: out of memory. */
bool tls_send(tls_session *session, http_bytes *out);

#endif
