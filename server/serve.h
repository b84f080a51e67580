/* Running the server. */
#ifndef KZ_SERVER_SERVE_H
#define KZ_SERVER_SERVE_H

#include "server/settings.h"

/* Serves until SIGTERM or SIGINT; then stops accepting, answers what is under way, releases its leases. Returns the
 * exit status. */
int serve(settings *s);

/* Reads what a start would read: tokens, certificate and key, the form of the URLs. False: `message` says what is
 * wrong. */
bool serve_check(const settings *s, char message[static 512]);

#endif
