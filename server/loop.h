/* The server's own view of itself: loops on threads, their connections, and the exchanges on them.
 *
 * A connection belongs to one loop and is touched by that loop's thread alone. The one thing that crosses threads is an
 * exchange whose handler said HTTP_LATER: it comes back through the loop's mailbox. */
#ifndef KZ_SERVER_LOOP_H
#define KZ_SERVER_LOOP_H

#include "http_parse.h"
#include "http_reply.h"
#include "tls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#define LOOP_READ_SIZE       65536
#define LOOP_PLAIN_SIZE      16384            /* a TLS record */
#define LOOP_BATCH_MAX       ((size_t)262144) /* answers that wait for one write, beyond which no request is begun */
#define LOOP_LINGER_MS       1000
#define LOOP_LINGER_BYTES    ((size_t)4 << 20)
#define LOOP_TURNED_AWAY_MAX 64
#define LOOP_QUIET_MS        250
#define LOOP_ANSWERED_MAX    64

typedef struct http_loop http_loop;
typedef struct http_conn http_conn;
typedef struct http_exchange http_exchange;
typedef struct http_mailbox http_mailbox;

/* A request and its answer. It stays where it is from the request's first byte until the answer is on its way. */
struct http_exchange {
    http_conn *conn; /* NULL once the client has gone; the loop's thread only */
    http_mailbox *mailbox;
    http_exchange *next; /* in the loop's pool, or in the mailbox */
    uint64_t began_ns;
    http_reply reply;
    http_parser parser;
};

/* Each kind has one duration, so a list in the order of arrival is a list in the order of deadlines. */
typedef enum loop_deadline {
    LOOP_IDLE,
    LOOP_REQUEST,
    LOOP_WRITE,
    LOOP_LINGER,
    LOOP_DEADLINES,
    LOOP_NO_DEADLINE = LOOP_DEADLINES
} loop_deadline;

struct http_conn {
    uv_tcp_t tcp; /* or a Unix socket: libuv does the same with both */
    uv_os_fd_t fd;
    http_loop *loop;
    http_conn *earlier, *later_one; /* neighbours in the list of its deadline */
    uint64_t since_ms;
    uint64_t began_ms;      /* the first byte of the request being read; of a handshake, the accept */
    http_exchange *reading; /* has some bytes of a request */
    http_exchange *owed;    /* its answer comes from elsewhere, */
    bool owed_ready;        /* has come, and waits for the write in front of it */
    struct loop_write *writing;
    char *held; /* received, but not looked at before what stands in front of it is answered */
    size_t held_length;
    size_t lingered;
    tls_session *tls;
    loop_deadline deadline;
    bool counted;   /* against connections_max */
    bool shakes;    /* against handshakes_max */
    bool reads;     /* libuv reads for us */
    bool eof;       /* the client sends no more */
    bool last;      /* close once the answers are out */
    bool lingering; /* we send no more, and wait for the client to see it */
    bool closed;
};

/* An answer in the loop's batch, for `observe`. */
typedef struct loop_answered {
    uint64_t began_ns;
    unsigned tag;
    int status;
} loop_answered;

struct http_loop {
    uv_loop_t uv;
    uv_tcp_t listener;
    uv_async_t wake;
    uv_timer_t tick, quiet, grace;
    uv_prepare_t prepare;
    unsigned number;
    http_server *server;
    const http_settings *settings;
    http_mailbox *mailbox;
    http_exchange *pool;
    unsigned pooled;
    http_conn *oldest[LOOP_DEADLINES], *newest[LOOP_DEADLINES];
    http_bytes out; /* answers of the event at hand; empty between events */
    unsigned open, turned_away;
    loop_answered answered[LOOP_ANSWERED_MAX];
    unsigned answered_count;
    /* When the request at hand could begin to be handled: since the loop woke up, or the batch before it left. One look
     * at the clock for each batch. 0: not known yet. With `observe` only. */
    uint64_t mark_ns;
    bool ticking, stopping, quiet_over;
    pthread_t thread;
    char *plain; /* LOOP_PLAIN_SIZE, with TLS only */
    /* Written by this loop alone, read by any thread. */
    atomic_uint_fast64_t connections_total, refused_total, cut_total, requests_total;
    char read[LOOP_READ_SIZE];
};

struct http_server {
    http_settings settings;
    tls_context *tls;
    uint16_t port;
    unsigned started; /* threads */
    int listens; /* the socket that all loops share: a Unix one, or one that was handed over; -1: each has its own */
    bool made_path;
    atomic_uint connections_now, handshakes_now;
    atomic_bool stopping;
    atomic_llong grace_ms;
    http_loop *loops;
};

static inline void loop_count(atomic_uint_fast64_t *counter, unsigned more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* loop.c */
/* A connection that is still to be accepted; NULL: out of memory. It is freed by conn_close. */
http_conn *conn_new(http_loop *loop);
void loop_conn_gone(http_loop *loop);

/* loop_conn.c */
/* Takes over a connection that has just been accepted. */
void conn_open(http_conn *conn);
/* The answer it was owed is there. */
void conn_answered(http_conn *conn);
/* All of conn->writing has gone. */
void conn_written(http_conn *conn);
void conn_expired(http_conn *conn, loop_deadline deadline);
/* At a stop: closes it unless a request has come in that is not read yet. */
void conn_close_if_idle(http_conn *conn);
void conn_close(http_conn *conn);
void conn_read_start(http_conn *conn);

/* loop_write.c */
/* Adds an answer to the loop's batch, and gives the exchange back. */
void conn_answer(http_conn *conn, http_exchange *exchange);
void conn_refuse(http_conn *conn, int status, const char *why);
/* When the request at hand could begin to be handled. */
uint64_t loop_mark(http_loop *loop);
/* Tells `observe` about the answers of the batch. */
void loop_observe(http_loop *loop);
/* What the socket takes at once: bytes, 0 for none, negative if the connection is broken. */
ssize_t conn_send(http_conn *conn, const char *bytes, size_t length);
/* One write for the batch. What the socket does not take is kept, and conn->writing set until it has gone. */
void conn_flush(http_conn *conn);
/* Says that we send no more, and waits a little for the client to see the last answer: closing with bytes unread would
 * tear it out of the client's hands. */
void conn_linger(http_conn *conn);

/* loop_time.c */
void deadline_set(http_conn *conn, loop_deadline deadline, uint64_t since_ms);
void deadline_tick(uv_timer_t *tick);
uint64_t deadline_tick_ms(const http_settings *settings);

/* loop_later.c */
http_mailbox *mailbox_open(uv_async_t *wake);
/* After this the answers that are still owed are thrown away by whoever sends them. */
void mailbox_close(http_mailbox *mailbox);
void mailbox_owe(http_mailbox *mailbox);
http_exchange *mailbox_take(http_mailbox *mailbox);

http_exchange *exchange_take(http_loop *loop);
void exchange_put(http_loop *loop, http_exchange *exchange);
void exchange_pool_free(http_loop *loop);

#endif
