/* GET /openapi.json: what this server does, for machines. The text is server/openapi.json, put in by the build. */
#include "openapi_json.h"
#include "server/app.h"

http_outcome get_openapi(call *c)
{
    http_reply_write(c->reply, openapi_json, sizeof openapi_json);
    return HTTP_DONE;
}
