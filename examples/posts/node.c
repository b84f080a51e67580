/* One generator for all threads of the instance, and the keeper's last complaint. */
#include "node.h"

#include "log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MINT_TIMEOUT_MS = 2000, HEALTH_TIMEOUT_MS = 200 };

struct node {
    kz_generator *gen;
    char *shown_source;
    pthread_mutex_t lock; /* guards the two below: the keeper's thread writes them */
    char last_error[KZ_MESSAGE_SIZE];
    int64_t last_error_unix_ms;
};

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void hear(void *ctx, kz_log_level level, const char *message)
{
    static const char *const levels[] = {"error", "warning", "info"};
    node *n = ctx;
    if (level != KZ_LOG_INFO) {
        pthread_mutex_lock(&n->lock);
        snprintf(n->last_error, sizeof n->last_error, "%s", message);
        n->last_error_unix_ms = wall_ms();
        pthread_mutex_unlock(&n->lock);
    }
    log_event(levels[level], "node", json_pack("{s:o}", "message", json_any_text(message)));
}

/* The URL without user, password and settings: fit to be shown to anybody. */
static char *shown(const char *url)
{
    const char *slashes = strstr(url, "://");
    const char *host = slashes ? slashes + 3 : url;
    size_t authority = slashes ? strcspn(host, "/?") : 0;
    for (size_t i = authority; i-- > 0;) {
        if (host[i] == '@') {
            host += i + 1;
            break;
        }
    }
    char *text = malloc(strlen(url) + 1);
    if (text)
        sprintf(text, "%.*s%.*s", slashes ? (int)(slashes + 3 - url) : 0, url, (int)strcspn(host, "?"), host);
    return text;
}

node *node_open(const char *source, kz_error *err)
{
    node *n = calloc(1, sizeof *n);
    if (!n || !(n->shown_source = shown(source))) {
        free(n);
        *err = (kz_error){.status = KZ_NO_MEMORY, .message = "out of memory"};
        return NULL;
    }
    pthread_mutex_init(&n->lock, NULL);
    kz_options options;
    kz_options_init(&options);
    options.log = hear;
    options.log_ctx = n;
    if (kz_open(&n->gen, source, &options, err)) {
        node_close(n);
        return NULL;
    }
    return n;
}

void node_close(node *n)
{
    if (!n)
        return;
    kz_close(n->gen);
    pthread_mutex_destroy(&n->lock);
    free(n->shown_source);
    free(n);
}

static kz_status mint(node *n, int64_t timeout_ms, kz_id *id, kz_parts *parts, kz_error *err)
{
    kz_status status = kz_mint(n->gen, id, 1, timeout_ms, err);
    if (status)
        return status;
    kz_layout layout;
    kz_generator_layout(n->gen, &layout);
    return kz_decode(&layout, *id, parts, err);
}

kz_status node_mint(node *n, kz_id *id, kz_parts *parts, kz_error *err)
{
    return mint(n, MINT_TIMEOUT_MS, id, parts, err);
}

json_t *node_health(node *n, bool *up)
{
    /* The one honest answer to "can you make an ID?" is an ID. It is not used. */
    kz_id id;
    kz_parts parts;
    kz_error err;
    *up = !mint(n, HEALTH_TIMEOUT_MS, &id, &parts, &err);

    json_t *health = json_pack("{s:s, s:s}", "status", *up ? "UP" : "DOWN", "source", n->shown_source);
    if (*up)
        json_object_set_new(health, "node", json_integer(parts.node));
    else
        json_object_set_new(health, "error", json_any_text(err.message));
    kz_stats stats;
    kz_stats_init(&stats);
    if (!kz_stats_get(n->gen, &stats)) {
        char end[KZ_TIME_TEXT_SIZE];
        kz_time_text(stats.window_end_unix_ms, end);
        json_object_set_new(health, "windowEnd",
                            stats.window_end_unix_ms == INT64_MAX ? json_null() : json_string(end));
        json_object_set_new(health, "leaseAgeMs", json_integer(stats.lease_age_ms));
        json_object_set_new(health, "acquireFailures", json_integer((json_int_t)stats.acquire_failures_now));
        /* A random node, or none: others may be making the same IDs. */
        json_object_set_new(health, "devMode", json_boolean(stats.unfenced));
    }
    pthread_mutex_lock(&n->lock);
    if (*n->last_error) {
        char when[KZ_TIME_TEXT_SIZE];
        kz_time_text(n->last_error_unix_ms, when);
        json_object_set_new(health, "lastError",
                            json_pack("{s:s, s:o}", "time", when, "message", json_any_text(n->last_error)));
    } else {
        json_object_set_new(health, "lastError", json_null());
    }
    pthread_mutex_unlock(&n->lock);
    return health;
}
