/* http://, https:// and http+unix:// (a Unix socket): a lease server, or several that share a store. Here are the
 * questions; what the answers must be is in http_answer.c, and how they travel in http_link.c. */
#include "core/error.h"
#include "core/values.h"
#include "sources/all.h"
#include "sources/http_source.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- refusals */

static kz_status status_of(int http, const kz__http_problem *problem)
{
    switch (http) {
    case 400:
        return KZ_INVALID;
    case 401:
    case 403:
        return KZ_FORBIDDEN;
    case 404:
        return KZ_NOT_FOUND;
    case 408:
        return KZ_UNAVAILABLE;
    case 409:
        return KZ_CONFLICT;
    case 429:
    case 503:
        return problem->no_free_node ? KZ_NO_FREE_NODE : KZ_UNAVAILABLE;
    default:
        return http >= 500 ? KZ_UNAVAILABLE : KZ_STORE;
    }
}

kz_status kz__http_refused(const kz__http *source, const kz__http_answer *answer, kz_error *err)
{
    kz__http_problem problem;
    kz__http_problem_read(answer->body, answer->length, &problem);
    kz__http_link_hide(source->link, problem.text);
    kz_status status = status_of(answer->status, &problem);
    const char *advice = answer->status == 401 ? " (give the token with ?token-file= or KAZAHANA_TOKEN)"
                         : status == KZ_STORE  ? " (is this a kazahana lease server?)"
                                               : "";
    return kz__fail(err, status, "%s answered %d%s%s%s", answer->from, answer->status, *problem.text ? ": " : "",
                    problem.text, advice);
}

kz_status kz__http_nonsense(const kz__http_answer *answer, const kz_error *why, kz_error *err)
{
    return kz__fail(err, why->status, "%s: %s", answer->from, why->message);
}

/* ---------------------------------------------------------------------------------------------------- acquire */

/* The request's ID as hex; NULL for one of zeros, which is none. */
static const char *request_text(const kz_acquire *request, char text[static KZ__HTTP_REQUEST_SIZE])
{
    uint8_t any = 0;
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++) {
        any |= request->request_id[i];
        snprintf(text + 2 * i, 3, "%02x", request->request_id[i]);
    }
    return any ? text : NULL;
}

/* NULL: nothing to tell. */
static json_t *usage_json(const kz_usage *u)
{
    if (!u || !(u->ids | u->fenced | u->unfenced | u->exhausted | u->clock_back))
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "ids", (json_int_t)u->ids, "fenced", (json_int_t)u->fenced,
                     "unfenced", (json_int_t)u->unfenced, "exhausted", (json_int_t)u->exhausted, "clockBack",
                     (json_int_t)u->clock_back);
}

/* The caller frees the text. */
static kz_status acquire_body(const kz_acquire *request, const char *service, const char *request_id, char **text,
                              kz_error *err)
{
    json_t *meta = NULL;
    if (request->holder && *request->holder) {
        if (strlen(request->holder) >= KZ_HOLDER_SIZE)
            return kz__fail(err, KZ_INVALID, "a holder's description has at most %d bytes, not %zu", KZ_HOLDER_SIZE - 1,
                            strlen(request->holder));
        meta = json_loads(request->holder, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(meta)) {
            json_decref(meta);
            return kz__fail(err, KZ_INVALID, "a holder's description must be a JSON object of texts");
        }
    }
    json_t *body = json_pack("{s:s, s:I, s:o*, s:s*, s:o*}", "serviceId", service, "throughputPerMs",
                             (json_int_t)request->throughput_per_ms, "meta", meta, "requestId", request_id, "used",
                             usage_json(request->used));
    *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return *text ? KZ_OK : kz__fail(err, KZ_NO_MEMORY, "no memory for a request");
}

/* A layout that was asked for must be the service's. One block for more than a usual block's throughput is higher than
 * usual: its sequence has more bits, and its node fewer. */
static kz_status check_layout(const kz__http *source, const kz_acquire *request, const char *service,
                              const kz_lease *lease, kz_error *err)
{
    const kz_layout *want = &source->params.layout;
    if (!source->params.layout_given)
        return KZ_OK;
    bool higher = lease->seq_bits > want->seq_bits && request->throughput_per_ms > UINT64_C(1) << want->seq_bits;
    if (lease->epoch_ms == want->epoch_ms && lease->time_bits == want->time_bits &&
        lease->node_bits + lease->seq_bits == want->node_bits + want->seq_bits &&
        (lease->seq_bits == want->seq_bits || higher))
        return KZ_OK;
    char wanted[KZ_LAYOUT_TEXT_SIZE], granted[KZ_LAYOUT_TEXT_SIZE];
    kz_layout_text(want, wanted);
    kz_layout_text(&(kz_layout){.epoch_ms = lease->epoch_ms,
                                .unit_ms = 1,
                                .time_bits = lease->time_bits,
                                .node_bits = lease->node_bits,
                                .seq_bits = lease->seq_bits},
                   granted);
    return kz__fail(err, KZ_MISMATCH, "service %s has layout %s, not %s: leave the layout out, or use another service",
                    service, granted, wanted);
}

static kz_status send_release(kz__http *source, const kz_release *release, const char *service, kz_error *err)
{
    char path[64 + KZ_SERVICE_SIZE];
    kz__http_answer answer;
    snprintf(path, sizeof path, "/lease/%" PRIu32 "?serviceId=%s", release->id, service);
    json_t *json = json_pack("{s:s, s:I, s:o*}", "signature", release->signature, "timestamp",
                             (json_int_t)release->timestamp_ms, "used", usage_json(release->used));
    char *body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!body)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a request");
    kz_status status = kz__http_send(source->link, "DELETE", path, body, &answer, err);
    free(body);
    if (status || answer.status == 204 || answer.status == 200)
        return status;
    return kz__http_refused(source, &answer, err);
}

/* Leases that cannot be used go back at once: a program that is started again and again with the wrong layout would
 * use up the machine IDs. */
static void give_back(kz__http *source, const kz_grant *grant, const char *service)
{
    kz_status status = KZ_OK;
    for (size_t i = 0; i < grant->count && status == KZ_OK; i++) {
        char signature[KZ_SIGNATURE_SIZE];
        const kz_lease *lease = &grant->leases[i];
        kz_release_sign(lease->secret, lease->id, grant->source_ms, signature);
        kz_release release = {.id = lease->id, .timestamp_ms = grant->source_ms, .signature = signature};
        status = send_release(source, &release, service, NULL);
    }
}

static kz_status http_acquire(void *self, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    kz__http *source = self;
    const char *service = NULL;
    char id_text[KZ__HTTP_REQUEST_SIZE], *body = NULL;
    const char *id = request_text(request, id_text);
    kz__http_answer answer;
    kz_error why;
    kz_grant *read = NULL;
    kz_status status = kz__table_service(&source->params, request->service, &service, err);
    if (status == KZ_OK)
        status = acquire_body(request, service, id, &body, err);
    if (status == KZ_OK)
        status = kz__http_send(source->link, "POST", "/lease", body, &answer, err);
    free(body);
    if (status)
        return status;
    if (answer.status != 200)
        return kz__http_refused(source, &answer, err);
    if (!(read = calloc(1, sizeof *read)))
        return kz__fail(err, KZ_NO_MEMORY, "no memory for an answer");
    status = kz__http_grant_read(answer.body, answer.length, id, read, &why);
    if (status)
        status = kz__http_nonsense(&answer, &why, err);
    else if ((status = check_layout(source, request, service, &read->leases[0], err)))
        give_back(source, read, service);
    else
        kz__grant_copy(grant, read);
    explicit_bzero(read, sizeof *read);
    free(read);
    return status;
}

static kz_status http_release(void *self, const kz_release *release, kz_error *err)
{
    kz__http *source = self;
    const char *service = NULL;
    kz_status status = kz__table_service(&source->params, release->service, &service, err);
    if (status)
        return status;
    /* It goes into JSON as it is. */
    if (!release->signature || strlen(release->signature) != KZ_SIGNATURE_SIZE - 1 ||
        strspn(release->signature, "0123456789abcdefABCDEF") != KZ_SIGNATURE_SIZE - 1)
        return kz__fail(err, KZ_INVALID, "a release is signed with %d hex digits", KZ_SIGNATURE_SIZE - 1);
    return send_release(source, release, service, err);
}

/* ------------------------------------------------------------------------------------------------------- open */

static void http_close(void *self, bool forked)
{
    kz__http *source = self;
    if (!source)
        return;
    kz__http_link_free(source->link, forked);
    free(source);
}

static kz_status read_params(const kz__url *url, const kz_source_options *options, kz__table_params *params,
                             kz_error *err)
{
    static const char *const known[] = {"token-file", "token", "cacert", "service", NULL};
    kz_status status = kz__url_only(url, known, err);
    if (status)
        return status;
    const char *opener = options->service && *options->service ? options->service : "default";
    const char *service = kz__url_param(url, "service");
    service = service ? service : opener;
    if ((status = kz__service_name_check(opener, err)) || (status = kz__service_name_check(service, err)))
        return status;
    *params = (kz__table_params){.lease_ms = KZ__LEASE_MS_DEFAULT, .layout_given = options->layout != NULL};
    params->layout = options->layout ? *options->layout : *kz_layout_preset(0);
    strcpy(params->opener, opener);
    strcpy(params->service, service);
    /* A layout that cannot be leased is known without asking. */
    kz__service probe;
    return kz__service_init(&probe, service, &params->layout, params->lease_ms, err);
}

/* Nobody is asked anything yet: a server that is down now may be up for the first acquire. */
static kz_status http_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                           kz_error *err)
{
    kz__url url;
    kz__http_address address;
    kz__http *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = read_params(&url, options, &source->params, err);
    if (status == KZ_OK)
        status = kz__http_address_read(&url, options->timeout_ms, &address, err);
    if (status == KZ_OK)
        status = kz__http_link_new(&source->link, &address, err);
    explicit_bzero(&url, sizeof url);
    explicit_bzero(&address, sizeof address);
    if (status) {
        http_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = source->params.layout};
    *out = source;
    return KZ_OK;
}

#define OPS(name)                                                                                                      \
    {                                                                                                                  \
        .struct_size = sizeof(kz_source_ops), .scheme = name, .open = http_open, .acquire = http_acquire,              \
        .release = http_release, .now = kz__http_now, .list = kz__http_list, .health = kz__http_health,                \
        .close = http_close                                                                                            \
    }

const kz_source_ops kz__source_http = OPS("http");
const kz_source_ops kz__source_https = OPS("https");
const kz_source_ops kz__source_http_unix = OPS("http+unix");
