/* A stream to a Redis server, in the clear or over TLS, on which every step has a deadline. */
#ifndef KZ_SOURCES_REDIS_WIRE_H
#define KZ_SOURCES_REDIS_WIRE_H

#include "sources/redis_link.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

typedef struct kz__wire {
    int fd; /* -1: not connected */
    SSL_CTX *tls;
    SSL *session;
    const kz__redis_address *address;
} kz__wire;

int64_t kz__wire_now_ms(void);

struct addrinfo;

/* The addresses of the host, for freeaddrinfo. KZ_UNAVAILABLE: none, or not in time. */
kz_status kz__wire_resolve(const kz__redis_address *address, int64_t deadline_ms, struct addrinfo **list,
                           kz_error *err);

/* KZ_UNAVAILABLE: nobody there, or not in time. KZ_STORE: a certificate that cannot be trusted. */
kz_status kz__wire_connect(kz__wire *wire, int64_t deadline_ms, kz_error *err);
kz_status kz__wire_write(kz__wire *wire, const char *data, size_t size, int64_t deadline_ms, kz_error *err);

/* Reads what there is, at least a byte. */
kz_status kz__wire_read(kz__wire *wire, char *data, size_t room, size_t *size, int64_t deadline_ms, kz_error *err);

/* Between two exchanges: has the other side closed, or said what nobody asked for? */
bool kz__wire_is_stale(kz__wire *wire);

/* Sends nothing, so that a forked child can do it too. */
void kz__wire_close(kz__wire *wire);
void kz__wire_free(kz__wire *wire);

#endif
