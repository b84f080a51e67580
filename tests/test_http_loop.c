/* The server on loopback: answers in order, however they come about, and clients that misbehave or go away. */
#include "test_http_client.h"

static fixture f;

static int setup(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    begin(&f, &settings);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    end(&f);
    return 0;
}

static void a_connection_serves_many_requests(void **state)
{
    (void)state;
    client *c = client_open(&f);
    for (int i = 0; i < 100; i++) {
        char text[64], body[16];
        snprintf(text, sizeof text, "GET /now?%d HTTP/1.1\r\n" HOST "\r\n", i);
        snprintf(body, sizeof body, "%d", i);
        say(c, text);
        assert_hears(c, 200, body);
        assert_false(c->closes);
    }
    http_counts counts;
    http_server_counts(f.server, &counts);
    assert_int_equal(counts.requests_total, 100);
    assert_int_equal(counts.connections_total, 1);
    assert_int_equal(counts.connections_now, 1);
    assert_int_equal(observed_answers, 100);
    client_close(c);
}

static void a_client_that_wants_the_connection_closed_gets_that(void **state)
{
    (void)state;
    static const char *const requests[] = {"GET /now?1 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                                           "GET /now?1 HTTP/1.0\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        client *c = client_open(&f);
        say(c, requests[i]);
        assert_hears(c, 200, "1");
        assert_true(c->closes);
        assert_int_equal(hear(c), -1);
        client_close(c);
    }
}

/* Batches of 16 on several connections at once, half of the answers from other threads, which pick at random. Not NULL:
 * an answer was out of order. */
static void *pipeline(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    client *c = client_open(&f);
    for (int round = 0, n = 0; round < 20; round++) {
        char batch[16 * 64], *to = batch;
        for (int i = 0; i < 16; i++)
            to += sprintf(to, "GET /%s?%d HTTP/1.1\r\n" HOST "\r\n", rand_r(&seed) % 2 ? "later" : "now", n + i);
        say(c, batch);
        for (int i = 0; i < 16; i++, n++) {
            char body[16];
            snprintf(body, sizeof body, "%d", n);
            if (hear(c) != 200 || strcmp(c->body, body) != 0)
                return c;
        }
    }
    client_close(c);
    return NULL;
}

static void pipelined_answers_leave_in_order_even_when_some_come_later(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, pipeline, (void *)(i + 1));
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void a_request_behind_one_that_waits_is_not_begun(void **state)
{
    (void)state;
    client *c = client_open(&f);
    hold_later(true);
    say(c, "GET /later?a HTTP/1.1\r\n" HOST "\r\nGET /now?b HTTP/1.1\r\n" HOST "\r\n");
    wait_owed(1);
    say(c, "GET /now?c HTTP/1.1\r\n" HOST "\r\n");
    pause_ms(50);
    assert_int_equal(observed_answers, 0);
    hold_later(false);
    assert_hears(c, 200, "a");
    assert_hears(c, 200, "b");
    assert_hears(c, 200, "c");
    client_close(c);
}

static void a_client_that_has_gone_before_its_answer_changes_nothing(void **state)
{
    (void)state;
    hold_later(true);
    for (int i = 0; i < 20; i++) {
        client *c = client_open(&f);
        say(c, "GET /later?a HTTP/1.1\r\n" HOST "\r\n");
        wait_owed((size_t)i + 1);
        if (i % 2) /* gone with a reset */
            setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        client_close(c);
    }
    pause_ms(50);
    hold_later(false);
    client *c = client_open(&f);
    say(c, "GET /later?b HTTP/1.1\r\n" HOST "\r\n");
    assert_hears(c, 200, "b");
    client_close(c);
}

static void a_half_closed_client_still_gets_its_answers(void **state)
{
    (void)state;
    client *c = client_open(&f);
    hold_later(true);
    say(c,
        "GET /now?1 HTTP/1.1\r\n" HOST "\r\nGET /later?2 HTTP/1.1\r\n" HOST "\r\nGET /now?3 HTTP/1.1\r\n" HOST "\r\n");
    shutdown(c->fd, SHUT_WR);
    wait_owed(1);
    pause_ms(20);
    hold_later(false);
    assert_hears(c, 200, "1");
    assert_hears(c, 200, "2");
    assert_hears(c, 200, "3");
    assert_int_equal(hear(c), -1);
    client_close(c);
}

static void a_malformed_request_is_answered_and_the_connection_closed(void **state)
{
    (void)state;
    client *c = client_open(&f);
    say(c, "GET /now?1 HTTP/1.1\r\n" HOST "\r\nGET /now?2 HTTP/1.1\r\nHost : a\r\n\r\nGET /now?3 HTTP/1.1\r\n" HOST
           "\r\n");
    assert_hears(c, 200, "1");
    assert_hears(c, 400, NULL);
    assert_true(c->closes);
    assert_contains(c->body, "\"status\":400");
    assert_int_equal(hear(c), -1);
    assert_int_equal(observed_refusals, 1);
    client_close(c);
}

static void a_body_of_a_megabyte_is_refused_and_the_client_sees_why(void **state)
{
    (void)state;
    client *c = client_open(&f);
    say(c, "POST /lease HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n");
    static char part[65536];
    for (int i = 0; i < 16; i++)
        if (send(c->fd, part, sizeof part, MSG_NOSIGNAL) < 0)
            fail_msg("the server tore the connection down: %s", strerror(errno));
    assert_hears(c, 413, NULL);
    assert_int_equal(hear(c), -1);
    client_close(c);
}

static void a_body_that_waits_for_100_continue_is_let_through(void **state)
{
    (void)state;
    client *c = client_open(&f);
    say(c, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_hears(c, 100, NULL);
    say(c, "hello");
    assert_hears(c, 200, "hello");
    client_close(c);
}

static void head_has_the_length_but_not_the_body(void **state)
{
    (void)state;
    client *c = client_open(&f);
    say(c, "HEAD /now?abc HTTP/1.1\r\n" HOST "\r\n");
    const char expected[] = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/plain\r\n"
                            "Content-Length: 3\r\n\r\n";
    for (size_t i = 0; i < sizeof expected - 1; i++)
        assert_int_equal(next_byte(c), expected[i]);
    say(c, "GET /now?x HTTP/1.1\r\n" HOST "\r\n");
    assert_hears(c, 200, "x");
    client_close(c);
}

static void chunked_bodies_reach_the_handler_joined(void **state)
{
    (void)state;
    client *c = client_open(&f);
    say(c, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    say(c, "6\r\n world\r\n0\r\n\r\n");
    assert_hears(c, 200, "hello world");
    client_close(c);
}

static void over_the_limit_of_connections_clients_are_told_503(void **state)
{
    (void)state;
    fixture small;
    http_settings settings = test_settings();
    settings.connections_max = 3;
    begin(&small, &settings);
    client *clients[4];
    for (int i = 0; i < 4; i++) {
        clients[i] = client_open(&small);
        if (i == 3)
            break;
        say(clients[i], "GET /now?1 HTTP/1.1\r\n" HOST "\r\n");
        assert_hears(clients[i], 200, "1");
    }
    say(clients[3], "GET /now?1 HTTP/1.1\r\n" HOST "\r\n");
    assert_hears(clients[3], 503, NULL);
    assert_true(clients[3]->closes);
    assert_int_equal(hear(clients[3]), -1);
    http_counts counts;
    http_server_counts(small.server, &counts);
    assert_int_equal(counts.refused_total, 1);
    assert_int_equal(counts.connections_now, 3);
    /* Room again. */
    client_close(clients[3]);
    client_close(clients[0]);
    int64_t until_ms = mono_ms() + PATIENCE_MS;
    for (int status = 0; status != 200;) {
        assert_true(mono_ms() < until_ms);
        pause_ms(5);
        clients[0] = client_open(&small);
        say(clients[0], "GET /now?1 HTTP/1.1\r\n" HOST "\r\n");
        status = hear(clients[0]);
        if (status != 200)
            client_close(clients[0]);
    }
    for (int i = 0; i < 3; i++)
        client_close(clients[i]);
    end(&small);
}

static void a_port_that_is_taken_is_an_error_that_names_it(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    settings.port = http_server_port(f.server);
    http_server *second = NULL;
    for (settings.loops = 1; settings.loops <= 2; settings.loops++) {
        const char *error = http_server_start(&second, &settings);
        assert_non_null(error);
        assert_contains(error, "127.0.0.1");
        assert_contains(error, "in use");
    }
    settings.address = "nowhere";
    assert_non_null(http_server_start(&second, &settings));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_serves_many_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_wants_the_connection_closed_gets_that, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelined_answers_leave_in_order_even_when_some_come_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_behind_one_that_waits_is_not_begun, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_has_gone_before_its_answer_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_half_closed_client_still_gets_its_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_request_is_answered_and_the_connection_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_of_a_megabyte_is_refused_and_the_client_sees_why, setup, teardown),
        cmocka_unit_test_setup_teardown(a_body_that_waits_for_100_continue_is_let_through, setup, teardown),
        cmocka_unit_test_setup_teardown(head_has_the_length_but_not_the_body, setup, teardown),
        cmocka_unit_test_setup_teardown(chunked_bodies_reach_the_handler_joined, setup, teardown),
        cmocka_unit_test(over_the_limit_of_connections_clients_are_told_503),
        cmocka_unit_test_setup_teardown(a_port_that_is_taken_is_an_error_that_names_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
