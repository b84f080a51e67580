/* Introduces kz_open, kz_next and kz_close: a few IDs from a fixed node. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>

int main(void)
{
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, "static:7", NULL, &err)) {
        fprintf(stderr, "hello: %s\n", err.message);
        return 1;
    }

    kz_id last = 0;
    for (int i = 0; i < 5; i++) {
        kz_id id;
        kz_status status = kz_next(gen, &id);
        if (status != KZ_OK) {
            fprintf(stderr, "hello: %s\n", kz_status_text(status));
            kz_close(gen);
            return 1;
        }
        if (id <= last) {
            fprintf(stderr, "hello: %" PRIu64 " came after %" PRIu64 "\n", id, last);
            kz_close(gen);
            return 1;
        }
        printf("%" PRIu64 "\n", id);
        last = id;
    }

    kz_close(gen);
    return 0;
}
