/* Bearer tokens from a file: one a line, several for rotation. */
#ifndef KZ_SERVER_TOKENS_H
#define KZ_SERVER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tokens tokens;

/* At least 16 characters each, at most 64 of them; blank lines and lines that begin with # are passed over. */
bool tokens_load(tokens **t, const char *path, char message[static 512]);
void tokens_free(tokens *t);

/* Is `value`, an Authorization header's, a bearer token of these? In constant time for each. */
bool tokens_allow(const tokens *t, const char *value, size_t length);

#endif
