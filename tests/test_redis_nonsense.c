/* A server that answers nonsense: the lease table in Redis believes none of it, and says so. Nor do the TSID slots. */
#include "sources/redis_source.h"
#include "tests/redis_table.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
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
    SSL_CTX *tls;                    /* NULL: in the clear */
    bool goes_on;                    /* a new connection gets the replies from where the one before was */
    size_t at, doubled, connections; /* the reply of that number, if any, is sent twice */
    int again[2], done[2];           /* the second time when told so, and tells when it was */
} liar;

/* Each call is a record of its own where it is TLS. */
static bool say(SSL *session, int fd, const char *reply)
{
    int size = (int)strlen(reply);
    return session ? SSL_write(session, reply, size) == size : send(fd, reply, (size_t)size, MSG_NOSIGNAL) == size;
}

static void lie_to(liar *l, int fd, SSL *session)
{
    char command[65536];
    if (!l->goes_on)
        l->at = 0;
    for (;;) {
        struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = l->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents)
            return;
        ssize_t got = session ? SSL_read(session, command, sizeof command) : recv(fd, command, sizeof command, 0);
        if (got <= 0 || !l->replies[l->at] || !say(session, fd, l->replies[l->at]))
            return;
        if (l->doubled && l->at == l->doubled) {
            if (read(l->again[0], command, 1) != 1 || !say(session, fd, l->replies[l->at]) ||
                write(l->done[1], "x", 1) != 1)
                return;
        }
        if (l->replies[l->at + 1])
            l->at++;
    }
}

static void *lie(void *ctx)
{
    liar *l = ctx;
    for (;;) {
        struct pollfd both[2] = {{.fd = l->listener, .events = POLLIN}, {.fd = l->quit[0], .events = POLLIN}};
        if (poll(both, 2, -1) < 0 || both[1].revents)
            return NULL;
        int fd = accept(l->listener, NULL, NULL), at_once = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
        SSL *session = l->tls ? SSL_new(l->tls) : NULL;
        l->connections++;
        if (!session || (SSL_set_fd(session, fd) == 1 && SSL_accept(session) == 1))
            lie_to(l, fd, session);
        SSL_free(session);
        close(fd);
    }
}

static void liar_begin(liar *l, const char *const *replies)
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

static void liar_start(liar *l, const char *const *replies)
{
    *l = (liar){0};
    liar_begin(l, replies);
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
#define NONE "*5\r\n$4\r\nNONE\r\n$1\r\n5\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n0\r\n"

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
        /* Only where nothing more comes is the time waited out. */
        int64_t timeout_ms = stories[i].status == KZ_UNAVAILABLE ? 150 : 10000;
        kz_status status = table_try(&table, url, "default", NULL, timeout_ms);
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

static void sentinels_that_answer_nonsense_are_not_believed(void **state)
{
    (void)state;
    static const char *const replies[][2] = {
        {"*-1\r\n"},
        {"+OK\r\n"},
        {":1\r\n"},
        {"*0\r\n"},
        {"*2\r\n$1\r\na\r\n:1\r\n"},
        {"*2\r\n$0\r\n\r\n$1\r\n1\r\n"},
        {"*2\r\n$1\r\na\r\n$2\r\n1x\r\n"},
        {"*2\r\n$1\r\na\r\n$9\r\n123456789\r\n"},
        {"-NOAUTH Authentication required.\r\n"},
    };
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        liar l;
        redis_table table;
        char url[64];
        liar_start(&l, replies[i]);
        snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/name", l.port);
        assert_status(table_try(&table, url, "default", NULL, 10000), KZ_STORE);
        assert_contains(table.err.message, "the sentinel at 127.0.0.1");
        if (i == 0)
            assert_contains(table.err.message, "no master called name");
        liar_stop(&l);
    }
}

static void a_master_that_says_it_is_none_is_not_used(void **state)
{
    (void)state;
    liar master, sentinel;
    redis_table table;
    char url[64], reply[64], port[16];
    liar_start(&master, (const char *const[]){"*3\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n", NULL});
    snprintf(port, sizeof port, "%d", master.port);
    snprintf(reply, sizeof reply, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    liar_start(&sentinel, (const char *const[]){reply, NULL});
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/name", sentinel.port);
    assert_ok(table_try(&table, url, "default", NULL, 10000));
    assert_status(table_acquire(&table, 1), KZ_UNAVAILABLE);
    assert_contains(table.err.message, "it is a slave");
    assert_contains(table.err.message, port);
    table_close(&table);
    liar_stop(&sentinel);
    liar_stop(&master);
}

#define TIME(now) "*5\r\n$2\r\nOK\r\n$4\r\n" now "\r\n$1\r\n1\r\n$1\r\n7\r\n$1\r\n0\r\n"

/* The surplus lies there when the next question is asked; who took it for the answer would stay one behind for good. */
static void a_surplus_answer_is_not_taken_for_the_next(const redis_server *server)
{
    static const char *const replies[] = {INFO, NONE, TIME("1001"), TIME("1002"), TIME("1003"), NULL};
    liar l = {.goes_on = true, .doubled = 2};
    redis_table table;
    char url[256], byte;
    if (server) {
        assert_non_null(l.tls = SSL_CTX_new(TLS_server_method()));
        assert_int_equal(SSL_CTX_use_certificate_chain_file(l.tls, server->cacert), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(l.tls, server->cacert, SSL_FILETYPE_PEM), 1);
    }
    assert_int_equal(pipe(l.again), 0);
    assert_int_equal(pipe(l.done), 0);
    liar_begin(&l, replies);
    snprintf(url, sizeof url, server ? "rediss://localhost:%d?cacert=%s" : "redis://localhost:%d", l.port,
             server ? server->cacert : "");
    assert_ok(table_try(&table, url, "default", NULL, 10000));
    assert_int_equal(table_now(&table), 1001);
    assert_int_equal(write(l.again[1], "x", 1), 1);
    assert_int_equal(read(l.done[0], &byte, 1), 1);
    assert_int_equal(table_now(&table), 1002);
    assert_int_equal(table_now(&table), 1003);
    table_close(&table);
    liar_stop(&l);
    assert_int_equal(l.connections, 2);
    for (int i = 0; i < 2; i++) {
        close(l.again[i]);
        close(l.done[i]);
    }
    SSL_CTX_free(l.tls);
}

static void a_surplus_answer_is_noticed(void **state)
{
    (void)state;
    a_surplus_answer_is_not_taken_for_the_next(NULL);
    if (redis_server_missing()) {
        print_message("not over TLS: %s\n", redis_server_missing());
        return;
    }
    redis_server server; /* for its certificate */
    redis_server_start_tls(&server);
    a_surplus_answer_is_not_taken_for_the_next(&server);
    redis_server_stop(&server);
}

static void an_answer_that_is_not_understood_closes_the_connection(void **state)
{
    (void)state;
    static const char *const replies[] = {INFO, NONE, ":1\r\n", TIME("1002"), NULL};
    liar l = {.goes_on = true};
    redis_table table;
    char url[64];
    int64_t ms;
    uint64_t generation;
    liar_begin(&l, replies);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", l.port);
    assert_ok(table_try(&table, url, "default", NULL, 10000));
    assert_status(table.ops->now(table.source, &ms, &generation, &table.err), KZ_STORE);
    assert_int_equal(table_now(&table), 1002);
    table_close(&table);
    liar_stop(&l);
    assert_int_equal(l.connections, 2);
}

/* Whoever asks a server for a thousand services must not fill its memory with them. */
static void what_was_seen_of_services_has_a_bound(void **state)
{
    (void)state;
    kz__redis source = {0};
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "s%d", i);
        kz__redis_seen *seen = kz__redis_seen_of(&source, name, NULL);
        assert_non_null(seen);
        assert_string_equal(seen->service, name);
        assert_int_equal(seen->generation, 0);
        seen->generation = i + 1;
        /* One that is used goes on being remembered. */
        assert_int_equal(kz__redis_seen_of(&source, "s0", NULL)->generation, 1);
    }
    size_t count = 0;
    for (kz__redis_seen *seen = source.seen, *next; seen; seen = next, count++) {
        next = seen->next;
        free(seen);
    }
    assert_int_equal(count, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nonsense_is_a_store_that_cannot_be_used),
                                       cmocka_unit_test(nonsense_gives_no_tsid_slot),
                                       cmocka_unit_test(sentinels_that_answer_nonsense_are_not_believed),
                                       cmocka_unit_test(a_master_that_says_it_is_none_is_not_used),
                                       cmocka_unit_test(a_surplus_answer_is_noticed),
                                       cmocka_unit_test(what_was_seen_of_services_has_a_bound),
                                       cmocka_unit_test(an_answer_that_is_not_understood_closes_the_connection)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
