/* Layouts: what reads must write and read back as the same, and can be described. */
#include "target.h"

static bool same(const kz_layout *a, const kz_layout *b)
{
    return a->epoch_ms == b->epoch_ms && a->unit_ms == b->unit_ms && a->flags == b->flags &&
           a->time_bits == b->time_bits && a->node_bits == b->node_bits && a->seq_bits == b->seq_bits &&
           strcmp(a->name, b->name) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    char written[KZ_LAYOUT_TEXT_SIZE];
    kz_error err;
    kz_layout layout, back;
    kz_status status = kz_layout_parse(text, &layout, &err);
    if (status) {
        must_explain(&err, status);
    } else {
        kz_layout_facts facts;
        kz_layout_describe(&layout, &facts);
        MUST(layout.time_bits + layout.node_bits + layout.seq_bits + facts.reserved_bits == 64);
        kz_layout_text(&layout, written);
        MUST(strlen(written) < sizeof written);
        /* A decode-only preset divides its bits in a way the written form cannot say. */
        if (!(layout.flags & KZ_LAYOUT_DECODE_ONLY))
            MUST(kz_layout_parse(written, &back, NULL) == KZ_OK && same(&layout, &back));
    }
    free(text);
    return 0;
}
