/* Standard output, collected and written in large pieces. */
#include "cli/output.h"

#include "cli/report.h"
#include "cli/stop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_begin(struct output *out)
{
    const char *no_color = getenv("NO_COLOR");
    out->terminal = isatty(STDOUT_FILENO);
    out->colour = out->terminal && !(no_color && *no_color);
    out->error = 0;
    out->used = 0;
}

void output_flush(struct output *out)
{
    size_t done = 0;
    while (done < out->used && !out->error) {
        ssize_t wrote = write(STDOUT_FILENO, out->buffer + done, out->used - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            out->error = errno;
        /* Who is to end does not wait for a reader that has stopped reading. */
        if (done < out->used && stop_overdue())
            out->error = EPIPE;
    }
    out->used = 0;
}

int output_end(struct output *out)
{
    output_flush(out);
    if (!out->error)
        return EXIT_DONE;
    if (out->error != EPIPE)
        report_failure("cannot write to standard output: %s", strerror(out->error));
    return EXIT_FAILED;
}

void output_bytes(struct output *out, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t piece = size < OUTPUT_SIZE ? size : OUTPUT_SIZE;
        memcpy(output_room(out, piece), bytes, piece);
        output_took(out, piece);
        bytes += piece;
        size -= piece;
    }
}

void output_text(struct output *out, const char *text)
{
    output_bytes(out, text, strlen(text));
}

void output_format(struct output *out, const char *format, ...)
{
    enum { ROOM = 1024 };
    char *at = output_room(out, ROOM);
    va_list values;
    va_start(values, format);
    int length = vsnprintf(at, ROOM, format, values);
    va_end(values);
    if (length > 0)
        output_took(out, length < ROOM ? (size_t)length : ROOM - 1);
}

/* The length of the UTF-8 sequence that begins here; 0 if none does. */
static size_t utf8_length(const unsigned char *at)
{
    size_t length;
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        length = 2;
    else if ((at[0] & 0xf0) == 0xe0)
        length = 3;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        length = 4;
    else
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] >= 0xa0;
    bool too_large = at[0] == 0xf4 && at[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : length;
}

void output_json(struct output *out, const char *text)
{
    output_text(out, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = utf8_length(at);
        if (!length)
            output_text(out, "\\ufffd");
        else if (*at == '"' || *at == '\\')
            output_format(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            output_format(out, "\\u%04x", *at);
        else
            output_bytes(out, (const char *)at, length);
        at += length ? length : 1;
    }
    output_text(out, "\"");
}

void output_style(struct output *out, enum output_style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m",   [STYLE_BOLD] = "\033[1m", [STYLE_GREEN] = "\033[32m",
        [STYLE_YELLOW] = "\033[33m", [STYLE_RED] = "\033[31m", [STYLE_DIM] = "\033[2m",
    };
    if (out->colour)
        output_text(out, codes[style]);
}
