/* A source's URL as it may be shown. */
#ifndef CLI_SOURCE_URL_H
#define CLI_SOURCE_URL_H

#define SOURCE_SHOWN_SIZE 512

/* Without a login, and for an address on the network without its parameters: either may be secret. NULL is the embedded
 * default. Returns `text`. */
const char *source_shown(const char *url, char text[static SOURCE_SHOWN_SIZE]);

#endif
