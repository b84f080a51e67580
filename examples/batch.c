/* Introduces kz_options_init, kz_next_batch, kz_mint and kz_decode: many IDs in one call, and what is in them. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>

enum { COUNT = 10000 };

int main(void)
{
    static kz_id ids[COUNT];
    int result = 1;
    kz_generator *gen = NULL;
    kz_error err;

    /* 12 sequence bits: 4096 IDs a millisecond. The batch sleeps from one millisecond to the next as it has to. */
    kz_options options;
    kz_options_init(&options);
    options.layout = "snowflake";

    if (kz_open(&gen, "static:5", &options, &err))
        goto failed;

    kz_status status = kz_next_batch(gen, ids, COUNT);
    if (status != KZ_OK) {
        fprintf(stderr, "batch: %s\n", kz_status_text(status));
        goto out;
    }
    for (int i = 1; i < COUNT; i++) {
        if (ids[i] <= ids[i - 1]) {
            fprintf(stderr, "batch: ID %d is not above the one before\n", i);
            goto out;
        }
    }

    /* The explicit form of the same call: its own time limit, and an error that says what happened. */
    kz_id more[16];
    if (kz_mint(gen, more, 16, 500, &err))
        goto failed;
    if (more[0] <= ids[COUNT - 1]) {
        fprintf(stderr, "batch: the second batch is not above the first\n");
        goto out;
    }

    kz_layout layout;
    kz_parts first, last;
    if (kz_layout_parse("snowflake", &layout, &err) || kz_decode(&layout, ids[0], &first, &err) ||
        kz_decode(&layout, ids[COUNT - 1], &last, &err))
        goto failed;
    if (first.node != 5 || last.node != 5) {
        fprintf(stderr, "batch: node %" PRIu32 " and %" PRIu32 " instead of 5\n", first.node, last.node);
        goto out;
    }
    printf("%d IDs of node %" PRIu32 " over %" PRId64 " ms\n", COUNT, first.node, last.unix_ms - first.unix_ms);
    result = 0;
    goto out;

failed:
    fprintf(stderr, "batch: %s\n", err.message);
out:
    kz_close(gen);
    return result;
}
