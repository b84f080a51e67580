/* A load generator light enough not to be the limit: one thread, one epoll, answers checked against the first one's
 * head.
 *
 * Prints: requests a second, p50 and p99 of a batch in microseconds, and how busy the generator and the server were, in
 * percent of a core. With --ids it reads every answer of /id instead: each connection's IDs must increase and no two be
 * equal, and it prints how many there were. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
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
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 20000
#define HEAD_MAX        1024
#define BODY_MAX        128 /* of an ID */
#define PATIENCE_MS     10000

typedef struct conn {
    int fd;
    unsigned wanted; /* answers still to come */
    uint64_t sent_ns;
    size_t left; /* of the body of the answer at hand */
    char head[HEAD_MAX];
    size_t head_length;
    char body[BODY_MAX];
    size_t body_length;
    uint64_t last_id;
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
static bool wants_ids;
static uint64_t *ids;
static size_t id_count, id_room;

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

/* The body of an answer that has arrived whole is an ID above the connection's last one. */
static void note_id(conn *c)
{
    uint64_t id = 0, again = 0;
    int used = 0;
    c->body[c->body_length] = '\0';
    errno = 0;
    if (sscanf(c->body, "{\"data\":{\"id\":%" SCNu64 ",\"id_str\":\"%" SCNu64 "\"}}%n", &id, &again, &used) != 2 ||
        (size_t)used != c->body_length || id != again)
        die(c->body);
    if (id <= c->last_id)
        die("an ID that is not above the one before on its connection");
    c->last_id = id;
    c->body_length = 0;
    if (id_count == id_room) {
        id_room = id_room ? 2 * id_room : 1 << 16;
        ids = realloc(ids, id_room * sizeof *ids);
        if (!ids)
            die("memory");
    }
    ids[id_count++] = id;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void look_for_twins(void)
{
    qsort(ids, id_count, sizeof *ids, by_number);
    for (size_t i = 1; i < id_count; i++)
        if (ids[i - 1] == ids[i]) {
            fprintf(stderr, "http_load: %" PRIu64 " was answered twice\n", ids[i]);
            exit(1);
        }
}

static void keep_body(conn *c, const char *bytes, size_t length)
{
    errno = 0;
    if (c->body_length + length >= BODY_MAX)
        die("a body too long for an ID");
    memcpy(c->body + c->body_length, bytes, length);
    c->body_length += length;
}

/* Answers in these bytes, which may begin and end anywhere. */
static void take(conn *c, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    while (bytes < end) {
        size_t have = (size_t)(end - bytes);
        if (c->left) {
            size_t part = c->left < have ? c->left : have;
            if (wants_ids)
                keep_body(c, bytes, part);
            bytes += part;
            c->left -= part;
        } else if (c->head_length == 0 && known_length && !wants_ids && have >= known_length + known_body &&
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
            if (wants_ids)
                note_id(c);
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

/* `where`: a port of loopback, or the path of a Unix socket. */
static void connect_all(int epoll, const char *where, unsigned count)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(where))};
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    strncpy(local.sun_path, where, sizeof local.sun_path - 1);
    bool by_path = *where == '/';
    const struct sockaddr *address = by_path ? (struct sockaddr *)&local : (struct sockaddr *)&tcp;
    for (unsigned i = 0; i < count; i++) {
        conn *c = &conns[i];
        c->fd = socket(by_path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, address, by_path ? sizeof local : sizeof tcp) < 0)
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
        int ready = epoll_wait(epoll, events, 1024, PATIENCE_MS);
        errno = 0;
        if (ready == 0)
            die("no answer for 10 seconds");
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

/* One batch of requests, as it is sent again and again. */
static void make_batch(const char *path, const char *body)
{
    for (unsigned i = 0; i < depth; i++) {
        char *at = batch + batch_length;
        size_t room = sizeof batch - batch_length;
        int length =
            body ? snprintf(at, room,
                            "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load\r\nAccept: */*\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            path, strlen(body), body)
                 : snprintf(at, room, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n",
                            path);
        errno = E2BIG;
        if (length < 0 || (size_t)length >= room)
            die(path);
        batch_length += (size_t)length;
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: http_load [OPTION]... PORT|/PATH\n"
                    "  --connections N (32)  --pipelined N (1)  --seconds S (3)  --path PATH (/id)\n"
                    "  --body JSON           POST it instead of GET\n"
                    "  --server PID          tell how busy it was\n"
                    "  --ids                 look at every ID\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"connections", required_argument, NULL, 'c'},
                                            {"pipelined", required_argument, NULL, 'd'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"path", required_argument, NULL, 'p'},
                                            {"body", required_argument, NULL, 'b'},
                                            {"server", required_argument, NULL, 'w'},
                                            {"ids", no_argument, NULL, 'i'},
                                            {0}};
    const char *path = "/id", *body = NULL, *pid = NULL;
    unsigned count = 32;
    double seconds = 3;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'c':
            count = (unsigned)atoi(optarg);
            break;
        case 'd':
            depth = (unsigned)atoi(optarg);
            break;
        case 's':
            seconds = atof(optarg);
            break;
        case 'p':
            path = optarg;
            break;
        case 'b':
            body = optarg;
            break;
        case 'w':
            pid = optarg;
            break;
        case 'i':
            wants_ids = true;
            break;
        default:
            return usage();
        }
    }
    if (optind + 1 != argc || count < 1 || count > CONNECTIONS_MAX || depth < 1 || depth > 1000)
        return usage();
    make_batch(path, body);
    int epoll = epoll_create1(0);
    connect_all(epoll, argv[optind], count);
    for (unsigned i = 0; i < count; i++)
        ask(&conns[i]);
    run_until(epoll, mono_ns() + 300000000); /* warm */
    memset(slots, 0, sizeof slots);
    answers = 0;
    double own = own_seconds(), theirs = pid ? seconds_of(pid) : 0;
    uint64_t start_ns = mono_ns();
    run_until(epoll, start_ns + (uint64_t)(seconds * 1e9));
    double took = (double)(mono_ns() - start_ns) / 1e9;
    if (wants_ids) {
        look_for_twins();
        printf("%zu\n", id_count);
        return 0;
    }
    printf("%.0f %lu %lu %.0f %.0f\n", (double)answers / took, (unsigned long)percentile(0.5),
           (unsigned long)percentile(0.99), (own_seconds() - own) / took * 100,
           pid ? (seconds_of(pid) - theirs) / took * 100 : 0);
    return 0;
}
