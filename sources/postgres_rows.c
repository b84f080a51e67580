/* The rows of a lease table in PostgreSQL: brought in one trip, written in one. */
#include "core/error.h"
#include "core/find_block.h"
#include "host/clock.h"
#include "sources/postgres_source.h"
#include "sources/table_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_AT_ONCE 8 /* at the cursor: enough unless the table is nearly full */
#define RANGES_ASKED   256
#define TRIES          3 /* connections that turn out to be dead, statements that a pooler does not know */

enum { NUMBER_SIZE = 24, BYTEA_SIZE = 2 * KZ_REQUEST_ID_SIZE + 3, BEGIN_RESULTS = 12 };

static const char *number(int64_t value, char text[static NUMBER_SIZE])
{
    snprintf(text, NUMBER_SIZE, "%" PRId64, value);
    return text;
}

/* -------------------------------------------------------------------------------------------------- rows in */

static void bytea(const uint8_t *bytes, char text[static BYTEA_SIZE])
{
    strcpy(text, "\\x");
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(text + 2 + 2 * i, 3, "%02x", bytes[i]);
}

static void read_request(const char *text, uint8_t *request)
{
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE && strlen(text) >= 2 * i + 4; i++)
        sscanf(text + 2 + 2 * i, "%2hhx", &request[i]);
}

static kz_status tell_rows(kz__part *part, const PGresult *result, kz_error *err)
{
    kz_status status = KZ_OK;
    for (int i = 0; status == KZ_OK && i < PQntuples(result); i++) {
        kz__row row = {.lo = (uint64_t)kz__pg_int(result, i, 0),
                       .hi = (uint64_t)kz__pg_int(result, i, 1),
                       .start_ms = kz__pg_int(result, i, 2),
                       .end_ms = kz__pg_int(result, i, 3),
                       .node = (uint32_t)kz__pg_int(result, i, 4),
                       .node_bits = (uint8_t)kz__pg_int(result, i, 5),
                       .seq_bits = (uint8_t)kz__pg_int(result, i, 6),
                       .released = *kz__pg_text(result, i, 7) == 't',
                       .asked = (uint32_t)kz__pg_int(result, i, 8)};
        read_request(kz__pg_text(result, i, 9), row.request);
        snprintf(row.secret, sizeof row.secret, "%s", kz__pg_text(result, i, 10));
        snprintf(row.holder, sizeof row.holder, "%s", kz__pg_text(result, i, 11));
        if (!row.node_bits || row.node_bits + row.seq_bits > 62 || row.hi <= row.lo)
            return kz__fail(err, KZ_STORE, "the lease table makes no sense: a row of %u and %u bits", row.node_bits,
                            row.seq_bits);
        status = kz__part_tell_row(part, &row, err);
    }
    return status;
}

static kz_status tell_ended(kz__part *part, const PGresult *result, int limit, int64_t now_ms, kz_error *err)
{
    int count = PQntuples(result);
    kz_status status = tell_rows(part, result, err);
    if (status == KZ_OK && count == limit)
        kz__part_know_ended(part, kz__pg_int(result, count - 1, 3), (uint64_t)kz__pg_int(result, count - 1, 0));
    else if (status == KZ_OK)
        kz__part_know_ended(part, now_ms, UINT64_MAX);
    return status;
}

/* Rows `first` to `end` of a result, with lo in `column`: what follows `from`. */
static kz_status tell_ranges(kz__part *part, const PGresult *result, int first, int end, int column, uint64_t from,
                             bool last, kz_error *err)
{
    kz__range ranges[RANGES_ASKED];
    int count = 0;
    for (int i = first; i < end && count < RANGES_ASKED; i++)
        ranges[count++] =
            (kz__range){(uint64_t)kz__pg_int(result, i, column), (uint64_t)kz__pg_int(result, i, column + 1)};
    return kz__part_tell_free(part, from, ranges, (size_t)count, last, err);
}

static kz_status tell_beside(kz__part *part, const PGresult *result, kz_error *err)
{
    kz_status status = KZ_OK;
    int count = PQntuples(result), next;
    for (int i = 0; status == KZ_OK && i < count; i = next) {
        next = i + 1 < count && strcmp(kz__pg_text(result, i + 1, 0), kz__pg_text(result, i, 0)) == 0 ? i + 2 : i + 1;
        int64_t from = kz__pg_int(result, i, 0);
        status = tell_ranges(part, result, i, next, 1, from < 0 ? 0 : (uint64_t)from, next == i + 1, err);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------------- begin */

static kz_status read_service(const kz__postgres *p, const PGresult *result, kz__far_service *out, uint64_t *heights,
                              kz_error *err)
{
    kz__service s = {.epoch_ms = kz__pg_int(result, 0, 0),
                     .reserved_bits = (uint8_t)kz__pg_int(result, 0, 1),
                     .time_bits = (uint8_t)kz__pg_int(result, 0, 2),
                     .node_bits = (uint8_t)kz__pg_int(result, 0, 3),
                     .seq_bits = (uint8_t)kz__pg_int(result, 0, 4),
                     .high_blocks = kz__pg_int(result, 0, 5),
                     .max_throughput = (uint32_t)kz__pg_int(result, 0, 6),
                     .lease_ms = kz__pg_int(result, 0, 7),
                     .granted = kz__pg_int(result, 0, 8),
                     .cursor = (uint64_t)kz__pg_int(result, 0, 9),
                     .settled_ms = kz__pg_int(result, 0, 12)};
    *heights = (uint64_t)kz__pg_int(result, 0, 10);
    strcpy(s.name, out->name);
    unsigned bits = kz__service_slot_bits(&s);
    if (!s.node_bits || bits > 62 || bits + s.time_bits + s.reserved_bits != 64)
        return kz__fail(err, KZ_STORE, "%s: the layout of service %s makes no sense", p->name, out->name);
    kz_status status = kz__aside_parse(kz__pg_text(result, 0, 11), s.asides, err);
    out->service = s;
    out->found = status == KZ_OK;
    return status;
}

/* Which copy of the store this is: the cluster, its timeline, which a promotion changes, and the database. A timeline
 * that follows on the one remembered says how many took over since. */
static kz_status read_place(const PGresult *meta, const PGresult *time, kz__transaction *t, kz_error *err)
{
    kz_status status = kz__place_parse(kz__pg_text(meta, 0, 3), &t->place, err);
    const char *cluster = kz__pg_text(time, 0, 1), *timeline = kz__pg_text(time, 0, 2);
    const char *database = kz__pg_text(time, 0, 3);
    char was_cluster[32] = "", was_database[32] = "";
    unsigned was = 0, is = (unsigned)strtoul(timeline, NULL, 16);
    snprintf(t->place_name, sizeof t->place_name, "%s %x %s", cluster, is, database);
    if (sscanf(t->place.name, "%31s %x %31s", was_cluster, &was, was_database) == 3 &&
        strcmp(was_cluster, cluster) == 0 && strcmp(was_database, database) == 0 && is > was)
        t->place_passed = is - was;
    return status;
}

static kz_status read_head(kz__postgres *p, const PGresult *meta, const PGresult *time, bool grants, kz__transaction *t,
                           kz_error *err)
{
    int64_t version = PQntuples(meta) ? kz__pg_int(meta, 0, 0) : 0;
    if (version != KZ__PG_VERSION)
        return kz__fail(err, KZ_STORE,
                        version > KZ__PG_VERSION
                            ? "%s: the tables in schema %s are of a newer kazahana (version %" PRId64
                              "): update this one"
                            : "%s: the tables in schema %s make no sense (version %" PRId64 "): name another schema",
                        p->name, p->schema, version);
    t->high_ms = kz__pg_int(meta, 0, 1);
    t->generation = (uint64_t)kz__pg_int(meta, 0, 2);
    kz_status status = read_place(meta, time, t, err);
    if (status)
        return status;
    const kz_clock *clock = &p->far.base.clock;
    return kz__table_clock_check(p->name, kz__pg_int(time, 0, 0), t->high_ms,
                                 clock->wall_ns(clock->ctx) / KZ__NS_PER_MS, grants, &t->now_ms, err);
}

/* What a writer of this service will want. */
static void send_service(kz__postgres *p, const kz__table_ask *ask)
{
    char ranges[NUMBER_SIZE], rows[NUMBER_SIZE], request[BYTEA_SIZE];
    number(RANGES_AT_ONCE, ranges);
    number(KZ__SWEEP_ROWS, rows);
    kz__pg_send(p->link, KZ__PG_SERVICE, 1, &ask->service);
    if (!ask->acquire || !ask->write)
        return;
    const char *const ended[] = {ask->service, "-9223372036854775808", "0", NULL, rows};
    kz__pg_send(p->link, KZ__PG_ENDED, 5, ended);
    kz__pg_send(p->link, KZ__PG_FREE_BESIDE, 5, ended);
    kz__pg_send(p->link, KZ__PG_FREE_AT_CURSOR, 3, (const char *const[]){ask->service, "0", ranges});
    kz__pg_send(p->link, KZ__PG_FREE_AT_CURSOR, 3, (const char *const[]){ask->service, "1", ranges});
    bytea(ask->acquire->request_id, request);
    kz__pg_send(p->link, KZ__PG_REQUEST, 2, (const char *const[]){ask->service, request});
}

static kz_status take_service(kz__postgres *p, const kz__table_ask *ask, PGresult **results, int64_t now_ms,
                              kz__far_service *service, kz_error *err)
{
    uint64_t heights = 0;
    if (!PQntuples(results[0]))
        return KZ_OK;
    kz_status status = read_service(p, results[0], service, &heights, err);
    if (status || !ask->write || (status = kz__part_begin(service->part, heights, err)) || !ask->acquire)
        return status;
    uint64_t cursor = service->service.cursor, half = kz__service_half(&service->service);
    status = tell_ended(service->part, results[1], KZ__SWEEP_ROWS, now_ms, err);
    if (status == KZ_OK)
        status = tell_beside(service->part, results[2], err);
    for (int i = 0; status == KZ_OK && i < 2; i++) {
        int count = PQntuples(results[3 + i]);
        status = tell_ranges(service->part, results[3 + i], 0, count, 0, cursor + (i ? half : 0),
                             count < RANGES_AT_ONCE, err);
    }
    if (status == KZ_OK)
        status = tell_rows(service->part, results[5], err);
    return status ? status : kz__part_know_request(service->part, ask->acquire->request_id, err);
}

/* The whole trip. */
static kz_status begin_once(kz__postgres *p, const kz__table_ask *ask, bool further, kz__transaction *t,
                            kz__far_service *service, kz_error *err)
{
    PGresult *results[BEGIN_RESULTS] = {0};
    char timeout[NUMBER_SIZE];
    int head = 0;
    if (!further) {
        number(kz__pg_left_ms(p->link) + 1, timeout);
        if (ask->write) {
            kz__pg_send(p->link, KZ__PG_BEGIN, 0, NULL);
            kz__pg_send(p->link, KZ__PG_SETTINGS, 1, (const char *const[]){timeout});
            p->begun = true;
        }
        kz__pg_send(p->link, ask->write ? KZ__PG_LOCK : KZ__PG_META, 0, NULL);
        kz__pg_send(p->link, KZ__PG_TIME, 0, NULL);
        head = ask->write ? 4 : 2;
    }
    if (ask->service)
        send_service(p, ask);
    kz_status status = kz__pg_trip(p->link, results, BEGIN_RESULTS, err);
    if (status)
        return status;
    if (!further)
        status = read_head(p, results[head - 2], results[head - 1], ask->acquire != NULL, t, err);
    if (status == KZ_OK && ask->service)
        status = take_service(p, ask, results + head, t->now_ms, service, err);
    kz__pg_clear(results, BEGIN_RESULTS);
    return status;
}

static void roll_back(kz__postgres *p)
{
    kz_error ignored;
    if (p->begun && kz__pg_is_open(p->link)) {
        kz__pg_send(p->link, KZ__PG_ROLLBACK, 0, NULL);
        if (kz__pg_trip(p->link, NULL, 0, &ignored))
            kz__pg_drop(p->link);
    }
    p->begun = false;
}

/* A look at a database without our tables: there is a time, and nothing else. */
static kz_status look_at_nothing(kz__postgres *p, kz__transaction *t, kz_error *err)
{
    PGresult *time = NULL;
    kz__pg_send(p->link, KZ__PG_TIME, 0, NULL);
    kz_status status = kz__pg_trip(p->link, &time, 1, err);
    if (status == KZ_OK)
        t->now_ms = kz__pg_int(time, 0, 0);
    kz__pg_clear(&time, 1);
    p->missing = true;
    return status;
}

/* A transaction, or a look. What can be mended is mended here: a connection that has died since the last call, a
 * statement that the pooler's connection does not know, tables that are not there yet. */
static kz_status begin_anew(kz__postgres *p, const kz__table_ask *ask, kz__transaction *t, kz__far_service *service,
                            kz_error *err)
{
    kz_status status = KZ_OK;
    kz__pg_enter(p->link, ask->write);
    p->missing = false;
    for (int tries = 0; tries < TRIES; tries++) {
        bool fresh;
        if ((status = kz__pg_connected(p->link, &fresh, err)))
            return status;
        status = begin_once(p, ask, false, t, service, err);
        if (status == KZ_OK)
            return KZ_OK;
        roll_back(p);
        if (status == KZ_NOT_FOUND) {
            if (!p->far.base.params.create)
                return kz__postgres_missing(p, err);
            if (!ask->write)
                return look_at_nothing(p, t, err);
            if ((status = kz__postgres_create(p, err)))
                return status;
        } else if (status != KZ_AGAIN && (fresh || kz__pg_is_open(p->link))) {
            return status;
        }
    }
    return status == KZ_AGAIN || status == KZ_NOT_FOUND ? KZ_UNAVAILABLE : status;
}

static kz_status begin(kz__far *f, const kz__table_ask *ask, bool further, kz__transaction *t, kz__far_service *service,
                       kz_error *err)
{
    kz__postgres *p = (kz__postgres *)f;
    return further ? begin_once(p, ask, true, t, service, err) : begin_anew(p, ask, t, service, err);
}

/* ----------------------------------------------------------------------------------------------------- ask */

static kz_status ask_for_slots(kz__postgres *p, kz__far_service *service, const kz__part_question *question,
                               kz_error *err)
{
    char list[KZ__PART_SLOTS * NUMBER_SIZE];
    size_t length = 0;
    PGresult *result = NULL;
    for (size_t i = 0; i < question->slot_count; i++)
        length +=
            (size_t)snprintf(list + length, sizeof list - length, "%c%" PRIu64, i ? ',' : '{', question->slots[i]);
    strcpy(list + length, "}");
    kz__pg_send(p->link, KZ__PG_AT, 2, (const char *const[]){service->name, list});
    kz_status status = kz__pg_trip(p->link, &result, 1, err);
    if (status == KZ_OK)
        status = tell_rows(service->part, result, err);
    for (size_t i = 0; status == KZ_OK && i < question->slot_count; i++)
        status = kz__part_know_at(service->part, question->slots[i], err);
    kz__pg_clear(&result, 1);
    return status;
}

static kz_status ask_for_ranges(kz__postgres *p, kz__far_service *service, uint64_t from, kz_error *err)
{
    char limit[NUMBER_SIZE], begin_at[NUMBER_SIZE];
    PGresult *result = NULL;
    kz__pg_send(p->link, KZ__PG_FREE, 3,
                (const char *const[]){service->name, number((int64_t)from, begin_at), number(RANGES_ASKED, limit)});
    kz_status status = kz__pg_trip(p->link, &result, 1, err);
    if (status == KZ_OK)
        status =
            tell_ranges(service->part, result, 0, PQntuples(result), 0, from, PQntuples(result) < RANGES_ASKED, err);
    kz__pg_clear(&result, 1);
    return status;
}

static kz_status ask_for_ended(kz__postgres *p, kz__far_service *service, const kz__part_question *question,
                               kz_error *err)
{
    char after[NUMBER_SIZE], lo[NUMBER_SIZE], ms[NUMBER_SIZE], limit[NUMBER_SIZE];
    PGresult *result = NULL;
    kz__pg_send(p->link, KZ__PG_ENDED, 5,
                (const char *const[]){service->name, number(question->after_ms, after),
                                      number((int64_t)question->from, lo), number(question->ms, ms),
                                      number(KZ__SWEEP_ROWS, limit)});
    kz_status status = kz__pg_trip(p->link, &result, 1, err);
    if (status == KZ_OK)
        status = tell_ended(service->part, result, KZ__SWEEP_ROWS, question->ms, err);
    kz__pg_clear(&result, 1);
    return status;
}

static kz_status ask_for_request(kz__postgres *p, kz__far_service *service, const uint8_t *request, kz_error *err)
{
    char text[BYTEA_SIZE];
    PGresult *result = NULL;
    bytea(request, text);
    kz__pg_send(p->link, KZ__PG_REQUEST, 2, (const char *const[]){service->name, text});
    kz_status status = kz__pg_trip(p->link, &result, 1, err);
    if (status == KZ_OK)
        status = tell_rows(service->part, result, err);
    kz__pg_clear(&result, 1);
    return status ? status : kz__part_know_request(service->part, request, err);
}

static kz_status ask(kz__far *f, kz__far_service *service, const kz__part_question *question, kz_error *err)
{
    kz__postgres *p = (kz__postgres *)f;
    switch (question->kind) {
    case KZ__PART_FREE:
        return ask_for_ranges(p, service, question->from, err);
    case KZ__PART_ENDED:
        return ask_for_ended(p, service, question, err);
    case KZ__PART_AT:
        return ask_for_slots(p, service, question, err);
    case KZ__PART_REQUEST:
        return ask_for_request(p, service, question->request, err);
    }
    return KZ_STORE;
}

/* -------------------------------------------------------------------------------------------------- commit */

typedef struct writer {
    kz__pg *link;
    const char *service;
} writer;

static void send_row(const writer *w, const kz__row *row)
{
    char text[8][NUMBER_SIZE], request[BYTEA_SIZE];
    bytea(row->request, request);
    const char *const values[] = {w->service,
                                  number((int64_t)row->lo, text[0]),
                                  number((int64_t)row->hi, text[1]),
                                  number(row->start_ms, text[2]),
                                  number(row->end_ms, text[3]),
                                  number(row->node, text[4]),
                                  number(row->node_bits, text[5]),
                                  number(row->seq_bits, text[6]),
                                  row->released ? "t" : "f",
                                  number(row->asked, text[7]),
                                  request,
                                  row->secret,
                                  row->holder};
    kz__pg_send(w->link, KZ__PG_OUT_PUT, 13, values);
}

static kz_status send_change(void *ctx, const kz__part_change *change, kz_error *err)
{
    (void)err;
    const writer *w = ctx;
    char lo[NUMBER_SIZE], hi[NUMBER_SIZE];
    if (change->row && change->gone)
        kz__pg_send(w->link, KZ__PG_OUT_GONE, 2,
                    (const char *const[]){w->service, number((int64_t)change->row->lo, lo)});
    else if (change->row)
        send_row(w, change->row);
    else if (change->gone)
        kz__pg_send(w->link, KZ__PG_FREE_GONE, 2,
                    (const char *const[]){w->service, number((int64_t)change->range->hi, hi)});
    else
        kz__pg_send(w->link, KZ__PG_FREE_PUT, 3,
                    (const char *const[]){w->service, number((int64_t)change->range->lo, lo),
                                          number((int64_t)change->range->hi, hi)});
    return KZ_OK;
}

static void send_settings(const writer *w, const kz__far_service *s, int64_t now_ms)
{
    char text[10][NUMBER_SIZE], aside[KZ__ASIDE_TEXT_MAX];
    const kz__service *is = &s->service;
    kz__aside_text(is->asides, now_ms, aside);
    const char *const values[] = {w->service,
                                  number(is->epoch_ms, text[0]),
                                  number(is->reserved_bits, text[1]),
                                  number(is->time_bits, text[2]),
                                  number(is->node_bits, text[3]),
                                  number(is->seq_bits, text[4]),
                                  is->high_blocks ? "t" : "f",
                                  number(is->max_throughput, text[5]),
                                  number(is->lease_ms, text[6]),
                                  is->granted ? "t" : "f",
                                  number((int64_t)is->cursor, text[7]),
                                  number((int64_t)kz__part_heights(s->part), text[8]),
                                  aside,
                                  number(is->settled_ms, text[9])};
    kz__pg_send(w->link, KZ__PG_SERVICE_PUT, 14, values);
}

static kz_status commit(kz__far *f, const kz__transaction *t, kz__far_service *services, size_t count, kz_error *err)
{
    kz__postgres *p = (kz__postgres *)f;
    char high[NUMBER_SIZE], generation[NUMBER_SIZE], place[KZ__PLACE_TEXT_SIZE];
    for (size_t i = 0; i < count; i++) {
        writer w = {p->link, services[i].name};
        if (services[i].write)
            send_settings(&w, &services[i], t->now_ms);
        kz_status status = kz__part_changes(services[i].part, send_change, &w, err);
        if (status)
            return status;
    }
    kz__place_text(&t->place, place);
    kz__pg_send(p->link, KZ__PG_META_PUT, 3,
                (const char *const[]){number(t->now_ms, high), number((int64_t)t->generation, generation), place});
    kz__pg_send(p->link, KZ__PG_COMMIT, 0, NULL);
    kz_status status = kz__pg_trip(p->link, NULL, 0, err);
    if (status)
        return status;
    p->begun = false;
    /* A commit whose wait for a standby was ended: it stands here, and perhaps nowhere else. */
    if (kz__pg_warning(p->link))
        return kz__fail(err, KZ_UNAVAILABLE, "%s: %s: whether it is safe is not known, ask again", p->name,
                        kz__pg_warning(p->link));
    if (strcmp(kz__pg_tag(p->link), "COMMIT") != 0)
        return kz__fail(err, KZ_UNAVAILABLE, "%s: the commit was answered with %s", p->name, kz__pg_tag(p->link));
    kz__pg_leave(p->link);
    return KZ_OK;
}

kz_status kz__postgres_forget(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                              kz_error *err)
{
    kz__postgres *p = (kz__postgres *)base;
    char text[8][NUMBER_SIZE];
    PGresult *results[4] = {0};
    size_t count = 0;
    const char *const values[] = {number(before_ms, text[0]),
                                  like->name,
                                  number(like->epoch_ms, text[1]),
                                  number(like->reserved_bits, text[2]),
                                  number(like->time_bits, text[3]),
                                  number(like->node_bits, text[4]),
                                  number(like->seq_bits, text[5]),
                                  like->high_blocks ? "t" : "f",
                                  number(like->max_throughput, text[6]),
                                  number(like->lease_ms, text[7])};
    /* In a group another service may be in use though its rows do not show it yet. */
    if (p->far.count == 1) {
        kz__pg_send(p->link, KZ__PG_IDLE_FREE, 10, values);
        kz__pg_send(p->link, KZ__PG_IDLE_SERVICE, 10, values);
        kz__pg_send(p->link, KZ__PG_IDLE_OUT, 0, NULL);
        count = 3;
    }
    kz__pg_send(p->link, KZ__PG_SERVICES, 0, NULL);
    kz_status status = kz__pg_trip(p->link, results, count + 1, err);
    if (status == KZ_OK)
        *left = (size_t)kz__pg_int(results[count], 0, 0);
    kz__pg_clear(results, count + 1);
    return status;
}

static void rollback(kz__far *f)
{
    kz__postgres *p = (kz__postgres *)f;
    roll_back(p);
    kz__pg_leave(p->link);
}

const kz__far_store kz__postgres_store = {.begin = begin, .ask = ask, .commit = commit, .rollback = rollback};
