/* The keys and values of a lease table in etcd, and reading them as of one revision.
 *
 *     h                            version, time, generation: put by every write, and compared by it
 *     s/<service>                  a service
 *     o/<service>/<lo>             a row that is out
 *     e/<service>/<end>/<lo>       and where it is in the order of ends
 *     r/<service>/<request>/<lo>   and whose it is
 *     f/<service>/<hi>             a free range: its lo
 *
 * under the prefix. Numbers are of 16 hex digits, so that keys sort as they do. */
#include "core/error.h"
#include "sources/etcd_source.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPS_READ 128 /* of a transaction, by etcd's default */

/* What could not be built must not be sent in part. */
kz_status kz__etcd_memory(kz__etcd *e, kz_error *err)
{
    bool failed = e->no_memory;
    e->no_memory = false;
    return failed ? kz__fail(err, KZ_NO_MEMORY, "%s: no memory for a request", e->name) : KZ_OK;
}

void kz__etcd_append(kz__etcd *e, json_t *array, json_t *item)
{
    e->no_memory |= json_array_append_new(array, item) != 0;
}

json_t *kz__etcd_encoded(const char *text)
{
    unsigned char out[(KZ__ETCD_VALUE_SIZE + 2) / 3 * 4 + 1];
    EVP_EncodeBlock(out, (const unsigned char *)text, (int)strlen(text));
    return json_string((const char *)out);
}

/* "" for what is missing or too long; the zeros of the padding end the text. */
void kz__etcd_decoded(const json_t *value, char *text, size_t room)
{
    size_t length = json_string_length(value);
    int got = -1;
    if (length && length / 4 * 3 < room)
        got = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)json_string_value(value), (int)length);
    text[got > 0 ? got : 0] = '\0';
}

int64_t kz__etcd_number(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text ? (int64_t)strtoull(text, NULL, 10) : 0;
}

__attribute__((format(printf, 3, 4))) void kz__etcd_key(const kz__etcd *e, char out[static KZ__ETCD_KEY_SIZE],
                                                        const char *format, ...)
{
    va_list args;
    int used = snprintf(out, KZ__ETCD_KEY_SIZE, "%s", e->prefix);
    va_start(args, format);
    vsnprintf(out + used, KZ__ETCD_KEY_SIZE - (size_t)used, format, args);
    va_end(args);
}

/* From a key up to another, or that one alone. */
void kz__etcd_want(kz__etcd *e, json_t *ops, const char *from, const char *end, int limit, bool keys_only)
{
    json_t *range = json_pack("{s:o,s:I,s:I,s:b}", "key", kz__etcd_encoded(from), "limit", (json_int_t)limit,
                              "revision", (json_int_t)e->revision, "keys_only", keys_only);
    if (end)
        e->no_memory |= json_object_set_new(range, "range_end", kz__etcd_encoded(end)) != 0;
    kz__etcd_append(e, ops, json_pack("{s:o}", "request_range", range));
}

void kz__etcd_want_row(kz__etcd *e, json_t *ops, const char *service, uint64_t lo)
{
    char at[KZ__ETCD_KEY_SIZE];
    kz__etcd_key(e, at, "o/%s/" KZ__ETCD_HEX, service, lo);
    kz__etcd_want(e, ops, at, NULL, 1, false);
}

/* Free ranges with hi > from. */
void kz__etcd_want_free(kz__etcd *e, json_t *ops, const char *service, uint64_t from, int limit)
{
    char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE];
    kz__etcd_key(e, at, "f/%s/" KZ__ETCD_HEX, service, from + 1);
    kz__etcd_key(e, end, "f/%s/g", service);
    kz__etcd_want(e, ops, at, end, limit, false);
}

/* Ended rows after that one. Ends are never negative. */
void kz__etcd_want_ended(kz__etcd *e, json_t *ops, const char *service, int64_t after_ms, uint64_t lo)
{
    char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE];
    if (after_ms < 0 || lo == UINT64_MAX) {
        after_ms = after_ms < 0 ? 0 : after_ms + 1;
        lo = 0;
    } else {
        lo++;
    }
    kz__etcd_key(e, at, "e/%s/" KZ__ETCD_HEX "/" KZ__ETCD_HEX, service, (uint64_t)after_ms, lo);
    kz__etcd_key(e, end, "e/%s/g", service);
    kz__etcd_want(e, ops, at, end, KZ__SWEEP_ROWS, true);
}

void kz__etcd_hex(const uint8_t *bytes, char text[static 2 * KZ_REQUEST_ID_SIZE + 1])
{
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void kz__etcd_want_request(kz__etcd *e, json_t *ops, const char *service, const uint8_t *request)
{
    char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE], text[2 * KZ_REQUEST_ID_SIZE + 1];
    kz__etcd_hex(request, text);
    kz__etcd_key(e, at, "r/%s/%s/", service, text);
    kz__etcd_key(e, end, "r/%s/%s0", service, text); /* behind the slash */
    kz__etcd_want(e, ops, at, end, 0, true);
}

/* Sends the questions (which it takes over): *kvs is an array with each one's keys. *head: the answer's header. */
kz_status kz__etcd_bring(kz__etcd *e, json_t *ops, json_t **kvs, json_t **head, kz_error *err)
{
    size_t count = json_array_size(ops);
    kz_status status = KZ_OK;
    *kvs = json_array();
    for (size_t at = 0; status == KZ_OK && at < count; at += OPS_READ) {
        json_t *some = json_array(), *answer = NULL, *one;
        for (size_t i = at; i < count && i < at + OPS_READ; i++)
            kz__etcd_append(e, some, json_incref(json_array_get(ops, i)));
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
            kz__etcd_append(e, *kvs, found ? json_incref(found) : json_array());
        }
        json_decref(answer);
    }
    json_decref(ops);
    return status ? status : kz__etcd_memory(e, err);
}

kz_status kz__etcd_nonsense(const kz__etcd *e, const char *what, kz_error *err)
{
    return kz__fail(err, KZ_STORE, "%s: %s under %s makes no sense", e->name, what, e->prefix);
}

/* The last number of a key. */
uint64_t kz__etcd_key_number(const json_t *kv, char text[static KZ__ETCD_KEY_SIZE])
{
    kz__etcd_decoded(json_object_get(kv, "key"), text, KZ__ETCD_KEY_SIZE);
    const char *slash = strrchr(text, '/');
    return slash ? strtoull(slash + 1, NULL, 16) : 0;
}

void kz__etcd_row_text(const kz__row *row, char text[static KZ__ETCD_VALUE_SIZE])
{
    char request[2 * KZ_REQUEST_ID_SIZE + 1];
    kz__etcd_hex(row->request, request);
    snprintf(text, KZ__ETCD_VALUE_SIZE, "%" PRIx64 " %" PRId64 " %" PRId64 " %" PRIu32 " %u %u %d %" PRIu32 " %s %s %s",
             row->hi, row->start_ms, row->end_ms, row->node, row->node_bits, row->seq_bits, row->released, row->asked,
             request, row->secret, row->holder);
}

kz_status kz__etcd_read_row(const kz__etcd *e, const json_t *kv, kz__row *row, kz_error *err)
{
    char at[KZ__ETCD_KEY_SIZE], text[KZ__ETCD_VALUE_SIZE], request[2 * KZ_REQUEST_ID_SIZE + 1];
    int released = 0, rest = 0;
    *row = (kz__row){.lo = kz__etcd_key_number(kv, at)};
    kz__etcd_decoded(json_object_get(kv, "value"), text, sizeof text);
    _Static_assert(KZ_SECRET_SIZE == 65 && KZ_REQUEST_ID_SIZE == 16, "the widths below");
    int got =
        sscanf(text, "%" SCNx64 " %" SCNd64 " %" SCNd64 " %" SCNu32 " %" SCNu8 " %" SCNu8 " %d %" SCNu32 " %32s %64s%n",
               &row->hi, &row->start_ms, &row->end_ms, &row->node, &row->node_bits, &row->seq_bits, &released,
               &row->asked, request, row->secret, &rest);
    if (got != 10 || strlen(request) != 32 || !row->node_bits || row->node_bits + row->seq_bits > 62 ||
        row->hi <= row->lo || row->end_ms < 0)
        return kz__etcd_nonsense(e, at, err);
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        sscanf(request + 2 * i, "%2" SCNx8, &row->request[i]);
    row->released = released != 0;
    snprintf(row->holder, sizeof row->holder, "%s", text[rest] ? text + rest + 1 : "");
    return KZ_OK;
}

kz_status kz__etcd_read_service(const kz__etcd *e, const json_t *kv, const char *name, kz__service *out,
                                uint64_t *heights, kz_error *err)
{
    char text[KZ__ETCD_VALUE_SIZE];
    kz__service s = {0};
    int high = 0, granted = 0, rest = 0;
    kz__etcd_decoded(json_object_get(kv, "value"), text, sizeof text);
    int got = sscanf(text,
                     "%" SCNd64 " %" SCNu8 " %" SCNu8 " %" SCNu8 " %" SCNu8 " %d %" SCNu32 " %" SCNd64 " %d %" SCNx64
                     " %" SCNx64 " %" SCNd64 " %" SCNu8 "%n",
                     &s.epoch_ms, &s.reserved_bits, &s.time_bits, &s.node_bits, &s.seq_bits, &high, &s.max_throughput,
                     &s.lease_ms, &granted, &s.cursor, heights, &s.settled_ms, &s.part, &rest);
    unsigned bits = kz__service_slot_bits(&s);
    if (got != 13 || !s.node_bits || bits > 62 || bits + s.time_bits + s.reserved_bits != 64)
        return kz__etcd_nonsense(e, name, err);
    s.high_blocks = high;
    s.granted = granted;
    strcpy(s.name, name);
    *out = s;
    return kz__aside_parse(text[rest] ? text + rest + 1 : "", out->asides, err);
}
