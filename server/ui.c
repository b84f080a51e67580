/* GET / and GET /ui/{file}: the page that draws the plane, for browsers; for programs a list of the paths. The files
 * are server/ui/, put in by the build. */
#include "server/app.h"
#include "ui_app_css.h"
#include "ui_app_js.h"
#include "ui_icon_svg.h"
#include "ui_id_js.h"
#include "ui_index_html.h"
#include "ui_plane_js.h"

#include <string.h>

typedef struct file {
    const char *name, *type;
    http_text bytes;
    const char *etag;
} file;

#define FILE_OF(name, type, of)                                                                                        \
    {                                                                                                                  \
        name, type, {of, sizeof of}, of##_etag                                                                         \
    }

static const file page = FILE_OF("", "text/html; charset=utf-8", ui_index_html);
static const file parts[] = {
    FILE_OF("app.js", "text/javascript; charset=utf-8", ui_app_js),
    FILE_OF("plane.js", "text/javascript; charset=utf-8", ui_plane_js),
    FILE_OF("id.js", "text/javascript; charset=utf-8", ui_id_js),
    FILE_OF("app.css", "text/css; charset=utf-8", ui_app_css),
    FILE_OF("icon.svg", "image/svg+xml", ui_icon_svg),
};

static bool has(const http_text *text, const char *part)
{
    return text && memmem(text->at, text->length, part, strlen(part));
}

/* What leases carry was written by strangers: even if some of it became markup, it could load and send nothing. */
static http_outcome send_file(call *c, const file *f)
{
    http_reply *reply = c->reply;
    http_reply_type(reply, f->type);
    http_reply_kept(reply);
    http_reply_header(reply, "ETag", f->etag);
    http_reply_header(reply, "Content-Security-Policy",
                      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
                      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    http_reply_header(reply, "X-Content-Type-Options", "nosniff");
    http_reply_header(reply, "Referrer-Policy", "no-referrer");
    if (has(http_header_find(c->request, "if-none-match"), f->etag))
        http_reply_status(reply, 304);
    else
        http_reply_write(reply, f->bytes.at, f->bytes.length);
    return HTTP_DONE;
}

/* Programs ask for JSON or for anything; only a browser names HTML. */
http_outcome get_root(call *c)
{
    http_reply_header(c->reply, "Vary", "Accept");
    if (!c->app->settings->no_ui && has(http_header_find(c->request, "accept"), "text/html"))
        return send_file(c, &page);
    http_reply_printf(c->reply, "{\"name\":\"kazahana\",\"version\":\"%s\",\"paths\":[", kz_version());
    for (int r = ROUTE_NONE + 1; r < ROUTES; r++)
        if (r != ROUTE_UI || !c->app->settings->no_ui)
            http_reply_printf(c->reply, "%s\"%s %s\"", r > ROUTE_NONE + 1 ? "," : "", route_method((route_name)r),
                              route_path((route_name)r));
    http_reply_printf(c->reply, "]}");
    return HTTP_DONE;
}

http_outcome get_ui(call *c)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !c->app->settings->no_ui; i++)
        if (c->rest.length == strlen(parts[i].name) && memcmp(c->rest.at, parts[i].name, c->rest.length) == 0)
            return send_file(c, &parts[i]);
    return problem(c->reply, 404, "no such file", "%s",
                   c->app->settings->no_ui ? "this server leaves the page out (ui = off)" : "not a file of the page");
}
