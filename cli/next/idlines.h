/* IDs as lines. */
#ifndef CLI_IDLINES_H
#define CLI_IDLINES_H

#include "cli/idtext.h"

enum {
    ID_LINE_ROOM = 64,       /* for one line; the longest, JSON with twice 20 digits, has 60 characters */
    ID_LINES_ALIKE = 62 * 62 /* the most IDs in a row whose lines differ in two digits alone */
};

/* The IDs of a run follow one another, and so most lines are the line before with other last digits. A line is written
 * digit by digit only once for all IDs that have all but the last two digits in common; each of these gets a copy of it
 * and puts its own two in. */
struct id_lines {
    enum id_format format;
    const kz_external_keys *keys; /* for FORMAT_EXTERNAL */
    kz_id alike;                  /* how many IDs two digits tell apart */
    char digits[ID_LINES_ALIKE][2];

    char line[ID_LINE_ROOM];
    size_t length, digits_at, digits_again_at; /* of the line: with its end, and where the two digits stand */
    kz_id first, count;                        /* the IDs it will do for, with their digits put in */
};

void id_lines_begin(struct id_lines *lines, enum id_format format, const kz_external_keys *keys);

/* Writes a line for each ID and returns where they end. There must be ID_LINE_ROOM bytes for each; what follows the
 * last line is scribbled over. */
char *id_lines_write(struct id_lines *lines, const kz_id *ids, size_t count, char *at);

#endif
