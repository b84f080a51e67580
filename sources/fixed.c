/* static:N and env:NAME: one node for ever, with or without a high-water mark on disk. */
#include "core/error.h"
#include "core/plane.h"
#include "core/url.h"
#include "host/clock.h"
#include "host/page.h"
#include "sources/all.h"
#include "sources/host_lock.h"
#include "sources/state.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mark is kept this far ahead of use: the most a start after a crash has to wait. */
#define AHEAD_MS 3000

typedef struct place {
    kz_layout layout;
    uint32_t node;
} place;

typedef struct fixed {
    place place;
    const kz_clock *clock;
    kz__state *state;    /* NULL without state= */
    kz_id resume;        /* the mark that was found: everything below may have been minted by an earlier life */
    kz_id mark;          /* on disk now: everything below may be minted */
    int lock;            /* on this host; negative: none */
    kz_id used;          /* at the end: everything below may have been minted */
    struct fixed *other; /* the next open one in this process */
} fixed;

/* The fixed nodes this process has open. Two generators on one node would mint twins, and here it can be seen. It lies
 * in memory that a forked child finds empty: the child is another process. */
typedef struct open_list {
    pthread_mutex_t lock;
    fixed *first;
} open_list;

static _Atomic(open_list *) opened;

/* Makes the list when it is first wanted. Two threads may both make one; the first to put it there has it. */
static kz_status open_list_get(open_list **list, kz_error *err)
{
    *list = atomic_load(&opened);
    if (*list)
        return KZ_OK;
    void *page;
    kz_status status = kz__page_new(&page, sizeof **list, err);
    if (status)
        return status;
    if (atomic_compare_exchange_strong(&opened, list, page))
        *list = page;
    else
        kz__page_free(page);
    return KZ_OK;
}

/* Where a generator of this process has stopped: the next one in the same place goes on above, though it may be in the
 * same millisecond. One entry for each place ever used, made under the list's lock and never taken away: so a child may
 * look at what it inherits, whenever it was forked. */
typedef struct left {
    place place;
    _Atomic(kz_id) next;
    struct left *other;
} left;

static _Atomic(left *) left_behind;

/* Do their blocks share slots? Node 1 of 41-10-12 lies in the same place as node 4 of 41-12-10. */
static bool overlap(const place *a, const place *b)
{
    const kz_layout *x = &a->layout, *y = &b->layout;
    uint64_t x_lo = (uint64_t)a->node << x->seq_bits, y_lo = (uint64_t)b->node << y->seq_bits;
    return x->epoch_ms == y->epoch_ms && x->time_bits == y->time_bits && kz__slot_bits(x) == kz__slot_bits(y) &&
           x_lo < y_lo + (UINT64_C(1) << y->seq_bits) && y_lo < x_lo + (UINT64_C(1) << x->seq_bits);
}

/* A clock of the caller's own may begin anew at any time, and what was left behind then says nothing. */
static bool remembers(const fixed *source)
{
    return source->clock == &kz__machine_clock;
}

/* The list's lock is held. Without memory the place is as one of which nothing is known: the clock keeps it apart. */
static void leave_behind(const fixed *source, kz_id next)
{
    left *first = atomic_load(&left_behind);
    for (left *l = first; l; l = l->other) {
        if (l->place.node == source->place.node && l->place.layout.seq_bits == source->place.layout.seq_bits &&
            overlap(&l->place, &source->place)) {
            if (atomic_load(&l->next) < next)
                atomic_store(&l->next, next);
            return;
        }
    }
    left *l = malloc(sizeof *l);
    if (!l)
        return;
    l->place = source->place;
    atomic_init(&l->next, next);
    l->other = first;
    atomic_store(&left_behind, l);
}

/* Enters the source into the list and opens its state file, as one step: the file's lock is the process's, so a second
 * opening of it here would neither be refused nor leave the first one locked. */
static kz_status enlist_locked(open_list *list, fixed *source, const char *state_path, kz_error *err)
{
    for (const fixed *f = list->first; f; f = f->other) {
        if (overlap(&f->place, &source->place))
            return kz__fail(err, KZ_IN_USE,
                            "node %" PRIu32 " is in use by another generator of this process: share that one, it is "
                            "safe for any number of threads",
                            source->place.node);
        if (state_path && f->state && kz__state_is_file(f->state, state_path))
            return kz__fail(err, KZ_IN_USE, "state file %s is in use by another generator of this process", state_path);
    }
    if (state_path) {
        kz_status status =
            kz__state_open(&source->state, state_path, &source->place.layout, source->place.node, &source->mark, err);
        if (status)
            return status;
        source->resume = source->mark;
    }
    for (const left *l = atomic_load(&left_behind); l && remembers(source); l = l->other)
        if (overlap(&l->place, &source->place) && source->resume < atomic_load(&l->next))
            source->resume = atomic_load(&l->next);
    source->other = list->first;
    list->first = source;
    return KZ_OK;
}

static kz_status enlist(fixed *source, const char *state_path, kz_error *err)
{
    open_list *list;
    kz_status status = open_list_get(&list, err);
    if (status)
        return status;
    pthread_mutex_lock(&list->lock);
    status = enlist_locked(list, source, state_path, err);
    pthread_mutex_unlock(&list->lock);
    return status;
}

static void delist(fixed *source)
{
    open_list *list = atomic_load(&opened);
    pthread_mutex_lock(&list->lock);
    if (source->used && remembers(source))
        leave_behind(source, source->used);
    for (fixed **f = &list->first; *f; f = &(*f)->other) {
        if (*f == source) {
            *f = source->other;
            break;
        }
    }
    pthread_mutex_unlock(&list->lock);
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
    for (; *p >= '0' && *p <= '9'; p++)
        if (value <= UINT32_MAX)
            value = value * 10 + (uint64_t)(*p - '0');
    if (p == text || *p)
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

/* Other processes of this machine that have the same number, as workers do that were given one variable. They cannot be
 * stopped from here, but it can be said. */
static kz_status lock_host(fixed *source, const kz__url *url, const kz_source_options *options, uint32_t *flags,
                           kz_error *err)
{
    const char *wish = kz__url_param(url, "lock");
    if (!wish)
        wish = secure_getenv("KAZAHANA_LOCK");
    bool refuse = wish && strcmp(wish, "refuse") == 0, no = wish && strcmp(wish, "no") == 0;
    source->lock = -1;
    if (wish && !refuse && !no && strcmp(wish, "warn") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: lock=%.32s is not known: write refuse, warn or no", url->scheme,
                        wish);
    if (no)
        return KZ_OK;
    char name[108], layout[KZ_LAYOUT_TEXT_SIZE], message[KZ_MESSAGE_SIZE];
    long pid = 0;
    kz_layout_text(&source->place.layout, layout);
    snprintf(name, sizeof name, "kazahana node %" PRIu32 " %s %s", source->place.node, layout,
             options->service ? options->service : "default");
    source->lock = kz__host_lock(name, &pid);
    if (source->lock != -1)
        return KZ_OK;
    char who[32] = "";
    if (pid)
        snprintf(who, sizeof who, " (pid %ld)", pid);
    snprintf(message, sizeof message,
             "node %" PRIu32 " of layout %s is in use by another process of this host%s: both mint the same "
             "IDs. Give every process a number of its own, or use a lease table; ?lock=no if they are not of one kind",
             source->place.node, layout, who);
    if (refuse)
        return kz__fail(err, KZ_IN_USE, "%s", message);
    *flags |= KZ_SOURCE_CONTENDED;
    if (options->log)
        options->log(options->log_ctx, KZ_LOG_ERROR, message);
    return KZ_OK;
}

static void fixed_close(void *handle, bool forked);

static kz_status fixed_open(void **out, const char *what, const char *number, const kz__url *url,
                            const kz_source_options *options, kz_source_facts *facts, kz_error *err)
{
    const kz_layout *layout = options->layout ? options->layout : kz_layout_preset(0);
    uint32_t node = 0;
    kz_status status = parse_node(what, number, layout, &node, err);
    if (status)
        return status;
    fixed *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    source->place = (place){.layout = *layout, .node = node};
    source->clock = options->clock;
    status = enlist(source, kz__url_param(url, "state"), err);
    if (status) {
        free(source);
        return status;
    }
    uint32_t flags = KZ_SOURCE_WALL_CLOCK | KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED;
    status = lock_host(source, url, options, &flags, err);
    if (status) {
        fixed_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = *layout, .flags = flags};
    *out = source;
    return KZ_OK;
}

static kz_status static_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                             kz_error *err)
{
    static const char *const known[] = {"state", "lock", NULL};
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = kz__url_only(&url, known, err);
    return status ? status : fixed_open(out, "node", url.body, &url, options, facts, err);
}

static kz_status env_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                          kz_error *err)
{
    static const char *const known[] = {"default", "state", "lock", NULL};
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = kz__url_only(&url, known, err);
    if (status)
        return status;
    const char *name = url.body;
    if (!*name)
        return kz__fail(err, KZ_INVALID, "source env: names no variable: write env:WORKER_ID");
    const char *value = getenv(name);
    if (!value)
        value = kz__url_param(&url, "default");
    if (!value)
        return kz__fail(err, KZ_INVALID,
                        "%s is not set: give every process a number of its own (0..%" PRIu64 "), or say what to use "
                        "instead with env:%s?default=0",
                        name, node_limit(options->layout ? options->layout : kz_layout_preset(0)) - 1, name);
    return fixed_open(out, name, value, &url, options, facts, err);
}

/* The mark's millisecond. A window is in whole milliseconds; within this one `resume` keeps the points apart. */
static int64_t mark_ms(const fixed *source)
{
    return source->place.layout.epoch_ms + (int64_t)(source->mark >> kz__slot_bits(&source->place.layout));
}

static kz_status fixed_acquire(void *handle, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    fixed *source = handle;
    const kz_layout *layout = &source->place.layout;
    unsigned slot_bits = kz__slot_bits(layout);
    int64_t start_ms = source->state ? mark_ms(source) : layout->epoch_ms;
    int64_t end_ms = INT64_MAX;
    if (source->state) {
        int64_t last_ms = layout->epoch_ms + (int64_t)kz__end_of_time_ms(layout);
        end_ms = request->from_ms < last_ms - AHEAD_MS ? request->from_ms + AHEAD_MS : last_ms;
        /* Never below the mark, and never above it for its own sake: starting again and again must not push it on. */
        if (end_ms < start_ms)
            end_ms = start_ms;
        kz_id mark = (kz_id)(end_ms - layout->epoch_ms) << slot_bits;
        /* A clean end left it inside a millisecond: a mark on disk only ever goes up. */
        if (mark < source->mark)
            mark = source->mark;
        kz_status status = kz__state_write(source->state, mark, err);
        if (status)
            return status;
        source->mark = mark;
    }
    grant->source_ms = source->clock->wall_ns(source->clock->ctx) / 1000000;
    grant->generation = 0;
    grant->resume = source->resume;
    grant->grace_ms = AHEAD_MS;
    grant->renew_after_ms = AHEAD_MS / 3;
    grant->count = 1;
    grant->leases[0] = (kz_lease){.id = source->place.node,
                                  .created_ms = start_ms,
                                  .expired_ms = end_ms,
                                  .fallback_created_ms = end_ms,
                                  .fallback_expired_ms = end_ms,
                                  .epoch_ms = layout->epoch_ms,
                                  .reserved_bits = (uint8_t)(64 - layout->time_bits - slot_bits),
                                  .time_bits = layout->time_bits,
                                  .node_bits = layout->node_bits,
                                  .seq_bits = layout->seq_bits};
    return KZ_OK;
}

/* A clean end cuts the mark to what was used, so that the next start need not wait. */
static kz_status fixed_release(void *handle, const kz_release *release, kz_error *err)
{
    fixed *source = handle;
    source->used = release->next;
    return source->state ? kz__state_write(source->state, release->next, err) : KZ_OK;
}

static void fixed_close(void *handle, bool forked)
{
    fixed *source = handle;
    if (!forked) {
        delist(source);
        kz__host_unlock(source->lock);
    }
    kz__state_close(source->state, forked);
    free(source);
}

const kz_source_ops kz__source_static = {.struct_size = sizeof(kz_source_ops),
                                         .scheme = "static",
                                         .open = static_open,
                                         .acquire = fixed_acquire,
                                         .release = fixed_release,
                                         .close = fixed_close};

const kz_source_ops kz__source_env = {.struct_size = sizeof(kz_source_ops),
                                      .scheme = "env",
                                      .open = env_open,
                                      .acquire = fixed_acquire,
                                      .release = fixed_release,
                                      .close = fixed_close};
