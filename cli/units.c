/* Numbers, durations and rates as people write them. Every function reads a text whole or returns false. */
#include "cli/units.h"

#include "kazahana.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool units_number(const char *text, uint64_t *number)
{
    return !kz_number_parse(text, 0, UINT64_MAX, number, NULL);
}

bool units_duration_with_unit_ms(const char *text, int64_t *ms)
{
    int64_t read_ms;
    if (kz_duration_parse(text + (*text == '-' || *text == '+'), 0, INT64_MAX, &read_ms, NULL))
        return false;
    *ms = *text == '-' ? -read_ms : read_ms;
    return true;
}

bool units_rate(const char *text, double *per_second)
{
    /* strtod alone would also take "inf", hexadecimal and leading blanks. */
    size_t length = strspn(text, "0123456789.");
    if (!length || (text[length] && text[length] != '/'))
        return false;
    char *end;
    double count = strtod(text, &end);
    int64_t unit_ms = 1000;
    if (end != text + length || !(count > 0) || count > 1e12)
        return false;
    if (*end) {
        char one[16];
        snprintf(one, sizeof one, "1%s", end + 1);
        if (strlen(end + 1) >= sizeof one - 1 || kz_duration_parse(one, 1, INT64_MAX, &unit_ms, NULL))
            return false;
    }
    *per_second = count * 1000 / (double)unit_ms;
    return true;
}
