/* A generator as JavaScript has it: opened and closed by jobs, asked on the loop, where it never waits. */
#include "shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLOSED 255 /* what take() returns then, which is no kz_status */

/* One client's hold on a generator. It belongs to the loop's thread. */
struct kzn_handle {
    kzn_link *link;
    kzn_shared *shared; /* NULL: closed */
    kz_generator *gen;
    kz_error err; /* why the last call failed */
    kzn_handle *next, **at;
};

static void take_out(kzn_handle *handle)
{
    if (!handle->at)
        return;
    *handle->at = handle->next;
    if (handle->next)
        handle->next->at = handle->at;
    handle->at = NULL;
}

/* ----------------------------------------------------------------------------------------------------- closing */

/* How many generators are being closed behind the program's back, for whoever waits for that. */
static pthread_mutex_t closing_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closing_ended = PTHREAD_COND_INITIALIZER;
static unsigned closing;

static void *close_later(void *shared)
{
    kzn_shared_close(shared);
    pthread_mutex_lock(&closing_lock);
    closing--;
    pthread_cond_broadcast(&closing_ended);
    pthread_mutex_unlock(&closing_lock);
    return NULL;
}

/* Where nobody may wait. Without a thread the leases end by themselves. */
static void close_behind(kzn_shared *shared)
{
    pthread_mutex_lock(&closing_lock);
    closing++;
    pthread_mutex_unlock(&closing_lock);
    if (kzn_thread(close_later, shared)) {
        pthread_mutex_lock(&closing_lock);
        closing--;
        pthread_mutex_unlock(&closing_lock);
    }
}

static void let_go(kzn_handle *handle)
{
    take_out(handle);
    if (handle->shared)
        close_behind(handle->shared);
    handle->shared = NULL;
    handle->gen = NULL;
}

void kzn_handles_end(kzn_link *link)
{
    while (link->handles)
        let_go(link->handles);
}

/* closeAll(limitMs): gives back what this environment holds, and waits for it up to a limit. For process.exit: nothing
 * of JavaScript runs afterwards. */
static napi_value close_all(napi_env env, napi_callback_info info)
{
    napi_value arg;
    int64_t limit_ms = 0;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_int64(env, arg, &limit_ms));
    kzn_link_end(kzn_link_of(env));
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += limit_ms % 1000 * 1000000;
    until.tv_sec += limit_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&closing_lock);
    while (closing && pthread_cond_timedwait(&closing_ended, &closing_lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&closing_lock);
    return NULL;
}

typedef struct farewell {
    kzn_job job;
    kzn_shared *shared;
} farewell;

static void run_close(kzn_job *job)
{
    kzn_shared_close(((farewell *)job)->shared);
}

static void closed(kzn_job *job, napi_env env, napi_value callback)
{
    napi_value undefined, ignored;
    free(job);
    if (env && napi_get_undefined(env, &undefined) == napi_ok)
        napi_call_function(env, undefined, callback, 0, NULL, &ignored);
}

/* close(callback) */
static napi_value close_one(napi_env env, napi_callback_info info)
{
    napi_value callback;
    size_t count = 1;
    void *data;
    KZN_TRY(napi_get_cb_info(env, info, &count, &callback, NULL, &data));
    kzn_handle *handle = data;
    farewell *f = calloc(1, sizeof *f);
    if (!f || !handle->shared) {
        free(f);
        let_go(handle);
        napi_value undefined, ignored;
        KZN_TRY(napi_get_undefined(env, &undefined));
        napi_call_function(env, undefined, callback, 0, NULL, &ignored);
        return NULL;
    }
    *f = (farewell){.job = {.run = run_close, .done = closed}, .shared = handle->shared};
    handle->shared = NULL;
    handle->gen = NULL;
    take_out(handle);
    if (!kzn_start(env, &f->job, callback)) {
        close_behind(f->shared);
        free(f);
    }
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- minting */

static kzn_handle *handle_of(napi_env env, napi_callback_info info)
{
    void *data = NULL;
    return napi_get_cb_info(env, info, NULL, NULL, NULL, &data) == napi_ok ? data : NULL;
}

static napi_value number(napi_env env, uint32_t value)
{
    napi_value result;
    KZN_TRY(napi_create_uint32(env, value, &result));
    return result;
}

/* take(): leaves an ID in the view, or returns a status and leaves there when to ask again. */
static napi_value take(napi_env env, napi_callback_info info)
{
    kzn_handle *handle = handle_of(env, info);
    uint64_t *out = handle->link->out;
    if (!handle->gen)
        return number(env, CLOSED);
    if (kz_try_next(handle->gen, out) == KZ_OK)
        return NULL;
    /* Once more for the particulars. */
    kz_status status = kz_mint(handle->gen, out, 1, 0, &handle->err);
    if (status == KZ_OK)
        return NULL;
    out[1] = (uint64_t)handle->err.retry_us;
    return number(env, status);
}

/* fill(array, from): fills the array from there on as far as there are IDs now. Returns how far it got; if that is not
 * the end, failure() says why. */
static napi_value fill(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    napi_typedarray_type type;
    size_t count = 2, length, got = 0;
    uint32_t from;
    void *data, *array;
    KZN_TRY(napi_get_cb_info(env, info, &count, args, NULL, &data));
    KZN_TRY(napi_get_typedarray_info(env, args[0], &type, &length, &array, NULL, NULL));
    KZN_TRY(napi_get_value_uint32(env, args[1], &from));
    kzn_handle *handle = data;
    if (!handle->gen || type != napi_biguint64_array || from > length)
        return number(env, 0);
    kz_status status = kz_try_batch(handle->gen, (kz_id *)array + from, length - from, &got, &handle->err);
    handle->link->out[1] = status ? (uint64_t)handle->err.retry_us : 0;
    return number(env, from + (uint32_t)got);
}

/* status(): of the last call that failed. */
static napi_value failed_with(napi_env env, napi_callback_info info)
{
    return number(env, handle_of(env, info)->err.status);
}

/* failure(): the last failure as an Error. */
static napi_value failure(napi_env env, napi_callback_info info)
{
    return kzn_error(env, &handle_of(env, info)->err);
}

/* ----------------------------------------------------------------------------------------------------- looking */

static napi_value stats(napi_env env, napi_callback_info info)
{
    kzn_handle *handle = handle_of(env, info);
    kz_stats s;
    napi_value object;
    kz_stats_init(&s);
    if (!handle->gen || kz_stats_get(handle->gen, &s))
        return NULL;
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_number(env, object, "idsLeased", (double)s.ids_leased);
    kzn_set_number(env, object, "idsFenced", (double)s.ids_fenced);
    kzn_set_number(env, object, "idsUnfenced", (double)s.ids_unfenced);
    kzn_set_number(env, object, "sequenceExhausted", (double)s.sequence_exhausted);
    kzn_set_number(env, object, "clockBackward", (double)s.clock_backward);
    kzn_set_number(env, object, "clockBackwardMaxMs", (double)s.clock_backward_max_ms);
    kzn_set_number(env, object, "aheadMs", (double)s.ahead_ms);
    kzn_set_number(env, object, "leases", (double)s.leases);
    kzn_set_number(env, object, "throughputPerMs", (double)s.throughput_per_ms);
    kzn_set_number(env, object, "leasesAcquired", (double)s.leases_acquired);
    kzn_set_number(env, object, "leasesReleased", (double)s.leases_released);
    kzn_set_number(env, object, "acquireFailures", (double)s.acquire_failures);
    kzn_set_number(env, object, "acquireFailuresNow", (double)s.acquire_failures_now);
    kzn_set_number(env, object, "leaseAgeMs", (double)s.lease_age_ms);
    kzn_set_bigint(env, object, "last", s.last);
    kzn_set_number(env, object, "windowEnd", s.window_end_unix_ms == INT64_MAX ? -1 : (double)s.window_end_unix_ms);
    napi_value unfenced;
    KZN_TRY(napi_get_boolean(env, s.unfenced, &unfenced));
    kzn_set(env, object, "unfenced", unfenced);
    return object;
}

static napi_value layout(napi_env env, napi_callback_info info)
{
    kzn_handle *handle = handle_of(env, info);
    kz_layout l;
    char text[KZ_LAYOUT_TEXT_SIZE];
    napi_value value;
    if (!handle->gen)
        return NULL;
    kz_generator_layout(handle->gen, &l);
    kz_layout_text(&l, text);
    KZN_TRY(napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value));
    return value;
}

/* ----------------------------------------------------------------------------------------------------- opening */

typedef struct opening {
    kzn_job job;
    char *url;
    kz_options options;
    kzn_shared *shared;
    kz_error err;
} opening;

static void run_open(kzn_job *job)
{
    opening *o = (opening *)job;
    if (kzn_shared_open(&o->shared, o->url, &o->options, job->link, &o->err))
        o->shared = NULL;
}

static void lost(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    kzn_handle *handle = data;
    let_go(handle);
    kzn_link_drop(handle->link);
    free(handle);
}

/* The object of functions; NULL: nothing has been taken over. */
static napi_value make_handle(napi_env env, kzn_shared *shared)
{
    static const kzn_function functions[] = {{"take", take},       {"fill", fill},   {"status", failed_with},
                                             {"failure", failure}, {"stats", stats}, {"layout", layout},
                                             {"close", close_one}};
    napi_value object;
    kzn_link *link = kzn_link_of(env);
    KZN_TRY(napi_create_object(env, &object));
    kzn_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    *handle = (kzn_handle){.link = link, .shared = shared, .gen = kzn_shared_generator(shared), .next = link->handles};
    if (napi_wrap(env, object, handle, lost, NULL, NULL) != napi_ok) {
        free(handle);
        return NULL;
    }
    kzn_link_keep(link);
    handle->at = &link->handles;
    if (handle->next)
        handle->next->at = &handle->next;
    link->handles = handle;
    kzn_add(env, object, functions, sizeof functions / sizeof *functions, handle);
    return object;
}

static void free_opening(opening *o)
{
    kzn_options_free(&o->options);
    free(o->url);
    free(o);
}

static void opened(kzn_job *job, napi_env env, napi_value callback)
{
    opening *o = (opening *)job;
    napi_value args[2], undefined, ignored;
    napi_value handle = env && o->shared ? make_handle(env, o->shared) : NULL;
    if (o->shared && !handle)
        close_behind(o->shared);
    if (env && napi_get_undefined(env, &undefined) == napi_ok) {
        args[0] = handle ? undefined : kzn_error(env, &o->err);
        args[1] = handle ? handle : undefined;
        if (args[0])
            napi_call_function(env, undefined, callback, 2, args, &ignored);
    }
    free_opening(o);
}

/* openSync(url, options): blocks. For sources on this machine. */
static napi_value open_sync(napi_env env, napi_callback_info info)
{
    napi_value args[2], object = NULL;
    bool thrown = false;
    kz_options options;
    kz_error err = {0};
    kzn_shared *shared = NULL;
    if (!kzn_args(env, info, 2, args))
        return NULL;
    char *url = kzn_text(env, args[0]);
    kzn_options_read(env, args[1], &options);
    if (napi_is_exception_pending(env, &thrown) == napi_ok && !thrown) {
        if (kzn_shared_open(&shared, url, &options, kzn_link_of(env), &err))
            kzn_throw(env, &err);
        else if (!(object = make_handle(env, shared)))
            close_behind(shared);
    }
    kzn_options_free(&options);
    free(url);
    return object;
}

/* open(url, options, callback(error, generator)) */
static napi_value open_one(napi_env env, napi_callback_info info)
{
    napi_value args[3];
    bool thrown = false;
    opening *o = calloc(1, sizeof *o);
    if (!o || !kzn_args(env, info, 3, args)) {
        free(o);
        return NULL;
    }
    o->job = (kzn_job){.run = run_open, .done = opened};
    kzn_fail(&o->err, KZ_NO_MEMORY, "no memory for a generator");
    o->url = kzn_text(env, args[0]);
    kzn_options_read(env, args[1], &o->options);
    if (napi_is_exception_pending(env, &thrown) != napi_ok || thrown || !kzn_start(env, &o->job, args[2]))
        free_opening(o);
    return NULL;
}

void kzn_init_generator(napi_env env, napi_value exports)
{
    static const kzn_function functions[] = {{"open", open_one}, {"openSync", open_sync}, {"closeAll", close_all}};
    kzn_add(env, exports, functions, sizeof functions / sizeof *functions, NULL);
}
