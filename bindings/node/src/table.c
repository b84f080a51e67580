/* A lease table of the library's without a generator: what acquire() and release() of our own providers ask. */
#include "addon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A source that is open for the time of one job: calls are rare, and nothing is left over when a worker ends. */
typedef struct asking {
    kzn_job job;
    char *url, *holder, *signature;
    kz_options options;
    uint32_t throughput_per_ms, id;
    int64_t timestamp_ms;
    bool release;
    kz_grant *grant;
    kz_error err;
} asking;

static kz_status ask(asking *a, kz_source *source)
{
    if (a->release) {
        kz_release release = {
            .service = a->options.service, .id = a->id, .timestamp_ms = a->timestamp_ms, .signature = a->signature};
        return kz_source_release(source, &release, &a->err);
    }
    kz_acquire acquire = {
        .service = a->options.service, .holder = a->holder, .throughput_per_ms = a->throughput_per_ms};
    if (getrandom(acquire.request_id, sizeof acquire.request_id, 0) != sizeof acquire.request_id)
        return kzn_fail(&a->err, KZ_SYSTEM, "the kernel gives no random numbers");
    return kz_source_acquire(source, &acquire, a->grant, &a->err);
}

static void run(kzn_job *job)
{
    asking *a = (asking *)job;
    kz_source *source = NULL;
    kz_status status = kz_source_open(&source, a->url, &a->options, &a->err);
    if (status == KZ_OK)
        status = ask(a, source);
    a->err.status = status;
    kz_source_close(source);
}

static napi_value lease_value(napi_env env, const kz_lease *lease)
{
    napi_value object;
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_number(env, object, "id", lease->id);
    kzn_set_number(env, object, "created", (double)lease->created_ms);
    kzn_set_number(env, object, "expired", (double)lease->expired_ms);
    kzn_set_text(env, object, "secret", lease->secret);
    kzn_set_number(env, object, "customEpoch", (double)lease->epoch_ms);
    kzn_set_number(env, object, "bitReserve", lease->reserved_bits);
    kzn_set_number(env, object, "bitTs", lease->time_bits);
    kzn_set_number(env, object, "bitId", lease->node_bits);
    kzn_set_number(env, object, "bitSeq", lease->seq_bits);
    kzn_set_number(env, object, "fallbackCreated", (double)lease->fallback_created_ms);
    kzn_set_number(env, object, "fallbackExpired", (double)lease->fallback_expired_ms);
    return object;
}

static napi_value grant_value(napi_env env, const kz_grant *grant)
{
    napi_value object, leases;
    KZN_TRY(napi_create_object(env, &object));
    KZN_TRY(napi_create_array_with_length(env, grant->count, &leases));
    for (size_t i = 0; i < grant->count; i++)
        KZN_TRY(napi_set_element(env, leases, (uint32_t)i, lease_value(env, &grant->leases[i])));
    kzn_set(env, object, "leases", leases);
    kzn_set_number(env, object, "serverTime", (double)grant->source_ms);
    kzn_set_number(env, object, "generation", (double)grant->generation);
    return object;
}

static void free_asking(asking *a)
{
    kzn_options_free(&a->options);
    free(a->url);
    free(a->holder);
    free(a->signature);
    free(a->grant);
    free(a);
}

static void done(kzn_job *job, napi_env env, napi_value callback)
{
    asking *a = (asking *)job;
    napi_value args[2], undefined, ignored;
    if (env && napi_get_undefined(env, &undefined) == napi_ok) {
        args[0] = a->err.status ? kzn_error(env, &a->err) : undefined;
        args[1] = a->err.status || a->release ? undefined : grant_value(env, a->grant);
        if (args[0] && args[1])
            napi_call_function(env, undefined, callback, 2, args, &ignored);
    }
    free_asking(a);
}

/* askTable(url, options, question, callback(error, grant)). A question with a signature is a release. */
static napi_value ask_table(napi_env env, napi_callback_info info)
{
    napi_value args[4];
    bool thrown = false;
    asking *a = calloc(1, sizeof *a);
    if (!a || !kzn_args(env, info, 4, args)) {
        free(a);
        return NULL;
    }
    a->job = (kzn_job){.run = run, .done = done};
    a->url = kzn_text(env, args[0]);
    kzn_options_read(env, args[1], &a->options);
    a->holder = kzn_text_of(env, args[2], "holder");
    a->signature = kzn_text_of(env, args[2], "signature");
    a->release = a->signature;
    a->throughput_per_ms = (uint32_t)kzn_number_of(env, args[2], "throughputPerMs", 1);
    a->id = (uint32_t)kzn_number_of(env, args[2], "id", 0);
    a->timestamp_ms = kzn_number_of(env, args[2], "timestamp", 0);
    a->grant = calloc(1, sizeof *a->grant);
    if (napi_is_exception_pending(env, &thrown) != napi_ok || thrown || !a->grant || !kzn_start(env, &a->job, args[3]))
        free_asking(a);
    return NULL;
}

void kzn_init_table(napi_env env, napi_value exports)
{
    kzn_add(env, exports, &(kzn_function){"askTable", ask_table}, 1, NULL);
}
