/* A socket that somebody else made: systemd's protocol of sd_listen_fds by hand. */
#include "server/handover.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool address_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

int handed_over(char message[static 512])
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    *message = '\0';
    if (!pid || !count || strtol(pid, NULL, 10) != getpid())
        return 0;
    int number = atoi(count), type = 0, listens = 0;
    socklen_t size = sizeof type;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (number != 1)
        snprintf(message, 512, "%d sockets were handed over: one is wanted", number);
    else if (getsockopt(3, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM ||
             getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
        snprintf(message, 512, "what was handed over is not a stream socket that listens (ListenStream=, Accept=no)");
    return *message ? 0 : 3;
}

void describe_socket(int fd, char address[static 160], bool *loopback, bool *unix_socket)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    char host[64] = "";
    getsockname(fd, (struct sockaddr *)&bound, &size);
    *unix_socket = bound.ss_family == AF_UNIX;
    if (*unix_socket) {
        snprintf(address, 160, "unix:%.108s", ((struct sockaddr_un *)&bound)->sun_path);
        return;
    }
    bool v6 = bound.ss_family == AF_INET6;
    uint16_t port = ntohs(v6 ? ((struct sockaddr_in6 *)&bound)->sin6_port : ((struct sockaddr_in *)&bound)->sin_port);
    inet_ntop(bound.ss_family,
              v6 ? (void *)&((struct sockaddr_in6 *)&bound)->sin6_addr
                 : (void *)&((struct sockaddr_in *)&bound)->sin_addr,
              host, sizeof host);
    snprintf(address, 160, v6 ? "[%s]:%u" : "%s:%u", host, port);
    *loopback = address_is_loopback(host);
}
