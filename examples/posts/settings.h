/* What the operator decides: flags, then the environment, then the defaults. */
#ifndef POSTS_SETTINGS_H
#define POSTS_SETTINGS_H

#include <stdint.h>

typedef struct settings {
    const char *listen;   /* ADDRESS:PORT; port 0 takes a free one and logs it */
    const char *database; /* postgresql://... or any other connection string of libpq */
    const char *source;   /* where this instance gets its node: a source URL of kazahana */
    const char *key_file; /* for external IDs; NULL: the mixer */
    const char *instance; /* how this instance calls itself in answers and logs */
    int threads;          /* each with a connection to the database of its own */
    int max_connections;
    int idle_s;          /* a connection that says nothing for so long is closed */
    int database_wait_s; /* how long to wait at the start for a database that is not up yet */
} settings;

/* Fills them in, or prints what is wrong (or the help) and ends the program. They point into argv, the environment and
 * static memory. */
void settings_read(settings *s, int argc, char **argv);

#endif
