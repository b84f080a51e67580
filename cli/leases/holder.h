/* Who holds a lease: a JSON object of texts, written by whoever took it, so nothing about it is taken on trust. */
#ifndef CLI_HOLDER_H
#define CLI_HOLDER_H

#include "cli/output.h"
#include "kazahana.h"

/* As people read it: `host=a pid=7`; a text that is no such object as it stands. Control characters become `?`. At most
 * 2 * KZ_HOLDER_SIZE bytes with the terminating zero. */
enum { HOLDER_TEXT_SIZE = 2 * KZ_HOLDER_SIZE };
void holder_text(const char *holder, char text[static HOLDER_TEXT_SIZE]);

/* The object, written anew; a text that is no such object as a JSON string. */
void holder_json(struct output *out, const char *holder);

/* Characters of UTF-8, for columns. */
size_t holder_width(const char *text);

#endif
