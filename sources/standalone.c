/* standalone: no coordinator at all. Fallback IDs from the upper half of the slots, which promise nothing. */
#include "lib/error.h"
#include "sources/source.h"

#include <stdlib.h>

static kz_status standalone_open(kz__source **out, const kz__url *url, const kz__source_want *want, kz_error *err)
{
    static const char *const known[] = {NULL};
    kz_status status = kz__url_only(url, known, err);
    if (status)
        return status;
    if (*url->body)
        return kz__fail(err, KZ_INVALID, "source standalone: takes nothing behind the colon, not \"%s\"", url->body);
    if (want->fallback == KZ_FALLBACK_NEVER)
        return kz__fail(err, KZ_NO_PROVIDER,
                        "no provider configured and fallback is disabled: standalone: has only fallback IDs, name "
                        "another source or allow fallback");
    const kz_layout *layout = want->layout ? want->layout : kz_layout_preset(0);
    if (!layout->node_bits)
        return kz__fail(err, KZ_INVALID, "a layout without node bits has no fallback half for standalone:");
    kz__source *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    *source = (kz__source){.ops = &kz__source_standalone, .layout = *layout};
    *out = source;
    return KZ_OK;
}

static kz_status standalone_acquire(kz__source *source, uint64_t from_ms, kz__grant *grant, kz_error *err)
{
    (void)from_ms;
    (void)err;
    unsigned height = kz__slot_bits(&source->layout) - 1;
    *grant = (kz__grant){.rect = {.slot = UINT64_C(1) << height,
                                  .start_ms = 0,
                                  .end_ms = kz__end_of_time_ms(&source->layout),
                                  .height = (uint8_t)height,
                                  .rank = KZ__UNFENCED}};
    return KZ_OK;
}

static void standalone_close(kz__source *source, bool forked)
{
    (void)forked;
    free(source);
}

const kz__source_ops kz__source_standalone = {
    .scheme = "standalone", .open = standalone_open, .acquire = standalone_acquire, .close = standalone_close};
