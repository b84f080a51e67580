/* Generators that are opened by several parts of a process and are one: counted, by URL and options. */
#include "core/error.h"
#include "host/page.h"
#include "lib/generator.h"

#include <stdlib.h>
#include <string.h>

typedef struct kz__shared {
    char *url; /* NULL: the default */
    kz_options options;
    kz_generator *gen;
    unsigned users;
    bool busy; /* being opened or closed */
    struct kz__shared *other;
} shared;

/* In memory that a forked child finds empty: what its parent shares is not for it to join. */
typedef struct list {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    shared *first;
} list;

static list *all;
static kz_status all_status;
static kz_error all_error;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same(const shared *s, const char *url, const kz_options *o)
{
    const kz_options *p = &s->options;
    return same_text(s->url, url) && same_text(p->service, o->service) && same_text(p->layout, o->layout) &&
           same_text(p->meta, o->meta) && p->fallback == o->fallback && p->backward == o->backward &&
           p->max_backward_ms == o->max_backward_ms && p->max_ahead_ms == o->max_ahead_ms &&
           p->timeout_ms == o->timeout_ms && p->clock == o->clock && p->seq_start == o->seq_start && p->log == o->log &&
           p->log_ctx == o->log_ctx && p->use_clock == o->use_clock && p->keeper == o->keeper &&
           p->throughput_min_per_ms == o->throughput_min_per_ms &&
           p->throughput_max_per_ms == o->throughput_max_per_ms && p->renew_at == o->renew_at &&
           p->max_services == o->max_services && p->retry_initial_ms == o->retry_initial_ms &&
           p->retry_max_ms == o->retry_max_ms;
}

static void forget(shared *s)
{
    for (shared **at = &all->first; *at; at = &(*at)->other) {
        if (*at == s) {
            *at = s->other;
            break;
        }
    }
    pthread_cond_broadcast(&all->changed);
    free(s->url);
    free((char *)s->options.service);
    free((char *)s->options.layout);
    free((char *)s->options.meta);
    free(s);
}

static char *copy(const char *text, bool *failed)
{
    char *made = text ? strdup(text) : NULL;
    *failed |= text && !made;
    return made;
}

/* A new one, in the list and busy; NULL without memory. */
static shared *enter(const char *url, const kz_options *options)
{
    bool failed = false;
    shared *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->url = copy(url, &failed);
    s->options = *options;
    s->options.service = copy(options->service, &failed);
    s->options.layout = copy(options->layout, &failed);
    s->options.meta = copy(options->meta, &failed);
    s->busy = true;
    s->other = all->first;
    all->first = s;
    if (!failed)
        return s;
    forget(s);
    return NULL;
}

/* At the end of the process: gives back what is held, and leaves the memory to threads that still mint. Entered after
 * the first was opened, so that it runs before the end of the libraries that a source is made of. */
static void give_back_all(void)
{
    pthread_mutex_lock(&all->lock);
    for (shared *s = all->first; s; s = s->other) {
        kz_generator *gen = s->gen;
        if (s->busy || !gen->hot->alive || !gen->source->ops->acquire)
            continue;
        kz__keeper_stop(gen);
        gen->source->ops->close(gen->source->handle, false);
        gen->source->handle = NULL;
    }
    pthread_mutex_unlock(&all->lock);
}

static void make_list(void)
{
    void *page = NULL;
    all_status = kz__page_new(&page, sizeof *all, &all_error);
    all = page;
}

static void at_exit(void)
{
    (void)atexit(give_back_all);
}

static kz_status open_locked(shared **out, const char *url, const kz_options *options, kz_error *err)
{
    shared *s = all->first;
    while (s) {
        if (!same(s, url, options)) {
            s = s->other;
        } else if (s->busy) {
            pthread_cond_wait(&all->changed, &all->lock);
            s = all->first;
        } else {
            s->users++;
            *out = s;
            return KZ_OK;
        }
    }
    s = enter(url, options);
    if (!s)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator");
    pthread_mutex_unlock(&all->lock);
    kz_status status = kz_open(&s->gen, url, options, err);
    pthread_mutex_lock(&all->lock);
    if (status) {
        forget(s);
        return status;
    }
    s->gen->share = s;
    s->users = 1;
    s->busy = false;
    pthread_cond_broadcast(&all->changed);
    *out = s;
    return KZ_OK;
}

kz_status kz_open_shared(kz_generator **gen, const char *url, const kz_options *given, kz_error *err)
{
    static pthread_once_t list_once = PTHREAD_ONCE_INIT, exit_once = PTHREAD_ONCE_INIT;
    kz_options options;
    kz_status status = kz__options_read(given, &options, err);
    if (status)
        return status;
    if (!gen)
        return kz__fail(err, KZ_INVALID, "kz_open_shared needs a place for the generator, not NULL");
    if (!kz__source_is_ours(url))
        return kz_open(gen, url, &options, err);
    pthread_once(&list_once, make_list);
    if (all_status) {
        if (err)
            *err = all_error;
        return all_status;
    }
    shared *s = NULL;
    pthread_mutex_lock(&all->lock);
    status = open_locked(&s, url, &options, err);
    if (status == KZ_OK)
        *gen = s->gen;
    pthread_mutex_unlock(&all->lock);
    if (status == KZ_OK)
        pthread_once(&exit_once, at_exit);
    return status;
}

bool kz__share_leave(kz_generator *gen)
{
    shared *s = gen->share;
    pthread_mutex_lock(&all->lock);
    bool last = --s->users == 0;
    /* Whoever wants the same meanwhile waits until it is closed: a fixed node can be had once. */
    s->busy = last;
    pthread_mutex_unlock(&all->lock);
    return last;
}

void kz__share_end(struct kz__shared *s)
{
    pthread_mutex_lock(&all->lock);
    forget(s);
    pthread_mutex_unlock(&all->lock);
}
