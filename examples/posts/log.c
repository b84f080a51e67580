/* The log: jansson escapes, one write keeps the lines of threads apart. */
#include "log.h"

#include <kazahana.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

json_t *json_any_text(const char *text)
{
    json_t *json = json_string(text);
    char *plain = json ? NULL : strdup(text);
    if (!plain)
        return json;
    for (char *at = plain; *at; at++)
        if (*at & 0x80)
            *at = '?';
    json = json_string(plain);
    free(plain);
    return json;
}

void log_event(const char *level, const char *event, json_t *details)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    char when[KZ_TIME_TEXT_SIZE];
    kz_time_text((int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000, when);

    json_t *line = json_pack("{s:s, s:s, s:s}", "time", when, "level", level, "event", event);
    if (details)
        json_object_update(line, details);
    char *text = json_dumps(line, JSON_COMPACT);
    if (text) {
        size_t length = strlen(text);
        text[length] = '\n'; /* in the place of the terminating zero */
        if (write(STDERR_FILENO, text, length + 1) < 0) {
            /* A log that cannot be written is no reason to stop serving. */
        }
    }
    free(text);
    json_decref(line);
    json_decref(details);
}
