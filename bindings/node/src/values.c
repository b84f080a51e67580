/* Layouts, texts, external IDs, nanoseconds and UUIDs of them: plain calls that never wait. */
#include "addon.h"

#include <stdlib.h>
#include <string.h>

static napi_value text_value(napi_env env, const char *text)
{
    napi_value value;
    KZN_TRY(napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value));
    return value;
}

static napi_value id_value(napi_env env, kz_id id)
{
    napi_value value;
    KZN_TRY(napi_create_bigint_uint64(env, id, &value));
    return value;
}

static void set_bool(napi_env env, napi_value object, const char *name, bool truth)
{
    napi_value value;
    if (napi_get_boolean(env, truth, &value) == napi_ok)
        kzn_set(env, object, name, value);
}

/* ----------------------------------------------------------------------------------------------------- layouts */

static bool read_layout(napi_env env, napi_value value, kz_layout *layout)
{
    kz_error err;
    bool thrown = false;
    char *text = kzn_text(env, value);
    if (!text && (napi_is_exception_pending(env, &thrown) != napi_ok || thrown))
        return false;
    kz_status status = kz_layout_parse(text ? text : "kazahana", layout, &err);
    free(text);
    if (status)
        kzn_throw(env, &err);
    return status == KZ_OK;
}

/* layout(text): what it is and how long it lasts. */
static napi_value describe(napi_env env, napi_callback_info info)
{
    napi_value arg, object;
    kz_layout layout;
    kz_layout_facts facts;
    char text[KZ_LAYOUT_TEXT_SIZE];
    if (!kzn_args(env, info, 1, &arg) || !read_layout(env, arg, &layout))
        return NULL;
    kz_layout_describe(&layout, &facts);
    kz_layout_text(&layout, text);
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_text(env, object, "name", layout.name);
    kzn_set_text(env, object, "text", text);
    kzn_set_number(env, object, "epoch", (double)layout.epoch_ms);
    kzn_set_number(env, object, "timeBits", layout.time_bits);
    kzn_set_number(env, object, "nodeBits", layout.node_bits);
    kzn_set_number(env, object, "seqBits", layout.seq_bits);
    kzn_set_number(env, object, "nodes", (double)facts.nodes);
    kzn_set_number(env, object, "leasableNodes", (double)facts.leasable_nodes);
    kzn_set_number(env, object, "idsPerStep", (double)facts.ids_per_step);
    kzn_set_number(env, object, "first", (double)facts.first_unix_ms);
    kzn_set_number(env, object, "last", (double)facts.last_unix_ms);
    return object;
}

/* decode(id, layout) */
static napi_value decode(napi_env env, napi_callback_info info)
{
    napi_value args[2], object;
    kz_layout layout;
    kz_parts parts;
    kz_error err;
    kz_id id;
    if (!kzn_args(env, info, 2, args) || !kzn_id(env, args[0], &id) || !read_layout(env, args[1], &layout))
        return NULL;
    if (kz_decode(&layout, id, &parts, &err))
        return kzn_throw(env, &err);
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_number(env, object, "time", (double)parts.unix_ms);
    kzn_set_number(env, object, "node", parts.node);
    kzn_set_number(env, object, "seq", parts.seq);
    set_bool(env, object, "fallback", parts.fallback);
    return object;
}

static napi_value edge(napi_env env, napi_callback_info info, bool least)
{
    napi_value args[2];
    kz_layout layout;
    kz_error err;
    int64_t unix_ms;
    kz_id id;
    if (!kzn_args(env, info, 2, args) || !read_layout(env, args[1], &layout))
        return NULL;
    KZN_TRY(napi_get_value_int64(env, args[0], &unix_ms));
    if ((least ? kz_min_id : kz_max_id)(&layout, unix_ms, &id, &err))
        return kzn_throw(env, &err);
    return id_value(env, id);
}

/* minId(unixMs, layout), maxId(unixMs, layout) */
static napi_value min_id(napi_env env, napi_callback_info info)
{
    return edge(env, info, true);
}

static napi_value max_id(napi_env env, napi_callback_info info)
{
    return edge(env, info, false);
}

/* ------------------------------------------------------------------------------------------------------- texts */

/* format(id, form), parse(text, form): the form is a kz_form. */
static napi_value format(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t form;
    char text[KZ_TEXT_SIZE];
    kz_id id;
    if (!kzn_args(env, info, 2, args) || !kzn_id(env, args[0], &id))
        return NULL;
    KZN_TRY(napi_get_value_uint32(env, args[1], &form));
    kz_text(id, (kz_form)form, text);
    return text_value(env, text);
}

static napi_value parse(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t form;
    kz_error err;
    kz_id id;
    if (!kzn_args(env, info, 2, args))
        return NULL;
    KZN_TRY(napi_get_value_uint32(env, args[1], &form));
    char *text = kzn_text(env, args[0]);
    if (!text)
        return NULL;
    kz_status status = kz_text_parse(text, (kz_form)form, &id, &err);
    free(text);
    return status ? kzn_throw(env, &err) : id_value(env, id);
}

/* ------------------------------------------------------------------------------------------------ external IDs */

static void free_keys(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    kz_external_keys_free(data);
}

/* readKeys(text): keys that toExternal and toInternal take. */
static napi_value read_keys(napi_env env, napi_callback_info info)
{
    napi_value arg, value;
    kz_external_keys *keys;
    kz_error err;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    char *text = kzn_text(env, arg);
    if (!text)
        return NULL;
    kz_status status = kz_external_keys_parse(&keys, text, strlen(text), &err);
    explicit_bzero(text, strlen(text));
    free(text);
    if (status)
        return kzn_throw(env, &err);
    if (napi_create_external(env, keys, free_keys, NULL, &value) != napi_ok) {
        kz_external_keys_free(keys);
        return NULL;
    }
    return value;
}

/* undefined: no keys, the mixer. */
static bool get_keys(napi_env env, napi_value value, const kz_external_keys **keys)
{
    napi_valuetype type;
    void *data = NULL;
    if (napi_typeof(env, value, &type) != napi_ok)
        return false;
    if (type == napi_external && napi_get_value_external(env, value, &data) != napi_ok)
        return false;
    *keys = data;
    return true;
}

/* toExternal(id, keys, type) */
static napi_value to_external(napi_env env, napi_callback_info info)
{
    napi_value args[3];
    const kz_external_keys *keys;
    char text[KZ_EXTERNAL_TYPED_SIZE];
    kz_error err;
    bool thrown = false;
    kz_id id;
    if (!kzn_args(env, info, 3, args) || !kzn_id(env, args[0], &id) || !get_keys(env, args[1], &keys))
        return NULL;
    char *type = kzn_text(env, args[2]);
    KZN_TRY(napi_is_exception_pending(env, &thrown));
    if (thrown)
        return NULL;
    kz_status status = KZ_OK;
    if (type)
        status = kz_external_encode_typed(keys, type, id, text, &err);
    else
        kz_external_encode(keys, id, text);
    free(type);
    return status ? kzn_throw(env, &err) : text_value(env, text);
}

/* toInternal(text, keys, type, layout, latest) */
static napi_value to_internal(napi_env env, napi_callback_info info)
{
    napi_value args[5];
    const kz_external_keys *keys;
    kz_layout layout;
    kz_error err;
    kz_id id;
    int64_t latest_ms;
    bool thrown = false;
    if (!kzn_args(env, info, 5, args) || !get_keys(env, args[1], &keys) || !read_layout(env, args[3], &layout))
        return NULL;
    KZN_TRY(napi_get_value_int64(env, args[4], &latest_ms));
    char *text = kzn_text(env, args[0]), *type = text ? kzn_text(env, args[2]) : NULL;
    kz_status status = KZ_INVALID;
    if (napi_is_exception_pending(env, &thrown) == napi_ok && !thrown && text) {
        status = type ? kz_external_decode_typed(keys, type, text, &layout, latest_ms, &id, &err)
                      : kz_external_decode(keys, text, &id, &err);
        if (status)
            kzn_throw(env, &err);
    }
    free(text);
    free(type);
    return status ? NULL : id_value(env, id);
}

/* ------------------------------------------------------------------------------- nanoseconds, and UUIDs of them */

static bool read_uuid(napi_env env, napi_value value, kz_uuid *uuid)
{
    kz_error err;
    char *text = kzn_text(env, value);
    if (!text)
        return false;
    kz_status status = kz_uuid_from_text(text, uuid, &err);
    free(text);
    if (status)
        kzn_throw(env, &err);
    return status == KZ_OK;
}

static napi_value uuid_value(napi_env env, const kz_uuid *uuid)
{
    char text[KZ_UUID_TEXT_SIZE];
    kz_uuid_text(uuid, text);
    return text_value(env, text);
}

static void free_mono(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    kz_mono_free(data);
}

static void free_monouuid(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    kz_monouuid_free(data);
}

/* monoNew(last): then monoNext(mono) gives nanoseconds, as a bigint. */
static napi_value mono_new(napi_env env, napi_callback_info info)
{
    napi_value arg, value;
    kz_mono *mono;
    kz_error err;
    int64_t last_ns;
    bool lossless;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_bigint_int64(env, arg, &last_ns, &lossless));
    if (kz_mono_new(&mono, last_ns, &err))
        return kzn_throw(env, &err);
    KZN_TRY(napi_create_external(env, mono, free_mono, NULL, &value));
    return value;
}

static napi_value mono_next(napi_env env, napi_callback_info info)
{
    napi_value arg, value;
    void *mono;
    int64_t unix_ns;
    kz_error err;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_external(env, arg, &mono));
    if (kz_mono_next(mono, &unix_ns)) {
        kzn_fail(&err, KZ_OVERFLOW, "nanoseconds of 63 bits have run out");
        return kzn_throw(env, &err);
    }
    KZN_TRY(napi_create_bigint_int64(env, unix_ns, &value));
    return value;
}

/* monoUuidNew(node, last or undefined): then monoUuidNext(gen) gives texts. */
static napi_value monouuid_new(napi_env env, napi_callback_info info)
{
    napi_value args[2], value;
    napi_valuetype type;
    kz_monouuid *gen;
    kz_uuid last;
    kz_error err;
    uint32_t node;
    if (!kzn_args(env, info, 2, args))
        return NULL;
    KZN_TRY(napi_get_value_uint32(env, args[0], &node));
    KZN_TRY(napi_typeof(env, args[1], &type));
    bool resumes = type != napi_undefined;
    if (resumes && !read_uuid(env, args[1], &last))
        return NULL;
    if (kz_monouuid_new(&gen, node, resumes ? &last : NULL, &err))
        return kzn_throw(env, &err);
    KZN_TRY(napi_create_external(env, gen, free_monouuid, NULL, &value));
    return value;
}

static napi_value monouuid_next(napi_env env, napi_callback_info info)
{
    napi_value arg;
    void *gen;
    kz_uuid uuid;
    kz_error err;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_external(env, arg, &gen));
    if (kz_monouuid_next(gen, &uuid)) {
        kzn_fail(&err, KZ_OVERFLOW, "nanoseconds of 63 bits have run out");
        return kzn_throw(env, &err);
    }
    return uuid_value(env, &uuid);
}

/* monoUuidParse(text): {node, time}, the time in nanoseconds. */
static napi_value monouuid_parse(napi_env env, napi_callback_info info)
{
    napi_value arg, object;
    kz_uuid uuid;
    kz_error err;
    uint32_t node;
    int64_t unix_ns;
    if (!kzn_args(env, info, 1, &arg) || !read_uuid(env, arg, &uuid))
        return NULL;
    if (kz_monouuid_parse(&uuid, &node, &unix_ns, &err))
        return kzn_throw(env, &err);
    KZN_TRY(napi_create_object(env, &object));
    kzn_set_number(env, object, "node", node);
    kzn_set_bigint(env, object, "time", (uint64_t)unix_ns);
    return object;
}

/* monoUuidMin(ns) */
static napi_value monouuid_min(napi_env env, napi_callback_info info)
{
    napi_value arg;
    kz_uuid uuid;
    kz_error err;
    int64_t unix_ns;
    bool lossless;
    if (!kzn_args(env, info, 1, &arg))
        return NULL;
    KZN_TRY(napi_get_value_bigint_int64(env, arg, &unix_ns, &lossless));
    if (kz_monouuid_min(unix_ns, &uuid, &err))
        return kzn_throw(env, &err);
    return uuid_value(env, &uuid);
}

void kzn_init_values(napi_env env, napi_value exports)
{
    static const kzn_function functions[] = {{"layout", describe},
                                             {"decode", decode},
                                             {"minId", min_id},
                                             {"maxId", max_id},
                                             {"format", format},
                                             {"parse", parse},
                                             {"readKeys", read_keys},
                                             {"toExternal", to_external},
                                             {"toInternal", to_internal},
                                             {"monoNew", mono_new},
                                             {"monoNext", mono_next},
                                             {"monoUuidNew", monouuid_new},
                                             {"monoUuidNext", monouuid_next},
                                             {"monoUuidParse", monouuid_parse},
                                             {"monoUuidMin", monouuid_min}};
    kzn_add(env, exports, functions, sizeof functions / sizeof *functions, NULL);
}
