/* Standard input, line by line. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "cli/output.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_MAX_LENGTH = 255, LINES_SIZE = 64 * 1024 };

struct lines {
    struct output *out; /* flushed before waiting for more input, so that what was asked for is answered */
    uint64_t number;    /* of the line read last, from 1 */
    size_t at, filled;
    bool ended;
    char buffer[LINES_SIZE];
};

void lines_begin(struct lines *lines, struct output *out);

/* The next line that is not empty, without its end (\n or \r\n): 1. No more: 0. A line over LINE_MAX_LENGTH, one with a
 * zero byte, or a failed read: -1, after a message. The line is good until the next call. */
int lines_next(struct lines *lines, char **line);

#endif
