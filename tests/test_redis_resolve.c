/* A name server that never answers holds nobody up for longer than the time allowed. */
#include "tests/redis_table.h"

#include <netdb.h>
#include <poll.h>
#include <unistd.h>

static int answer[2]; /* a look at the name ends when this can be read */

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list)
{
    if (strcmp(host, "silent.example") != 0 || hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, list);
    poll(&(struct pollfd){.fd = answer[0], .events = POLLIN}, 1, -1);
    return __real_getaddrinfo("127.0.0.1", port, hints, list);
}

static void an_open_comes_back_although_the_name_server_does_not(void **state)
{
    (void)state;
    redis_table t;
    assert_int_equal(pipe(answer), 0);
    /* More often than there are threads for it. */
    for (int i = 0; i < 12; i++) {
        assert_ok(table_try(&t, "redis://silent.example:1", "default", NULL, 100));
        assert_status(table_acquire(&t, 1), KZ_UNAVAILABLE);
        assert_contains(t.err.message, "silent.example");
        assert_contains(t.err.message, "name server");
        table_close(&t);
    }
    assert_int_equal(write(answer[1], "x", 1), 1);
    /* Those that were left behind end, and there are threads again. */
    kz_status status;
    do {
        assert_ok(table_try(&t, "redis://silent.example:1", "default", NULL, 5000));
        status = table_acquire(&t, 1);
        table_close(&t);
    } while (strstr(t.err.message, "name server"));
    assert_status(status, KZ_UNAVAILABLE);
    assert_contains(t.err.message, "cannot connect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_open_comes_back_although_the_name_server_does_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
