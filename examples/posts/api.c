/* POST /posts, GET /posts/{id}, GET /posts?after=&limit=, GET /health. In the database an ID is a number, in JSON a
 * text, because JavaScript would round it, and in a URL an external ID, which shows neither time nor order. */
#include "api.h"

#include "log.h"

#include <microhttpd.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENT_MAX = 10000, PAGE_DEFAULT = 20, PAGE_MAX = 100 };

/* ------------------------------------------------------------------------------------------------------------------ */

static json_t *decimal(int64_t id)
{
    char text[KZ_TEXT_SIZE];
    kz_text((kz_id)id, KZ_DECIMAL, text);
    return json_string(text);
}

static json_t *post_json(const api *a, const post *p)
{
    char external[KZ_EXTERNAL_SIZE];
    kz_external_encode(a->keys, (kz_id)p->id, external);
    return json_pack("{s:o, s:s, s:o, s:o, s:s, s:s}", "id", decimal(p->id), "externalId", external, "communityId",
                     decimal(p->community_id), "userId", decimal(p->user_id), "content", p->content, "createdAt",
                     p->created_at);
}

static void database_problem(http_reply *reply, db_status status, const char *message)
{
    bool lost = status == DB_LOST;
    log_event("error", lost ? "database_lost" : "database_refused",
              json_pack("{s:o}", "error", json_any_text(message)));
    reply->retry_later = lost;
    http_problem(reply, lost ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_INTERNAL_SERVER_ERROR,
                 lost ? "the database is not there" : "the database refused");
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* An ID in JSON: a text of digits. False, with the problem filled in, if it is not that. */
static bool read_id(const json_t *body, const char *name, int64_t *value, http_reply *reply)
{
    char detail[KZ_MESSAGE_SIZE + 64];
    kz_error err;
    kz_id id;
    const json_t *field = json_object_get(body, name);
    if (!field)
        snprintf(detail, sizeof detail, "%s is missing", name);
    else if (!json_is_string(field))
        snprintf(detail, sizeof detail, "%s must be a text of digits: a number would lose digits in JavaScript", name);
    else if (kz_text_parse(json_string_value(field), KZ_DECIMAL, &id, &err))
        snprintf(detail, sizeof detail, "%s: %s", name, err.message);
    else {
        *value = (int64_t)id;
        return true;
    }
    http_problem(reply, MHD_HTTP_BAD_REQUEST, detail);
    return false;
}

static size_t characters(const char *utf8)
{
    size_t count = 0;
    for (; *utf8; utf8++)
        count += (*utf8 & 0xC0) != 0x80;
    return count;
}

static const char *read_content(const json_t *body, http_reply *reply)
{
    char detail[96] = "";
    const json_t *field = json_object_get(body, "content");
    const char *text = json_string_value(field);
    if (!field)
        snprintf(detail, sizeof detail, "content is missing");
    else if (!text)
        snprintf(detail, sizeof detail, "content must be a text");
    else if (!*text)
        snprintf(detail, sizeof detail, "content is empty");
    else if (characters(text) > CONTENT_MAX)
        snprintf(detail, sizeof detail, "content has %zu characters: at most %d are taken", characters(text),
                 CONTENT_MAX);
    if (!*detail)
        return text;
    http_problem(reply, MHD_HTTP_BAD_REQUEST, detail);
    return NULL;
}

static void store(api *a, post *p, http_reply *reply)
{
    kz_id id;
    kz_parts parts;
    kz_error err;
    if (node_mint(a->node, &id, &parts, &err)) {
        log_event("error", "no_id", json_pack("{s:o}", "error", json_any_text(err.message)));
        reply->retry_later = true;
        http_problem(reply, MHD_HTTP_SERVICE_UNAVAILABLE, "no ID is to be had at the moment; nothing was stored");
        return;
    }
    char created[KZ_TIME_TEXT_SIZE], message[DB_MESSAGE_SIZE], external[KZ_EXTERNAL_SIZE], detail[128];
    kz_time_text(parts.unix_ms, created);
    kz_external_encode(a->keys, id, external);
    p->id = (int64_t)id;
    p->created_at = created;
    db_status status = database_insert(a->database, p, message);
    if (status == DB_OK) {
        atomic_fetch_add(&a->posts, 1);
        reply->status = MHD_HTTP_CREATED;
        reply->body = post_json(a, p);
        snprintf(reply->location, sizeof reply->location, "/posts/%s", external);
        snprintf(reply->node, sizeof reply->node, "%" PRIu32, parts.node);
        return;
    }
    database_problem(reply, status, message);
    if (status == DB_LOST) {
        snprintf(detail, sizeof detail, "the database went away: GET /posts/%s will tell whether it was stored",
                 external);
        http_problem(reply, MHD_HTTP_SERVICE_UNAVAILABLE, detail);
    } else if (status == DB_DUPLICATE) {
        atomic_fetch_add(&a->duplicate_keys, 1);
        char text[KZ_TEXT_SIZE];
        kz_text(id, KZ_DECIMAL, text);
        log_event("error", "duplicate_key", json_pack("{s:s, s:i}", "id", text, "node", (int)parts.node));
        http_problem(reply, MHD_HTTP_INTERNAL_SERVER_ERROR, "the ID exists already; nothing was stored");
    }
}

static void create_post(api *a, const http_request *request, http_reply *reply)
{
    json_error_t wrong;
    json_t *body = json_loadb(request->body, request->body_length, JSON_REJECT_DUPLICATES, &wrong);
    if (!json_is_object(body)) {
        char detail[JSON_ERROR_TEXT_LENGTH + 64] = "the body must be a JSON object";
        if (!body)
            snprintf(detail, sizeof detail, "the body is not JSON: %s (line %d, column %d)", wrong.text, wrong.line,
                     wrong.column);
        http_problem(reply, MHD_HTTP_BAD_REQUEST, detail);
    } else {
        post p = {0};
        if (read_id(body, "communityId", &p.community_id, reply) && read_id(body, "userId", &p.user_id, reply) &&
            (p.content = read_content(body, reply)))
            store(a, &p, reply);
    }
    json_decref(body);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static bool read_external(const api *a, const char *text, int64_t *id, http_reply *reply)
{
    kz_error err;
    kz_id value;
    if (kz_external_decode(a->keys, text, &value, &err)) {
        http_problem(reply, MHD_HTTP_BAD_REQUEST, err.message);
        return false;
    }
    *id = (int64_t)value;
    return true;
}

typedef struct found {
    const api *api;
    json_t *posts;
} found;

static void collect(void *ctx, const post *p)
{
    found *f = ctx;
    json_array_append_new(f->posts, post_json(f->api, p));
}

static void get_post(api *a, const char *external, http_reply *reply)
{
    int64_t id;
    char message[DB_MESSAGE_SIZE];
    if (!read_external(a, external, &id, reply))
        return;
    found f = {a, json_array()};
    db_status status = database_get(a->database, id, collect, &f, message);
    if (status)
        database_problem(reply, status, message);
    else if (!json_array_size(f.posts))
        http_problem(reply, MHD_HTTP_NOT_FOUND, "there is no such post");
    else
        reply->body = json_incref(json_array_get(f.posts, 0));
    json_decref(f.posts);
}

static void list_posts(api *a, const http_request *request, http_reply *reply)
{
    char message[DB_MESSAGE_SIZE];
    const char *after = http_query(request, "after"), *limit = http_query(request, "limit");
    int64_t id = -1;
    int count = PAGE_DEFAULT;
    if (limit) {
        count = strlen(limit) <= 3 && limit[strspn(limit, "0123456789")] == 0 ? atoi(limit) : 0;
        if (count < 1 || count > PAGE_MAX) {
            snprintf(message, sizeof message, "limit must be a number from 1 to %d", PAGE_MAX);
            http_problem(reply, MHD_HTTP_BAD_REQUEST, message);
            return;
        }
    }
    if (after && !read_external(a, after, &id, reply))
        return;
    found f = {a, json_array()};
    db_status status = database_page(a->database, id, count, collect, &f, message);
    if (status) {
        database_problem(reply, status, message);
    } else {
        /* A page that is not full is the last one, for now. */
        size_t size = json_array_size(f.posts);
        json_t *last = (int)size == count ? json_object_get(json_array_get(f.posts, size - 1), "externalId") : NULL;
        reply->body = json_pack("{s:O, s:O?}", "posts", f.posts, "next", last);
    }
    json_decref(f.posts);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void get_health(api *a, http_reply *reply)
{
    bool node_up;
    char message[DB_MESSAGE_SIZE] = "";
    json_t *place = node_health(a->node, &node_up);
    bool database_up = database_ping(a->database, message) == DB_OK;
    json_t *stock = json_pack("{s:s}", "status", database_up ? "UP" : "DOWN");
    if (!database_up)
        json_object_set_new(stock, "error", json_any_text(message));
    bool up = node_up && database_up && !a->ending;
    reply->status = up ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    reply->body = json_pack("{s:s, s:b, s:s, s:I, s:I, s:{s:o, s:o}}", "status", up ? "UP" : "DOWN", "ending",
                            (int)a->ending, "instance", a->instance, "posts", (json_int_t)a->posts, "duplicateKeys",
                            (json_int_t)a->duplicate_keys, "components", "node", place, "database", stock);
}

void api_answer(void *ctx, const http_request *request, http_reply *reply)
{
    api *a = ctx;
    const char *path = request->path;
    bool read = !strcmp(request->method, "GET") || !strcmp(request->method, "HEAD");
    bool write = !strcmp(request->method, "POST");
    bool list = !strcmp(path, "/posts"), one = !strncmp(path, "/posts/", 7), health = !strcmp(path, "/health");
    bool live = !strcmp(path, "/health/live");

    if (list && write)
        create_post(a, request, reply);
    else if (list && read)
        list_posts(a, request, reply);
    else if (one && read)
        get_post(a, path + 7, reply);
    else if (health && read)
        get_health(a, reply);
    else if (live && read)
        reply->body = json_pack("{s:s}", "status", "UP");
    else if (list || one || health || live) {
        reply->allow = list ? "GET, HEAD, POST" : "GET, HEAD";
        http_problem(reply, MHD_HTTP_METHOD_NOT_ALLOWED, "this path does not take that method");
    } else
        http_problem(reply, MHD_HTTP_NOT_FOUND, "the paths are /posts, /posts/{id}, /health and /health/live");
}
