/* POST /lease, DELETE /lease/{id}, GET /leases and GET /time: the lease table over HTTP. */
#include "server/app.h"
#include "server/log.h"
#include "server/settings_value.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BAD_SERVICE "serviceId must be a text of 1 to 63 of a-z A-Z 0-9 . _ -"

/* ------------------------------------------------------------------------------------------------------ submitting */

http_outcome submit(call *c, store_job *job, void (*done)(store_job *))
{
    if (!job)
        return problem_of(c->reply, KZ_NO_MEMORY, "out of memory");
    job->done = done;
    job->app = c->app;
    job->reply = c->reply;
    if (store_submit(c->app->store, job))
        return HTTP_LATER;
    store_job_free(job);
    return problem(c->reply, 503, "too many requests wait for the store", "try again in a moment");
}

static bool is_known(const json_t *object, const char *const *known, char message[static UNKNOWN_SIZE])
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i]) {
            explain_unknown(name, known, message);
            return false;
        }
    }
    return true;
}

/* The body, an object of fields that are known; NULL: `message` says what is wrong. */
static json_t *read_object(call *c, const char *const *known, char message[static UNKNOWN_SIZE])
{
    json_error_t error;
    json_t *body = json_loadb(c->request->body.at, c->request->body.length, JSON_REJECT_DUPLICATES, &error);
    if (!body)
        snprintf(message, UNKNOWN_SIZE, "the body is not JSON: %s (line %d)", error.text, error.line);
    else if (!json_is_object(body))
        snprintf(message, UNKNOWN_SIZE, "the body must be a JSON object");
    else if (is_known(body, known, message))
        return body;
    json_decref(body);
    return NULL;
}

/* JSON knows no integers: 1520.0 is 1520. Beyond 2^53 nobody can be sure what was meant. */
static bool read_whole(const json_t *value, int64_t min, int64_t max, int64_t *number)
{
    double real = json_is_real(value) ? json_real_value(value) : 0;
    if (json_is_real(value) && (real < -0x1p53 || real > 0x1p53 || real != (double)(int64_t)real))
        return false;
    if (!json_is_number(value))
        return false;
    int64_t read = json_is_real(value) ? (int64_t)real : json_integer_value(value);
    if (read < min || read > max)
        return false;
    *number = read;
    return true;
}

/* What the client did since its last report; all zero without one. */
static bool read_used(const json_t *used, usage *to, char message[static UNKNOWN_SIZE])
{
    static const char *const known[] = {"ids", "fenced", "unfenced", "exhausted", "clockBack", NULL};
    int64_t *const fields[] = {&to->ids, &to->fenced, &to->unfenced, &to->exhausted, &to->clock_back};
    if (used && !json_is_object(used)) {
        snprintf(message, UNKNOWN_SIZE, "used must be an object of numbers");
        return false;
    }
    if (used && !is_known(used, known, message))
        return false;
    for (size_t i = 0; known[i]; i++) {
        const json_t *value = json_object_get(used, known[i]);
        if (value && !read_whole(value, 0, USED_MAX, fields[i])) {
            snprintf(message, UNKNOWN_SIZE, "used.%s must be a whole number from 0 to %" PRId64, known[i], USED_MAX);
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------- acquire */

static void write_lease(http_reply *reply, const kz_lease *l)
{
    http_reply_printf(reply,
                      "{\"id\":%" PRIu32 ",\"created\":%" PRId64 ",\"expired\":%" PRId64
                      ",\"secret\":\"%s\",\"customEpoch\":%" PRId64
                      ",\"bitReserve\":%u,\"bitTs\":%u,\"bitId\":%u,\"bitSeq\":%u,\"fallbackCreated\":%" PRId64
                      ",\"fallbackExpired\":%" PRId64 "}",
                      l->id, l->created_ms, l->expired_ms, l->secret, l->epoch_ms, l->reserved_bits, l->time_bits,
                      l->node_bits, l->seq_bits, l->fallback_created_ms, l->fallback_expired_ms);
}

/* Grants and releases for those who look into something, refusals for everybody: but only some a second. */
static void log_lease(const store_job *job, const char *done, const char *refused, uint32_t id, size_t count)
{
    char node[16], leases[16];
    snprintf(node, sizeof node, "%" PRIu32, id);
    snprintf(leases, sizeof leases, "%zu", count);
    const char *service = *job->service ? job->service : "any";
    if (job->status)
        log_often(LOG_AT_INFO, refused, "service", service, "status", kz_status_name(job->status), "message",
                  job->err.message, NULL);
    else
        log_event(LOG_AT_DEBUG, done, "service", service, "node", node, "leases", leases, "holder", job->holder, NULL);
}

static void acquired(store_job *job)
{
    http_reply *reply = job->reply;
    log_lease(job, "lease-granted", "lease-refused", job->status ? 0 : job->grant->leases[0].id,
              job->status ? 0 : job->grant->count);
    if (job->status) {
        problem_of(reply, job->status, job->err.message);
    } else {
        http_reply_printf(reply, "{\"leases\":[");
        for (size_t i = 0; i < job->grant->count; i++) {
            if (i)
                http_reply_write(reply, ",", 1);
            write_lease(reply, &job->grant->leases[i]);
        }
        http_reply_printf(reply, "],\"serverTime\":%" PRId64 ",\"generation\":%" PRIu64 ",\"requestId\":\"",
                          job->grant->source_ms, job->grant->generation);
        for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
            http_reply_printf(reply, "%02x", job->acquire.request_id[i]);
        http_reply_printf(reply, "\"}");
    }
    http_reply_send(reply);
    store_job_free(job);
}

/* 32 hex digits, or as a UUID is written. */
static bool read_request_id(const char *text, uint8_t id[static KZ_REQUEST_ID_SIZE])
{
    size_t length = strlen(text), digits = 0;
    if (length != 32 && length != 36)
        return false;
    for (size_t i = 0; i < length; i++) {
        int digit = hex_digit(text[i]);
        if (length == 36 && (i == 8 || i == 13 || i == 18 || i == 23)) {
            if (text[i] != '-')
                return false;
            continue;
        }
        if (digit < 0)
            return false;
        uint8_t *byte = &id[digits++ / 2];
        *byte = (uint8_t)(*byte << 4 | digit);
    }
    return digits == 2 * KZ_REQUEST_ID_SIZE;
}

/* Who asks, for people: the object as it came, if all its values are texts and it is short. */
static bool read_meta(const json_t *meta, char holder[static KZ_HOLDER_SIZE])
{
    const char *key;
    json_t *value;
    strcpy(holder, "{}");
    if (!meta)
        return true;
    if (!json_is_object(meta))
        return false;
    json_object_foreach((json_t *)meta, key, value) if (!json_is_string(value)) return false;
    char *text = json_dumps(meta, JSON_COMPACT | JSON_ENSURE_ASCII);
    bool fits = text && strlen(text) < KZ_HOLDER_SIZE;
    if (fits)
        strcpy(holder, text);
    free(text);
    return fits;
}

static bool is_configured(app *a, const char *service)
{
    bool found = strcmp(service, "default") == 0;
    pthread_rwlock_rdlock(&a->reload_lock);
    for (size_t i = 0; i < a->settings->service_count && !found; i++)
        found = strcmp(a->settings->services[i].name, service) == 0;
    pthread_rwlock_unlock(&a->reload_lock);
    return found;
}

/* False: `message` says what is wrong with the request. */
static bool fill_acquire(const json_t *body, store_job *job, char message[static UNKNOWN_SIZE])
{
    const json_t *service = json_object_get(body, "serviceId");
    const json_t *throughput = json_object_get(body, "throughputPerMs");
    const json_t *request = json_object_get(body, "requestId");
    const char *wrong = NULL;
    int64_t per_ms = 1;
    if (service && !(json_is_string(service) && settings_service_name(json_string_value(service))))
        wrong = BAD_SERVICE;
    else if (!read_meta(json_object_get(body, "meta"), job->holder))
        wrong = "meta must be an object of texts, shorter than 256 characters in all";
    else if (throughput && !read_whole(throughput, 1, UINT32_MAX, &per_ms))
        wrong = "throughputPerMs must be a whole number, at least 1";
    else if (!request && getrandom(job->acquire.request_id, KZ_REQUEST_ID_SIZE, 0) != KZ_REQUEST_ID_SIZE)
        wrong = "no random numbers";
    else if (request &&
             (!json_is_string(request) || !read_request_id(json_string_value(request), job->acquire.request_id)))
        wrong = "requestId must be 128 random bits as 32 hex digits";
    if (wrong) {
        snprintf(message, UNKNOWN_SIZE, "%s", wrong);
        return false;
    }
    strcpy(job->service, service ? json_string_value(service) : "default");
    job->acquire.throughput_per_ms = (uint32_t)per_ms;
    return read_used(json_object_get(body, "used"), &job->used, message);
}

http_outcome post_lease(call *c)
{
    static const char *const known[] = {"serviceId", "meta", "throughputPerMs", "requestId", "used", NULL};
    char message[UNKNOWN_SIZE];
    json_t *body = read_object(c, known, message);
    if (!body)
        return problem(c->reply, 400, "not a valid request", "%s", message);
    store_job *job = store_job_new(STORE_ACQUIRE);
    bool good = !job || fill_acquire(body, job, message);
    json_decref(body);
    if (!good) {
        store_job_free(job);
        return problem(c->reply, 400, "not a valid request", "%s", message);
    }
    if (job && !c->app->settings->create_services && !is_configured(c->app, job->service)) {
        problem(c->reply, 404, "no such service", "there is no service \"%s\" here", job->service);
        store_job_free(job);
        return HTTP_DONE;
    }
    return submit(c, job, acquired);
}

/* -------------------------------------------------------------------------------------------------------- release */

static void released(store_job *job)
{
    http_reply *reply = job->reply;
    log_lease(job, "lease-released", "release-refused", job->release.id, 1);
    if (job->status)
        problem_of(reply, job->status, job->err.message);
    else
        http_reply_status(reply, 204);
    http_reply_send(reply);
    store_job_free(job);
}

static bool read_number(http_text text, uint32_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || value > UINT32_MAX)
            return false;
        value = value * 10 + (uint64_t)(text.at[i] - '0');
    }
    *number = (uint32_t)value;
    return text.length && value <= UINT32_MAX;
}

static bool fill_release(const json_t *body, store_job *job, char message[static UNKNOWN_SIZE])
{
    const json_t *signature = json_object_get(body, "signature");
    if (!json_is_string(signature) || json_string_length(signature) >= KZ_SIGNATURE_SIZE ||
        !read_whole(json_object_get(body, "timestamp"), 0, INT64_MAX, &job->release.timestamp_ms)) {
        snprintf(message, UNKNOWN_SIZE, "signature must be 64 hex digits and timestamp whole Unix milliseconds");
        return false;
    }
    strcpy(job->signature, json_string_value(signature));
    return read_used(json_object_get(body, "used"), &job->used, message);
}

http_outcome delete_lease(call *c)
{
    static const char *const known[] = {"signature", "timestamp", "used", NULL};
    char message[UNKNOWN_SIZE], service[KZ_SERVICE_SIZE] = "";
    uint32_t id;
    query_found named = query_value(c->request, "serviceId", service, sizeof service);
    if (named == QUERY_BAD || (named == QUERY_VALUE && !settings_service_name(service)))
        return problem(c->reply, 400, "not a valid request", BAD_SERVICE);
    if (!read_number(c->rest, &id))
        return problem(c->reply, 400, "not a node", "%.*s is not a node",
                       c->rest.length > 60 ? 60 : (int)c->rest.length, c->rest.at);
    json_t *body = read_object(c, known, message);
    if (!body)
        return problem(c->reply, 400, "not a valid request", "%s", message);
    store_job *job = store_job_new(STORE_RELEASE);
    bool good = !job || fill_release(body, job, message);
    json_decref(body);
    if (!good) {
        store_job_free(job);
        return problem(c->reply, 400, "not a valid request", "%s", message);
    }
    if (job) {
        job->release.id = id;
        strcpy(job->service, service);
    }
    return submit(c, job, released);
}

/* ----------------------------------------------------------------------------------------------------- GET /leases */

/* Unix ms; null: never, or not known. */
static void write_time(http_reply *reply, const char *name, int64_t unix_ms)
{
    if (unix_ms == INT64_MAX)
        http_reply_printf(reply, ",\"%s\":null", name);
    else
        http_reply_printf(reply, ",\"%s\":%" PRId64, name, unix_ms);
}

/* The object that was sent; what others wrote into a table need not be one, and is a text then. */
static void write_meta(http_reply *reply, const char *holder)
{
    json_t *meta = json_loads(holder, JSON_REJECT_DUPLICATES, NULL);
    char *text = json_is_object(meta) ? json_dumps(meta, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (text)
        http_reply_printf(reply, "%s", text);
    else
        write_json_text(reply, holder);
    free(text);
    json_decref(meta);
}

static void write_info(http_reply *reply, const kz_lease_info *info)
{
    http_reply_printf(reply, "{\"service\":");
    write_json_text(reply, info->service);
    http_reply_printf(reply, ",\"id\":%" PRIu32, info->id);
    if (info->kind == KZ_LINE_RESERVED)
        http_reply_printf(reply, ",\"kind\":\"reserved\",\"nodes\":%" PRIu32, info->nodes);
    if (info->node_bits)
        http_reply_printf(reply, ",\"bitId\":%u,\"bitSeq\":%u", info->node_bits, info->seq_bits);
    write_time(reply, "created", info->created_ms ? info->created_ms : INT64_MAX);
    write_time(reply, "expired", info->expired_ms);
    write_time(reply, "fallbackCreated", info->fallback_created_ms);
    write_time(reply, "fallbackExpired", info->fallback_expired_ms);
    http_reply_printf(reply, ",\"meta\":");
    write_meta(reply, info->holder);
    http_reply_write(reply, "}", 1);
}

/* One line more than the page holds was asked for: if it came, there is a next page. */
static void listed(store_job *job)
{
    http_reply *reply = job->reply;
    if (job->status) {
        problem_of(reply, job->status, job->err.message);
    } else {
        bool more = job->lease_count == job->lease_limit;
        size_t lines = job->lease_count - more;
        http_reply_printf(reply, "{\"leases\":[");
        for (size_t i = 0; i < lines; i++) {
            if (i)
                http_reply_write(reply, ",", 1);
            write_info(reply, &job->leases[i]);
        }
        if (more) /* a service's name needs no escape */
            http_reply_printf(reply, "],\"next\":\"%s:%" PRIu32 "\"}", job->leases[lines - 1].service,
                              job->leases[lines - 1].id);
        else
            http_reply_printf(reply, "],\"next\":null}");
    }
    http_reply_send(reply);
    store_job_free(job);
}

/* "payments:17" is behind that lease, "payments" at the service's first. */
static bool read_after(char *after, store_job *job)
{
    char *colon = strrchr(after, ':'), *end = NULL;
    if (colon) {
        unsigned long long number = strtoull(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || end - colon > 11)
            return false;
        job->from_id = number < UINT32_MAX ? (uint32_t)number + 1 : UINT32_MAX;
        *colon = '\0';
    }
    if (!settings_service_name(after))
        return false;
    strcpy(job->service, after);
    return true;
}

http_outcome get_leases(call *c)
{
    enum { LIMIT = 1000 };
    char limit[64] = "1000", after[KZ_SERVICE_SIZE + 16] = "";
    uint32_t lines;
    query_found found;
    store_job *job = store_job_new(STORE_LIST);
    if (!job)
        return problem_of(c->reply, KZ_NO_MEMORY, "out of memory");
    const char *wrong = NULL;
    if (query_value(c->request, "limit", limit, sizeof limit) == QUERY_BAD ||
        !read_number((http_text){limit, strlen(limit)}, &lines) || lines < 1 || lines > LIMIT)
        wrong = "limit must be a number from 1 to 1000";
    else if ((found = query_value(c->request, "after", after, sizeof after)) == QUERY_BAD ||
             (found == QUERY_VALUE && !read_after(after, job)))
        wrong = "after must be the text that came as next in the page before";
    if (wrong) {
        store_job_free(job);
        return problem(c->reply, 400, "not a valid request", "%s", wrong);
    }
    job->lease_limit = (size_t)lines + 1;
    return submit(c, job, listed);
}

/* ------------------------------------------------------------------------------------------------------- GET /time */

static void told_time(store_job *job)
{
    http_reply *reply = job->reply;
    if (job->status)
        problem_of(reply, job->status, job->err.message);
    else
        http_reply_printf(reply, "{\"serverTime\":%" PRId64 ",\"generation\":%" PRIu64 "}", job->source_ms,
                          job->generation);
    http_reply_send(reply);
    store_job_free(job);
}

http_outcome get_time(call *c)
{
    return submit(c, store_job_new(STORE_NOW), told_time);
}
