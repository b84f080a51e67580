/* TLS: the same server behind a certificate. */
#include "test_http_client.h"

#include <openssl/ssl.h>

static fixture f;
static char cert_path[64], key_path[64], directory[] = "/tmp/kazahana-tls-XXXXXX";

static int make_certificate(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(cert_path, sizeof cert_path, "%s/cert.pem", directory);
    snprintf(key_path, sizeof key_path, "%s/key.pem", directory);
    char command[512];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost "
             "-keyout %s -out %s 2>/dev/null",
             key_path, cert_path);
    return system(command) == 0 ? 0 : -1;
}

static int remove_certificate(void **state)
{
    (void)state;
    unlink(cert_path);
    unlink(key_path);
    return rmdir(directory);
}

static int set_up_with(int64_t request_ms)
{
    http_settings settings = test_settings();
    settings.request_ms = request_ms;
    settings.tls_cert = cert_path;
    settings.tls_key = key_path;
    begin(&f, &settings);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return set_up_with(PATIENCE_MS);
}

static int setup_hasty(void **state)
{
    (void)state;
    return set_up_with(400);
}

static int teardown(void **state)
{
    (void)state;
    end(&f);
    return 0;
}

static SSL *handshake(int fd, SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    return ssl;
}

/* Everything the server sends until it has said `count` times that an answer is over, as text. */
static void hear_tls(SSL *ssl, char *text, size_t size, const char *mark, int count)
{
    size_t length = 0;
    text[0] = 0;
    while (count > 0) {
        int got = SSL_read(ssl, text + length, (int)(size - length - 1));
        assert_true(got > 0);
        length += (size_t)got;
        text[length] = 0;
        int seen = 0;
        for (char *at = text; (at = strstr(at, mark)); at++)
            seen++;
        if (seen == count)
            return;
    }
}

static void answers_are_encrypted_and_in_order(void **state)
{
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_locations(ctx, cert_path, NULL), 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        int fd = connect_to(&f);
        SSL *ssl = handshake(fd, ctx);
        SSL_set_max_proto_version(ssl, version);
        static const unsigned char protocols[] = "\x02h2\x08http/1.1";
        SSL_set_alpn_protos(ssl, protocols, sizeof protocols - 1);
        assert_int_equal(SSL_connect(ssl), 1);
        const unsigned char *chosen;
        unsigned length;
        SSL_get0_alpn_selected(ssl, &chosen, &length);
        assert_int_equal(length, 8);
        char batch[4096], *to = batch;
        static char text[1 << 16];
        for (int i = 0; i < 16; i++)
            to += sprintf(to, "GET /%s?<%02d> HTTP/1.1\r\n" HOST "\r\n", i % 3 ? "now" : "later", i);
        for (int round = 0; round < 10; round++) {
            assert_true(SSL_write(ssl, batch, (int)(to - batch)) > 0);
            hear_tls(ssl, text, sizeof text, ">", 16);
            char *at = text;
            for (int i = 0; i < 16; i++) {
                char body[16];
                snprintf(body, sizeof body, "<%02d>", i);
                at = strstr(at, body);
                assert_non_null(at);
            }
        }
        SSL_shutdown(ssl);
        SSL_free(ssl);
        close(fd);
    }
    SSL_CTX_free(ctx);
}

static void large_answers_go_through_tls_whole(void **state)
{
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int fd = connect_to(&f);
    SSL *ssl = handshake(fd, ctx);
    assert_int_equal(SSL_connect(ssl), 1);
    const char *request = "GET /big?400000 HTTP/1.1\r\n" HOST "\r\n";
    const char *last = "GET /big?400000 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    for (int i = 0; i < 9; i++)
        assert_true(SSL_write(ssl, request, (int)strlen(request)) > 0);
    assert_true(SSL_write(ssl, last, (int)strlen(last)) > 0);
    pause_ms(100);
    static char text[65536];
    size_t total = 0;
    int got;
    while ((got = SSL_read(ssl, text, sizeof text)) > 0)
        total += (size_t)got;
    /* Ended by the server's own word, not by the end of the stream. */
    assert_int_equal(SSL_get_error(ssl, got), SSL_ERROR_ZERO_RETURN);
    assert_in_range(total, 10 * 400000 + 10 * 60, 10 * 400000 + 10 * 120);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(ctx);
}

static void old_versions_of_tls_are_refused(void **state)
{
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION);
    int fd = connect_to(&f);
    SSL *ssl = handshake(fd, ctx);
    assert_int_not_equal(SSL_connect(ssl), 1);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(ctx);
}

static void a_handshake_that_does_not_come_is_cut(void **state)
{
    (void)state;
    int64_t start_ms = mono_ms();
    client *silent = client_open(&f), *plain = client_open(&f);
    say(plain, "GET /now?1 HTTP/1.1\r\n" HOST "\r\n");
    while (next_byte(plain) >= 0) /* an alert at most */
        ;
    assert_int_equal(next_byte(silent), -1);
    assert_in_range(mono_ms() - start_ms, f.settings.request_ms, PATIENCE_MS);
    client_close(silent);
    client_close(plain);
}

static void a_bad_certificate_is_an_error_that_names_it(void **state)
{
    (void)state;
    http_settings settings = test_settings();
    http_server *server = NULL;
    settings.tls_cert = "/nonexistent/cert.pem";
    settings.tls_key = key_path;
    assert_contains(http_server_start(&server, &settings), "/nonexistent/cert.pem");
    settings.tls_cert = cert_path;
    settings.tls_key = cert_path;
    assert_contains(http_server_start(&server, &settings), cert_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_are_encrypted_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(large_answers_go_through_tls_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(old_versions_of_tls_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_handshake_that_does_not_come_is_cut, setup_hasty, teardown),
        cmocka_unit_test(a_bad_certificate_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, make_certificate, remove_certificate);
}
