/* Standard input, line by line. */
#include "cli/lines.h"

#include "cli/report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void lines_begin(struct lines *lines, struct output *out)
{
    lines->out = out;
    lines->number = 0;
    lines->at = lines->filled = 0;
    lines->ended = false;
}

/* Moves what is left to the front and reads more behind it. */
static bool fill(struct lines *lines)
{
    output_flush(lines->out);
    memmove(lines->buffer, lines->buffer + lines->at, lines->filled - lines->at);
    lines->filled -= lines->at;
    lines->at = 0;
    ssize_t got;
    do
        got = read(STDIN_FILENO, lines->buffer + lines->filled, LINES_SIZE - 1 - lines->filled);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        report_failure("cannot read standard input: %s", strerror(errno));
        return false;
    }
    lines->filled += (size_t)got;
    lines->ended = got == 0;
    return true;
}

/* Cuts the line out of the buffer: zero bytes and length are checked, the end taken off. */
static int cut(struct lines *lines, size_t length, char **line)
{
    char *begin = lines->buffer + lines->at;
    lines->at += length;
    lines->number++;
    if (length && begin[length - 1] == '\n')
        length--;
    if (length && begin[length - 1] == '\r')
        length--;
    if (length > LINE_MAX_LENGTH) {
        report_failure("line %" PRIu64 " is longer than %d characters", lines->number, LINE_MAX_LENGTH);
        return -1;
    }
    if (memchr(begin, '\0', length)) {
        report_failure("line %" PRIu64 " contains a zero byte", lines->number);
        return -1;
    }
    begin[length] = '\0';
    *line = begin;
    return length > 0;
}

int lines_next(struct lines *lines, char **line)
{
    for (;;) {
        char *begin = lines->buffer + lines->at;
        size_t held = lines->filled - lines->at;
        char *end = memchr(begin, '\n', held);
        if (!end && !lines->ended && held <= LINE_MAX_LENGTH + 1) {
            if (!fill(lines))
                return -1;
            continue;
        }
        if (!held)
            return 0;
        int found = cut(lines, end ? (size_t)(end - begin) + 1 : held, line);
        if (found)
            return found;
    }
}
