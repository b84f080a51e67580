/* A server that answers nonsense: the lease table in Redis believes none of it, and says so. Nor do the TSID slots. */
#include "tests/redis_table.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* A server that answers whatever it is told to. */
typedef struct liar {
    int listener, port;
    const char *const *replies; /* one for each command, the last one for all that follow; NULL: closes */
    pthread_t thread;
    int quit[2];
} liar;

static void lie_to(const liar *l, int fd)
{
    char command[65536];
    size_t at = 0;
    for (;;) {
        struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = l->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents || recv(fd, command, sizeof command, 0) <= 0 || !l->replies[at])
            return;
        const char *reply = l->replies[at];
        if (send(fd, reply, strlen(reply), MSG_NOSIGNAL) < 0)
            return;
        if (l->replies[at + 1])
            at++;
    }
}

static void *lie(void *ctx)
{
    const liar *l = ctx;
    for (;;) {
        struct pollfd both[2] = {{.fd = l->listener, .events = POLLIN}, {.fd = l->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents)
            return NULL;
        int fd = accept(l->listener, NULL, NULL);
        lie_to(l, fd);
        close(fd);
    }
}

static void liar_start(liar *l, const char *const *replies)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    l->replies = replies;
    l->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(l->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(l->listener, 8), 0);
    assert_int_equal(getsockname(l->listener, (struct sockaddr *)&address, &size), 0);
    l->port = ntohs(address.sin_port);
    assert_int_equal(pipe(l->quit), 0);
    assert_int_equal(pthread_create(&l->thread, NULL, lie, l), 0);
}

static void liar_stop(liar *l)
{
    assert_int_equal(write(l->quit[1], "x", 1), 1);
    pthread_join(l->thread, NULL);
    close(l->quit[0]);
    close(l->quit[1]);
    close(l->listener);
}

#define INFO "$17\r\ncluster_enabled:0\r\n"
#define NONE "*2\r\n$4\r\nNONE\r\n$1\r\n5\r\n"

typedef struct story {
    const char *replies[4];
    kz_status status;
} story;

/* Opens the source and acquires: one of the two must fail as the story says. */
static void tell(const char *scheme, const story *stories, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        liar l;
        redis_table table;
        char url[64];
        liar_start(&l, stories[i].replies);
        snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme, l.port);
        kz_status status = table_try(&table, url, "default", NULL, 150);
        if (status == KZ_OK) {
            status = table_acquire(&table, 1);
            table_close(&table);
        }
        if (status != stories[i].status)
            fail_msg("%s, case %zu gave %s (%s)", scheme, i, kz_status_name(status), table.err.message);
        assert_true(*table.err.message);
        liar_stop(&l);
    }
}

static void nonsense_is_a_store_that_cannot_be_used(void **state)
{
    (void)state;
    static const story cases[] = {
        {{"HTTP/1.1 400 Bad Request\r\n\r\n"}, KZ_STORE},
        {{":5\r\n"}, KZ_STORE},
        {{"-ERR go away\r\n"}, KZ_STORE},
        {{"-LOADING Redis is loading the dataset in memory\r\n"}, KZ_UNAVAILABLE},
        {{"*1000000000\r\n"}, KZ_STORE},
        {{"$2000000000\r\nabc"}, KZ_UNAVAILABLE},
        {{"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"}, KZ_STORE},
        {{INFO INFO}, KZ_STORE},
        {{INFO, ":1\r\n"}, KZ_STORE},
        {{INFO, "*-1\r\n"}, KZ_STORE},
        {{INFO, "*0\r\n"}, KZ_STORE},
        {{INFO, "*1\r\n$2\r\nOK\r\n"}, KZ_STORE},
        {{INFO, "-MOVED 3999 127.0.0.1:6381\r\n"}, KZ_STORE},
        {{INFO, "-CROSSSLOT Keys in request don't hash to the same slot\r\n"}, KZ_STORE},
        {{INFO, "-NOSCRIPT No matching script\r\n", "+OK\r\n"}, KZ_STORE},
        {{INFO, NONE, "*1\r\n$2\r\nOK\r\n"}, KZ_STORE},
        {{INFO, NONE, "*2\r\n$6\r\nNOFREE\r\n:1\r\n"}, KZ_NO_FREE_NODE},
        {{INFO, NONE, "*2\r\n$7\r\nEMBARGO\r\n$3\r\nxyz\r\n"}, KZ_STORE},
        {{INFO, NONE, "*2\r\n$7\r\nSECRETS\r\n$1\r\n9\r\n"}, KZ_STORE},
        {{INFO, NONE, "*7\r\n$2\r\nOK\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n41\r\n$9\r\n999999999\r\n"},
         KZ_STORE},
        {{INFO, NONE, "*7\r\n$2\r\nOK\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$2\r\n41\r\n$1\r\n1\r\n"},
         KZ_STORE},
    };
    tell("redis", cases, sizeof cases / sizeof cases[0]);
}

#define CLAIM(now, node, start, end) "*5\r\n$2\r\nOK\r\n$" now "\r\n$" node "\r\n$" start "\r\n$" end "\r\n"

static void nonsense_gives_no_tsid_slot(void **state)
{
    (void)state;
    static const story cases[] = {
        {{"HTTP/1.1 400 Bad Request\r\n\r\n"}, KZ_STORE},
        {{"-LOADING Redis is loading the dataset in memory\r\n"}, KZ_UNAVAILABLE},
        {{INFO, ":1\r\n"}, KZ_STORE},
        {{INFO, "*-1\r\n"}, KZ_STORE},
        {{INFO, "*1\r\n$2\r\nOK\r\n"}, KZ_STORE},
        {{INFO, "*2\r\n$4\r\nFULL\r\n$4\r\n1025\r\n"}, KZ_STORE},
        {{INFO, "*2\r\n$4\r\nFULL\r\n$1\r\n3\r\n"}, KZ_NO_FREE_NODE},
        {{INFO, "-ERR user_script: KZDAMAGED floor\r\n"}, KZ_STORE},
        {{INFO, "-NOSCRIPT No matching script\r\n", "+OK\r\n"}, KZ_STORE},
        {{INFO, CLAIM("3\r\n100", "4\r\n1024", "3\r\n101", "3\r\n900")}, KZ_STORE},
        {{INFO, CLAIM("3\r\n100", "2\r\n-1", "3\r\n101", "3\r\n900")}, KZ_STORE},
        {{INFO, CLAIM("3\r\n100", "1\r\n7", "3\r\n901", "3\r\n900")}, KZ_STORE},
        {{INFO, CLAIM("1\r\nx", "1\r\n7", "3\r\n101", "3\r\n900")}, KZ_STORE},
        {{INFO, CLAIM("3\r\n100", "1\r\n7", "3\r\n101", "19\r\n9223372036854775807")}, KZ_STORE},
    };
    tell("tsid+redis", cases, sizeof cases / sizeof cases[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nonsense_is_a_store_that_cannot_be_used),
                                       cmocka_unit_test(nonsense_gives_no_tsid_slot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
