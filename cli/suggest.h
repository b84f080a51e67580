/* "Did you mean": the known name that is nearest to a mistyped one. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>
#include <stdint.h>

/* How many letters must be added, left out or changed to get from one name to the other; names beyond 31 letters are
 * far from everything. */
size_t suggest_distance(const char *one, const char *other);

/* Is a name at this distance worth suggesting? */
int suggest_is_near(const char *mistyped, size_t distance);

#endif
