/* A load generator light enough not to be the limit: one thread, one epoll, answers checked against the first one's
 * head.
 *
 *     http_load PORT [connections] [pipelined] [seconds] [path] [server's PID]
 *
 * Prints: requests a second, p50 and p99 of a batch in microseconds, and how busy the generator and the server were, in
 * percent of a core. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 20000
#define HEAD_MAX        1024

typedef struct conn {
    int fd;
    unsigned wanted; /* answers still to come */
    uint64_t sent_ns;
    size_t left; /* of the body of the answer at hand */
    char head[HEAD_MAX];
    size_t head_length;
} conn;

static conn conns[CONNECTIONS_MAX];
static char batch[1 << 20];
static size_t batch_length;
static unsigned depth = 1;
static uint64_t answers;
static uint32_t slots[1 << 20]; /* batches by microseconds */
/* The head of the first answer: the others are compared with it, and read in full only where they differ. */
static char known[HEAD_MAX];
static size_t known_length, known_body;

static void die(const char *what)
{
    fprintf(stderr, "http_load: %s: %s\n", what, errno ? strerror(errno) : "wrong answer");
    exit(1);
}

static uint64_t mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void ask(conn *c)
{
    c->sent_ns = mono_ns();
    c->wanted = depth;
    if (write(c->fd, batch, batch_length) != (ssize_t)batch_length)
        die("write");
}

/* A head that has arrived whole: the length of its body. */
static size_t body_of(const char *head, size_t length)
{
    errno = 0;
    if (length < 12 || memcmp(head, "HTTP/1.1 200", 12) != 0)
        die("status");
    const char *field = memmem(head, length, "Content-Length: ", 16);
    if (!field)
        die("Content-Length");
    return (size_t)atol(field + 16);
}

static void remember(const char *head, size_t length, size_t body)
{
    memcpy(known, head, length);
    known_length = length;
    known_body = body;
}

/* Answers in these bytes, which may begin and end anywhere. */
static void take(conn *c, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    while (bytes < end) {
        size_t have = (size_t)(end - bytes);
        if (c->left) {
            size_t part = c->left < have ? c->left : have;
            bytes += part;
            c->left -= part;
        } else if (c->head_length == 0 && known_length && have >= known_length + known_body &&
                   memcmp(bytes, known, known_length) == 0) {
            bytes += known_length + known_body;
        } else {
            if (c->head_length == HEAD_MAX)
                die("head");
            c->head[c->head_length++] = *bytes++;
            if (c->head_length < 4 || memcmp(c->head + c->head_length - 4, "\r\n\r\n", 4) != 0)
                continue;
            c->left = body_of(c->head, c->head_length);
            remember(c->head, c->head_length, c->left);
            c->head_length = 0;
        }
        if (c->left == 0 && c->head_length == 0) {
            answers++;
            if (c->wanted-- == 0)
                die("an answer nobody asked for");
        }
    }
}

static void finished(conn *c)
{
    uint64_t us = (mono_ns() - c->sent_ns) / 1000;
    slots[us < sizeof slots / sizeof *slots ? us : sizeof slots / sizeof *slots - 1]++;
}

static uint64_t percentile(double share)
{
    uint64_t total = 0, seen = 0;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        total += slots[i];
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if ((double)(seen += slots[i]) >= share * (double)total)
            return i;
    return 0;
}

static double own_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double seconds_of(const char *pid)
{
    char path[64];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        die(path);
    fclose(file);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static void connect_all(int epoll, uint16_t port, unsigned count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (unsigned i = 0; i < count; i++) {
        conn *c = &conns[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0)
            die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
}

static void run_until(int epoll, uint64_t until_ns)
{
    static char bytes[1 << 18];
    struct epoll_event events[1024];
    while (mono_ns() < until_ns) {
        int ready = epoll_wait(epoll, events, 1024, 1000);
        if (ready == 0)
            die("no answer for a second");
        for (int i = 0; i < ready; i++) {
            conn *c = events[i].data.ptr;
            ssize_t got = read(c->fd, bytes, sizeof bytes);
            if (got <= 0)
                die("read");
            take(c, bytes, (size_t)got);
            if (c->wanted == 0) {
                finished(c);
                ask(c);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: http_load PORT [connections] [pipelined] [seconds] [path] [server's PID]\n");
        return 2;
    }
    unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 32;
    double seconds = argc > 4 ? atof(argv[4]) : 3;
    const char *path = argc > 5 ? argv[5] : "/id", *pid = argc > 6 ? argv[6] : NULL;
    depth = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    if (count < 1 || count > CONNECTIONS_MAX || depth < 1 || depth > 1000)
        die("too many");
    for (unsigned i = 0; i < depth; i++)
        batch_length +=
            (size_t)snprintf(batch + batch_length, sizeof batch - batch_length,
                             "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n", path);
    int epoll = epoll_create1(0);
    connect_all(epoll, (uint16_t)atoi(argv[1]), count);
    for (unsigned i = 0; i < count; i++)
        ask(&conns[i]);
    run_until(epoll, mono_ns() + 300000000); /* warm */
    memset(slots, 0, sizeof slots);
    answers = 0;
    double own = own_seconds(), theirs = pid ? seconds_of(pid) : 0;
    uint64_t start_ns = mono_ns();
    run_until(epoll, start_ns + (uint64_t)(seconds * 1e9));
    double took = (double)(mono_ns() - start_ns) / 1e9;
    printf("%.0f %lu %lu %.0f %.0f\n", (double)answers / took, (unsigned long)percentile(0.5),
           (unsigned long)percentile(0.99), (own_seconds() - own) / took * 100,
           pid ? (seconds_of(pid) - theirs) / took * 100 : 0);
    return 0;
}
