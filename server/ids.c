/* GET /id, /ids and /decode. A loop never waits for an ID: what cannot be had at once is minted by a thread. */
#include "server/app.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { IDS_MAX = 10000 };

static void write_id(http_reply *reply, kz_id id)
{
    static const char before[] = "{\"data\":{\"id\":", between[] = ",\"id_str\":\"", behind[] = "\"}}";
    char body[sizeof before + sizeof between + sizeof behind + 2 * KZ_TEXT_SIZE], *end = body;
    char text[KZ_TEXT_SIZE];
    size_t length = kz_text(id, KZ_DECIMAL, text);
    end = mempcpy(end, before, sizeof before - 1);
    end = mempcpy(end, text, length);
    end = mempcpy(end, between, sizeof between - 1);
    end = mempcpy(end, text, length);
    end = mempcpy(end, behind, sizeof behind - 1);
    http_reply_write(reply, body, (size_t)(end - body));
}

void write_ids(http_reply *reply, id_shape how, const kz_id *ids, size_t count)
{
    char text[KZ_TEXT_SIZE];
    if (how == SHAPE_ID) {
        write_id(reply, ids[0]);
        return;
    }
    if (how == SHAPE_LINES)
        http_reply_type(reply, "text/plain");
    else
        http_reply_write(reply, "{\"data\":{\"ids\":[", 16);
    for (size_t i = 0; i < count; i++) {
        size_t length = kz_text(ids[i], KZ_DECIMAL, text);
        if (how == SHAPE_IDS)
            http_reply_write(reply, i ? ",\"" : "\"", i ? 2 : 1);
        http_reply_write(reply, text, length);
        http_reply_write(reply, how == SHAPE_IDS ? "\"" : "\n", 1);
    }
    if (how == SHAPE_IDS)
        http_reply_write(reply, "]}}", 3);
}

/* --------------------------------------------------------------------------------------------------------- routes */

/* Does a range of Accept ("text/plain;q=0.5") hold this type, how much is it wanted, and how exactly is it named? */
static bool fits_range(http_text range, const char *type, int *thousandths, int *nearness)
{
    size_t length = 0;
    while (length < range.length && !strchr("; \t", range.at[length]))
        length++;
    const char *slash = strchr(type, '/');
    bool exact = length == strlen(type) && strncasecmp(range.at, type, length) == 0;
    bool any_of = length == (size_t)(slash - type) + 2 && range.at[length - 1] == '*' &&
                  strncasecmp(range.at, type, length - 1) == 0;
    bool any = length == 3 && memcmp(range.at, "*/*", 3) == 0;
    *nearness = exact ? 3 : any_of ? 2 : 1;
    *thousandths = 1000;
    const char *q = memmem(range.at, range.length, "q=", 2);
    if (q) {
        char text[8] = "";
        size_t left = range.length - (size_t)(q + 2 - range.at);
        memcpy(text, q + 2, left < 7 ? left : 7);
        *thousandths = (int)(strtod(text, NULL) * 1000);
    }
    return exact || any_of || any;
}

/* How much the client wants a type; between equals, the one that it named. 0: not at all. */
static int wish_for(http_text accept, const char *type)
{
    int wish = 0, best = 0;
    while (accept.length) {
        const char *comma = memchr(accept.at, ',', accept.length);
        http_text range = {accept.at, comma ? (size_t)(comma - accept.at) : accept.length};
        accept =
            (http_text){accept.at + range.length + (comma != NULL), accept.length - range.length - (comma != NULL)};
        while (range.length && (*range.at == ' ' || *range.at == '\t'))
            range = (http_text){range.at + 1, range.length - 1};
        int thousandths, nearness;
        if (fits_range(range, type, &thousandths, &nearness) && nearness > best) {
            best = nearness;
            wish = thousandths;
        }
    }
    return wish > 0 ? 10 * wish + best : 0;
}

/* JSON unless the client would rather have lines. */
static bool wants_lines(const http_request *request)
{
    const http_text *accept = http_header_find(request, "accept");
    if (!accept || accept->length < 6) /* the usual one takes anything */
        return false;
    return wish_for(*accept, "text/plain") > wish_for(*accept, "application/json");
}

http_outcome get_id(call *c)
{
    kz_id id;
    id_shape how = wants_lines(c->request) ? SHAPE_LINES : SHAPE_ID;
    if (kz_try_next(c->app->gen, &id) != KZ_OK)
        return minter_wait(c->app->minter, c->reply, how, 1);
    write_ids(c->reply, how, &id, 1);
    return HTTP_DONE;
}

http_outcome get_ids(call *c)
{
    char text[16], *end;
    if (query_value(c->request, "count", text, sizeof text) != QUERY_VALUE)
        return problem(c->reply, 400, "how many?", "say how many with ?count=N, from 1 to %d", IDS_MAX);
    unsigned long count = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || count < 1 || count > IDS_MAX)
        return problem(c->reply, 400, "not a count", "count=%s is not a number from 1 to %d", text, IDS_MAX);
    /* Large answers and those that have to wait are made by the minter; a loop has others to serve. */
    return minter_wait(c->app->minter, c->reply, wants_lines(c->request) ? SHAPE_LINES : SHAPE_IDS, count);
}

/* What a text of a path says. A type and an underscore before the last 11 characters: an external ID. */
static kz_status read_id(const app *a, const char *text, const kz_layout *layout, char type[static 20], kz_id *id,
                         kz_error *err)
{
    size_t length = strlen(text);
    if (length > 12 && text[length - 12] == '_') {
        snprintf(type, 20, "%.*s", length - 12 < 20 ? (int)length - 12 : 19, text);
        return kz_external_decode_typed(a->keys, type, text, layout, 0, id, err);
    }
    kz_form form = strncmp(text, "0x", 2) == 0                        ? KZ_HEX
                   : length == 13 && text[strspn(text, "0123456789")] ? KZ_BASE32
                                                                      : KZ_DECIMAL;
    return kz_text_parse(text, form, id, err);
}

http_outcome get_decode(call *c)
{
    char text[64], layout_text[64], type[20] = "";
    kz_layout layout;
    kz_error err;
    kz_id id;
    kz_parts parts;
    if (c->rest.length >= sizeof text)
        return problem(c->reply, 400, "not an ID", "an ID has at most 28 characters");
    memcpy(text, c->rest.at, c->rest.length);
    text[c->rest.length] = '\0';
    query_found asked = query_value(c->request, "layout", layout_text, sizeof layout_text);
    if (asked == QUERY_BAD)
        return problem(c->reply, 400, "not a layout", "layout must be TIME-NODE-SEQ@EPOCH or a preset's name");
    kz_generator_layout(c->app->gen, &layout);
    kz_status status = asked == QUERY_VALUE ? kz_layout_parse(layout_text, &layout, &err) : KZ_OK;
    if (status == KZ_OK)
        status = read_id(c->app, text, &layout, type, &id, &err);
    if (*type && c->app->keys && door_closed(c->app, c->request, true, c->reply)) /* what a key hides is not for all */
        return HTTP_DONE;
    if (status == KZ_OK)
        status = kz_decode(&layout, id, &parts, &err);
    if (status)
        return problem_of(c->reply, status, err.message);
    char when[KZ_TIME_TEXT_SIZE], written[KZ_LAYOUT_TEXT_SIZE];
    kz_time_text(parts.unix_ms, when);
    kz_layout_text(&layout, written);
    http_reply_printf(c->reply,
                      "{\"data\":{\"id_str\":\"%" PRIu64 "\",\"time\":\"%s\",\"unixMs\":%" PRId64 ",\"node\":%" PRIu32
                      ",\"sequence\":%" PRIu32 ",\"fallback\":%s,\"layout\":\"%s\"%s%s%s}}",
                      id, when, parts.unix_ms, parts.node, parts.seq, parts.fallback ? "true" : "false", written,
                      *type ? ",\"type\":\"" : "", type, *type ? "\"" : "");
    return HTTP_DONE;
}
