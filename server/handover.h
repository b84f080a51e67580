/* A socket that somebody else made, and what can be said about one. */
#ifndef KZ_SERVER_HANDOVER_H
#define KZ_SERVER_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

/* The socket that systemd hands over; 0: none. Something is wrong with it if `message` is not empty. */
int handed_over(char message[static 512]);

/* Where a socket listens, for the log; whether only this machine can reach it. */
void describe_socket(int fd, char address[static 160], bool *loopback, bool *unix_socket);

bool address_is_loopback(const char *host);

#endif
