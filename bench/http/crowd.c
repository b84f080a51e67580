/* Connections that do no work: idle ones, and slow ones that send a header a byte at a time and come back when they are
 * cut.
 *
 *     http_crowd PORT IDLE SLOW
 *
 * Prints a line when all are there, and goes on until it is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLOW_MAX 10000
#define PACE_MS  100

static struct sockaddr_in address = {.sin_family = AF_INET};

static int open_connection(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        fprintf(stderr, "http_crowd: connect: %s\n", strerror(errno));
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    static struct {
        int fd;
        size_t sent;
    } slow[SLOW_MAX];
    static const char head[] = "GET /id HTTP/1.1\r\nHost: a\r\nX-Slow: ";
    int idle_count = argc == 4 ? atoi(argv[2]) : -1, slow_count = argc == 4 ? atoi(argv[3]) : -1;
    if (idle_count < 0 || slow_count < 0 || slow_count > SLOW_MAX) {
        fprintf(stderr, "usage: http_crowd PORT IDLE SLOW\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < idle_count; i++)
        open_connection();
    for (int i = 0; i < slow_count; i++)
        slow[i].fd = open_connection();
    puts("there");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < slow_count; i++) {
            char byte = slow[i].sent < sizeof head - 1 ? head[slow[i].sent] : 'x', answer[512];
            slow[i].sent++;
            if (send(slow[i].fd, &byte, 1, MSG_NOSIGNAL) == 1 &&
                recv(slow[i].fd, answer, sizeof answer, MSG_DONTWAIT) < 0)
                continue;
            close(slow[i].fd);
            slow[i].fd = open_connection();
            slow[i].sent = 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = PACE_MS * 1000000L}, NULL);
    }
}
