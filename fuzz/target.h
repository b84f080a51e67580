/* What a fuzz target is, and how it says that something does not hold. */
#ifndef KZ_FUZZ_TARGET_H
#define KZ_FUZZ_TARGET_H

#include <kazahana.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert, but there in every build. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The input as a text in memory of exactly its size, so that a read past its end is seen. The caller frees it. */
static inline char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    MUST(text);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

/* A refusal fills the error: its status, and a message that ends. */
static inline void must_explain(const kz_error *err, kz_status status)
{
    MUST(status != KZ_OK);
    MUST(err->status == status);
    MUST(err->message[0] != 0);
    MUST(memchr(err->message, 0, sizeof err->message));
}

#endif
