/* The rows of a lease table in etcd: what begins, asks and commits.
 *
 * Nobody wrote since our reads if h is still the one that was read: that one comparison makes all of them valid. */
#include "core/error.h"
#include "host/clock.h"
#include "sources/etcd_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION        1
#define RANGES_AT_ONCE 8  /* at the cursor: enough unless the table is nearly full */
#define OPS_WRITTEN    40 /* on each of up to three levels: together they may have 128 */
#define WAIT_MAX_MS    1000
#define TRIES          3
#define BEHIND_MS      3000 /* clocks that are whole seconds, of several members */

/* ------------------------------------------------------------------------------------------------ telling */

kz_status kz__etcd_tell_rows(const kz__etcd *e, kz__part *part, const json_t *kvs, kz_error *err)
{
    size_t i;
    json_t *kv;
    kz__row row;
    kz_status status = KZ_OK;
    json_array_foreach(kvs, i, kv) if (status || (status = kz__etcd_read_row(e, kv, &row, err)) ||
                                       (status = kz__part_tell_row(part, &row, err))) break;
    return status;
}

kz_status kz__etcd_tell_free(const kz__etcd *e, kz__part *part, const json_t *kvs, uint64_t from, int limit,
                             kz_error *err)
{
    size_t count = json_array_size(kvs);
    kz__range ranges[KZ__ETCD_RANGES_ASKED];
    char text[KZ__ETCD_KEY_SIZE];
    for (size_t i = 0; i < count; i++) {
        const json_t *kv = json_array_get(kvs, i);
        if (i == KZ__ETCD_RANGES_ASKED)
            return kz__etcd_nonsense(e, "a page of free ranges", err);
        ranges[i].hi = kz__etcd_key_number(kv, text);
        kz__etcd_decoded(json_object_get(kv, "value"), text, sizeof text);
        ranges[i].lo = strtoull(text, NULL, 16);
        if (ranges[i].lo >= ranges[i].hi || (i && ranges[i].lo < ranges[i - 1].hi))
            return kz__etcd_nonsense(e, "a free range", err);
    }
    return kz__part_tell_free(part, from, ranges, count, count < (size_t)limit, err);
}

/* Which rows ended by then, from keys in the order of ends; *past: there are no more of them. */
static size_t read_ended(const json_t *kvs, int64_t ms, uint64_t los[static KZ__SWEEP_ROWS], int64_t *end_ms,
                         bool *past)
{
    size_t i, count = 0;
    json_t *kv;
    char text[KZ__ETCD_KEY_SIZE];
    *past = json_array_size(kvs) < KZ__SWEEP_ROWS;
    json_array_foreach(kvs, i, kv)
    {
        uint64_t lo = kz__etcd_key_number(kv, text);
        char *slash = strrchr(text, '/');
        int64_t end = slash && slash - text > 16 ? (int64_t)strtoull(slash - 16, NULL, 16) : 0;
        *past |= end > ms;
        if (end > ms || count == KZ__SWEEP_ROWS)
            break;
        *end_ms = end;
        los[count++] = lo;
    }
    return count;
}

/* The rows behind two lists of keys, with the free ranges beside those that ended, and at the cursor with `acquire`. */
static kz_status load(kz__etcd *e, kz__far_service *s, const json_t *ended, int64_t now_ms, const json_t *requested,
                      bool acquire, kz_error *err)
{
    uint64_t los[KZ__SWEEP_ROWS], cursor = s->service.cursor, half = kz__service_half(&s->service);
    int64_t end_ms = 0;
    bool past;
    char text[KZ__ETCD_KEY_SIZE];
    size_t count = read_ended(ended, now_ms, los, &end_ms, &past), more = json_array_size(requested), at = 0;
    json_t *ops = json_array(), *kvs = NULL;
    for (size_t i = 0; i < count; i++) {
        kz__etcd_want_row(e, ops, s->name, los[i]);
        kz__etcd_want_free(e, ops, s->name, los[i] ? los[i] - 1 : 0, 2);
    }
    for (size_t i = 0; i < more; i++)
        kz__etcd_want_row(e, ops, s->name, kz__etcd_key_number(json_array_get(requested, i), text));
    for (size_t i = 0; acquire && i < 2; i++)
        kz__etcd_want_free(e, ops, s->name, cursor + i * half, RANGES_AT_ONCE);
    kz_status status = kz__etcd_bring(e, ops, &kvs, NULL, err);
    for (size_t i = 0; status == KZ_OK && i < count; i++) {
        status = kz__etcd_tell_rows(e, s->part, json_array_get(kvs, at++), err);
        if (status == KZ_OK)
            status = kz__etcd_tell_free(e, s->part, json_array_get(kvs, at++), los[i] ? los[i] - 1 : 0, 2, err);
    }
    for (size_t i = 0; status == KZ_OK && i < more; i++)
        status = kz__etcd_tell_rows(e, s->part, json_array_get(kvs, at++), err);
    for (size_t i = 0; status == KZ_OK && acquire && i < 2; i++)
        status = kz__etcd_tell_free(e, s->part, json_array_get(kvs, at++), cursor + i * half, RANGES_AT_ONCE, err);
    if (status == KZ_OK && ended)
        kz__part_know_ended(s->part, past ? now_ms : end_ms, past ? UINT64_MAX : los[count - 1]);
    json_decref(kvs);
    return status;
}

static kz_status ask(kz__far *f, kz__far_service *s, const kz__part_question *q, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)f;
    json_t *ops = json_array(), *kvs = NULL;
    if (q->kind == KZ__PART_FREE)
        kz__etcd_want_free(e, ops, s->name, q->from, KZ__ETCD_RANGES_ASKED);
    else if (q->kind == KZ__PART_ENDED)
        kz__etcd_want_ended(e, ops, s->name, q->after_ms, q->from);
    else if (q->kind == KZ__PART_REQUEST)
        kz__etcd_want_request(e, ops, s->name, q->request);
    for (size_t i = 0; q->kind == KZ__PART_AT && i < q->slot_count; i++)
        kz__etcd_want_row(e, ops, s->name, q->slots[i]);
    kz_status status = kz__etcd_bring(e, ops, &kvs, NULL, err);
    const json_t *first = json_array_get(kvs, 0);
    if (status == KZ_OK && q->kind == KZ__PART_FREE)
        status = kz__etcd_tell_free(e, s->part, first, q->from, KZ__ETCD_RANGES_ASKED, err);
    else if (status == KZ_OK && q->kind == KZ__PART_ENDED)
        status = load(e, s, first, q->ms, NULL, false, err);
    else if (status == KZ_OK && q->kind == KZ__PART_REQUEST)
        status = load(e, s, NULL, 0, first, false, err);
    if (status == KZ_OK && q->kind == KZ__PART_REQUEST)
        status = kz__part_know_request(s->part, q->request, err);
    for (size_t i = 0; status == KZ_OK && q->kind == KZ__PART_AT && i < q->slot_count; i++)
        if ((status = kz__etcd_tell_rows(e, s->part, json_array_get(kvs, i), err)) == KZ_OK)
            status = kz__part_know_at(s->part, q->slots[i], err);
    json_decref(kvs);
    return status;
}

/* -------------------------------------------------------------------------------------------------- begin */

/* Which copy of the store this is: the cluster, and when the table was begun in it, which is known from its second
 * write on. A copy that took over cannot tell how many did before it. */
static kz_status read_place(const json_t *kv, const json_t *header, const char *text, kz__transaction *t, kz_error *err)
{
    char begun[KZ__PLACE_SIZE];
    const char *cluster = json_string_value(json_object_get(header, "cluster_id"));
    kz_status status = kz__place_parse(text, &t->place, err);
    snprintf(begun, sizeof begun, "%.40s 0", cluster ? cluster : "0");
    snprintf(t->place_name, sizeof t->place_name, "%.40s %" PRId64, cluster ? cluster : "0",
             kz__etcd_number(kv, "create_revision"));
    if (!kv || strcmp(t->place.name, begun) == 0)
        strcpy(t->place.name, t->place_name);
    return status;
}

static kz_status read_head(kz__etcd *e, const json_t *kv, const json_t *header, bool grants, kz__transaction *t,
                           kz_error *err)
{
    char text[KZ__ETCD_VALUE_SIZE];
    int version = 0, rest = 0;
    int64_t clock_ms = 0;
    const kz_clock *clock = &e->far.base.clock;
    e->revision = kz__etcd_number(header, "revision");
    e->head_revision = kz__etcd_number(kv, "mod_revision");
    kz__etcd_decoded(json_object_get(kv, "value"), text, sizeof text);
    if (kv && (sscanf(text, "%d %" SCNd64 " %" SCNu64 "%n", &version, &t->high_ms, &t->generation, &rest) != 3 ||
               version < 1))
        return kz__etcd_nonsense(e, "h", err);
    if (version > VERSION)
        return kz__fail(err, KZ_STORE,
                        "%s: the lease table under %s is of a newer kazahana (version %d): update this one", e->name,
                        e->prefix, version);
    kz_status status = read_place(kv, header, text[rest] ? text + rest + 1 : "", t, err);
    if (status == KZ_OK)
        status = kz__etcd_time(e->link, &clock_ms, err);
    if (status)
        return status;
    if (clock_ms < t->high_ms && clock_ms >= t->high_ms - BEHIND_MS)
        clock_ms = t->high_ms;
    return kz__table_clock_check(e->name, clock_ms, t->high_ms, clock->wall_ns(clock->ctx) / KZ__NS_PER_MS, grants,
                                 &t->now_ms, err);
}

static bool has_request(const kz_acquire *acquire)
{
    static const uint8_t none[KZ_REQUEST_ID_SIZE];
    return acquire && memcmp(acquire->request_id, none, sizeof none) != 0;
}

/* One who was slower waits in proportion to what an attempt takes. */
static kz_status enter(kz__etcd *e, unsigned attempt, kz_error *err)
{
    const kz_clock *clock = &e->far.base.clock;
    int64_t now_ms = clock->boot_ns(clock->ctx) / KZ__NS_PER_MS;
    if (!attempt)
        kz__etcd_enter(e->link);
    else if (!kz__etcd_left_ms(e->link))
        return kz__fail(err, KZ_UNAVAILABLE, "%s: others were faster %u times: try again later", e->name, attempt);
    int64_t wait_ms = (now_ms - e->began_ms + 1) << (attempt < 10 ? attempt : 10);
    if (attempt)
        kz__etcd_wait(e->link, wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS);
    e->began_ms = clock->boot_ns(clock->ctx) / KZ__NS_PER_MS;
    return KZ_OK;
}

static kz_status begin_once(kz__far *f, const kz__table_ask *asked, bool further, kz__transaction *t,
                            kz__far_service *service, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)f;
    char at[KZ__ETCD_KEY_SIZE];
    bool acquire = asked->acquire && asked->write, requested = acquire && has_request(asked->acquire);
    uint64_t heights = 0;
    e->repeatable = requested && !f->base.grouped;
    if (!further)
        e->revision = 0; /* the newest; from then on this one */
    json_t *ops = json_array(), *kvs = NULL, *header = NULL;
    kz__etcd_key(e, at, "h");
    kz__etcd_want(e, ops, at, NULL, 1, false);
    if (asked->service) {
        kz__etcd_key(e, at, "s/%s", asked->service);
        kz__etcd_want(e, ops, at, NULL, 1, false);
    }
    if (acquire)
        kz__etcd_want_ended(e, ops, asked->service, -1, 0);
    if (requested)
        kz__etcd_want_request(e, ops, asked->service, asked->acquire->request_id);
    kz_status status = kz__etcd_bring(e, ops, &kvs, &header, err);
    if (status == KZ_OK && !further)
        status = read_head(e, json_array_get(json_array_get(kvs, 0), 0), header, asked->acquire != NULL, t, err);
    const json_t *kv = asked->service ? json_array_get(json_array_get(kvs, 1), 0) : NULL;
    if (status == KZ_OK && kv) {
        status = kz__etcd_read_service(e, kv, asked->service, &service->service, &heights, err);
        service->found = status == KZ_OK;
        if (status == KZ_OK)
            status = kz__part_begin(service->part, heights, err);
        if (status == KZ_OK && acquire)
            status = load(e, service, json_array_get(kvs, 2), t->now_ms, json_array_get(kvs, 3), true, err);
        if (status == KZ_OK && requested)
            status = kz__part_know_request(service->part, asked->acquire->request_id, err);
    }
    json_decref(kvs);
    json_decref(header);
    return status;
}

/* A revision that is compacted between two reads is left for a newer one. */
static kz_status begin(kz__far *f, const kz__table_ask *asked, bool further, kz__transaction *t,
                       kz__far_service *service, kz_error *err)
{
    kz_status status = further ? KZ_OK : enter((kz__etcd *)f, t->attempt, err);
    if (status)
        return status;
    for (int tries = 0; tries < TRIES; tries++)
        if ((status = begin_once(f, asked, further, t, service, err)) != KZ_AGAIN || further)
            return status;
    return KZ_UNAVAILABLE;
}

/* -------------------------------------------------------------------------------------------------- commit */

typedef struct writer {
    kz__etcd *e;
    const char *service;
    json_t *ops;
} writer;

static void put(const writer *w, const char *at, const char *value)
{
    kz__etcd_append(
        w->e, w->ops,
        json_pack("{s:{s:o,s:o}}", "request_put", "key", kz__etcd_encoded(at), "value", kz__etcd_encoded(value)));
}

static void delete (const writer *w, const char *at)
{
    kz__etcd_append(w->e, w->ops, json_pack("{s:{s:o}}", "request_delete_range", "key", kz__etcd_encoded(at)));
}

/* A row has its keys in three orders; what it had in another place goes. */
static void write_row(const writer *w, const kz__row *row, const kz__row *was, bool gone)
{
    char at[KZ__ETCD_KEY_SIZE], old[KZ__ETCD_KEY_SIZE], value[KZ__ETCD_VALUE_SIZE], request[2 * KZ_REQUEST_ID_SIZE + 1];
    kz__etcd_key(w->e, at, "o/%s/" KZ__ETCD_HEX, w->service, row->lo);
    kz__etcd_row_text(row, value);
    gone ? delete (w, at) : put(w, at, value);
    for (int order = 0; order < 2; order++) {
        const kz__row *rows[] = {row, was};
        char *texts[] = {at, old};
        for (int i = 0; i < (was ? 2 : 1); i++) {
            kz__etcd_hex(rows[i]->request, request);
            order ? kz__etcd_key(w->e, texts[i], "r/%s/%s/" KZ__ETCD_HEX, w->service, request, rows[i]->lo)
                  : kz__etcd_key(w->e, texts[i], "e/%s/" KZ__ETCD_HEX "/" KZ__ETCD_HEX, w->service,
                                 (uint64_t)rows[i]->end_ms, rows[i]->lo);
        }
        bool stays = was && strcmp(at, old) == 0;
        if (was && (gone || !stays))
            delete (w, old);
        if (!gone && !stays)
            put(w, at, "");
    }
}

static kz_status write_change(void *ctx, const kz__part_change *change, kz_error *err)
{
    (void)err;
    const writer *w = ctx;
    char at[KZ__ETCD_KEY_SIZE], value[32];
    if (change->row) {
        write_row(w, change->row, change->was, change->gone);
        return KZ_OK;
    }
    kz__etcd_key(w->e, at, "f/%s/" KZ__ETCD_HEX, w->service, change->range->hi);
    snprintf(value, sizeof value, KZ__ETCD_HEX, change->range->lo);
    change->gone ? delete (w, at) : put(w, at, value);
    return KZ_OK;
}

static void write_service(const writer *w, const kz__far_service *s, int64_t now_ms)
{
    const kz__service *is = &s->service;
    char at[KZ__ETCD_KEY_SIZE], value[KZ__ETCD_VALUE_SIZE], aside[KZ__ASIDE_TEXT_MAX];
    kz__aside_text(is->asides, now_ms, aside);
    snprintf(value, sizeof value,
             "%" PRId64 " %u %u %u %u %d %" PRIu32 " %" PRId64 " %d %" PRIx64 " %" PRIx64 " %" PRId64 " %u\n%s",
             is->epoch_ms, is->reserved_bits, is->time_bits, is->node_bits, is->seq_bits, is->high_blocks,
             is->max_throughput, is->lease_ms, is->granted, is->cursor, kz__part_heights(s->part), is->settled_ms,
             is->part, aside);
    kz__etcd_key(w->e, at, "s/%s", w->service);
    put(w, at, value);
}

/* A transaction has 128 operations at most, so more of them stand one level below. */
static json_t *nested(kz__etcd *e, json_t *ops)
{
    json_t *top = json_array();
    size_t count = json_array_size(ops);
    for (size_t at = 0; at < count; at += OPS_WRITTEN) {
        json_t *some = json_array();
        for (size_t i = at; i < count && i < at + OPS_WRITTEN; i++)
            kz__etcd_append(e, some, json_incref(json_array_get(ops, i)));
        kz__etcd_append(e, top, json_pack("{s:{s:o}}", "request_txn", "success", some));
    }
    json_decref(ops);
    return top;
}

static kz_status commit(kz__far *f, const kz__transaction *t, kz__far_service *services, size_t count, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)f;
    writer w = {.e = e, .ops = json_array()};
    char at[KZ__ETCD_KEY_SIZE], value[KZ__ETCD_VALUE_SIZE], revision[24], place[KZ__PLACE_TEXT_SIZE];
    kz_status status = KZ_OK;
    bool doubt = false;
    for (size_t i = 0; status == KZ_OK && i < count; i++) {
        w.service = services[i].name;
        if (services[i].write)
            write_service(&w, &services[i], t->now_ms);
        status = kz__part_changes(services[i].part, write_change, &w, err);
    }
    while (status == KZ_OK && !e->no_memory && json_array_size(w.ops) >= OPS_WRITTEN)
        w.ops = nested(e, w.ops);
    /* At the top: below it a put escapes etcd's quota. */
    kz__etcd_key(e, at, "h");
    kz__place_text(&t->place, place);
    snprintf(value, sizeof value, "%d %" PRId64 " %" PRIu64 "\n%s", VERSION, t->now_ms, t->generation, place);
    put(&w, at, value);
    snprintf(revision, sizeof revision, "%" PRId64, e->head_revision);
    if (status || (status = kz__etcd_memory(e, err))) {
        json_decref(w.ops);
        return status;
    }
    json_t *answer = NULL, *compare = json_pack("{s:s,s:s,s:o,s:s}", "target", "MOD", "result", "EQUAL", "key",
                                                kz__etcd_encoded(at), "mod_revision", revision);
    status = kz__etcd_call(e->link, "/v3/kv/txn", json_pack("{s:[o],s:o}", "compare", compare, "success", w.ops), true,
                           &doubt, &answer, err);
    if (status == KZ_OK && !json_is_true(json_object_get(answer, "succeeded")))
        status = kz__fail(err, KZ_AGAIN, "%s: somebody was faster", e->name);
    json_decref(answer);
    /* Whether it was carried out is seen when it is begun anew: then the rows of the request are there. */
    return doubt && e->repeatable && kz__etcd_left_ms(e->link) ? KZ_AGAIN : status;
}

static void rollback(kz__far *f)
{
    (void)f;
}

const kz__far_store kz__etcd_store = {.begin = begin, .ask = ask, .commit = commit, .rollback = rollback};
