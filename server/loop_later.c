/* Answers that come later, from any thread: exchanges on their way back to their loop. */
#include "loop.h"

/* A sanitizer sees a use after free only of what is really freed. */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_MAX 0
#else
#define POOL_MAX 256
#endif

/* Outlives its loop for as long as answers are owed, because a handler may send after the server has gone. */
struct http_mailbox {
    pthread_mutex_t lock;
    uv_async_t *wake; /* NULL: the loop has gone */
    http_exchange *first, *last;
    /* May be -1 for a moment: the answer can be sent before the handler has returned. Only with a loop, though. */
    long owed;
};

http_mailbox *mailbox_open(uv_async_t *wake)
{
    http_mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (!mailbox)
        return NULL;
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->wake = wake;
    return mailbox;
}

static void mailbox_free(http_mailbox *mailbox)
{
    pthread_mutex_destroy(&mailbox->lock);
    free(mailbox);
}

static void exchange_free(http_exchange *exchange)
{
    http_parser_free(&exchange->parser);
    http_reply_free(&exchange->reply);
    free(exchange);
}

void mailbox_close(http_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->wake = NULL;
    http_exchange *sent = mailbox->first;
    mailbox->first = mailbox->last = NULL;
    bool idle = mailbox->owed == 0;
    pthread_mutex_unlock(&mailbox->lock);
    for (http_exchange *next; sent; sent = next) {
        next = sent->next;
        exchange_free(sent);
    }
    if (idle)
        mailbox_free(mailbox);
}

void mailbox_owe(http_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->owed++;
    pthread_mutex_unlock(&mailbox->lock);
}

/* All that has been sent so far, in order. */
http_exchange *mailbox_take(http_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    http_exchange *sent = mailbox->first;
    mailbox->first = mailbox->last = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return sent;
}

void http_reply_send(http_reply *reply)
{
    http_exchange *exchange = (http_exchange *)((char *)reply - offsetof(http_exchange, reply));
    http_mailbox *mailbox = exchange->mailbox;
    exchange->next = NULL;
    pthread_mutex_lock(&mailbox->lock);
    mailbox->owed--;
    bool delivered = mailbox->wake != NULL, idle = mailbox->owed == 0;
    if (delivered) {
        bool first = !mailbox->first;
        *(first ? &mailbox->first : &mailbox->last->next) = exchange;
        mailbox->last = exchange;
        if (first) /* the others ride along; under the lock, so that the handle cannot be closed meanwhile */
            uv_async_send(mailbox->wake);
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (delivered)
        return;
    exchange_free(exchange);
    if (idle)
        mailbox_free(mailbox);
}

http_exchange *exchange_take(http_loop *loop)
{
    http_exchange *exchange = loop->pool;
    if (exchange) {
        loop->pool = exchange->next;
        loop->pooled--;
        return exchange;
    }
    exchange = malloc(sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->conn = NULL;
    exchange->mailbox = loop->mailbox;
    exchange->reply = (http_reply){0};
    http_reply_reset(&exchange->reply);
    http_parser_init(&exchange->parser);
    return exchange;
}

void exchange_put(http_loop *loop, http_exchange *exchange)
{
    if ((int)loop->pooled >= POOL_MAX) {
        exchange_free(exchange);
        return;
    }
    http_parser_reset(&exchange->parser);
    http_reply_reset(&exchange->reply);
    exchange->conn = NULL;
    exchange->next = loop->pool;
    loop->pool = exchange;
    loop->pooled++;
}

void exchange_pool_free(http_loop *loop)
{
    for (http_exchange *exchange; (exchange = loop->pool);) {
        loop->pool = exchange->next;
        exchange_free(exchange);
    }
}
