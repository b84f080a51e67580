/* Source URLs: every piece lies inside the text, and what a source is asked for is found again. */
#include "target.h"

#include "core/url.h"

static void must_lie_inside(const kz__url *url, const char *piece)
{
    MUST(piece >= url->text && piece < url->text + sizeof url->text);
    MUST(memchr(piece, 0, (size_t)(url->text + sizeof url->text - piece)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"state", "default", NULL};
    char *text = text_of(data, size);
    kz_error err;
    kz__url url;
    kz_status status = kz__url_parse(text, &url, &err);
    if (status) {
        must_explain(&err, status);
    } else {
        must_lie_inside(&url, url.scheme);
        must_lie_inside(&url, url.body);
        MUST(*url.scheme && !strchr(url.scheme, ':') && !strchr(url.body, '?'));
        MUST(url.param_count <= KZ__URL_PARAMS_MAX);
        bool all_known = true;
        for (size_t i = 0; i < url.param_count; i++) {
            must_lie_inside(&url, url.params[i].name);
            must_lie_inside(&url, url.params[i].value);
            MUST(*url.params[i].name);
            MUST(kz__url_param(&url, url.params[i].name) == url.params[i].value);
            all_known &= strcmp(url.params[i].name, "state") == 0 || strcmp(url.params[i].name, "default") == 0;
        }
        status = kz__url_only(&url, known, &err);
        MUST((status == KZ_OK) == all_known);
        if (status)
            must_explain(&err, status);
    }
    free(text);
    return 0;
}
