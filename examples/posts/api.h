/* The routes. */
#ifndef POSTS_API_H
#define POSTS_API_H

#include "database.h"
#include "http.h"
#include "node.h"

#include <stdatomic.h>

typedef struct api {
    node *node;
    database *database;
    const kz_external_keys *keys;
    const char *instance;
    _Atomic uint64_t posts;          /* stored */
    _Atomic uint64_t duplicate_keys; /* must stay 0 */
    _Atomic bool ending;             /* healthy no more: nobody new should come */
} api;

/* An http_answer; `ctx` is an api. */
void api_answer(void *ctx, const http_request *request, http_reply *reply);

#endif
