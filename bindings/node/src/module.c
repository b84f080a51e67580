/* The module, and how values and errors pass between C and JavaScript. */
#include "addon.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------ errors */

kz_status kzn_fail(kz_error *err, kz_status status, const char *format, ...)
{
    if (err) {
        *err = (kz_error){.status = status};
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

napi_value kzn_error(napi_env env, const kz_error *err)
{
    napi_value details, make, undefined, error = NULL;
    kzn_link *link = kzn_link_of(env);
    KZN_TRY(napi_create_object(env, &details));
    kzn_set_text(env, details, "code", kz_status_name(err->status));
    kzn_set_text(env, details, "message", err->message);
    if (err->status == KZ_LEASE_ACQUISITION)
        kzn_set_text(env, details, "cause", kz_status_name(err->cause));
    kzn_set_number(env, details, "backwardMs", (double)err->backward_ms);
    kzn_set_number(env, details, "limitMs", (double)err->limit_ms);
    KZN_TRY(napi_get_reference_value(env, link->make_error, &make));
    KZN_TRY(napi_get_undefined(env, &undefined));
    KZN_TRY(napi_call_function(env, undefined, make, 1, &details, &error));
    return error;
}

napi_value kzn_throw(napi_env env, const kz_error *err)
{
    napi_value error = kzn_error(env, err);
    if (error)
        napi_throw(env, error);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------ values */

bool kzn_args(napi_env env, napi_callback_info info, size_t count, napi_value *args)
{
    return napi_get_cb_info(env, info, &count, args, NULL, NULL) == napi_ok;
}

static bool is_missing(napi_env env, napi_value value)
{
    napi_valuetype type = napi_undefined;
    napi_typeof(env, value, &type);
    return type == napi_undefined || type == napi_null;
}

char *kzn_text(napi_env env, napi_value value)
{
    size_t length;
    kz_error err;
    if (is_missing(env, value))
        return NULL;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) {
        kzn_fail(&err, KZ_INVALID, "a text is needed here");
        kzn_throw(env, &err);
        return NULL;
    }
    char *text = malloc(length + 1);
    if (!text) {
        kzn_fail(&err, KZ_NO_MEMORY, "no memory for a text");
        kzn_throw(env, &err);
        return NULL;
    }
    napi_get_value_string_utf8(env, value, text, length + 1, &length);
    if (strlen(text) != length) {
        free(text);
        kzn_fail(&err, KZ_INVALID, "a text must not contain a zero character");
        kzn_throw(env, &err);
        return NULL;
    }
    return text;
}

char *kzn_text_of(napi_env env, napi_value object, const char *name)
{
    napi_value value;
    KZN_TRY(napi_get_named_property(env, object, name, &value));
    return kzn_text(env, value);
}

int64_t kzn_number_of(napi_env env, napi_value object, const char *name, int64_t otherwise)
{
    napi_value value;
    int64_t number;
    if (napi_get_named_property(env, object, name, &value) != napi_ok || is_missing(env, value) ||
        napi_get_value_int64(env, value, &number) != napi_ok)
        return otherwise;
    return number;
}

bool kzn_id(napi_env env, napi_value value, kz_id *id)
{
    bool lossless = false;
    kz_error err;
    if (napi_get_value_bigint_uint64(env, value, id, &lossless) == napi_ok && lossless)
        return true;
    kzn_fail(&err, KZ_INVALID, "an ID is a bigint from 0n to 18446744073709551615n");
    kzn_throw(env, &err);
    return false;
}

void kzn_set(napi_env env, napi_value object, const char *name, napi_value value)
{
    napi_set_named_property(env, object, name, value);
}

void kzn_set_number(napi_env env, napi_value object, const char *name, double number)
{
    napi_value value;
    if (napi_create_double(env, number, &value) == napi_ok)
        kzn_set(env, object, name, value);
}

void kzn_set_text(napi_env env, napi_value object, const char *name, const char *text)
{
    napi_value value;
    if (napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value) == napi_ok)
        kzn_set(env, object, name, value);
}

void kzn_set_bigint(napi_env env, napi_value object, const char *name, uint64_t number)
{
    napi_value value;
    if (napi_create_bigint_uint64(env, number, &value) == napi_ok)
        kzn_set(env, object, name, value);
}

/* ----------------------------------------------------------------------------------------------------- options */

void kzn_options_read(napi_env env, napi_value object, kz_options *options)
{
    kz_options_init(options);
    char *service = kzn_text_of(env, object, "service");
    options->service = service ? service : strdup(options->service);
    options->layout = kzn_text_of(env, object, "layout");
    options->meta = kzn_text_of(env, object, "meta");
    options->fallback = (kz_fallback)kzn_number_of(env, object, "fallback", options->fallback);
    options->backward = (kz_backward)kzn_number_of(env, object, "backward", options->backward);
    options->max_backward_ms = kzn_number_of(env, object, "maxBackwardMs", options->max_backward_ms);
    options->timeout_ms = kzn_number_of(env, object, "timeoutMs", options->timeout_ms);
    options->retry_initial_ms = kzn_number_of(env, object, "retryInitialMs", options->retry_initial_ms);
    options->retry_max_ms = kzn_number_of(env, object, "retryMaxMs", options->retry_max_ms);
    options->throughput_max_per_ms =
        (uint32_t)kzn_number_of(env, object, "throughputPerMs", options->throughput_max_per_ms);
    options->throughput_min_per_ms = options->throughput_max_per_ms;
}

void kzn_options_free(kz_options *options)
{
    free((char *)options->service);
    free((char *)options->layout);
    free((char *)options->meta);
}

/* --------------------------------------------------------------------------------------------------------- log */

typedef struct line {
    kzn_message message;
    kzn_link *link;
    kz_log_level level;
    char text[KZ_MESSAGE_SIZE + 128];
} line;

static void deliver_line(kzn_message *message, napi_env env)
{
    line *l = (line *)message;
    napi_value function, undefined, args[2], ignored;
    if (env && napi_get_reference_value(env, l->link->log, &function) == napi_ok &&
        napi_get_undefined(env, &undefined) == napi_ok && napi_create_uint32(env, l->level, &args[0]) == napi_ok &&
        napi_create_string_utf8(env, l->text, NAPI_AUTO_LENGTH, &args[1]) == napi_ok)
        napi_call_function(env, undefined, function, 2, args, &ignored);
    kzn_link_drop(l->link);
    free(l);
}

/* `ctx` is the link of the environment that opened the generator. */
void kzn_log(void *ctx, kz_log_level level, const char *message)
{
    line *l = malloc(sizeof *l);
    if (!l)
        return;
    *l = (line){.message.deliver = deliver_line, .link = ctx, .level = level};
    snprintf(l->text, sizeof l->text, "%s", message);
    kzn_link_keep(l->link);
    if (!kzn_post(l->link, &l->message))
        deliver_line(&l->message, NULL);
}

/* ------------------------------------------------------------------------------------------------------ module */

/* setup({makeError, dispatch, log, view}): what C calls in JavaScript, and the array that it leaves IDs in. */
static napi_value setup(napi_env env, napi_callback_info info)
{
    napi_value with, value;
    kzn_link *link = kzn_link_of(env);
    struct {
        const char *name;
        napi_ref *to;
    } wanted[] = {{"makeError", &link->make_error}, {"dispatch", &link->dispatch}, {"log", &link->log}};
    if (!kzn_args(env, info, 1, &with))
        return NULL;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        KZN_TRY(napi_get_named_property(env, with, wanted[i].name, &value));
        KZN_TRY(napi_create_reference(env, value, 1, wanted[i].to));
    }
    napi_typedarray_type type;
    size_t length;
    void *out;
    napi_ref forever; /* so that the memory stays where it is */
    KZN_TRY(napi_get_named_property(env, with, "view", &value));
    KZN_TRY(napi_get_typedarray_info(env, value, &type, &length, &out, NULL, NULL));
    KZN_TRY(napi_create_reference(env, value, 1, &forever));
    link->out = type == napi_biguint64_array && length >= 2 ? out : NULL;
    return NULL;
}

void kzn_add(napi_env env, napi_value exports, const kzn_function *functions, size_t count, void *data)
{
    for (size_t i = 0; i < count; i++) {
        napi_value function;
        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, data, &function) ==
            napi_ok)
            kzn_set(env, exports, functions[i].name, function);
    }
}

NAPI_MODULE_INIT()
{
    if (!kzn_link_new(env))
        return NULL;
    kzn_set_text(env, exports, "version", kz_version());
    kzn_add(env, exports, &(kzn_function){"setup", setup}, 1, NULL);
    kzn_init_generator(env, exports);
    kzn_init_provider(env, exports);
    kzn_init_table(env, exports);
    kzn_init_values(env, exports);
    return exports;
}
