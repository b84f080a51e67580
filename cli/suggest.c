/* "Did you mean": the known name that is nearest to a mistyped one. */
#include "cli/suggest.h"

#include <string.h>

enum { NAME_MAX_LENGTH = 31 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t suggest_distance(const char *one, const char *other)
{
    size_t rows = strlen(one), columns = strlen(other);
    if (rows > NAME_MAX_LENGTH || columns > NAME_MAX_LENGTH)
        return SIZE_MAX;
    size_t costs[NAME_MAX_LENGTH + 1];
    for (size_t j = 0; j <= columns; j++)
        costs[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = costs[0];
        costs[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t changed = diagonal + (one[i - 1] != other[j - 1]);
            diagonal = costs[j];
            costs[j] = smaller(changed, smaller(costs[j], costs[j - 1]) + 1);
        }
    }
    return costs[columns];
}

int suggest_is_near(const char *mistyped, size_t distance)
{
    return distance <= 2 && distance < strlen(mistyped);
}
