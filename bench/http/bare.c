/* The limit: an epoll loop that looks for the ends of requests and nothing else. No server that reads its requests can
 * be faster on this machine.
 *
 *     http_bare            prints its port and serves until it is killed */
#include "answer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " ANSWER_BODY_LENGTH "\r\n\r\n" ANSWER_BODY;

#define ANSWER_LENGTH (sizeof answer - 1)
#define FDS_MAX       65536
#define BATCH_MAX     1024

/* How much of "\r\n\r\n" the connection's bytes ended with. */
static unsigned char matched[FDS_MAX];

static size_t count_requests(int fd, const char *bytes, size_t length)
{
    static const char end[] = "\r\n\r\n";
    unsigned char at = matched[fd];
    size_t count = 0;
    const char *p = bytes, *stop = bytes + length;
    while (p < stop) {
        if (at == 0 && !(p = memchr(p, '\r', (size_t)(stop - p))))
            break;
        at = *p == end[at] ? at + 1 : *p == '\r';
        p++;
        if (at == 4) {
            at = 0;
            count++;
        }
    }
    matched[fd] = at;
    return count;
}

static void serve(int fd)
{
    static char bytes[65536], answers[BATCH_MAX * ANSWER_LENGTH];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) {
        close(fd);
        return;
    }
    for (size_t count = count_requests(fd, bytes, (size_t)got); count > 0;) {
        size_t batch = count < BATCH_MAX ? count : BATCH_MAX;
        for (size_t i = 0; i < batch; i++)
            memcpy(answers + i * ANSWER_LENGTH, answer, ANSWER_LENGTH);
        /* The load generator reads before it writes: a short write would be its fault. */
        if (write(fd, answers, batch * ANSWER_LENGTH) != (ssize_t)(batch * ANSWER_LENGTH)) {
            close(fd);
            return;
        }
        count -= batch;
    }
}

int main(void)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 4096) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
        perror("http_bare");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[1024];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, 1024, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                serve(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= FDS_MAX)
                    abort();
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
                matched[fd] = 0;
                event.data.fd = fd;
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}
