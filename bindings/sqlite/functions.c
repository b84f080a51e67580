#include "functions.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void kz_sql_fail(sqlite3_context *context, const kz_error *err)
{
    sqlite3_result_error(context, err->message[0] ? err->message : kz_status_text(err->status), -1);
}

/* The layout in values[at], or the default one. False: the call has ended with an error. */
static bool layout_of(sqlite3_context *context, int count, sqlite3_value **values, int at, kz_layout *layout)
{
    kz_error err = {0};
    const char *text = count > at ? (const char *)sqlite3_value_text(values[at]) : "kazahana";
    if (text && kz_layout_parse(text, layout, &err) == KZ_OK)
        return true;
    if (!text)
        strcpy(err.message, "the layout is NULL");
    kz_sql_fail(context, &err);
    return false;
}

static bool parts_of(sqlite3_context *context, int count, sqlite3_value **values, kz_parts *parts)
{
    kz_layout layout;
    kz_error err = {0};
    if (sqlite3_value_type(values[0]) == SQLITE_NULL || !layout_of(context, count, values, 1, &layout))
        return false;
    if (kz_decode(&layout, (kz_id)sqlite3_value_int64(values[0]), parts, &err) == KZ_OK)
        return true;
    kz_sql_fail(context, &err);
    return false;
}

static void id_time(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_parts parts;
    char text[KZ_TIME_TEXT_SIZE];
    if (!parts_of(context, count, values, &parts))
        return;
    kz_time_text(parts.unix_ms, text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void id_node(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_parts parts;
    if (parts_of(context, count, values, &parts))
        sqlite3_result_int64(context, parts.node);
}

/* A JSON object, for json_extract. */
static void decode(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_parts parts;
    char time[KZ_TIME_TEXT_SIZE];
    if (!parts_of(context, count, values, &parts))
        return;
    kz_time_text(parts.unix_ms, time);
    char *text = sqlite3_mprintf("{\"time\":\"%s\",\"unixMs\":%lld,\"node\":%u,\"sequence\":%u,\"fallback\":%s}", time,
                                 (long long)parts.unix_ms, parts.node, parts.seq, parts.fallback ? "true" : "false");
    sqlite3_result_text(context, text, -1, sqlite3_free);
}

/* A time as text, or Unix ms as a number. */
static bool time_of(sqlite3_context *context, sqlite3_value *value, int64_t *unix_ms)
{
    kz_error err = {0};
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return false;
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *unix_ms = sqlite3_value_int64(value);
        return true;
    }
    if (kz_time_parse((const char *)sqlite3_value_text(value), unix_ms, &err) == KZ_OK)
        return true;
    kz_sql_fail(context, &err);
    return false;
}

static void edge(sqlite3_context *context, int count, sqlite3_value **values, bool max)
{
    kz_layout layout;
    kz_error err = {0};
    int64_t unix_ms;
    kz_id id;
    if (!time_of(context, values[0], &unix_ms) || !layout_of(context, count, values, 1, &layout))
        return;
    if ((max ? kz_max_id : kz_min_id)(&layout, unix_ms, &id, &err))
        kz_sql_fail(context, &err);
    else
        sqlite3_result_int64(context, (sqlite3_int64)id);
}

static void min_id(sqlite3_context *context, int count, sqlite3_value **values)
{
    edge(context, count, values, false);
}

static void max_id(sqlite3_context *context, int count, sqlite3_value **values)
{
    edge(context, count, values, true);
}

/* base32 unless it is said. */
static bool form_of(sqlite3_context *context, int count, sqlite3_value **values, kz_form *form)
{
    static const char *const names[] = {"decimal", "hex", "base32", "base62", "base64url"};
    const char *text = count > 1 ? (const char *)sqlite3_value_text(values[1]) : "base32";
    for (size_t i = 0; text && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *form = (kz_form)i;
            return true;
        }
    sqlite3_result_error(context, "a form is decimal, hex, base32, base62 or base64url", -1);
    return false;
}

static void write_text(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_form form;
    char text[KZ_TEXT_SIZE];
    if (sqlite3_value_type(values[0]) == SQLITE_NULL || !form_of(context, count, values, &form))
        return;
    kz_text((kz_id)sqlite3_value_int64(values[0]), form, text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void read_text(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_form form;
    kz_error err = {0};
    kz_id id;
    const char *text = (const char *)sqlite3_value_text(values[0]);
    if (!text || !form_of(context, count, values, &form))
        return;
    if (kz_text_parse(text, form, &id, &err))
        kz_sql_fail(context, &err);
    else
        sqlite3_result_int64(context, (sqlite3_int64)id);
}

/* Keys come from a file that KAZAHANA_KEY_FILE names, never as an argument: those end up in logs. Read once. */
static const kz_external_keys *keys_of(sqlite3_context *context, bool *ok)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static kz_external_keys *keys;
    const char *path = secure_getenv("KAZAHANA_KEY_FILE");
    kz_error err = {0};
    pthread_mutex_lock(&lock);
    *ok = keys || !path || !*path || kz_external_keys_load(&keys, path, &err) == KZ_OK;
    pthread_mutex_unlock(&lock);
    if (!*ok)
        kz_sql_fail(context, &err);
    return keys;
}

static void external(sqlite3_context *context, int count, sqlite3_value **values)
{
    bool ok;
    kz_error err = {0};
    char text[KZ_EXTERNAL_TYPED_SIZE];
    const char *type = count > 1 ? (const char *)sqlite3_value_text(values[1]) : NULL;
    if (sqlite3_value_type(values[0]) == SQLITE_NULL)
        return;
    kz_id id = (kz_id)sqlite3_value_int64(values[0]);
    const kz_external_keys *keys = keys_of(context, &ok);
    if (!ok)
        return;
    if (!type)
        kz_external_encode(keys, id, text);
    else if (kz_external_encode_typed(keys, type, id, text, &err)) {
        kz_sql_fail(context, &err);
        return;
    }
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void internal(sqlite3_context *context, int count, sqlite3_value **values)
{
    bool ok;
    kz_error err = {0};
    kz_id id;
    const char *text = (const char *)sqlite3_value_text(values[0]);
    const char *type = count > 1 ? (const char *)sqlite3_value_text(values[1]) : NULL;
    if (!text)
        return;
    const kz_external_keys *keys = keys_of(context, &ok);
    if (!ok)
        return;
    kz_status status = type ? kz_external_decode_typed(keys, type, text, NULL, 0, &id, &err)
                            : kz_external_decode(keys, text, &id, &err);
    if (status)
        kz_sql_fail(context, &err);
    else
        sqlite3_result_int64(context, (sqlite3_int64)id);
}

int kz_sql_functions_init(sqlite3 *db)
{
    static const struct {
        const char *name;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
        bool pure; /* the same answer for the same arguments, so that it may stand in an index */
    } functions[] = {{"kazahana_time", id_time, true},      {"kazahana_node", id_node, true},
                     {"kazahana_decode", decode, true},     {"kazahana_min", min_id, true},
                     {"kazahana_max", max_id, true},        {"kazahana_text", write_text, true},
                     {"kazahana_parse", read_text, true},   {"kazahana_external", external, false},
                     {"kazahana_internal", internal, false}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        for (int count = 1; count <= 2; count++) {
            int flags = SQLITE_UTF8 | (functions[i].pure ? SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC : 0);
            int status =
                sqlite3_create_function(db, functions[i].name, count, flags, NULL, functions[i].call, NULL, NULL);
            if (status)
                return status;
        }
    return SQLITE_OK;
}
