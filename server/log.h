/* The log: one line an event, logfmt or JSON, to stderr. */
#ifndef KZ_SERVER_LOG_H
#define KZ_SERVER_LOG_H

#include <stdbool.h>

enum { LOG_AT_ERROR = 0, LOG_AT_WARNING = 1, LOG_AT_INFO = 2, LOG_AT_DEBUG = 3 };

void log_setup(int level, bool json);
void log_set_level(int level);

/* `event` is a short fixed word ("listening"); then pairs of name and value texts, ended by NULL. Thread-safe; one
 * write per line; control characters escaped. Never give it a secret, a token or a URL with a password. */
void log_event(int level, const char *event, ...) __attribute__((sentinel));
/* The same for what others can make happen again and again: a line that is repeated is written once a second at most,
 * with the count, and of one event 20 lines a second. */
void log_often(int level, const char *event, ...) __attribute__((sentinel));
/* Writes the counts of what was kept back. */
void log_flush(void);

#endif
