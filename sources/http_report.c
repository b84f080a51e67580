/* A lease server looked at from outside: its time, who holds what, and how it is. */
#include "core/error.h"
#include "sources/http_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE_LINES 256   /* with the longest holders, every quote escaped, a page is within the limit */
#define PAGES_MAX  65536 /* a listing that does not end is none */

kz_status kz__http_get(kz__http *source, const char *path, kz__http_answer *answer, kz_error *err)
{
    kz_status status = kz__http_send(source->link, "GET", path, NULL, answer, err);
    if (status || answer->status == 200)
        return status;
    if (answer->status == 404)
        return kz__fail(err, KZ_UNSUPPORTED, "%s has no %.*s", answer->from, (int)strcspn(path, "?"), path);
    return kz__http_refused(source, answer, err);
}

kz_status kz__http_now(void *self, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    kz__http *source = self;
    kz__http_answer answer;
    kz_error why;
    kz_status status = kz__http_get(source, "/time", &answer, err);
    if (status)
        return status;
    status = kz__http_time_read(answer.body, answer.length, source_ms, generation, &why);
    return status ? kz__http_nonsense(&answer, &why, err) : KZ_OK;
}

/* Letters and digits as they are, everything else as %XX. */
static void escape(const char *text, char *out, size_t room)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;
    for (; *text && used + 4 <= room; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("._-~", c)) {
            out[used++] = (char)c;
            continue;
        }
        out[used++] = '%';
        out[used++] = digits[c >> 4];
        out[used++] = digits[c & 15];
    }
    out[used] = '\0';
}

kz_status kz__http_list(void *self, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err)
{
    kz__http *source = self;
    char cursor[KZ__HTTP_CURSOR_SIZE] = "", before[KZ__HTTP_CURSOR_SIZE];
    char after[3 * KZ__HTTP_CURSOR_SIZE + 1], path[sizeof after + 64];
    bool more = true;
    /* The server's pages begin behind a lease, or with a service's first. */
    if (from && from->id)
        snprintf(cursor, sizeof cursor, "%s:%" PRIu32, from->service, from->id - 1);
    else if (from)
        snprintf(cursor, sizeof cursor, "%s", from->service);
    for (unsigned page = 0; more; page++) {
        kz__http_answer answer;
        kz_error why;
        strcpy(before, cursor);
        escape(cursor, after, sizeof after);
        snprintf(path, sizeof path, "/leases?limit=%d%s%s", PAGE_LINES, *after ? "&after=" : "", after);
        kz_status status = kz__http_get(source, path, &answer, err);
        if (status)
            return status;
        status = kz__http_page_read(answer.body, answer.length, visit, ctx, &more, cursor, &why);
        if (status == KZ_OK && *cursor && (page == PAGES_MAX || strcmp(cursor, before) == 0))
            status = kz__fail(&why, KZ_STORE, "the listing does not end");
        if (status)
            return kz__http_nonsense(&answer, &why, err);
        more = more && *cursor;
    }
    return KZ_OK;
}

kz_status kz__http_health(void *self, const char *asked, kz_source_health *health, kz_error *err)
{
    kz__http *source = self;
    const char *service = NULL;
    kz__http_answer answer;
    kz_error why;
    kz_source_health h = {.layout = source->params.layout,
                          .lease_ms = source->params.lease_ms,
                          .nodes_free = UINT64_C(1) << (source->params.layout.node_bits - 1),
                          .note = "the lease server does not say whether its store survives a crash. Run kazahana "
                                  "doctor on the store itself"};
    kz_status status = kz__table_service(&source->params, asked, &service, err);
    if (status == KZ_OK)
        status = kz__http_get(source, "/health", &answer, err);
    if (status)
        return status;
    status = kz__http_health_read(answer.body, answer.length, &h, &why);
    if (status)
        return kz__http_nonsense(&answer, &why, err);
    status = kz__http_now(source, &h.source_ms, &h.generation, err);
    if (status == KZ_OK)
        *health = h;
    return status;
}
