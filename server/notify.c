/* sd_notify's protocol by hand: one datagram of lines to the socket that NOTIFY_SOCKET names. */
#include "server/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool send_to_manager(const char *state, const char *status)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    if (!length || (*path != '/' && *path != '@') || length >= sizeof to.sun_path)
        return false;
    memcpy(to.sun_path, path, length);
    if (*path == '@')
        to.sun_path[0] = '\0'; /* an abstract socket */
    char text[512];
    snprintf(text, sizeof text, "%s%s%.400s%s", state, status ? "STATUS=" : "", status ? status : "",
             status ? "\n" : "");
    for (char *at = text + strlen(state); *at; at++)
        if (*at == '\n' && at[1])
            *at = ' ';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    bool sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, size) >= 0;
    close(fd);
    return sent;
}

bool notify_ready(const char *status)
{
    return send_to_manager("READY=1\n", status);
}

bool notify_stopping(const char *status)
{
    return send_to_manager("STOPPING=1\n", status);
}
