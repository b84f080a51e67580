/* Running the server. */
#ifndef KZ_SERVER_SERVE_H
#define KZ_SERVER_SERVE_H

#include "server/settings.h"

/* Serves until SIGTERM or SIGINT; then stops accepting, answers what is under way, releases its leases. Returns the
 * exit status. */
int serve(settings *s);

#endif
