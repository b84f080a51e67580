/* Time: slow clients are cut and others never notice, answers that nobody takes do not pile up, and a server that stops
 * answers what is under way. */
#include "test_http_client.h"

#include <sys/resource.h>

static fixture f;

/* The server may have closed it by now. */
static void dribble(client *c, char byte)
{
    (void)!send(c->fd, &byte, 1, MSG_NOSIGNAL);
}

static uint64_t cut_so_far(void)
{
    http_counts counts;
    http_server_counts(f.server, &counts);
    return counts.cut_total;
}

static void slow_headers_and_bodies_are_cut_while_others_are_answered(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    settings.request_ms = 400;
    begin(&f, &settings);
    int64_t start_ms = mono_ms();
    client *slow_head = client_open(&f), *slow_body = client_open(&f), *quick = client_open(&f);
    say(slow_head, "GET /now?1 HTTP/1.1\r\n" HOST "X-Slow: ");
    say(slow_body, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n");
    /* A byte now and then does not move the deadline. */
    while (cut_so_far() < 2) {
        assert_in_range(mono_ms() - start_ms, 0, PATIENCE_MS);
        dribble(slow_head, 'a');
        dribble(slow_body, 'a');
        say(quick, "GET /now?1 HTTP/1.1\r\n" HOST "\r\n");
        assert_hears(quick, 200, "1");
        pause_ms(20);
    }
    assert_true(mono_ms() - start_ms >= settings.request_ms);
    assert_hears(slow_head, 408, NULL);
    assert_true(slow_head->closes);
    assert_hears(slow_body, 408, NULL);
    client_close(slow_head);
    client_close(slow_body);
    client_close(quick);
    end(&f);
}

static void the_deadline_is_for_the_request_and_not_for_its_bytes(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    settings.idle_ms = 3000;
    begin(&f, &settings);
    /* Slower than idle_ms between bytes, yet in time. */
    client *c = client_open(&f);
    say(c, "GET /now?1 HT");
    pause_ms(3300);
    say(c, "TP/1.1\r\n" HOST "\r\n");
    assert_hears(c, 200, "1");
    /* An owed answer has its own time. */
    hold_later(true);
    say(c, "GET /later?2 HTTP/1.1\r\n" HOST "\r\n");
    pause_ms(3300);
    hold_later(false);
    assert_hears(c, 200, "2");
    /* Idle for too long: closed without a word. */
    assert_int_equal(hear(c), -1);
    client_close(c);
    end(&f);
}

static void a_client_that_does_not_read_stops_being_read_and_is_cut(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    settings.write_ms = 1000;
    begin(&f, &settings);
    client *c = client_open(&f);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    /* 64 KB of requests would be 300 MB of answers. */
    const char *request = "GET /big?200000 HTTP/1.1\r\n" HOST "\r\n";
    int64_t until_ms = mono_ms() + PATIENCE_MS;
    bool cut = false;
    while (!cut && mono_ms() < until_ms) {
        if (send(c->fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            cut = errno == EPIPE || errno == ECONNRESET;
            pause_ms(5);
        }
    }
    assert_true(cut);
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 50000);
    assert_true(observed_answers < 200);
    assert_int_equal(cut_so_far(), 1);
    client_close(c);
    end(&f);
}

static void a_slow_reader_gets_every_answer_in_order(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    begin(&f, &settings);
    client *c = client_open(&f);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &(int){32768}, sizeof(int));
    char batch[8192], *to = batch;
    for (int i = 0; i < 60; i++)
        to += sprintf(to, "GET /%s%d HTTP/1.1\r\n" HOST "\r\n", i % 3 == 1 ? "later?" : "big?10", 1000 + i);
    say(c, batch);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(hear(c), 200);
        assert_int_equal(c->body_length, i % 3 == 1 ? 4 : 101000 + i);
    }
    client_close(c);
    end(&f);
}

/* Keeps asking until it is told that the connection closes, or finds it closed: a server that stops may close one
 * that was idle for a while. Not NULL: an answer was wrong. */
static atomic_int asking; /* threads that have a connection */

static void *ask_until_closed(void *arg)
{
    atomic_int *answered = arg;
    client *c = client_open(&f);
    atomic_fetch_add(&asking, 1);
    void *wrong = NULL;
    for (int n = 0;; n++) {
        char text[64], body[16];
        snprintf(text, sizeof text, "GET /%s?%d HTTP/1.1\r\n" HOST "\r\n", n % 2 ? "later" : "now", n);
        snprintf(body, sizeof body, "%d", n);
        (void)!send(c->fd, text, strlen(text), MSG_NOSIGNAL);
        int status = hear(c);
        if (status < 0)
            break;
        if (status != 200 || strcmp(c->body, body) != 0) {
            wrong = answered;
            break;
        }
        atomic_fetch_add(answered, 1);
        if (c->closes)
            break;
    }
    client_close(c);
    return wrong;
}

static void a_stop_under_load_answers_everything_in_flight(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    settings.request_ms = 400;
    begin(&f, &settings);
    atomic_int answered = 0;
    pthread_t threads[16];
    client *idle = client_open(&f), *waits = client_open(&f);
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, ask_until_closed, &answered);
    while (answered < 200 || asking < 16)
        pause_ms(1);
    say(waits, "GET /now?half HTTP/1.1\r\nHo");
    pause_ms(20);
    int64_t start_ms = mono_ms();
    http_server_stop(f.server, PATIENCE_MS);
    assert_in_range(mono_ms() - start_ms, 0, PATIENCE_MS - 1);
    for (int i = 0; i < 16; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    /* What reached the handler reached the client. */
    assert_int_equal(answered, observed_answers);
    http_server_free(f.server);
    assert_int_equal(hear(idle), -1);
    assert_hears(waits, 408, NULL);
    client_close(idle);
    client_close(waits);
    answer_all(&f);
}

static void a_stop_waits_no_longer_than_its_grace_and_late_answers_are_dropped(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    begin(&f, &settings);
    hold_later(true);
    client *c = client_open(&f), *gone = client_open(&f);
    say(c, "GET /later?1 HTTP/1.1\r\n" HOST "\r\n");
    say(gone, "GET /later?2 HTTP/1.1\r\n" HOST "\r\n");
    wait_owed(2);
    client_close(gone);
    int64_t start_ms = mono_ms();
    http_server_stop(f.server, 300);
    assert_in_range(mono_ms() - start_ms, 250, PATIENCE_MS);
    http_server_free(f.server);
    assert_true(hear(c) < 0);
    client_close(c);
    /* The server is gone; the handler's threads do not know. */
    answer_all(&f);
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void idle_connections_cost_little(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("the sanitizer's own memory would be measured\n");
    skip();
#endif
    enum { MANY = 400 };
    http_settings settings = test_settings();
    begin(&f, &settings);
    client *c = client_open(&f);
    static int fds[MANY];
    long before_kb = resident_kb();
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(&f);
        const char *request = "GET /now?1 HTTP/1.1\r\n" HOST "\r\n";
        char answer[256];
        assert_int_equal(send(fds[i], request, strlen(request), 0), strlen(request));
        assert_true(recv(fds[i], answer, sizeof answer, 0) > 0);
    }
    assert_in_range(resident_kb() - before_kb, 0, MANY * 2);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    client_close(c);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_headers_and_bodies_are_cut_while_others_are_answered),
        cmocka_unit_test(the_deadline_is_for_the_request_and_not_for_its_bytes),
        cmocka_unit_test(a_client_that_does_not_read_stops_being_read_and_is_cut),
        cmocka_unit_test(a_slow_reader_gets_every_answer_in_order),
        cmocka_unit_test(a_stop_under_load_answers_everything_in_flight),
        cmocka_unit_test(a_stop_waits_no_longer_than_its_grace_and_late_answers_are_dropped),
        cmocka_unit_test(idle_connections_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
