/* Telling the service manager how it stands, by sd_notify's protocol. */
#ifndef KZ_SERVER_NOTIFY_H
#define KZ_SERVER_NOTIFY_H

#include <stdbool.h>

/* Each does nothing where there is no NOTIFY_SOCKET. `status` is one line for people; NULL: none. True: sent. */
bool notify_ready(const char *status);
bool notify_stopping(const char *status);

#endif
