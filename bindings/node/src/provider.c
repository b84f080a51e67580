/* A provider written in JavaScript as a source, js:N. The keeper's thread sends an errand to the loop that the provider
 * lives on and waits, with a limit, for its promise to be kept. An errand is counted: the answer may come later than
 * anybody waits for it. */
#include "addon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ACQUIRE, RELEASE, NOW };

struct kzn_errand {
    kzn_message message;
    kzn_link *link;
    _Atomic unsigned refs;
    int kind;
    uint32_t provider;
    /* The question. */
    char service[KZ_SERVICE_SIZE], holder[KZ_HOLDER_SIZE], request_id[2 * KZ_REQUEST_ID_SIZE + 1];
    char signature[KZ_SIGNATURE_SIZE];
    uint32_t throughput_per_ms, id;
    int64_t timestamp_ms;
    /* The answer, under the link's lock. */
    pthread_cond_t changed;
    bool answered;
    kz_status status;
    kz_error err;
    kz_grant grant;
    kzn_errand *next, **at;
};

/* A provider that is in use: which loop it lives on. */
typedef struct provider {
    uint32_t number;
    kzn_link *link;
    bool has_now;
    struct provider *next;
} provider;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static provider *providers;
static uint32_t numbers;

/* ---------------------------------------------------------------------------------------------------- errands */

static void drop(kzn_errand *errand)
{
    if (atomic_fetch_sub(&errand->refs, 1) > 1)
        return;
    pthread_cond_destroy(&errand->changed);
    kzn_link_drop(errand->link);
    free(errand);
}

/* The link's lock is held. The first answer counts. */
static void settle(kzn_errand *errand, kz_status status)
{
    if (errand->answered)
        return;
    errand->answered = true;
    errand->status = status;
    pthread_cond_signal(&errand->changed);
}

void kzn_errands_end(kzn_link *link)
{
    for (kzn_errand *errand = link->errands; errand; errand = errand->next) {
        kzn_fail(&errand->err, KZ_UNAVAILABLE, "the thread that the provider lives on has ended");
        settle(errand, KZ_UNAVAILABLE);
    }
}

static void errand_lost(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    drop(data);
}

static napi_value question(napi_env env, const kzn_errand *errand)
{
    napi_value object;
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_text(env, object, "service", errand->service);
    if (errand->kind == ACQUIRE) {
        kzn_set_text(env, object, "holder", errand->holder);
        kzn_set_text(env, object, "requestId", errand->request_id);
        kzn_set_number(env, object, "throughputPerMs", errand->throughput_per_ms);
    } else if (errand->kind == RELEASE) {
        kzn_set_number(env, object, "id", errand->id);
        kzn_set_number(env, object, "timestamp", (double)errand->timestamp_ms);
        kzn_set_text(env, object, "signature", errand->signature);
    }
    return object;
}

/* On the loop: dispatch(provider, kind, question, errand). The external keeps the errand until it is collected. */
static void deliver(kzn_message *message, napi_env env)
{
    kzn_errand *errand = (kzn_errand *)message;
    napi_value dispatch, undefined, args[4], ignored;
    if (!env || napi_create_external(env, errand, errand_lost, NULL, &args[3]) != napi_ok) {
        drop(errand);
        return;
    }
    args[2] = question(env, errand);
    if (args[2] && napi_get_reference_value(env, errand->link->dispatch, &dispatch) == napi_ok &&
        napi_get_undefined(env, &undefined) == napi_ok &&
        napi_create_uint32(env, errand->provider, &args[0]) == napi_ok &&
        napi_create_uint32(env, (uint32_t)errand->kind, &args[1]) == napi_ok)
        napi_call_function(env, undefined, dispatch, 4, args, &ignored);
}

static kzn_errand *new_errand(const provider *p, int kind, kz_error *err)
{
    kzn_errand *errand = calloc(1, sizeof *errand);
    if (!errand) {
        kzn_fail(err, KZ_NO_MEMORY, "no memory for an errand");
        return NULL;
    }
    errand->message.deliver = deliver;
    errand->link = p->link;
    errand->kind = kind;
    errand->provider = p->number;
    atomic_store(&errand->refs, 1);
    kzn_link_keep(p->link);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&errand->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return errand;
}

/* Sends it and waits. Drops it, after `read` has seen the answer. */
static kz_status send_and_wait(kzn_errand *errand, int64_t limit_ms, kz_grant *grant, kz_error *err)
{
    kzn_link *link = errand->link;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += limit_ms % 1000 * 1000000;
    until.tv_sec += limit_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;

    pthread_mutex_lock(&link->lock);
    errand->next = link->errands;
    errand->at = &link->errands;
    if (errand->next)
        errand->next->at = &errand->next;
    link->errands = errand;
    atomic_fetch_add(&errand->refs, 1);
    if (!link->alive ||
        napi_call_threadsafe_function(link->to_loop, &errand->message, napi_tsfn_nonblocking) != napi_ok) {
        atomic_fetch_sub(&errand->refs, 1);
        kzn_fail(&errand->err, KZ_UNAVAILABLE, "the thread that the provider lives on has ended");
        settle(errand, KZ_UNAVAILABLE);
    }
    while (!errand->answered && pthread_cond_timedwait(&errand->changed, &link->lock, &until) == 0)
        ;
    if (!errand->answered) {
        kzn_fail(&errand->err, KZ_UNAVAILABLE, "the provider did not answer within %lld ms", (long long)limit_ms);
        settle(errand, KZ_UNAVAILABLE);
    }
    kz_status status = errand->status;
    if (status && err)
        *err = errand->err;
    if (!status && grant)
        *grant = errand->grant;
    *errand->at = errand->next;
    if (errand->next)
        errand->next->at = errand->at;
    pthread_mutex_unlock(&link->lock);
    drop(errand);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- answers */

static kzn_errand *errand_of(napi_env env, napi_value value)
{
    void *data = NULL;
    KZN_TRY(napi_get_value_external(env, value, &data));
    return data;
}

/* The numbers of a lease as lib/answer.js has checked and ordered them. */
enum { ID, CREATED, EXPIRED, TWIN_CREATED, TWIN_EXPIRED, EPOCH, RESERVED, TIME, NODE, SEQ, PER_LEASE };

static kz_lease make_lease(const double *n)
{
    return (kz_lease){.id = (uint32_t)n[ID],
                      .created_ms = (int64_t)n[CREATED],
                      .expired_ms = (int64_t)n[EXPIRED],
                      .fallback_created_ms = (int64_t)n[TWIN_CREATED],
                      .fallback_expired_ms = (int64_t)n[TWIN_EXPIRED],
                      .epoch_ms = (int64_t)n[EPOCH],
                      .reserved_bits = (uint8_t)n[RESERVED],
                      .time_bits = (uint8_t)n[TIME],
                      .node_bits = (uint8_t)n[NODE],
                      .seq_bits = (uint8_t)n[SEQ]};
}

/* answer(errand, serverTime, generation, numbers, secrets): true if somebody still waited for it. */
static napi_value answer(napi_env env, napi_callback_info info)
{
    napi_value args[5], secret;
    napi_typedarray_type type;
    size_t length = 0, ignored;
    int64_t source_ms = 0, generation = 0;
    void *numbers = NULL;
    kz_grant *grant = calloc(1, sizeof *grant);
    kzn_errand *errand = grant && kzn_args(env, info, 5, args) ? errand_of(env, args[0]) : NULL;
    if (!errand || napi_get_value_int64(env, args[1], &source_ms) != napi_ok ||
        napi_get_value_int64(env, args[2], &generation) != napi_ok ||
        napi_get_typedarray_info(env, args[3], &type, &length, &numbers, NULL, NULL) != napi_ok ||
        type != napi_float64_array || length % PER_LEASE || length / PER_LEASE > KZ_GRANT_LEASES_MAX) {
        free(grant);
        return NULL;
    }
    grant->source_ms = source_ms;
    grant->generation = (uint64_t)generation;
    grant->count = length / PER_LEASE;
    for (size_t i = 0; i < grant->count; i++) {
        grant->leases[i] = make_lease((const double *)numbers + i * PER_LEASE);
        if (napi_get_element(env, args[4], (uint32_t)i, &secret) != napi_ok ||
            napi_get_value_string_utf8(env, secret, grant->leases[i].secret, KZ_SECRET_SIZE, &ignored) != napi_ok) {
            free(grant);
            return NULL;
        }
    }
    napi_value result;
    pthread_mutex_lock(&errand->link->lock);
    bool in_time = !errand->answered;
    if (in_time)
        errand->grant = *grant;
    settle(errand, KZ_OK);
    pthread_mutex_unlock(&errand->link->lock);
    free(grant);
    KZN_TRY(napi_get_boolean(env, in_time, &result));
    return result;
}

/* refuse(errand, status, message) */
static napi_value refuse(napi_env env, napi_callback_info info)
{
    napi_value args[3];
    uint32_t status;
    char message[KZ_MESSAGE_SIZE];
    size_t length;
    if (!kzn_args(env, info, 3, args))
        return NULL;
    kzn_errand *errand = errand_of(env, args[0]);
    KZN_TRY(napi_get_value_uint32(env, args[1], &status));
    KZN_TRY(napi_get_value_string_utf8(env, args[2], message, sizeof message, &length));
    if (!errand || !status)
        return NULL;
    pthread_mutex_lock(&errand->link->lock);
    if (!errand->answered)
        kzn_fail(&errand->err, (kz_status)status, "%s", message);
    settle(errand, (kz_status)status);
    pthread_mutex_unlock(&errand->link->lock);
    return NULL;
}

/* --------------------------------------------------------------------------------------------------- providers */

/* addProvider(hasNow): its number. */
static napi_value add_provider(napi_env env, napi_callback_info info)
{
    napi_value has_now, number;
    provider *p = calloc(1, sizeof *p);
    if (!p || !kzn_args(env, info, 1, &has_now) || napi_get_value_bool(env, has_now, &p->has_now) != napi_ok) {
        free(p);
        return NULL;
    }
    p->link = kzn_link_of(env);
    kzn_link_keep(p->link);
    pthread_mutex_lock(&lock);
    p->number = ++numbers;
    p->next = providers;
    providers = p;
    pthread_mutex_unlock(&lock);
    KZN_TRY(napi_create_uint32(env, p->number, &number));
    return number;
}

/* removeProvider(number): no source is opened on it any more; those that are open go on. */
static napi_value remove_provider(napi_env env, napi_callback_info info)
{
    napi_value arg;
    uint32_t number;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_uint32(env, arg, &number));
    pthread_mutex_lock(&lock);
    for (provider **at = &providers; *at; at = &(*at)->next) {
        provider *p = *at;
        if (p->number != number)
            continue;
        *at = p->next;
        kzn_link_drop(p->link);
        free(p);
        break;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- the source */

typedef struct js_source {
    provider at; /* a copy, with a count of its own on the link */
    int64_t limit_ms;
} js_source;

static kz_status js_open(void **source, const char *url, const kz_source_options *options, kz_source_facts *facts,
                         kz_error *err)
{
    js_source *s = calloc(1, sizeof *s);
    if (!s)
        return kzn_fail(err, KZ_NO_MEMORY, "no memory for a source");
    unsigned long number = strtoul(url + strlen("js:"), NULL, 10);
    pthread_mutex_lock(&lock);
    for (provider *p = providers; p; p = p->next) {
        if (p->number != number)
            continue;
        s->at = *p;
        kzn_link_keep(p->link);
        break;
    }
    pthread_mutex_unlock(&lock);
    if (!s->at.link) {
        free(s);
        return kzn_fail(err, KZ_INVALID, "%s: no such provider", url);
    }
    s->limit_ms = options->timeout_ms;
    /* A child process has no JavaScript to ask. */
    facts->flags = KZ_SOURCE_FIXED;
    *source = s;
    return KZ_OK;
}

static kz_status js_acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    js_source *s = source;
    kzn_errand *errand = new_errand(&s->at, ACQUIRE, err);
    if (!errand)
        return KZ_NO_MEMORY;
    snprintf(errand->service, sizeof errand->service, "%s", request->service);
    snprintf(errand->holder, sizeof errand->holder, "%s", request->holder);
    for (size_t i = 0; i < KZ_REQUEST_ID_SIZE; i++)
        snprintf(errand->request_id + 2 * i, 3, "%02x", request->request_id[i]);
    errand->throughput_per_ms = request->throughput_per_ms;
    return send_and_wait(errand, s->limit_ms, grant, err);
}

static kz_status js_release(void *source, const kz_release *release, kz_error *err)
{
    js_source *s = source;
    kzn_errand *errand = new_errand(&s->at, RELEASE, err);
    if (!errand)
        return KZ_NO_MEMORY;
    snprintf(errand->service, sizeof errand->service, "%s", release->service);
    snprintf(errand->signature, sizeof errand->signature, "%s", release->signature);
    errand->id = release->id;
    errand->timestamp_ms = release->timestamp_ms;
    return send_and_wait(errand, s->limit_ms, NULL, err);
}

static kz_status js_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    js_source *s = source;
    if (!s->at.has_now)
        return KZ_OK; /* a time of 0 is none: the clock goes on by itself */
    kzn_errand *errand = new_errand(&s->at, NOW, err);
    kz_grant *grant = calloc(1, sizeof *grant);
    kz_status status = KZ_NO_MEMORY;
    if (errand && grant)
        status = send_and_wait(errand, s->limit_ms, grant, err);
    else if (errand)
        drop(errand);
    if (status == KZ_OK) {
        *source_ms = grant->source_ms;
        *generation = grant->generation;
    }
    free(grant);
    return status;
}

static void js_close(void *source, bool forked)
{
    js_source *s = source;
    if (!forked)
        kzn_link_drop(s->at.link);
    free(s);
}

static const kz_source_ops js_ops = {.struct_size = sizeof(kz_source_ops),
                                     .scheme = "js",
                                     .open = js_open,
                                     .acquire = js_acquire,
                                     .release = js_release,
                                     .now = js_now,
                                     .close = js_close};

static void register_once(void)
{
    kz_error ignored;
    (void)!kz_source_register(&js_ops, &ignored);
}

void kzn_init_provider(napi_env env, napi_value exports)
{
    static const kzn_function functions[] = {
        {"addProvider", add_provider}, {"removeProvider", remove_provider}, {"answer", answer}, {"refuse", refuse}};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_once);
    kzn_add(env, exports, functions, sizeof functions / sizeof *functions, NULL);
}
