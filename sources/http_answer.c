/* What a lease server answers, read without believing any of it: every field has its type and its range. */
#include "sources/http_answer.h"
#include "core/error.h"
#include "core/values.h"
#include "sources/table_params.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_MAX   INT64_C(253402300799999) /* the end of the year 9999 */
#define NODE_MAX 32
#define SEQ_MAX  32

/* ---------------------------------------------------------------------------------------------------- fields */

static json_t *load(const char *text, size_t length, kz_error *err)
{
    json_error_t why;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(root))
        return root;
    kz__fail(err, KZ_STORE, "the answer is not %s: is this a kazahana lease server?",
             root ? "a JSON object" : "valid JSON");
    json_decref(root);
    return NULL;
}

static kz_status wrong(const char *name, kz_error *err)
{
    return kz__fail(err, KZ_STORE, "the answer's %s is missing, of the wrong type or out of range", name);
}

/* An integer from `min` to `max`. Where it is absent it is `*number` already, if `optional`. */
static kz_status read_integer(const json_t *object, const char *name, bool optional, int64_t min, int64_t max,
                              int64_t *number, kz_error *err)
{
    const json_t *value = json_object_get(object, name);
    if (!value && optional)
        return KZ_OK;
    if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max)
        return wrong(name, err);
    *number = json_integer_value(value);
    return KZ_OK;
}

static kz_status read_bits(const json_t *object, const char *name, int64_t min, int64_t max, uint8_t *bits,
                           kz_error *err)
{
    int64_t number = 0;
    kz_status status = read_integer(object, name, false, min, max, &number, err);
    if (status == KZ_OK)
        *bits = (uint8_t)number;
    return status;
}

/* Copies as much as fits, without a part of a character at the end. */
static void copy_text(char *to, size_t room, const char *from)
{
    size_t length = strlen(from);
    if (length >= room) {
        length = room - 1;
        while (length && ((unsigned char)from[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Also those from U+0080 to U+009F. */
void kz__http_one_line(char *text)
{
    char *out = text;
    for (const unsigned char *in = (const unsigned char *)text; *in; in++) {
        if (in[0] == 0xc2 && in[1] >= 0x80 && in[1] <= 0x9f)
            in++;
        else if (*in >= 0x20 && *in != 0x7f)
            *out++ = (char)*in;
    }
    *out = '\0';
}

/* ----------------------------------------------------------------------------------------------------- leases */

static kz_status read_secret(const json_t *object, kz_lease *lease, kz_error *err)
{
    const char *secret = json_string_value(json_object_get(object, "secret"));
    size_t length = secret ? strlen(secret) : 0;
    if (!length || length >= sizeof lease->secret)
        return wrong("secret", err);
    memcpy(lease->secret, secret, length + 1);
    return KZ_OK;
}

static kz_status read_layout(const json_t *object, kz_lease *lease, kz_error *err)
{
    kz_status status = read_integer(object, "customEpoch", false, 0, MS_MAX, &lease->epoch_ms, err);
    if (status == KZ_OK)
        status = read_bits(object, "bitReserve", 0, 62, &lease->reserved_bits, err);
    if (status == KZ_OK)
        status = read_bits(object, "bitTs", 1, 63, &lease->time_bits, err);
    if (status == KZ_OK)
        status = read_bits(object, "bitId", 1, NODE_MAX, &lease->node_bits, err);
    if (status == KZ_OK)
        status = read_bits(object, "bitSeq", 0, SEQ_MAX, &lease->seq_bits, err);
    if (status)
        return status;
    unsigned sum = (unsigned)lease->reserved_bits + lease->time_bits + lease->node_bits + lease->seq_bits;
    if (sum != 64)
        return kz__fail(err, KZ_STORE, "the answer's leases have %u bits in all, not 64", sum);
    return KZ_OK;
}

/* Both ends of the twin's window, or neither. */
static kz_status read_twin(const json_t *object, kz_lease *lease, kz_error *err)
{
    if (!json_object_get(object, "fallbackCreated") && !json_object_get(object, "fallbackExpired")) {
        lease->fallback_created_ms = lease->fallback_expired_ms = lease->expired_ms;
        return KZ_OK;
    }
    kz_status status = read_integer(object, "fallbackCreated", false, 0, MS_MAX, &lease->fallback_created_ms, err);
    if (status == KZ_OK)
        status = read_integer(object, "fallbackExpired", false, lease->fallback_created_ms, MS_MAX,
                              &lease->fallback_expired_ms, err);
    return status;
}

static kz_status read_lease(const json_t *object, kz_lease *lease, kz_error *err)
{
    int64_t id = 0;
    *lease = (kz_lease){0};
    kz_status status = read_layout(object, lease, err);
    /* The upper half of the machine IDs is for fallback, and nobody's lease. */
    if (status == KZ_OK)
        status = read_integer(object, "id", false, 0, (INT64_C(1) << (lease->node_bits - 1)) - 1, &id, err);
    lease->id = (uint32_t)id;
    if (status == KZ_OK)
        status = read_integer(object, "created", false, 0, MS_MAX - 1, &lease->created_ms, err);
    if (status == KZ_OK)
        status = read_integer(object, "expired", false, lease->created_ms + 1, MS_MAX, &lease->expired_ms, err);
    if (status == KZ_OK)
        status = read_twin(object, lease, err);
    if (status == KZ_OK)
        status = read_secret(object, lease, err);
    return status;
}

/* Leases of one answer are of one layout, though node and sequence bits may be divided differently, and apart. */
static kz_status check_pair(const kz_lease *a, const kz_lease *b, kz_error *err)
{
    if (a->epoch_ms != b->epoch_ms || a->reserved_bits != b->reserved_bits || a->time_bits != b->time_bits)
        return kz__fail(err, KZ_STORE, "the answer's leases are of different layouts");
    uint64_t a_lo = (uint64_t)a->id << a->seq_bits, a_hi = a_lo + (UINT64_C(1) << a->seq_bits);
    uint64_t b_lo = (uint64_t)b->id << b->seq_bits, b_hi = b_lo + (UINT64_C(1) << b->seq_bits);
    if (a_lo < b_hi && b_lo < a_hi)
        return kz__fail(err, KZ_STORE, "the answer's leases overlap: machine IDs %" PRIu32 " and %" PRIu32, a->id,
                        b->id);
    return KZ_OK;
}

static kz_status read_leases(const json_t *root, kz_grant *grant, kz_error *err)
{
    const json_t *list = json_object_get(root, "leases");
    size_t count = json_array_size(list);
    if (!count || count > KZ_GRANT_LEASES_MAX)
        return wrong("list of leases", err);
    for (size_t i = 0; i < count; i++) {
        kz_status status = read_lease(json_array_get(list, i), &grant->leases[i], err);
        for (size_t k = 0; status == KZ_OK && k < i; k++)
            status = check_pair(&grant->leases[k], &grant->leases[i], err);
        if (status)
            return status;
    }
    grant->count = count;
    return KZ_OK;
}

/* A server that numbers its answers repeats the request's ID too; one that knows neither is believed to answer us. Who
 * gave no ID cannot tell. */
static kz_status check_request(const json_t *root, const char *request, kz_error *err)
{
    const json_t *value = json_object_get(root, "requestId");
    const char *theirs = json_string_value(value);
    bool ours =
        value ? request && theirs && strcmp(theirs, request) == 0 : !request || !json_object_get(root, "generation");
    if (ours)
        return KZ_OK;
    return kz__fail(err, KZ_UNAVAILABLE,
                    "the answer is to somebody else's request and was thrown away: a proxy in between mixes them up");
}

/* The source's time: without it, the newest lease's beginning, which cannot be ahead of it. A lease that is over by
 * then would only be asked for again and again. */
static kz_status read_time(const json_t *root, kz_grant *grant, kz_error *err)
{
    for (size_t i = 0; i < grant->count; i++)
        if (grant->leases[i].created_ms > grant->source_ms)
            grant->source_ms = grant->leases[i].created_ms;
    kz_status status = read_integer(root, "serverTime", true, 0, MS_MAX, &grant->source_ms, err);
    for (size_t i = 0; status == KZ_OK && i < grant->count; i++)
        if (grant->leases[i].expired_ms <= grant->source_ms)
            status = kz__fail(err, KZ_STORE, "the answer's lease of machine ID %" PRIu32 " is over already",
                              grant->leases[i].id);
    return status;
}

kz_status kz__http_grant_read(const char *text, size_t length, const char *request, kz_grant *grant, kz_error *err)
{
    json_t *root = load(text, length, err);
    if (!root)
        return KZ_STORE;
    int64_t generation = 0;
    kz_status status = KZ_OK;
    kz_grant *read = calloc(1, sizeof *read);
    if (!read)
        status = kz__fail(err, KZ_NO_MEMORY, "no memory for an answer");
    if (status == KZ_OK)
        status = check_request(root, request, err);
    if (status == KZ_OK)
        status = read_leases(root, read, err);
    if (status == KZ_OK)
        status = read_time(root, read, err);
    if (status == KZ_OK)
        status = read_integer(root, "generation", true, 0, INT64_MAX, &generation, err);
    if (status == KZ_OK) {
        read->generation = (uint64_t)generation;
        kz__grant_copy(grant, read);
    }
    if (read)
        explicit_bzero(read->leases, sizeof read->leases);
    free(read);
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------------------------------ time, table, health */

kz_status kz__http_time_read(const char *text, size_t length, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    json_t *root = load(text, length, err);
    if (!root)
        return KZ_STORE;
    int64_t ms = 0, number = 0;
    kz_status status = read_integer(root, "serverTime", false, 0, MS_MAX, &ms, err);
    if (status == KZ_OK)
        status = read_integer(root, "generation", true, 0, INT64_MAX, &number, err);
    if (status == KZ_OK) {
        *source_ms = ms;
        *generation = (uint64_t)number;
    }
    json_decref(root);
    return status;
}

/* The holder as its server has it: an object, or a text. */
static kz_status read_holder(const json_t *line, kz_lease_info *info, kz_error *err)
{
    const json_t *holder = json_object_get(line, "meta");
    if (!holder || json_is_null(holder))
        return KZ_OK;
    if (json_is_string(holder)) {
        copy_text(info->holder, sizeof info->holder, json_string_value(holder));
        return KZ_OK;
    }
    char *text = json_is_object(holder) ? json_dumps(holder, JSON_COMPACT) : NULL;
    if (!text)
        return wrong("meta", err);
    copy_text(info->holder, sizeof info->holder, text);
    free(text);
    return KZ_OK;
}

/* null: never, or not known. */
static kz_status read_line_time(const json_t *line, const char *name, int64_t *unix_ms, kz_error *err)
{
    if (json_is_null(json_object_get(line, name)))
        return KZ_OK;
    return read_integer(line, name, false, 0, MS_MAX, unix_ms, err);
}

static kz_status read_line(const json_t *line, kz_lease_info *info, kz_error *err)
{
    int64_t id = 0, nodes = 1, node_bits = 0, seq_bits = 0;
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const char *service = json_string_value(json_object_get(line, "service"));
    *info = (kz_lease_info){.expired_ms = INT64_MAX};
    if (!service || kz__service_name_check(service, NULL))
        return wrong("service", err);
    copy_text(info->service, sizeof info->service, service);
    kz_status status = read_integer(line, "id", false, 0, UINT32_MAX, &id, err);
    if (status == KZ_OK)
        status = read_integer(line, "nodes", true, 1, UINT32_MAX, &nodes, err);
    if (status == KZ_OK)
        status = read_integer(line, "bitId", true, 1, 63, &node_bits, err);
    if (status == KZ_OK)
        status = read_integer(line, "bitSeq", true, 0, 63, &seq_bits, err);
    if (status == KZ_OK)
        status = read_line_time(line, "created", &info->created_ms, err);
    if (status == KZ_OK)
        status = read_line_time(line, "expired", &info->expired_ms, err);
    info->fallback_created_ms = info->fallback_expired_ms = info->expired_ms;
    if (status == KZ_OK)
        status = read_line_time(line, "fallbackCreated", &info->fallback_created_ms, err);
    if (status == KZ_OK)
        status = read_line_time(line, "fallbackExpired", &info->fallback_expired_ms, err);
    info->kind = kind && strcmp(kind, "reserved") == 0 ? KZ_LINE_RESERVED : KZ_LINE_LEASE;
    info->id = (uint32_t)id;
    info->nodes = (uint32_t)nodes;
    info->node_bits = (uint8_t)node_bits;
    info->seq_bits = (uint8_t)seq_bits;
    return status ? status : read_holder(line, info, err);
}

kz_status kz__http_page_read(const char *text, size_t length, kz_lease_visit visit, void *ctx, bool *more,
                             char cursor[static KZ__HTTP_CURSOR_SIZE], kz_error *err)
{
    json_t *root = load(text, length, err);
    if (!root)
        return KZ_STORE;
    const json_t *lines = json_object_get(root, "leases"), *next = json_object_get(root, "next");
    kz_status status = json_is_array(lines) ? KZ_OK : wrong("list of leases", err);
    const char *follows = next && !json_is_null(next) ? json_string_value(next) : "";
    if (status == KZ_OK && (!follows || strlen(follows) >= KZ__HTTP_CURSOR_SIZE))
        status = wrong("next", err);
    for (size_t i = 0; status == KZ_OK && *more && i < json_array_size(lines); i++) {
        kz_lease_info info;
        status = read_line(json_array_get(lines, i), &info, err);
        if (status == KZ_OK)
            *more = visit(ctx, &info);
    }
    if (status == KZ_OK)
        strcpy(cursor, follows);
    json_decref(root);
    return status;
}

kz_status kz__http_health_read(const char *text, size_t length, kz_source_health *health, kz_error *err)
{
    json_t *root = load(text, length, err);
    if (!root)
        return KZ_STORE;
    kz_source_health h = *health;
    const json_t *store = json_object_get(json_object_get(root, "components"), "store");
    int64_t out = (int64_t)h.leases_out, unused = (int64_t)h.nodes_free;
    kz_status status = read_integer(store, "leases", true, 0, INT64_MAX, &out, err);
    if (status == KZ_OK)
        status = read_integer(store, "nodesFree", true, 0, INT64_MAX, &unused, err);
    if (status == KZ_OK)
        status = read_integer(store, "leaseMs", true, KZ__LEASE_MS_MIN, KZ__LEASE_MS_MAX, &h.lease_ms, err);
    const json_t *durable = json_object_get(store, "durable");
    if (json_is_boolean(durable)) {
        h.durable = json_is_true(durable);
        h.note[0] = '\0';
    }
    const char *note = json_string_value(json_object_get(store, "note"));
    const char *layout = json_string_value(json_object_get(store, "layout"));
    if (note) {
        copy_text(h.note, sizeof h.note, note);
        kz__http_one_line(h.note);
    }
    if (status == KZ_OK && layout && kz_layout_parse(layout, &h.layout, NULL))
        status = wrong("layout", err);
    h.leases_out = (uint64_t)out;
    h.nodes_free = (uint64_t)unused;
    if (status == KZ_OK)
        *health = h;
    json_decref(root);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- refusals */

void kz__http_problem_read(const char *text, size_t length, kz__http_problem *problem)
{
    *problem = (kz__http_problem){0};
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const char *title = json_string_value(json_object_get(root, "title"));
    const char *detail = json_string_value(json_object_get(root, "detail"));
    const char *type = json_string_value(json_object_get(root, "type"));
    const char *words = kz_status_text(KZ_NO_FREE_NODE);
    problem->no_free_node = (title && strcasestr(title, words)) || (detail && strcasestr(detail, words)) ||
                            (type && strstr(type, "no-machine-id-free"));
    if (!detail || !*detail)
        detail = title ? title : "";
    copy_text(problem->text, sizeof problem->text, detail);
    kz__http_one_line(problem->text);
    json_decref(root);
}
