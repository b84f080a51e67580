/* The rows of a lease table in etcd: read as of one revision, written in one transaction.
 *
 *     h                            version, time, generation: put by every write, and compared by it
 *     s/<service>                  a service
 *     o/<service>/<lo>             a row that is out
 *     e/<service>/<end>/<lo>       and where it is in the order of ends
 *     r/<service>/<request>/<lo>   and whose it is
 *     f/<service>/<hi>             a free range: its lo
 *
 * under the prefix. Numbers are of 16 hex digits, so that keys sort as they do. Nobody wrote since our reads if h is
 * still the one that was read: that one comparison makes all of them valid. */
#include "core/error.h"
#include "core/values.h"
#include "host/clock.h"
#include "sources/etcd_source.h"
#include "sources/memory_page.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION        1
#define RANGES_AT_ONCE 8 /* at the cursor: enough unless the table is nearly full */
#define RANGES_ASKED   256
#define ROWS_ASKED     1000
#define OPS_READ       128 /* of a transaction, by etcd's default */
#define OPS_WRITTEN    64  /* with one below another: both levels count together */
#define WAIT_MAX_MS    1000
#define BEHIND_MS      3000   /* clocks that are whole seconds, of several members */
#define HISTORY_LONG   100000 /* revisions */
#define HEX            "%016" PRIx64

enum { KEY_SIZE = KZ__ETCD_PREFIX_MAX + KZ_SERVICE_SIZE + 80, VALUE_SIZE = KZ__ASIDE_TEXT_MAX + 512 };

/* ------------------------------------------------------------------------------------------ keys and values */

static json_t *encoded(const char *text)
{
    unsigned char out[(VALUE_SIZE + 2) / 3 * 4 + 1];
    EVP_EncodeBlock(out, (const unsigned char *)text, (int)strlen(text));
    return json_string((const char *)out);
}

/* "" for what is missing or too long; the zeros of the padding end the text. */
static void decoded(const json_t *value, char *text, size_t room)
{
    size_t length = json_string_length(value);
    int got = -1;
    if (length && length / 4 * 3 < room)
        got = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)json_string_value(value), (int)length);
    text[got > 0 ? got : 0] = '\0';
}

static int64_t number(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text ? (int64_t)strtoull(text, NULL, 10) : 0;
}

static __attribute__((format(printf, 3, 4))) void key(const kz__etcd *e, char out[static KEY_SIZE], const char *format,
                                                      ...)
{
    va_list args;
    int used = snprintf(out, KEY_SIZE, "%s", e->prefix);
    va_start(args, format);
    vsnprintf(out + used, KEY_SIZE - (size_t)used, format, args);
    va_end(args);
}

/* From a key up to another, or that one alone. */
static void want(const kz__etcd *e, json_t *ops, const char *from, const char *end, int limit, bool keys_only)
{
    json_t *range = json_pack("{s:o,s:I,s:I,s:b}", "key", encoded(from), "limit", (json_int_t)limit, "revision",
                              (json_int_t)e->revision, "keys_only", keys_only);
    if (end)
        json_object_set_new(range, "range_end", encoded(end));
    json_array_append_new(ops, json_pack("{s:o}", "request_range", range));
}

static void want_row(const kz__etcd *e, json_t *ops, const char *service, uint64_t lo)
{
    char at[KEY_SIZE];
    key(e, at, "o/%s/" HEX, service, lo);
    want(e, ops, at, NULL, 1, false);
}

/* Free ranges with hi > from. */
static void want_free(const kz__etcd *e, json_t *ops, const char *service, uint64_t from, int limit)
{
    char at[KEY_SIZE], end[KEY_SIZE];
    key(e, at, "f/%s/" HEX, service, from + 1);
    key(e, end, "f/%s/g", service);
    want(e, ops, at, end, limit, false);
}

/* Ended rows after that one. Ends are never negative. */
static void want_ended(const kz__etcd *e, json_t *ops, const char *service, int64_t after_ms, uint64_t lo)
{
    char at[KEY_SIZE], end[KEY_SIZE];
    bool first = after_ms < 0;
    key(e, at, "e/%s/" HEX "/" HEX, service, first ? 0 : (uint64_t)after_ms, first ? 0 : lo + 1);
    key(e, end, "e/%s/g", service);
    want(e, ops, at, end, KZ__SWEEP_ROWS, true);
}

static void hex(const uint8_t *bytes, char text[static 2 * KZ_REQUEST_ID_SIZE + 1])
{
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static void want_request(const kz__etcd *e, json_t *ops, const char *service, const uint8_t *request)
{
    char at[KEY_SIZE], end[KEY_SIZE], text[2 * KZ_REQUEST_ID_SIZE + 1];
    hex(request, text);
    key(e, at, "r/%s/%s/", service, text);
    key(e, end, "r/%s/%s0", service, text); /* behind the slash */
    want(e, ops, at, end, 0, true);
}

/* Sends the questions (which it takes over): *kvs is an array with each one's keys. *head: the answer's header. */
static kz_status bring(kz__etcd *e, json_t *ops, json_t **kvs, json_t **head, kz_error *err)
{
    size_t count = json_array_size(ops);
    kz_status status = KZ_OK;
    *kvs = json_array();
    for (size_t at = 0; status == KZ_OK && at < count; at += OPS_READ) {
        json_t *some = json_array(), *answer = NULL, *one;
        for (size_t i = at; i < count && i < at + OPS_READ; i++)
            json_array_append(some, json_array_get(ops, i));
        size_t index, sent = json_array_size(some);
        status = kz__etcd_call(e->link, "/v3/kv/txn", json_pack("{s:o}", "success", some), false, NULL, &answer, err);
        const json_t *got = json_object_get(answer, "responses");
        if (status == KZ_OK && json_array_size(got) != sent)
            status = kz__fail(err, KZ_STORE, "%s: %zu answers to %zu questions", e->name, json_array_size(got), sent);
        if (status == KZ_OK && head)
            *head = json_incref(json_object_get(answer, "header"));
        json_array_foreach(got, index, one)
        {
            json_t *found = json_object_get(json_object_get(one, "response_range"), "kvs");
            json_array_append_new(*kvs, found ? json_incref(found) : json_array());
        }
        json_decref(answer);
    }
    json_decref(ops);
    return status;
}

static kz_status nonsense(const kz__etcd *e, const char *what, kz_error *err)
{
    return kz__fail(err, KZ_STORE, "%s: %s under %s makes no sense", e->name, what, e->prefix);
}

/* The last number of a key. */
static uint64_t key_number(const json_t *kv, char text[static KEY_SIZE])
{
    decoded(json_object_get(kv, "key"), text, KEY_SIZE);
    const char *slash = strrchr(text, '/');
    return slash ? strtoull(slash + 1, NULL, 16) : 0;
}

static void row_text(const kz__row *row, char text[static VALUE_SIZE])
{
    char request[2 * KZ_REQUEST_ID_SIZE + 1];
    hex(row->request, request);
    snprintf(text, VALUE_SIZE, "%" PRIx64 " %" PRId64 " %" PRId64 " %" PRIu32 " %u %u %d %" PRIu32 " %s %s %s", row->hi,
             row->start_ms, row->end_ms, row->node, row->node_bits, row->seq_bits, row->released, row->asked, request,
             row->secret, row->holder);
}

static kz_status read_row(const kz__etcd *e, const json_t *kv, kz__row *row, kz_error *err)
{
    char at[KEY_SIZE], text[VALUE_SIZE], request[2 * KZ_REQUEST_ID_SIZE + 1];
    int released = 0, rest = 0;
    *row = (kz__row){.lo = key_number(kv, at)};
    decoded(json_object_get(kv, "value"), text, sizeof text);
    _Static_assert(KZ_SECRET_SIZE == 65 && KZ_REQUEST_ID_SIZE == 16, "the widths below");
    int got =
        sscanf(text, "%" SCNx64 " %" SCNd64 " %" SCNd64 " %" SCNu32 " %" SCNu8 " %" SCNu8 " %d %" SCNu32 " %32s %64s%n",
               &row->hi, &row->start_ms, &row->end_ms, &row->node, &row->node_bits, &row->seq_bits, &released,
               &row->asked, request, row->secret, &rest);
    if (got != 10 || strlen(request) != 32 || !row->node_bits || row->node_bits + row->seq_bits > 62 ||
        row->hi <= row->lo || row->end_ms < 0)
        return nonsense(e, at, err);
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        sscanf(request + 2 * i, "%2" SCNx8, &row->request[i]);
    row->released = released != 0;
    snprintf(row->holder, sizeof row->holder, "%s", text[rest] ? text + rest + 1 : "");
    return KZ_OK;
}

/* ------------------------------------------------------------------------------------------------ telling */

static kz_status tell_rows(const kz__etcd *e, kz__part *part, const json_t *kvs, kz_error *err)
{
    size_t i;
    json_t *kv;
    kz__row row;
    kz_status status = KZ_OK;
    json_array_foreach(kvs, i, kv) if (status || (status = read_row(e, kv, &row, err)) ||
                                       (status = kz__part_tell_row(part, &row, err))) break;
    return status;
}

static kz_status tell_free(const kz__etcd *e, kz__part *part, const json_t *kvs, uint64_t from, int limit,
                           kz_error *err)
{
    size_t count = json_array_size(kvs);
    kz__range ranges[RANGES_ASKED];
    char text[KEY_SIZE];
    for (size_t i = 0; i < count; i++) {
        const json_t *kv = json_array_get(kvs, i);
        if (i == RANGES_ASKED)
            return nonsense(e, "a page of free ranges", err);
        ranges[i].hi = key_number(kv, text);
        decoded(json_object_get(kv, "value"), text, sizeof text);
        ranges[i].lo = strtoull(text, NULL, 16);
        if (ranges[i].lo >= ranges[i].hi || (i && ranges[i].lo < ranges[i - 1].hi))
            return nonsense(e, "a free range", err);
    }
    return kz__part_tell_free(part, from, ranges, count, count < (size_t)limit, err);
}

/* Which rows ended by then, from keys in the order of ends; *past: there are no more of them. */
static size_t read_ended(const json_t *kvs, int64_t ms, uint64_t los[static KZ__SWEEP_ROWS], int64_t *end_ms,
                         bool *past)
{
    size_t i, count = 0;
    json_t *kv;
    char text[KEY_SIZE];
    *past = json_array_size(kvs) < KZ__SWEEP_ROWS;
    json_array_foreach(kvs, i, kv)
    {
        uint64_t lo = key_number(kv, text);
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
    char text[KEY_SIZE];
    size_t count = read_ended(ended, now_ms, los, &end_ms, &past), more = json_array_size(requested), at = 0;
    json_t *ops = json_array(), *kvs = NULL;
    for (size_t i = 0; i < count; i++) {
        want_row(e, ops, s->name, los[i]);
        want_free(e, ops, s->name, los[i] ? los[i] - 1 : 0, 2);
    }
    for (size_t i = 0; i < more; i++)
        want_row(e, ops, s->name, key_number(json_array_get(requested, i), text));
    for (size_t i = 0; acquire && i < 2; i++)
        want_free(e, ops, s->name, cursor + i * half, RANGES_AT_ONCE);
    kz_status status = bring(e, ops, &kvs, NULL, err);
    for (size_t i = 0; status == KZ_OK && i < count; i++) {
        status = tell_rows(e, s->part, json_array_get(kvs, at++), err);
        if (status == KZ_OK)
            status = tell_free(e, s->part, json_array_get(kvs, at++), los[i] ? los[i] - 1 : 0, 2, err);
    }
    for (size_t i = 0; status == KZ_OK && i < more; i++)
        status = tell_rows(e, s->part, json_array_get(kvs, at++), err);
    for (size_t i = 0; status == KZ_OK && acquire && i < 2; i++)
        status = tell_free(e, s->part, json_array_get(kvs, at++), cursor + i * half, RANGES_AT_ONCE, err);
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
        want_free(e, ops, s->name, q->from, RANGES_ASKED);
    else if (q->kind == KZ__PART_ENDED)
        want_ended(e, ops, s->name, q->after_ms, q->from);
    else if (q->kind == KZ__PART_REQUEST)
        want_request(e, ops, s->name, q->request);
    for (size_t i = 0; q->kind == KZ__PART_AT && i < q->slot_count; i++)
        want_row(e, ops, s->name, q->slots[i]);
    kz_status status = bring(e, ops, &kvs, NULL, err);
    const json_t *first = json_array_get(kvs, 0);
    if (status == KZ_OK && q->kind == KZ__PART_FREE)
        status = tell_free(e, s->part, first, q->from, RANGES_ASKED, err);
    else if (status == KZ_OK && q->kind == KZ__PART_ENDED)
        status = load(e, s, first, q->ms, NULL, false, err);
    else if (status == KZ_OK && q->kind == KZ__PART_REQUEST)
        status = load(e, s, NULL, 0, first, false, err);
    if (status == KZ_OK && q->kind == KZ__PART_REQUEST)
        status = kz__part_know_request(s->part, q->request, err);
    for (size_t i = 0; status == KZ_OK && q->kind == KZ__PART_AT && i < q->slot_count; i++)
        if ((status = tell_rows(e, s->part, json_array_get(kvs, i), err)) == KZ_OK)
            status = kz__part_know_at(s->part, q->slots[i], err);
    json_decref(kvs);
    return status;
}

/* -------------------------------------------------------------------------------------------------- begin */

static kz_status read_service(const kz__etcd *e, const json_t *kv, const char *name, kz__service *out,
                              uint64_t *heights, kz_error *err)
{
    char text[VALUE_SIZE];
    kz__service s = {0};
    int high = 0, granted = 0, rest = 0;
    decoded(json_object_get(kv, "value"), text, sizeof text);
    int got = sscanf(text,
                     "%" SCNd64 " %" SCNu8 " %" SCNu8 " %" SCNu8 " %" SCNu8 " %d %" SCNu32 " %" SCNd64 " %d %" SCNx64
                     " %" SCNx64 " %" SCNd64 " %" SCNu8 "%n",
                     &s.epoch_ms, &s.reserved_bits, &s.time_bits, &s.node_bits, &s.seq_bits, &high, &s.max_throughput,
                     &s.lease_ms, &granted, &s.cursor, heights, &s.settled_ms, &s.part, &rest);
    unsigned bits = kz__service_slot_bits(&s);
    if (got != 13 || !s.node_bits || bits > 62 || bits + s.time_bits + s.reserved_bits != 64)
        return nonsense(e, name, err);
    s.high_blocks = high;
    s.granted = granted;
    strcpy(s.name, name);
    *out = s;
    return kz__aside_parse(text[rest] ? text + rest + 1 : "", out->asides, err);
}

static kz_status read_head(kz__etcd *e, const json_t *kv, const json_t *header, bool grants, kz__transaction *t,
                           kz_error *err)
{
    char text[VALUE_SIZE];
    int version = 0;
    int64_t clock_ms = 0;
    const kz_clock *clock = &e->far.base.clock;
    e->revision = number(header, "revision");
    e->head_revision = number(kv, "mod_revision");
    decoded(json_object_get(kv, "value"), text, sizeof text);
    if (kv && (sscanf(text, "%d %" SCNd64 " %" SCNu64, &version, &t->high_ms, &t->generation) != 3 || version < 1))
        return nonsense(e, "h", err);
    if (version > VERSION)
        return kz__fail(err, KZ_STORE,
                        "%s: the lease table under %s is of a newer kazahana (version %d): update this one", e->name,
                        e->prefix, version);
    kz_status status = kz__etcd_time(e->link, &clock_ms, err);
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
    e->revision = 0;
    return KZ_OK;
}

static kz_status begin(kz__far *f, const kz__table_ask *asked, bool further, kz__transaction *t,
                       kz__far_service *service, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)f;
    char at[KEY_SIZE];
    bool acquire = asked->acquire && asked->write, requested = acquire && has_request(asked->acquire);
    uint64_t heights = 0;
    kz_status status = further ? KZ_OK : enter(e, t->attempt, err);
    if (status)
        return status;
    e->repeatable = requested && !f->base.grouped;
    json_t *ops = json_array(), *kvs = NULL, *header = NULL;
    key(e, at, "h");
    want(e, ops, at, NULL, 1, false);
    if (asked->service) {
        key(e, at, "s/%s", asked->service);
        want(e, ops, at, NULL, 1, false);
    }
    if (acquire)
        want_ended(e, ops, asked->service, -1, 0);
    if (requested)
        want_request(e, ops, asked->service, asked->acquire->request_id);
    status = bring(e, ops, &kvs, &header, err);
    if (status == KZ_OK && !further)
        status = read_head(e, json_array_get(json_array_get(kvs, 0), 0), header, asked->acquire != NULL, t, err);
    const json_t *kv = asked->service ? json_array_get(json_array_get(kvs, 1), 0) : NULL;
    if (status == KZ_OK && kv) {
        status = read_service(e, kv, asked->service, &service->service, &heights, err);
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

/* -------------------------------------------------------------------------------------------------- commit */

typedef struct writer {
    const kz__etcd *e;
    const char *service;
    json_t *ops;
} writer;

static void put(const writer *w, const char *at, const char *value)
{
    json_array_append_new(w->ops,
                          json_pack("{s:{s:o,s:o}}", "request_put", "key", encoded(at), "value", encoded(value)));
}

static void delete (const writer *w, const char *at)
{
    json_array_append_new(w->ops, json_pack("{s:{s:o}}", "request_delete_range", "key", encoded(at)));
}

/* A row has its keys in three orders; what it had in another place goes. */
static void write_row(const writer *w, const kz__row *row, const kz__row *was, bool gone)
{
    char at[KEY_SIZE], old[KEY_SIZE], value[VALUE_SIZE], request[2 * KZ_REQUEST_ID_SIZE + 1];
    key(w->e, at, "o/%s/" HEX, w->service, row->lo);
    row_text(row, value);
    gone ? delete (w, at) : put(w, at, value);
    for (int order = 0; order < 2; order++) {
        const kz__row *rows[] = {row, was};
        char *texts[] = {at, old};
        for (int i = 0; i < (was ? 2 : 1); i++) {
            hex(rows[i]->request, request);
            order ? key(w->e, texts[i], "r/%s/%s/" HEX, w->service, request, rows[i]->lo)
                  : key(w->e, texts[i], "e/%s/" HEX "/" HEX, w->service, (uint64_t)rows[i]->end_ms, rows[i]->lo);
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
    char at[KEY_SIZE], value[32];
    if (change->row) {
        write_row(w, change->row, change->was, change->gone);
        return KZ_OK;
    }
    key(w->e, at, "f/%s/" HEX, w->service, change->range->hi);
    snprintf(value, sizeof value, HEX, change->range->lo);
    change->gone ? delete (w, at) : put(w, at, value);
    return KZ_OK;
}

static void write_service(const writer *w, const kz__far_service *s, int64_t now_ms)
{
    const kz__service *is = &s->service;
    char at[KEY_SIZE], value[VALUE_SIZE], aside[KZ__ASIDE_TEXT_MAX];
    kz__aside_text(is->asides, now_ms, aside);
    snprintf(value, sizeof value,
             "%" PRId64 " %u %u %u %u %d %" PRIu32 " %" PRId64 " %d %" PRIx64 " %" PRIx64 " %" PRId64 " %u\n%s",
             is->epoch_ms, is->reserved_bits, is->time_bits, is->node_bits, is->seq_bits, is->high_blocks,
             is->max_throughput, is->lease_ms, is->granted, is->cursor, kz__part_heights(s->part), is->settled_ms,
             is->part, aside);
    key(w->e, at, "s/%s", w->service);
    put(w, at, value);
}

/* h's put stands at the top: below it a put escapes etcd's quota. */
static json_t *nested(json_t *ops)
{
    json_t *top = json_array();
    size_t count = json_array_size(ops);
    if (count <= OPS_WRITTEN)
        return json_decref(top), ops;
    for (size_t at = 0; at < count; at += OPS_WRITTEN) {
        json_t *some = json_array();
        for (size_t i = at; i < count && i < at + OPS_WRITTEN; i++)
            json_array_append(some, json_array_get(ops, i));
        json_array_append_new(top, json_pack("{s:{s:o}}", "request_txn", "success", some));
    }
    json_decref(ops);
    return top;
}

static kz_status commit(kz__far *f, const kz__transaction *t, kz__far_service *services, size_t count, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)f;
    writer w = {.e = e, .ops = json_array()};
    char at[KEY_SIZE], value[VALUE_SIZE], revision[24];
    kz_status status = KZ_OK;
    bool doubt = false;
    for (size_t i = 0; status == KZ_OK && i < count; i++) {
        w.service = services[i].name;
        if (services[i].write)
            write_service(&w, &services[i], t->now_ms);
        status = kz__part_changes(services[i].part, write_change, &w, err);
    }
    if (status == KZ_OK && json_array_size(w.ops) > OPS_WRITTEN * (OPS_WRITTEN - 1))
        status = kz__fail(err, KZ_INVALID, "%s: %zu changes are too many for one commit: ask for fewer leases at once",
                          e->name, json_array_size(w.ops));
    if (status) {
        json_decref(w.ops);
        return status;
    }
    w.ops = nested(w.ops);
    key(e, at, "h");
    snprintf(value, sizeof value, "%d %" PRId64 " %" PRIu64, VERSION, t->now_ms, t->generation);
    put(&w, at, value);
    snprintf(revision, sizeof revision, "%" PRId64, e->head_revision);
    json_t *answer = NULL, *compare = json_pack("{s:s,s:s,s:o,s:s}", "target", "MOD", "result", "EQUAL", "key",
                                                encoded(at), "mod_revision", revision);
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

/* ------------------------------------------------------------------------------------------------ reports */

/* Services are not forgotten here: they are only counted. */
kz_status kz__etcd_count(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                         kz_error *err)
{
    (void)like;
    (void)before_ms;
    kz__etcd *e = (kz__etcd *)base;
    char at[KEY_SIZE], end[KEY_SIZE];
    json_t *kvs = NULL, *ops = json_array();
    key(e, at, "s/");
    key(e, end, "s0");
    want(e, ops, at, end, 0, true);
    kz_status status = bring(e, ops, &kvs, NULL, err);
    *left = json_array_size(json_array_get(kvs, 0));
    json_decref(kvs);
    return status;
}

/* All keys of a kind and a service, page by page: the rows into `rows` or the part, free ranges into the part. */
static kz_status load_all(kz__etcd *e, char kind, const char *service, kz__memory_rows *rows, kz__part *part,
                          kz_error *err)
{
    kz_status status = KZ_OK;
    uint64_t from = 0;
    int limit = kind == 'f' ? RANGES_ASKED : ROWS_ASKED;
    for (size_t count = (size_t)limit; status == KZ_OK && count == (size_t)limit;) {
        char at[KEY_SIZE], end[KEY_SIZE];
        json_t *kvs = NULL, *ops = json_array(), *kv;
        size_t i;
        key(e, at, "%c/%s/" HEX, kind, service, from ? from + 1 : 0);
        key(e, end, "%c/%s/g", kind, service);
        want(e, ops, at, end, limit, false);
        status = bring(e, ops, &kvs, NULL, err);
        const json_t *page = json_array_get(kvs, 0);
        count = json_array_size(page);
        if (status == KZ_OK && kind == 'f')
            status = tell_free(e, part, page, from, limit, err);
        else if (status == KZ_OK && part)
            status = tell_rows(e, part, page, err);
        json_array_foreach(page, i, kv)
        {
            kz__row row;
            if (status == KZ_OK && rows && (status = read_row(e, kv, &row, err)) == KZ_OK)
                status = kz__memory_rows_use(rows).out_add(rows, &row, err);
            if (i + 1 == count)
                from = key_number(kv, at);
        }
        json_decref(kvs);
    }
    return status;
}

/* The rows of a service, kept for the listing's next pages as long as nobody writes. */
static kz_status list_rows(kz__etcd *e, const char *service, kz_error *err)
{
    if (e->listed && strcmp(service, e->listed_service) == 0 && e->listed_revision == e->head_revision)
        return KZ_OK;
    kz__memory_rows_free(e->listed);
    e->listed = kz__memory_rows_new();
    if (!e->listed)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a listing");
    strcpy(e->listed_service, service);
    e->listed_revision = -1;
    kz_status status = load_all(e, 'o', service, e->listed, NULL, err);
    if (status == KZ_OK)
        e->listed_revision = e->head_revision;
    return status;
}

kz_status kz__etcd_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                        kz_lease_info *lines, size_t room, size_t *count, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)base;
    char at[KEY_SIZE], end[KEY_SIZE];
    json_t *kvs = NULL, *ops = json_array(), *kv;
    size_t i;
    key(e, at, "s/%s", from->service);
    key(e, end, "s0");
    want(e, ops, at, end, 0, false);
    kz_status status = bring(e, ops, &kvs, NULL, err);
    json_array_foreach(json_array_get(kvs, 0), i, kv)
    {
        kz__service service;
        uint64_t heights;
        (void)key_number(kv, at);
        const char *name = strrchr(at, '/') ? strrchr(at, '/') + 1 : "";
        if (status || *count == room || (status = kz__service_name_check(name, err)) ||
            (status = read_service(e, kv, name, &service, &heights, err)) || (status = list_rows(e, name, err)))
            break;
        kz__memory_page(&service, e->listed, from, t->now_ms, lines, room, count);
    }
    json_decref(kvs);
    return status;
}

kz_status kz__etcd_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)base;
    json_t *state = NULL, *alarms = NULL, *first = NULL;
    char at[KEY_SIZE];
    kz_status status = kz__etcd_call(e->link, "/v3/maintenance/status", json_object(), false, NULL, &state, err);
    if (status)
        return status;
    key(e, at, "h");
    /* Who may not ask for these goes without. */
    (void)kz__etcd_call(e->link, "/v3/maintenance/alarm", json_pack("{s:s}", "action", "GET"), false, NULL, &alarms,
                        NULL);
    bool whole = e->revision > HISTORY_LONG &&
                 kz__etcd_call(e->link, "/v3/kv/range", json_pack("{s:o,s:s}", "key", encoded(at), "revision", "1"),
                               false, NULL, &first, NULL) == KZ_OK;
    const char *alarm =
        json_string_value(json_object_get(json_array_get(json_object_get(alarms, "alarms"), 0), "alarm"));
    int64_t size = number(state, "dbSize");
    health->durable = !alarm;
    if (alarm)
        snprintf(health->note, sizeof health->note,
                 "etcd has the alarm %s, so nothing is granted. Compact and defragment it, then etcdctl alarm disarm",
                 alarm);
    else if (whole)
        snprintf(health->note, sizeof health->note,
                 "its history of %" PRId64 " revisions was never compacted (%" PRId64
                 " MB), and at its quota nothing is granted. Start etcd with --auto-compaction-retention=1h",
                 e->revision, size >> 20);
    else
        snprintf(health->note, sizeof health->note,
                 "leases survive as long as a majority of the members keeps its disks (%" PRId64 " MB in use)",
                 size >> 20);
    json_decref(state);
    json_decref(alarms);
    json_decref(first);
    if (t->found)
        status = load_all(e, 'o', t->service.name, NULL, e->far.service->part, err);
    if (t->found && status == KZ_OK)
        status = load_all(e, 'f', t->service.name, NULL, e->far.service->part, err);
    return status ? status : kz__table_source_count(base, t, health, err);
}
