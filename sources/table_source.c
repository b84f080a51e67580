/* The one flow of every lease table. The rules are core/table's, rows and durability the store's. */
#include "sources/table_source.h"
#include "core/error.h"
#include "core/release.h"
#include "host/clock.h"
#include "host/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It ends long before; a store that is broken must not keep us for ever. */
#define ATTEMPTS_MAX 1000

/* A time that was answered, but is no further than this above the one written, is not written. */
#define NOW_AHEAD_MS 1000

/* One kind of change, inside a transaction. */
typedef kz_status (*work_fn)(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err);

kz_status kz__table_source_init(kz__table_source *s, const kz__table_store *store, const char *name, const kz__url *url,
                                const kz_source_options *options, const char *const *more, kz_error *err)
{
    s->store = store;
    s->name = name;
    s->options = *options;
    s->clock = *options->clock;
    s->options.clock = &s->clock;
    kz_status status = kz__table_params_read(url, options, more, &s->params, err);
    s->seq_bits = s->params.layout.seq_bits;
    return status;
}

kz_status kz__table_source_open(void **out, size_t size, const kz__table_store *store, const char *name,
                                const char *text, const kz_source_options *options, uint32_t flags,
                                kz_source_facts *facts, kz_error *err)
{
    kz__url url;
    kz_layout layout;
    kz_status status = kz__url_parse(text, &url, err);
    if (status)
        return status;
    if (*url.body)
        return kz__fail(err, KZ_INVALID, "source %s: takes nothing behind the colon, not \"%s\"", url.scheme, url.body);
    kz__table_source *s = calloc(1, size);
    if (!s)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    status = kz__table_source_init(s, store, name, &url, options, NULL, err);
    if (status == KZ_OK)
        status = kz__table_source_look(s, &layout, err);
    if (status) {
        free(s);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout, .flags = flags};
    *out = s;
    return KZ_OK;
}

void kz__table_source_close(void *ctx, bool forked)
{
    (void)forked;
    free(ctx);
}

/* ---- the flow of a change ---- */

static uint64_t blocks_for(uint32_t throughput_per_ms, unsigned seq_bits)
{
    return ((uint64_t)throughput_per_ms + (UINT64_C(1) << seq_bits) - 1) >> seq_bits;
}

/* Before anything is locked. How many are needed depends on a service that is not read yet: the smallest blocks seen so
 * far decide. */
static kz_status draw_secrets(kz__table_source *s, const kz_acquire *request, kz_error *err)
{
    uint64_t blocks = blocks_for(request->throughput_per_ms, s->seq_bits);
    s->secret_count = blocks < KZ_GRANT_LEASES_MAX ? (size_t)blocks : KZ_GRANT_LEASES_MAX;
    return kz__secrets_draw(s->secrets, s->secret_count, err);
}

/* The service's own blocks are smaller than those that the secrets were drawn for. */
static bool lacks_secrets(kz__table_source *s, const kz__transaction *t)
{
    if (!t->found || t->service.seq_bits >= s->seq_bits)
        return false;
    s->seq_bits = t->service.seq_bits;
    return true;
}

/* The service as it is now, after a change of place. */
static kz_status settle(kz__table_source *s, kz__transaction *t, kz_error *err)
{
    kz__rows rows = s->store->rows(s);
    bool changed;
    t->service.high_ms = t->high_ms;
    t->service.generation = t->generation;
    kz_status status = kz__place_settle(&rows, &t->service, &t->place, t->now_ms, &changed, err);
    t->moved |= changed;
    t->service_write |= changed;
    return status;
}

static void note_news(kz__table_source *s, const kz__transaction *t)
{
    const kz__aside *one = kz__aside_until(t->service.asides, t->now_ms);
    if (t->moved && t->service_write && one && one->why != KZ__WHY_RESERVED)
        snprintf(s->news, sizeof s->news,
                 "%s: %s. Machine IDs of service %s that it may have granted and forgotten are set aside for %" PRId64
                 " s",
                 s->name,
                 one->why == KZ__WHY_EMPTY ? "the store was found empty"
                                           : "the store went back in time, or another copy of it took over",
                 t->service.name, (one->until_ms - t->now_ms + 999) / 1000);
}

static kz_status run(kz__table_source *s, kz__transaction *t, work_fn work, const void *what, kz_error *err)
{
    t->service.generation = t->generation;
    kz_status status = t->found ? settle(s, t, err) : KZ_OK;
    if (status == KZ_OK)
        status = work(s, t, what, err);
    t->generation = t->service.generation;
    return status;
}

static void log_step(kz__table_source *s)
{
    if (s->grouped)
        return;
    if (*s->news && s->options.log)
        s->options.log(s->options.log_ctx, KZ_LOG_WARNING, s->news);
    *s->news = '\0';
    kz__table_step_log(&s->options, s->name, s->step_ms);
    s->step_ms = 0;
}

/* Nothing but the change of place that `what` saw, if it saw one. */
static kz_status move_work(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err)
{
    const kz__transaction *was = what;
    if (was && t->place.since_ms < was->place.since_ms) {
        t->place = was->place;
        t->generation = t->service.generation = was->place_generation;
    }
    return t->found ? settle(s, t, err) : KZ_OK;
}

static kz_status change(kz__table_source *s, const kz__table_ask *ask, work_fn work, const void *what,
                        kz__transaction *t, kz_error *err);

/* The call failed, but what the change of place led to must stay: else its time would be counted from later on. */
static kz_status keep_the_move(kz__table_source *s, const char *service, const kz__transaction *was, kz_status status)
{
    kz__transaction t;
    kz__table_ask ask = {.service = service, .write = true};
    (void)change(s, &ask, move_work, was, &t, NULL);
    return status;
}

/* From begin to commit, and anew if somebody was faster. A sweep that found no node free is kept, else the next call
 * would repeat it. */
static kz_status change(kz__table_source *s, const kz__table_ask *ask, work_fn work, const void *what,
                        kz__transaction *t, kz_error *err)
{
    for (unsigned attempt = 0; attempt < ATTEMPTS_MAX;) {
        *t = (kz__transaction){.attempt = attempt};
        kz_status status = ask->acquire ? draw_secrets(s, ask->acquire, err) : KZ_OK;
        if (status || (status = s->store->begin(s, ask, t, err)))
            return status;
        if (ask->acquire && lacks_secrets(s, t)) {
            s->store->rollback(s, KZ_OK);
            continue;
        }
        if (ask->write)
            t->moved =
                kz__place_moved(&t->place, t->place_name, t->place_passed, t->high_ms, t->now_ms, &t->generation);
        status = run(s, t, work, what, err);
        if (status && (status != KZ_NO_FREE_NODE || !t->found)) {
            s->store->rollback(s, status);
            if (status != KZ_AGAIN || s->grouped)
                return t->moved && work != move_work ? keep_the_move(s, ask->service, t, status) : status;
            attempt++;
            continue;
        }
        kz_status kept = s->store->commit(s, t, status ? NULL : err);
        if (kept == KZ_OK && t->step_ms)
            s->step_ms = t->step_ms;
        if (kept == KZ_OK)
            note_news(s, t);
        if (kept == KZ_AGAIN) {
            attempt++;
            continue;
        }
        log_step(s);
        return status ? status : kept;
    }
    return kz__fail(err, KZ_UNAVAILABLE, "%s: others were faster %d times: try again later", s->name, ATTEMPTS_MAX);
}

/* ---- the kinds of change ---- */

/* A service that was not there gets the opener's settings. */
static kz_status make_service(kz__table_source *s, kz__transaction *t, const char *name, kz_error *err)
{
    if (!s->params.create)
        return kz__fail(err, KZ_NOT_FOUND, "%s: there is no service %s, and create=no says not to make one", s->name,
                        name);
    kz_status status = kz__service_init(&t->service, name, &s->params.layout, s->params.lease_ms, err);
    if (status)
        return status;
    kz__rows rows = s->store->rows(s);
    kz__place_created(&t->service, &t->place);
    status = kz__table_create(&rows, &t->service, err);
    return status ? status : settle(s, t, err);
}

/* A service nobody used for so long makes room for others. Its highest time is the table's, so one that is made again
 * repeats nothing; nor can it get another layout, as long as the default stays. */
#define IDLE_MS INT64_C(86400000)
#define FULL_MS 1000 /* between two searches for such services */

/* Names that clients make up must not fill the table. */
static kz_status make_room(kz__table_source *s, const kz__transaction *t, kz_error *err)
{
    kz__service like;
    size_t left = SIZE_MAX;
    int64_t boot_ms = s->clock.boot_ns(s->clock.ctx) / KZ__NS_PER_MS;
    if (!s->options.max_services || !s->store->forget)
        return KZ_OK;
    kz_status status = kz__service_init(&like, s->params.service, &s->params.layout, s->params.lease_ms, err);
    if (status == KZ_OK && (!s->full_ms || boot_ms - s->full_ms >= FULL_MS))
        status = s->store->forget(s, &like, t->now_ms - IDLE_MS, &left, err);
    if (status || left < s->options.max_services)
        return status;
    s->full_ms = boot_ms;
    return kz__fail(err, KZ_NO_FREE_NODE,
                    "there are %" PRIu32
                    " services already, and no more are made: use one of them, or raise max_services",
                    s->options.max_services);
}

static kz_status acquire_work(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err)
{
    const kz__table_ask *ask = what;
    const kz_acquire *request = ask->acquire;
    kz_status status = t->found ? kz__table_layout_check(&s->params, &t->service, err) : make_room(s, t, err);
    if (status == KZ_OK && !t->found)
        status = make_service(s, t, ask->service, err);
    if (status)
        return status;
    kz__table_request asked = {.request = request->request_id,
                               .holder = request->holder,
                               .throughput_per_ms = request->throughput_per_ms,
                               .now_ms = t->now_ms,
                               .secrets = (const char(*)[KZ_SECRET_SIZE])s->secrets,
                               .secret_count = s->secret_count};
    kz__rows rows = s->store->rows(s);
    bool knows = true;
    if (request->holds && t->found)
        status = kz__place_knows(&rows, &t->service, request->holds, t->now_ms, &knows, err);
    if (status == KZ_OK && !knows) {
        kz__place_lost(&t->place, KZ__WHY_PLACE, KZ__PLACE_MARGIN_MS, t->now_ms, &t->generation);
        t->place_generation = t->generation;
        status = settle(s, t, err);
    }
    if (status)
        return status;
    t->service_write = true;
    return kz__table_acquire(&rows, &t->service, &asked, &s->grant, err);
}

kz_status kz__table_source_acquire(void *ctx, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {.acquire = request, .write = true};
    kz__transaction t;
    kz_status status = kz__table_service(&s->params, request->service, &ask.service, err);
    if (status)
        return status;
    if (request->holder && strlen(request->holder) >= KZ_HOLDER_SIZE)
        return kz__fail(err, KZ_INVALID, "a holder's description has at most %d bytes, not %zu", KZ_HOLDER_SIZE - 1,
                        strlen(request->holder));
    status = change(s, &ask, acquire_work, &ask, &t, err);
    explicit_bzero(s->secrets, s->secret_count * sizeof s->secrets[0]);
    if (status == KZ_OK)
        kz__grant_copy(grant, &s->grant);
    return status;
}

static kz_status release_work(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err)
{
    const kz__table_ask *ask = what;
    if (!t->found) {
        kz_status status = kz__release_check(ask->release, t->now_ms, err);
        return status ? status : kz__fail(err, KZ_NOT_FOUND, "there is no service %s", ask->service);
    }
    kz__rows rows = s->store->rows(s);
    t->service_write = true;
    return kz__table_release_signed(&rows, &t->service, ask->release, t->now_ms, err);
}

kz_status kz__table_source_release(void *ctx, const kz_release *release, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {.release = release, .write = true};
    kz__transaction t;
    kz_status status = kz__table_service(&s->params, release->service, &ask.service, err);
    return status ? status : change(s, &ask, release_work, &ask, &t, err);
}

static kz_status configure_work(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err)
{
    const kz_service_settings *settings = what;
    const char *name = NULL;
    kz__service wanted;
    kz_status status = kz__table_service(&s->params, settings->service, &name, err);
    if (status == KZ_OK && !t->found)
        status = make_service(s, t, name, err);
    unsigned before = kz__service_slot_bits(&t->service);
    if (status == KZ_OK)
        status = kz__service_with(&t->service, settings, &wanted, err);
    if (status == KZ_OK)
        status = kz__service_adopt(&t->service, &wanted, err);
    t->service_write = true;
    if (status || before == kz__service_slot_bits(&t->service))
        return status;
    /* Nothing was granted yet, so the space can be made anew. */
    kz__rows rows = s->store->rows(s);
    return kz__table_create(&rows, &t->service, err);
}

kz_status kz__table_source_configure(void *ctx, const kz_service_settings *settings, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {.write = true};
    kz__transaction t;
    kz_status status = kz__table_service(&s->params, settings->service, &ask.service, err);
    return status ? status : change(s, &ask, configure_work, settings, &t, err);
}

static kz_status reserve_work(kz__table_source *s, kz__transaction *t, const void *what, kz_error *err)
{
    const kz_reservation *reservation = what;
    const char *name = NULL;
    kz_status status = kz__table_service(&s->params, reservation->service, &name, err);
    if (status == KZ_OK && !t->found && reservation->end)
        return kz__fail(err, KZ_NOT_FOUND, "there is no service %s", name);
    if (status == KZ_OK && !t->found)
        status = make_service(s, t, name, err);
    if (status)
        return status;
    kz__rows rows = s->store->rows(s);
    t->service_write = true;
    return kz__table_reserve(&rows, &t->service, reservation, t->now_ms, err);
}

kz_status kz__table_source_reserve(void *ctx, const kz_reservation *reservation, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {.write = true};
    kz__transaction t;
    kz_status status = kz__table_service(&s->params, reservation->service, &ask.service, err);
    return status ? status : change(s, &ask, reserve_work, reservation, &t, err);
}

/* Thousands of clients ask this twice a minute, so it is written once a second at most. */
kz_status kz__table_source_now(void *ctx, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {0};
    kz__transaction t = {0};
    kz_status status = s->store->begin(s, &ask, &t, err);
    if (status)
        return status;
    s->store->rollback(s, KZ_OK);
    /* A table that is not there yet is not made by a question. */
    if (t.high_ms && t.now_ms - t.high_ms > NOW_AHEAD_MS) {
        ask.write = true;
        status = change(s, &ask, move_work, NULL, &t, err);
        if (status)
            return status;
    }
    *source_ms = t.now_ms;
    *generation = t.generation;
    return KZ_OK;
}

kz_status kz__table_source_group_begin(void *ctx, kz_error *err)
{
    kz__table_source *s = ctx;
    kz_status status = s->store->group_begin ? s->store->group_begin(s, err) : KZ_OK;
    s->grouped = status == KZ_OK && s->store->group_begin;
    return status;
}

kz_status kz__table_source_group_commit(void *ctx, kz_error *err)
{
    kz__table_source *s = ctx;
    kz_status status = s->grouped ? s->store->group_commit(s, err) : KZ_OK;
    s->grouped = false;
    log_step(s);
    return status;
}

/* ---- looking ---- */

kz_status kz__table_source_look(kz__table_source *s, kz_layout *layout, kz_error *err)
{
    kz__table_ask ask = {.service = s->params.service};
    kz__transaction t = {0};
    kz_status status = s->store->begin(s, &ask, &t, err);
    if (status)
        return status;
    s->store->rollback(s, KZ_OK);
    *layout = s->params.layout;
    if (t.found) {
        status = kz__table_layout_check(&s->params, &t.service, err);
        kz__service_layout(&t.service, layout);
    }
    return status;
}

bool kz__row_is_listed(const kz__service *service, const kz__row *row, int64_t now_ms)
{
    return row->lo < kz__service_half(service) && !row->released && row->end_ms > now_ms;
}

void kz__row_line(const kz__service *service, const kz__row *row, const kz__row *twin, int64_t now_ms,
                  kz_lease_info *line)
{
    bool live = twin && !twin->released && twin->end_ms > now_ms && strcmp(twin->secret, row->secret) == 0;
    *line = (kz_lease_info){.id = row->node,
                            .nodes = 1,
                            .node_bits = row->node_bits,
                            .seq_bits = row->seq_bits,
                            .created_ms = row->start_ms,
                            .expired_ms = row->end_ms,
                            .fallback_created_ms = live ? twin->start_ms : row->end_ms,
                            .fallback_expired_ms = live ? twin->end_ms : row->end_ms};
    strcpy(line->service, service->name);
    strcpy(line->holder, row->holder);
}

static int line_order(const kz_lease_info *a, const char *service, uint32_t id)
{
    int order = strcmp(a->service, service);
    return order ? order : (a->id > id) - (a->id < id);
}

void kz__page_add_reserved(const kz__service *service, const kz_list_from *from, int64_t now_ms, kz_lease_info *lines,
                           size_t room, size_t *count)
{
    for (size_t i = 0; i < KZ__ASIDES; i++) {
        const kz__aside *one = &service->asides[i];
        if (one->why != KZ__WHY_RESERVED || !kz__aside_in_force(one, now_ms))
            continue;
        kz_lease_info line = {.kind = KZ_LINE_RESERVED,
                              .id = (uint32_t)(one->lo >> service->seq_bits),
                              .nodes = (uint32_t)((one->hi - one->lo) >> service->seq_bits),
                              .node_bits = service->node_bits,
                              .seq_bits = service->seq_bits,
                              .expired_ms = one->until_ms ? one->until_ms : INT64_MAX};
        line.fallback_created_ms = line.fallback_expired_ms = line.expired_ms;
        strcpy(line.service, service->name);
        strcpy(line.holder, one->note);
        if (from->only_id ? line.id != from->id : line_order(&line, from->service, from->id) < 0)
            continue;
        size_t at = *count;
        while (at && line_order(&lines[at - 1], line.service, line.id) > 0)
            at--;
        if (at == room)
            continue;
        if (*count < room)
            ++*count;
        memmove(&lines[at + 1], &lines[at], (*count - at - 1) * sizeof *lines);
        lines[at] = line;
    }
}

/* Page by page, so that the caller is not called with a lock held. */
kz_status kz__table_source_list(void *ctx, const kz_list_from *from, kz_lease_visit visit, void *visit_ctx,
                                kz_error *err)
{
    kz__table_source *s = ctx;
    kz_lease_info lines[KZ__LIST_PAGE];
    char service[KZ_SERVICE_SIZE + 1];
    kz_list_from at = from ? *from : (kz_list_from){.service = ""};
    for (size_t count = KZ__LIST_PAGE; count == KZ__LIST_PAGE;) {
        kz__transaction t = {0};
        kz_status status = s->store->begin(s, &(kz__table_ask){0}, &t, err);
        if (status)
            return status;
        count = 0;
        status = s->store->page(s, &t, &at, lines, KZ__LIST_PAGE, &count, err);
        s->store->rollback(s, status);
        if (status)
            return status;
        for (size_t i = 0; i < count; i++)
            if (!visit(visit_ctx, &lines[i]))
                return KZ_OK;
        if (count) {
            strcpy(service, lines[count - 1].service);
            if (at.only_id) /* behind the name, and before any other */
                strcat(service, "\x01");
            else
                at.id = lines[count - 1].id + 1;
            at.service = service;
        }
    }
    return KZ_OK;
}

/* Free ranges and rows cover the slots without a gap. */
kz_status kz__table_source_count(kz__table_source *s, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    if (!t->found)
        return KZ_OK;
    kz__rows rows = s->store->rows(s);
    for (uint64_t slot = 0, half = kz__service_half(&t->service); slot < half;) {
        kz__range range = {half, half};
        kz_status status = rows.free_after(rows.ctx, slot, &range, err);
        if (status && status != KZ_NOT_FOUND)
            return status;
        kz__row row;
        bool is_free = status == KZ_OK && range.lo <= slot;
        if (!is_free && (status = rows.out_at(rows.ctx, slot, &row, err)))
            return status == KZ_NOT_FOUND ? kz__fail(err, KZ_STORE, "%s: a slot is neither free nor out", s->name)
                                          : status;
        if (!is_free)
            range = (kz__range){row.lo, row.hi};
        if (is_free || row.end_ms <= t->now_ms)
            health->nodes_free += kz__table_blocks_in(&t->service, range);
        else
            health->leases_out += kz__row_is_listed(&t->service, &row, t->now_ms);
        slot = range.hi;
    }
    return KZ_OK;
}

kz_status kz__table_source_health(void *ctx, const char *asked, kz_source_health *health, kz_error *err)
{
    kz__table_source *s = ctx;
    kz__table_ask ask = {0};
    kz__transaction t = {0};
    kz_status status = kz__table_service(&s->params, asked, &ask.service, err);
    if (status || (status = s->store->begin(s, &ask, &t, err)))
        return status;
    kz_source_health found = {.source_ms = t.now_ms, .generation = t.generation};
    if (t.found) {
        found.lease_ms = t.service.lease_ms;
        kz__service_layout(&t.service, &found.layout);
    } else {
        found.lease_ms = s->params.lease_ms;
        found.layout = s->params.layout;
        found.nodes_free = UINT64_C(1) << (s->params.layout.node_bits - 1);
    }
    status = s->store->health ? s->store->health(s, &t, &found, err) : kz__table_source_count(s, &t, &found, err);
    s->store->rollback(s, status);
    if (status == KZ_OK)
        *health = found;
    return status;
}
