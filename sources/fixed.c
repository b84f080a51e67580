/* static:N and env:NAME: one node for ever, with or without a high-water mark on disk. */
#include "lib/error.h"
#include "lib/page.h"
#include "sources/source.h"
#include "sources/state.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mark is kept this far ahead of use: the most a start after a crash has to wait. */
#define AHEAD_MS 3000

typedef struct fixed {
    kz__source base;
    uint32_t node;
    kz__state *state;    /* NULL without state= */
    kz_id mark;          /* on disk: everything below may have been minted */
    struct fixed *other; /* the next open one in this process */
} fixed;

/* The fixed nodes this process has open. Two generators on one node would mint twins, and here it can be seen. It lies
 * in memory that a forked child finds empty: the child is another process. */
typedef struct open_list {
    pthread_mutex_t lock;
    fixed *first;
} open_list;

static open_list *opened;
static kz_status opened_status;
static kz_error opened_error;

static void make_list(void)
{
    void *page = NULL;
    opened_status = kz__page_new(&page, sizeof *opened, &opened_error);
    opened = page;
}

static bool same_node(const fixed *a, const fixed *b)
{
    const kz_layout *x = &a->base.layout, *y = &b->base.layout;
    return a->node == b->node && x->epoch_ms == y->epoch_ms && x->time_bits == y->time_bits &&
           x->node_bits == y->node_bits && x->seq_bits == y->seq_bits;
}

/* Enters the source into the list and opens its state file, as one step: the file's lock is the process's, so a second
 * opening of it here would neither be refused nor leave the first one locked. */
static kz_status enlist_locked(fixed *source, const char *state_path, kz_error *err)
{
    for (const fixed *f = opened->first; f; f = f->other) {
        if (same_node(f, source))
            return kz__fail(err, KZ_IN_USE,
                            "node %" PRIu32 " is in use by another generator of this process: share that one, it is "
                            "safe for any number of threads",
                            source->node);
        if (state_path && f->state && kz__state_is_file(f->state, state_path))
            return kz__fail(err, KZ_IN_USE, "state file %s is in use by another generator of this process", state_path);
    }
    if (state_path) {
        kz_status status =
            kz__state_open(&source->state, state_path, &source->base.layout, source->node, &source->mark, err);
        if (status)
            return status;
    }
    source->other = opened->first;
    opened->first = source;
    return KZ_OK;
}

static kz_status enlist(fixed *source, const char *state_path, kz_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_list);
    if (opened_status)
        return kz__fail(err, opened_status, "%s", opened_error.message);
    pthread_mutex_lock(&opened->lock);
    kz_status status = enlist_locked(source, state_path, err);
    pthread_mutex_unlock(&opened->lock);
    return status;
}

static void delist(fixed *source)
{
    pthread_mutex_lock(&opened->lock);
    for (fixed **f = &opened->first; *f; f = &(*f)->other) {
        if (*f == source) {
            *f = source->other;
            break;
        }
    }
    pthread_mutex_unlock(&opened->lock);
}

/* How many node numbers may be given by hand: the upper half is for fallback where the layout says so. */
static uint64_t node_limit(const kz_layout *layout)
{
    bool halved = layout->flags & KZ_LAYOUT_FALLBACK && layout->node_bits;
    return (UINT64_C(1) << layout->node_bits) >> halved;
}

static kz_status parse_node(const char *what, const char *text, const kz_layout *layout, uint32_t *node, kz_error *err)
{
    uint64_t limit = node_limit(layout);
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value < UINT32_MAX; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == text || (*p && !(*p >= '0' && *p <= '9')))
        return kz__fail(err, KZ_INVALID, "%s \"%s\" is not a node number (0..%" PRIu64 ")", what, text, limit - 1);
    if (value < limit) {
        *node = (uint32_t)value;
        return KZ_OK;
    }
    if (limit >> layout->node_bits)
        return kz__fail(err, KZ_INVALID, "%s %s does not fit in %u bits (0..%" PRIu64 ")", what, text,
                        layout->node_bits, limit - 1);
    return kz__fail(err, KZ_INVALID, "%s %s is not below the fallback half of the %u-bit nodes (0..%" PRIu64 ")", what,
                    text, layout->node_bits, limit - 1);
}

static kz_status fixed_open(kz__source **out, const kz__source_ops *ops, const char *what, const char *number,
                            const kz__url *url, const kz__source_want *want, kz_error *err)
{
    const kz_layout *layout = want->layout ? want->layout : kz_layout_preset(0);
    uint32_t node = 0;
    kz_status status = parse_node(what, number, layout, &node, err);
    if (status)
        return status;
    fixed *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    source->base = (kz__source){.ops = ops, .layout = *layout, .renew_at = 1.0 / 3};
    source->node = node;
    status = enlist(source, kz__url_param(url, "state"), err);
    if (status) {
        free(source);
        return status;
    }
    *out = &source->base;
    return KZ_OK;
}

static kz_status static_open(kz__source **out, const kz__url *url, const kz__source_want *want, kz_error *err)
{
    static const char *const known[] = {"state", NULL};
    kz_status status = kz__url_only(url, known, err);
    return status ? status : fixed_open(out, &kz__source_static, "node", url->body, url, want, err);
}

static kz_status env_open(kz__source **out, const kz__url *url, const kz__source_want *want, kz_error *err)
{
    static const char *const known[] = {"default", "state", NULL};
    kz_status status = kz__url_only(url, known, err);
    if (status)
        return status;
    const char *name = url->body;
    if (!*name)
        return kz__fail(err, KZ_INVALID, "source env: names no variable: write env:WORKER_ID");
    const char *value = getenv(name);
    if (!value)
        value = kz__url_param(url, "default");
    if (!value)
        return kz__fail(err, KZ_INVALID,
                        "%s is not set: give every process a number of its own (0..%" PRIu64 "), or say what to use "
                        "instead with env:%s?default=0",
                        name, node_limit(want->layout ? want->layout : kz_layout_preset(0)) - 1, name);
    return fixed_open(out, &kz__source_env, name, value, url, want, err);
}

static kz_status fixed_acquire(kz__source *base, uint64_t from_ms, kz__grant *grant, kz_error *err)
{
    fixed *source = (fixed *)base;
    unsigned slot_bits = kz__slot_bits(&base->layout);
    uint64_t end_ms = kz__end_of_time_ms(&base->layout);
    kz_id resume = source->mark;
    uint64_t start_ms = resume >> slot_bits;
    if (source->state) {
        if (from_ms < start_ms)
            from_ms = start_ms;
        if (end_ms > from_ms + AHEAD_MS)
            end_ms = from_ms + AHEAD_MS;
        kz_status status = kz__state_write(source->state, end_ms << slot_bits, err);
        if (status)
            return status;
        source->mark = end_ms << slot_bits;
    }
    *grant = (kz__grant){.rect = {.slot = (uint64_t)source->node << base->layout.seq_bits,
                                  .start_ms = start_ms,
                                  .end_ms = end_ms,
                                  .height = base->layout.seq_bits,
                                  .rank = KZ__LEASED},
                         .resume = resume,
                         .grace_ms = AHEAD_MS};
    return KZ_OK;
}

/* A clean end cuts the mark to what was used, so that the next start need not wait. */
static kz_status fixed_release(kz__source *base, kz_id next, kz_error *err)
{
    fixed *source = (fixed *)base;
    return source->state ? kz__state_write(source->state, next, err) : KZ_OK;
}

static void fixed_close(kz__source *base, bool forked)
{
    fixed *source = (fixed *)base;
    if (!forked)
        delist(source);
    kz__state_close(source->state);
    free(source);
}

const kz__source_ops kz__source_static = {
    .scheme = "static", .open = static_open, .acquire = fixed_acquire, .release = fixed_release, .close = fixed_close};

const kz__source_ops kz__source_env = {
    .scheme = "env", .open = env_open, .acquire = fixed_acquire, .release = fixed_release, .close = fixed_close};
