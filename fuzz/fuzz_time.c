/* Texts of times: what reads must write and read back as the same instant. */
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    char written[KZ_TIME_TEXT_SIZE];
    kz_error err;
    int64_t unix_ms, back;
    kz_status status = kz_time_parse(text, &unix_ms, &err);
    if (status) {
        must_explain(&err, status);
    } else {
        kz_time_text(unix_ms, written);
        MUST(strlen(written) < sizeof written);
        /* Unix milliseconds can be of years that no text names. */
        if (strlen(written) == strlen("2026-01-01T00:00:00.000Z") && strncmp(written, "0000", 4) != 0)
            MUST(kz_time_parse(written, &back, NULL) == KZ_OK && back == unix_ms);
    }
    free(text);
    return 0;
}
