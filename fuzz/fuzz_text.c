/* Texts of IDs: what reads must write and read back as the same ID, in every form. */
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    for (int form = KZ_DECIMAL; form <= KZ_BASE64URL + 1; form++) {
        kz_error err;
        kz_id id, back;
        kz_status status = kz_text_parse(text, (kz_form)form, &id, &err);
        if (status) {
            must_explain(&err, status);
            continue;
        }
        char written[KZ_TEXT_SIZE];
        size_t length = kz_text(id, (kz_form)form, written);
        MUST(length == strlen(written) && length > 0);
        MUST(kz_text_parse(written, (kz_form)form, &back, NULL) == KZ_OK && back == id);
        /* These two have one text for each ID. */
        if (form == KZ_BASE62 || form == KZ_BASE64URL)
            MUST(strcmp(text, written) == 0);
    }
    free(text);
    return 0;
}
