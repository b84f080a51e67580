/* The log: one JSON object a line on stderr. */
#ifndef POSTS_LOG_H
#define POSTS_LOG_H

#include <jansson.h>

/* A text of which it is not known whether it is UTF-8: a message that was cut, or that repeats what a client sent. */
json_t *json_any_text(const char *text);

/* `event` is a short fixed word. `details` is a JSON object, which is taken over; NULL for none. Never give it a
 * password. Any thread may call it; a line leaves with one write. */
void log_event(const char *level, const char *event, json_t *details);

#endif
