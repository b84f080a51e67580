/* Generators that several environments of this process use at once, counted. */
#include "shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kzn_shared {
    char *key; /* URL and options as one text; NULL: never shared */
    kz_generator *gen;
    kzn_link *log;
    unsigned refs;
    bool busy; /* being opened or closed */
    kzn_shared *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static kzn_shared *all;

static char *make_key(const char *url, const kz_options *o)
{
    char *key = NULL;
    int length =
        asprintf(&key, "%s\n%s\n%s\n%s\n%d %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu32, url ? url : "",
                 o->service, o->layout ? o->layout : "", o->meta ? o->meta : "", o->fallback, o->backward,
                 o->max_backward_ms, o->timeout_ms, o->retry_initial_ms, o->retry_max_ms, o->throughput_max_per_ms);
    return length < 0 ? NULL : key;
}

static kzn_shared *find(const char *key)
{
    kzn_shared *s = all;
    while (s && strcmp(s->key, key) != 0)
        s = s->next;
    return s;
}

static void unlink_and_free(kzn_shared *s)
{
    for (kzn_shared **at = &all; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    kzn_link_drop(s->log);
    free(s->key);
    free(s);
}

/* One that is open, or NULL: then this key is the caller's to open. The lock is held before and after. */
static kzn_shared *join(const char *key)
{
    kzn_shared *s;
    while ((s = find(key)) && s->busy)
        pthread_cond_wait(&changed, &lock);
    if (s)
        s->refs++;
    return s;
}

kz_status kzn_shared_open(kzn_shared **out, const char *url, const kz_options *options, kzn_link *log, kz_error *err)
{
    bool own = url && strncmp(url, "js:", 3) == 0;
    kzn_shared *s = calloc(1, sizeof *s);
    char *key = s ? make_key(url, options) : NULL;
    if (!key) {
        free(s);
        return kzn_fail(err, KZ_NO_MEMORY, "no memory for a generator");
    }
    *s = (kzn_shared){.key = key, .log = log, .refs = 1, .busy = true};
    kzn_link_keep(log);
    pthread_mutex_lock(&lock);
    kzn_shared *open = own ? NULL : join(key);
    if (open) {
        unlink_and_free(s);
        pthread_mutex_unlock(&lock);
        *out = open;
        return KZ_OK;
    }
    s->next = all;
    all = s;
    pthread_mutex_unlock(&lock);

    kz_options with_log = *options;
    with_log.log = kzn_log;
    with_log.log_ctx = log;
    kz_status status = kz_open(&s->gen, url, &with_log, err);

    pthread_mutex_lock(&lock);
    s->busy = false;
    if (status)
        unlink_and_free(s);
    else
        *out = s;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return status;
}

kz_generator *kzn_shared_generator(kzn_shared *s)
{
    return s->gen;
}

void kzn_shared_close(kzn_shared *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    bool last = --s->refs == 0;
    s->busy = last;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    kz_close(s->gen);
    pthread_mutex_lock(&lock);
    unlink_and_free(s);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
