/* standalone: no coordinator at all. It grants nothing; the generator has only unfenced fallback IDs, which promise
 * nothing. */
#include "core/error.h"
#include "core/url.h"
#include "sources/all.h"

static kz_status standalone_open(void **out, const char *text, const kz_source_options *options, kz_source_facts *facts,
                                 kz_error *err)
{
    static const char *const known[] = {NULL};
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = kz__url_only(&url, known, err);
    if (status)
        return status;
    if (*url.body)
        return kz__fail(err, KZ_INVALID, "source standalone: takes nothing behind the colon, not \"%s\"", url.body);
    if (options->fallback == KZ_FALLBACK_NEVER)
        return kz__fail(err, KZ_NO_PROVIDER,
                        "no provider configured and fallback is disabled: standalone: has only fallback IDs, name "
                        "another source or allow fallback");
    const kz_layout *layout = options->layout ? options->layout : kz_layout_preset(0);
    if (!layout->node_bits)
        return kz__fail(err, KZ_INVALID, "a layout without node bits has no fallback half for standalone:");
    *facts =
        (kz_source_facts){.layout = *layout, .flags = KZ_SOURCE_WALL_CLOCK | KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED};
    *out = NULL;
    return KZ_OK;
}

static void standalone_close(void *handle, bool forked)
{
    (void)handle;
    (void)forked;
}

const kz_source_ops kz__source_standalone = {
    .struct_size = sizeof(kz_source_ops), .scheme = "standalone", .open = standalone_open, .close = standalone_close};
