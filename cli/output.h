/* Standard output, collected and written in large pieces. Errors are kept until the end, where they become the exit
 * status. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTPUT_SIZE = 64 * 1024 };

enum output_style { STYLE_PLAIN, STYLE_BOLD, STYLE_GREEN, STYLE_YELLOW, STYLE_RED, STYLE_DIM };

struct output {
    bool terminal;
    bool colour; /* a terminal, and NO_COLOR is not set */
    int error;   /* errno of the first write that failed; nothing is written after it */
    size_t used;
    char buffer[OUTPUT_SIZE];
};

/* Begins on standard output. */
void output_begin(struct output *out);

void output_flush(struct output *out);

/* Flushes, reports a write that failed (a reader that went away is not worth a word) and returns the exit status. */
int output_end(struct output *out);

/* Room for `size` bytes, at most OUTPUT_SIZE, to be written to directly; output_took says how many were. */
static inline char *output_room(struct output *out, size_t size)
{
    if (out->used + size > OUTPUT_SIZE)
        output_flush(out);
    return out->buffer + out->used;
}

static inline void output_took(struct output *out, size_t size)
{
    out->used += size;
}

void output_bytes(struct output *out, const char *bytes, size_t size);
void output_text(struct output *out, const char *text);
/* At most 1023 characters. */
__attribute__((format(printf, 2, 3))) void output_format(struct output *out, const char *format, ...);
/* A text as a JSON string, in quotes. Bytes that are no UTF-8 become U+FFFD. */
void output_json(struct output *out, const char *text);
/* Nothing unless colours are wanted. */
void output_style(struct output *out, enum output_style style);

#endif
