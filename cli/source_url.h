/* A source's URL as it may be shown. */
#ifndef CLI_SOURCE_URL_H
#define CLI_SOURCE_URL_H

#include "kazahana.h"

#include <stdbool.h>

#define SOURCE_SHOWN_SIZE 512

/* Without a login, and for an address on the network without its parameters: either may be secret. NULL is the embedded
 * default. Returns `text`. */
const char *source_shown(const char *url, char text[static SOURCE_SHOWN_SIZE]);

/* A lease file that does not exist, for those who only look: opening would make it. */
bool source_file_is_missing(const char *url, kz_error *err);

#endif
