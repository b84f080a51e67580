/* The server's settings, from flags, the environment and the file; its log, its tokens, its word to systemd. */
#include "test.h"

#include "server/log.h"
#include "server/notify.h"
#include "server/settings.h"
#include "server/settings_value.h"
#include "server/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static settings s;
static char message[512];
static bool usage, check_only;
static char directory[] = "/tmp/kz_settings_XXXXXX";
static char path[64];

static int begin_all(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/f.conf", directory);
    return 0;
}

static int end_all(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static int setup(void **state)
{
    (void)state;
    settings_init(&s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    settings_free(&s);
    for (size_t i = 0; settings_key_at(i); i++) {
        char name[64] = "KAZAHANA_";
        for (const char *at = settings_key_at(i)->name; *at; at++)
            name[strlen(name)] = *at == '_' ? '_' : (char)(*at - 'a' + 'A');
        unsetenv(name);
    }
    unsetenv("KAZAHANA_ALLOW_DEV");
    unsetenv("NOTIFY_SOCKET");
    unlink(path);
    return 0;
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

#define COUNT(words) ((int)(sizeof(words) / sizeof *(words)))

/* Reads the words given. */
#define READ(...)                                                                                                      \
    __extension__({                                                                                                    \
        const char *words_[] = {__VA_ARGS__};                                                                          \
        settings_free(&s);                                                                                             \
        settings_init(&s);                                                                                             \
        settings_read(&s, COUNT(words_), (char **)words_, &check_only, &usage, message);                               \
    })

#define assert_read(...)                                                                                               \
    do {                                                                                                               \
        if (!READ(__VA_ARGS__))                                                                                        \
            fail_msg("refused: %s", message);                                                                          \
    } while (0)

static void assert_wrong_flag(const char *flag, const char *value, const char *wanted)
{
    if (READ(flag, value))
        fail_msg("%s %s was taken", flag, value);
    assert_true(usage);
    assert_string_equal(message, wanted);
}

/* `wanted` is the message behind the file's name. */
static void assert_wrong_file(const char *text, const char *wanted)
{
    char whole[600];
    write_file(text);
    if (READ("--config", path))
        fail_msg("taken: %s", text);
    assert_false(usage);
    snprintf(whole, sizeof whole, "%s:%s", path, wanted);
    assert_string_equal(message, whole);
}

/* ---- flags, environment, file ---- */

static void nothing_given_gives_the_defaults(void **state)
{
    (void)state;
    assert_true(settings_read(&s, 0, NULL, &check_only, &usage, message));
    assert_string_equal(s.listen, "127.0.0.1:7070");
    assert_null(s.store);
    assert_null(s.ids_from);
    assert_null(s.layout);
    assert_null(s.token_file);
    assert_null(s.profile);
    assert_string_equal(s.service, "default");
    assert_int_equal(s.ids.backward, KZ_BACKWARD_WAIT);
    assert_int_equal(s.ids.max_backward_ms, 5000);
    assert_int_equal(s.ids.fallback, KZ_FALLBACK_FENCED);
    assert_int_equal(s.ids.throughput_min_per_ms, 256);
    assert_int_equal(s.ids.throughput_max_per_ms, 256);
    assert_true(s.create_services);
    assert_int_equal(s.loops, 0);
    assert_int_equal(s.connections_max, 10000);
    assert_int_equal(s.request_ms, 10000);
    assert_int_equal(s.idle_ms, 60000);
    assert_int_equal(s.write_ms, 10000);
    assert_int_equal(s.log_level, 2);
    assert_false(s.log_json);
    assert_int_equal(s.service_count, 0);
    assert_false(check_only);
}

static void every_flag_is_read(void **state)
{
    (void)state;
    assert_read("--listen", "[::1]:80", "--store", "memory:", "--ids-from=env:WORKER_ID?default=0", "--layout",
                "snowflake", "--service", "a", "--backward", "wait:250", "--fallback", "never", "--throughput",
                "1:4096", "--token-file", "t", "--tls-cert", "c", "--tls-key", "k", "--loops", "2", "--connections",
                "5", "--request-timeout", "2s", "--idle-timeout", "1min", "--log-level", "debug", "--log-format",
                "json", "--no-create-services", "--check-config");
    assert_string_equal(s.listen, "[::1]:80");
    assert_string_equal(s.store, "memory:");
    assert_string_equal(s.ids_from, "env:WORKER_ID?default=0");
    assert_string_equal(s.layout, "snowflake");
    assert_string_equal(s.service, "a");
    assert_int_equal(s.ids.backward, KZ_BACKWARD_WAIT);
    assert_int_equal(s.ids.max_backward_ms, 250);
    assert_int_equal(s.ids.fallback, KZ_FALLBACK_NEVER);
    assert_int_equal(s.ids.throughput_min_per_ms, 1);
    assert_int_equal(s.ids.throughput_max_per_ms, 4096);
    assert_string_equal(s.token_file, "t");
    assert_string_equal(s.tls_cert, "c");
    assert_string_equal(s.tls_key, "k");
    assert_int_equal(s.loops, 2);
    assert_int_equal(s.connections_max, 5);
    assert_int_equal(s.request_ms, 2000);
    assert_int_equal(s.idle_ms, 60000);
    assert_int_equal(s.log_level, 3);
    assert_true(s.log_json);
    assert_false(s.create_services);
    assert_true(check_only);
}

static void flags_win_over_the_environment_that_over_the_profile_that_over_the_file(void **state)
{
    (void)state;
    static const char *const wanted[] = {"1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3", "4.4.4.4:4"};
    write_file("[profile \"p\"]\nlisten = 3.3.3.3:3\nidle_timeout = 3s\n"
               "[server]\nlisten = 4.4.4.4:4\nidle_timeout = 4s\nloops = 4\n"
               "[profile \"q\"]\nlisten = 5.5.5.5:5\n");
    setenv("KAZAHANA_LISTEN", wanted[1], 1);
    assert_read("--config", path, "--profile", "p", "--listen", wanted[0]);
    assert_string_equal(s.listen, wanted[0]);
    assert_read("--config", path, "--profile", "p");
    assert_string_equal(s.listen, wanted[1]);
    unsetenv("KAZAHANA_LISTEN");
    assert_read("--config", path, "--profile", "p");
    assert_string_equal(s.listen, wanted[2]);
    assert_int_equal(s.idle_ms, 3000);
    assert_int_equal(s.loops, 4);
    assert_read("--config", path);
    assert_string_equal(s.listen, wanted[3]);
    assert_int_equal(s.idle_ms, 4000);
}

static void the_file_and_the_profile_can_come_from_the_environment(void **state)
{
    (void)state;
    write_file("[profile \"p\"]\nloops = 3\n[profile \"q\"]\nloops = 5\n");
    setenv("KAZAHANA_CONFIG", path, 1);
    setenv("KAZAHANA_PROFILE", "p", 1);
    setenv("KAZAHANA_ALLOW_DEV", "1", 1);
    setenv("KAZAHANA_NO_CREATE_SERVICES", "yes", 1);
    assert_true(settings_read(&s, 0, NULL, &check_only, &usage, message));
    assert_int_equal(s.loops, 3);
    assert_string_equal(s.profile, "p");
    assert_string_equal(s.config_file, path);
    assert_false(s.create_services);
    assert_read("--profile", "q");
    assert_int_equal(s.loops, 5);
}

static void keys_may_stand_before_any_section_or_in_server_and_be_indented(void **state)
{
    (void)state;
    write_file("\xEF\xBB\xBFlisten = 1.2.3.4:5 ; a comment\n# one\n; two\n\n  [ server ] # three\n\tloops = 2\r\n"
               "\tstore = sqlite:/a;b.db\n");
    assert_read("--config", path);
    assert_string_equal(s.listen, "1.2.3.4:5");
    assert_int_equal(s.loops, 2);
    assert_string_equal(s.store, "sqlite:/a;b.db");
}

static void services_are_read_with_all_their_keys(void **state)
{
    (void)state;
    write_file("[service \"payments\"]\nlayout = 41-14-8@2026-01-01\nlease = 10min\nmax_throughput = 4096\n"
               "high_blocks = yes\n[service \"a-name-of-sixty-three-characters-which-is-as-long-as-one-may-be\"]\n");
    assert_read("--config", path);
    assert_int_equal(s.service_count, 2);
    assert_string_equal(s.services[0].name, "payments");
    assert_string_equal(s.services[0].layout, "41-14-8@2026-01-01");
    assert_int_equal(s.services[0].lease_ms, 600000);
    assert_int_equal(s.services[0].max_throughput, 4096);
    assert_true(s.services[0].high_blocks);
    assert_string_equal(s.services[1].name, "a-name-of-sixty-three-characters-which-is-as-long-as-one-may-be");
    assert_string_equal(s.services[1].layout, "");
    assert_int_equal(s.services[1].lease_ms, 0);
    assert_false(s.services[1].high_blocks);
}

/* ---- what is refused ---- */

static void a_wrong_flag_is_a_usage_error_that_names_it(void **state)
{
    (void)state;
    assert_wrong_flag("--list", "1.1.1.1:1", "unknown option --list");
    assert_wrong_flag("--no-create-services=yes", "--loops", "--no-create-services takes no value");
    assert_wrong_flag("--loops=2", "--listen", "--listen needs a value");
    assert_wrong_flag("--loops=2", "more", "unexpected argument more");
    assert_wrong_flag("--loops=2", "--", "unexpected argument --");
    assert_wrong_flag("--loops", "257", "--loops: \"257\" is not a number from 0 to 256");
    assert_wrong_flag("--connections", "0", "--connections: \"0\" is not a number from 1 to 1000000");
    assert_wrong_flag("--connections", "99999999999999999999",
                      "--connections: \"99999999999999999999\" is not a number from 1 to 1000000");
    assert_wrong_flag("--request-timeout", "10",
                      "--request-timeout: \"10\" is not a duration: write a number and ms, s, min, h or d, as in 10s");
    assert_wrong_flag("--request-timeout", "10ms", "--request-timeout: \"10ms\" is not between 100 ms and 1 h");
    assert_wrong_flag("--idle-timeout", "9223372036854775807d",
                      "--idle-timeout: \"9223372036854775807d\" is not between 100 ms and 1 d");
    assert_wrong_flag("--log-level", "loud", "--log-level: \"loud\" is not one of error, warning, info, debug");
    assert_wrong_flag("--log-format", "xml", "--log-format: \"xml\" is not one of logfmt, json");
    assert_wrong_flag("--fallback", "maybe", "--fallback: \"maybe\" is not one of never, fenced, any");
    assert_wrong_flag("--backward", "back", "--backward: \"back\" is not one of fail, wait, wait:MS, logical");
    assert_wrong_flag("--backward", "wait:-1",
                      "--backward: \"wait:-1\" is not wait:MS (at most a day) or wait:forever");
    assert_wrong_flag("--throughput", "5:", "--throughput: \"5:\" is not MIN:MAX IDs a millisecond, such as 256:4096");
    assert_wrong_flag("--throughput", "5:4", "--throughput: \"5:4\": MIN must be at least 1 and at most MAX");
    assert_wrong_flag("--service", "a b",
                      "--service: \"a b\" is not the name of a service: 1 to 63 of a-z A-Z 0-9 . _ -");
    assert_wrong_flag("--layout", "sonyflake", "--layout: layout sonyflake can only be decoded");
    assert_wrong_flag("--profile", "", "--profile: the name of a profile is missing");
    assert_wrong_flag("--token-file", "", "--token-file: the name of a file is missing");
}

static void a_profile_without_a_file_is_a_usage_error(void **state)
{
    (void)state;
    assert_wrong_flag("--profile", "p",
                      "profile \"p\" stands in a config file: name one with --config (snowflake and tsid need none)");
}

static void half_of_what_tls_needs_is_refused(void **state)
{
    (void)state;
    assert_false(READ("--tls-cert", "c"));
    assert_string_equal(message, "tls_cert is given without tls_key: TLS wants both");
    assert_false(READ("--tls-key", "k"));
    assert_string_equal(message, "tls_key is given without tls_cert: TLS wants both");
}

static void the_message_about_a_wrong_url_does_not_show_it(void **state)
{
    (void)state;
    assert_false(READ("--store", "//:secret@host"));
    assert_null(strstr(message, "secret"));
    assert_contains(message, "--store: not a source URL");
}

static void a_wrong_variable_is_named(void **state)
{
    (void)state;
    setenv("KAZAHANA_LISTENS", "1", 1);
    bool right = settings_read(&s, 0, NULL, &check_only, &usage, message);
    unsetenv("KAZAHANA_LISTENS");
    assert_false(right);
    assert_false(usage);
    assert_string_equal(message, "unknown variable KAZAHANA_LISTENS in the environment");
    setenv("KAZAHANA_LOOPS", "many", 1);
    assert_false(READ("--loops", "2"));
    assert_string_equal(message, "KAZAHANA_LOOPS: \"many\" is not a number from 0 to 256");
}

static void whatever_is_wrong_in_the_file_is_told_with_its_line(void **state)
{
    (void)state;
    assert_wrong_file("\n\nlisten = nowhere\n",
                      "3: listen: \"nowhere\" is not ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070");
    assert_wrong_file("loops = 1\nlops = 1\n", "2: unknown key \"lops\"");
    assert_wrong_file("[profile \"p\"]\n\nlops = 1\n", "3: unknown key \"lops\" in [profile \"p\"]");
    assert_wrong_file("[profile \"p\"]\nloops = x\n", "2: loops: \"x\" is not a number from 0 to 256");
    assert_wrong_file("profile = p\n",
                      "1: profile cannot stand in the file: it is given as a flag or in the environment");
    assert_wrong_file("loops = 1\n[server]\nloops = 2\n", "3: loops is there twice, first in line 1");
    assert_wrong_file("loops = 1\n\nnonsense\nlops = 2\n", "3: neither a section nor key = value");
    assert_wrong_file("no_create_services = perhaps\n", "1: no_create_services: \"perhaps\" is neither yes nor no");
    assert_wrong_file("store = nothing\n", "1: store: not a source URL, such as sqlite:/var/lib/kazahana/leases.db or "
                                           "redis://host:6379/0");
}

static void a_wrong_section_is_told_with_its_line_even_if_it_is_empty(void **state)
{
    (void)state;
#define KNOWN ": known are [server], [profile \"name\"] and [service \"name\"]"
    assert_wrong_file("\n[servers]\n", "2: unknown section [servers]" KNOWN);
    assert_wrong_file("[]\n", "1: unknown section []" KNOWN);
    assert_wrong_file("[service]\n", "1: unknown section [service]" KNOWN);
    assert_wrong_file("[server \"a\"]\n", "1: unknown section [server]" KNOWN);
    assert_wrong_file("[server\n",
                      "1: [server: not a section: write [server], [profile \"name\"] or [service \"name\"]");
    assert_wrong_file("[service \"a]\n", "1: [service \"a]: the second \" is missing");
    assert_wrong_file("[server] loops = 1\n", "1: \"loops = 1\" stands behind a section");
    assert_wrong_file("[server]\n\n[server]\n", "3: [server] is there twice, first in line 1");
    assert_wrong_file("[profile \"\"]\n", "1: \"\" is not the name of a profile: 1 to 63 characters");
    assert_wrong_file("[profile \"p\"]\n[profile \"p\"]\n", "2: [profile \"p\"] is there twice, first in line 1");
}

static void a_wrong_service_is_told_with_its_line(void **state)
{
    (void)state;
    assert_wrong_file("[service \"a\"]\n[service \"b\"]\n[service \"a\"]\n",
                      "3: [service \"a\"] is there twice, first in line 1");
    assert_wrong_file("[service \"a b\"]\n", "1: \"a b\" is not the name of a service: 1 to 63 of a-z A-Z 0-9 . _ -");
    assert_wrong_file("[service \"a\"]\nloops = 1\n", "2: unknown key \"loops\" in [service \"a\"]: known are layout, "
                                                      "lease, max_throughput, high_blocks");
    assert_wrong_file("[service \"a\"]\nlease = 1s\nlease = 2s\n", "3: lease is there twice in [service \"a\"]");
    assert_wrong_file("[service \"a\"]\nlease = 8d\n", "2: lease: \"8d\" is not between 100 ms and 7 d");
    assert_wrong_file("[service \"a\"]\nlayout = mastodon\n",
                      "2: layout: layout mastodon has no node bits and cannot be leased");
    assert_wrong_file("[service \"a\"]\nmax_throughput = 0\n",
                      "2: max_throughput: \"0\" is not a number from 1 to 4294967295");
    assert_wrong_file("[service \"a\"]\nhigh_blocks = 2\n", "2: high_blocks: \"2\" is neither yes nor no");
    write_file("[service \"a\"]\nlayout = 50-10-10@2026-01-01\n");
    assert_false(READ("--config", path));
    assert_contains(message, "f.conf:2: layout: ");
}

static void the_sixty_fifth_service_is_one_too_many(void **state)
{
    (void)state;
    char text[65 * 24] = "";
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "[service \"s%d\"]\n", i);
    assert_wrong_file(text, "65: service \"s64\" is one too many: at most 64");
}

static void a_long_line_is_refused_unless_it_is_a_comment(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'x', sizeof text);
    memcpy(text, "\n# ", 3);
    strcpy(text + 300, "\nloops = 2\n");
    write_file(text);
    assert_read("--config", path);
    assert_int_equal(s.loops, 2);
    memcpy(text, "\nstore = memory:", 16);
    write_file(text);
    assert_false(READ("--config", path));
    assert_contains(message, "f.conf:2: a line of 299 characters: at most ");
}

static void a_file_that_is_no_text_or_too_large_or_missing_is_refused(void **state)
{
    (void)state;
    assert_false(settings_parse(&s, "f", "loops = 1\nlo\0ops", 16, message));
    assert_string_equal(message, "f:2: a zero byte: this is not a text file");
    char *large = malloc(SETTINGS_FILE_MAX + 2);
    assert_non_null(large);
    memset(large, '\n', SETTINGS_FILE_MAX + 1);
    large[SETTINGS_FILE_MAX + 1] = '\0';
    write_file(large);
    free(large);
    assert_false(READ("--config", path));
    assert_contains(message, "f.conf: larger than 256 KiB");
    unlink(path);
    assert_false(READ("--config", path));
    assert_contains(message, "f.conf: No such file or directory");
    assert_false(READ("--config", directory));
    assert_contains(message, ": Is a directory");
}

static void a_profile_that_is_not_in_the_file_is_refused(void **state)
{
    (void)state;
    write_file("[profile \"prod\"]\n");
    assert_read("--config", path, "--profile", "prod");
    assert_false(READ("--config", path, "--profile", "pro"));
    assert_contains(message, "f.conf: there is no [profile \"pro\"]");
}

static void listen_takes_addresses_apart(void **state)
{
    (void)state;
    char host[64];
    uint16_t port;
    assert_true(settings_listen("0.0.0.0:0", host, &port, message));
    assert_string_equal(host, "0.0.0.0");
    assert_int_equal(port, 0);
    assert_true(settings_listen("[::1]:65535", host, &port, message));
    assert_string_equal(host, "::1");
    assert_int_equal(port, 65535);
    assert_true(settings_listen("localhost:7070", host, &port, message));
    assert_string_equal(host, "127.0.0.1");
    static const char *const wrong[] = {"",          ":",         "7070",       ":7070",     "127.0.0.1",
                                        "::1:7070",  "[::1]",     "[::1",       "[]:1",      "1.1.1.1:65536",
                                        "1.1.1.1:",  "1.1.1.1:a", "1.1.1.1:-1", "a.b:80",    "[1.1.1.1]:80",
                                        "1.1.1:80:", "[:1",       "[",          "1.1.1.1: 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (settings_listen(wrong[i], host, &port, message))
            fail_msg("'%s' was taken", wrong[i]);
}

static void a_reload_takes_over_what_may_change_and_names_what_waits(void **state)
{
    (void)state;
    write_file("log_level = info\nloops = 1\n[service \"a\"]\n");
    assert_read("--config", path, "--idle-timeout", "7s");
    write_file("log_level = debug\ntoken_file = t\nidle_timeout = 9s\n[service \"b\"]\n[service \"a\"]\n");
    assert_true(settings_reload(&s, message));
    assert_string_equal(message, "loops");
    assert_int_equal(s.log_level, 3);
    assert_string_equal(s.token_file, "t");
    assert_int_equal(s.service_count, 2);
    assert_string_equal(s.services[0].name, "b");
    assert_int_equal(s.loops, 1);
    assert_int_equal(s.idle_ms, 7000);
}

static void a_reload_of_a_wrong_file_changes_nothing(void **state)
{
    (void)state;
    write_file("log_level = info\n[service \"a\"]\n");
    assert_read("--config", path);
    write_file("log_level = debug\n[service \"b\"]\nlease = never\n");
    assert_false(settings_reload(&s, message));
    assert_contains(message, "f.conf:3: lease: \"never\" is not a duration");
    assert_int_equal(s.log_level, 2);
    assert_string_equal(s.services[0].name, "a");
}

/* ---- the log ---- */

static char logged[8192];

static int capture_begin(int *saved)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    *saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

static void capture_end(int from, int saved)
{
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t got = read(from, logged, sizeof logged - 1);
    logged[got > 0 ? got : 0] = '\0';
    close(from);
}

#define CAPTURE(...)                                                                                                   \
    do {                                                                                                               \
        int saved_, from_ = capture_begin(&saved_);                                                                    \
        log_event(__VA_ARGS__, (char *)NULL);                                                                          \
        capture_end(from_, saved_);                                                                                    \
    } while (0)

static void logfmt_quotes_what_has_to_be_quoted(void **state)
{
    (void)state;
    log_setup(LOG_AT_INFO, false);
    CAPTURE(LOG_AT_WARNING, "listening", "address", "127.0.0.1:7070", "why", "two words", "empty", "", "q", "a\"b\\",
            "eq", "a=b");
    assert_int_equal(strncmp(logged, "time=2", 6), 0);
    assert_string_equal(strstr(logged, " level"),
                        " level=warning event=listening address=127.0.0.1:7070 why=\"two words\" empty=\"\" "
                        "q=\"a\\\"b\\\\\" eq=\"a=b\"\n");
}

static void json_escapes_control_characters_and_what_is_not_utf8(void **state)
{
    (void)state;
    log_setup(LOG_AT_INFO, true);
    CAPTURE(LOG_AT_INFO, "e", "a", "x\ny\t\x7f\x1b[1m", "b", "\xff\xe9\x9b\xaa\xc0\x80\xed\xa0\x80", "c",
            "\xc2\x9b"
            "1m");
    log_setup(LOG_AT_INFO, false);
    assert_string_equal(
        strstr(logged, "\"level\""),
        "\"level\":\"info\",\"event\":\"e\",\"a\":\"x\\ny\\u0009\\u007f\\u001b[1m\","
        "\"b\":\"\\ufffd\xe9\x9b\xaa\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\",\"c\":\"\\ufffd\\ufffd1m\"}\n");
}

static void logfmt_never_lets_a_value_begin_a_line(void **state)
{
    (void)state;
    CAPTURE(LOG_AT_INFO, "e", "a", "x\ntime=0 level=error", "b", "\xc2\x85");
    assert_ptr_equal(strchr(logged, '\n'), logged + strlen(logged) - 1);
    assert_contains(logged, "a=\"x\\ntime=0 level=error\"");
}

static void a_line_that_is_too_long_is_cut_and_closed(void **state)
{
    (void)state;
    static char value[6000];
    memset(value, '"', sizeof value - 1);
    log_setup(LOG_AT_INFO, true);
    CAPTURE(LOG_AT_INFO, "e", "a", value, "b", "behind");
    log_setup(LOG_AT_INFO, false);
    assert_in_range(strlen(logged), 4000, 4096);
    assert_string_equal(logged + strlen(logged) - 5, "\\\"\"}\n");
    assert_null(strstr(logged, "behind"));
}

static void lines_below_the_level_are_left_out(void **state)
{
    (void)state;
    log_set_level(LOG_AT_WARNING);
    CAPTURE(LOG_AT_INFO, "quiet");
    assert_string_equal(logged, "");
    CAPTURE(LOG_AT_ERROR, "loud");
    assert_contains(logged, "level=error event=loud\n");
    log_set_level(LOG_AT_INFO);
}

/* How many events a log tells of, and in how many lines. */
static unsigned long events_in(const char *text, unsigned *lines)
{
    unsigned long events = 0;
    *lines = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        const char *repeated = strstr(at, "repeated=");
        events += repeated && repeated < end ? strtoul(repeated + 9, NULL, 10) : 1;
        ++*lines;
    }
    return events;
}

static void a_repeated_line_is_written_once_a_second_with_its_count(void **state)
{
    (void)state;
    enum { TIMES = 50000 };
    unsigned lines;
    int saved, from = capture_begin(&saved);
    time_t began = time(NULL);
    for (int i = 0; i < TIMES; i++)
        log_often(LOG_AT_WARNING, "http", "message", "too many open files", NULL);
    log_flush();
    unsigned seconds = (unsigned)(time(NULL) - began) + 1;
    capture_end(from, saved);
    assert_int_equal(events_in(logged, &lines), TIMES);
    assert_in_range(lines, 2, 2 * seconds + 2); /* for each second its first, and the count of the others */
    assert_contains(logged, "level=warning event=http message=\"too many open files\" repeated=");
}

static void lines_of_one_event_that_differ_have_a_limit_too(void **state)
{
    (void)state;
    enum { TIMES = 3000 };
    unsigned lines;
    char text[16];
    int saved, from = capture_begin(&saved);
    time_t began = time(NULL);
    for (int i = 0; i < TIMES; i++) {
        snprintf(text, sizeof text, "%d", i);
        log_often(LOG_AT_INFO, "refused", "service", text, NULL);
    }
    log_flush();
    unsigned seconds = (unsigned)(time(NULL) - began) + 1;
    capture_end(from, saved);
    assert_int_equal(events_in(logged, &lines), TIMES);
    assert_in_range(lines, 21, 21 * (seconds + 1));
    assert_contains(logged, "service=19\n");
    assert_contains(logged, "repeated=");
}

static void an_event_that_is_ours_is_never_kept_back(void **state)
{
    (void)state;
    unsigned lines;
    int saved, from = capture_begin(&saved);
    for (int i = 0; i < 50; i++)
        log_event(LOG_AT_INFO, "reloaded", NULL);
    capture_end(from, saved);
    assert_int_equal(events_in(logged, &lines), 50);
    assert_int_equal(lines, 50);
}

/* ---- tokens ---- */

static bool allow(const tokens *t, const char *value)
{
    return tokens_allow(t, value, strlen(value));
}

static void any_token_of_the_file_is_let_in_and_nothing_else(void **state)
{
    (void)state;
    tokens *t;
    write_file("# of June\n0123456789abcdef\n\n  new-token-of-july/2026==  \r\n");
    chmod(path, 0600);
    assert_true(tokens_load(&t, path, message));
    assert_string_equal(message, "");
    assert_true(allow(t, "Bearer 0123456789abcdef"));
    assert_true(allow(t, "bearer   new-token-of-july/2026=="));
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "0123456789abcdef",
                                        "Basic 0123456789abcdef",
                                        "Bearer 0123456789abcde",
                                        "Bearer 0123456789abcdef0",
                                        "Bearer 0123456789ABCDEF",
                                        "Bearer 0123456789abcdef ",
                                        "Bearer # of June"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (allow(t, wrong[i]))
            fail_msg("'%s' was let in", wrong[i]);
    assert_false(tokens_allow(t, "Bearer 0123456789abcdef", 22));
    tokens_free(t);
}

static void a_file_that_others_can_read_is_taken_with_a_warning(void **state)
{
    (void)state;
    tokens *t;
    write_file("0123456789abcdef\n");
    chmod(path, 0644);
    assert_true(tokens_load(&t, path, message));
    assert_contains(message, "f.conf can be read by everybody on this machine");
    tokens_free(t);
}

static void wrong_token_files_are_refused_without_showing_a_token(void **state)
{
    (void)state;
    tokens *t = NULL;
    write_file("\n0123456789abcde\n");
    assert_false(tokens_load(&t, path, message));
    assert_contains(message, "f.conf:2: a token of 15 characters: 16 to 1024 are wanted");
    write_file("0123456789 abcdef\n");
    assert_false(tokens_load(&t, path, message));
    assert_contains(message, "f.conf:1: a token is made of visible ASCII characters");
    assert_null(strstr(message, "abcdef"));
    write_file("# nothing\n");
    assert_false(tokens_load(&t, path, message));
    assert_contains(message, "f.conf: no token in it");
    char many[65 * 18 + 1] = "";
    for (int i = 0; i < 65; i++)
        strcat(many, "0123456789abcdef\n");
    write_file(many);
    assert_false(tokens_load(&t, path, message));
    assert_contains(message, "f.conf:65: too many tokens: at most 64");
    unlink(path);
    assert_false(tokens_load(&t, path, message));
    assert_contains(message, "f.conf: No such file or directory");
    assert_null(t);
}

/* ---- systemd ---- */

static void systemd_is_told_over_the_socket_it_names(void **state)
{
    (void)state;
    assert_false(notify_ready("x"));
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    setenv("NOTIFY_SOCKET", path, 1);
    char got[600] = "";
    assert_true(notify_ready("listening on\n127.0.0.1:7070"));
    assert_true(recv(fd, got, sizeof got - 1, 0) > 0);
    assert_string_equal(got, "READY=1\nSTATUS=listening on 127.0.0.1:7070\n");
    memset(got, 0, sizeof got);
    assert_true(notify_stopping(NULL));
    assert_true(recv(fd, got, sizeof got - 1, 0) > 0);
    assert_string_equal(got, "STOPPING=1\n");
    close(fd);
    setenv("NOTIFY_SOCKET", "relative", 1);
    assert_false(notify_ready(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_given_gives_the_defaults),
        TEST(every_flag_is_read),
        TEST(flags_win_over_the_environment_that_over_the_profile_that_over_the_file),
        TEST(the_file_and_the_profile_can_come_from_the_environment),
        TEST(keys_may_stand_before_any_section_or_in_server_and_be_indented),
        TEST(services_are_read_with_all_their_keys),
        TEST(a_wrong_flag_is_a_usage_error_that_names_it),
        TEST(a_profile_without_a_file_is_a_usage_error),
        TEST(half_of_what_tls_needs_is_refused),
        TEST(the_message_about_a_wrong_url_does_not_show_it),
        TEST(a_wrong_variable_is_named),
        TEST(whatever_is_wrong_in_the_file_is_told_with_its_line),
        TEST(a_wrong_section_is_told_with_its_line_even_if_it_is_empty),
        TEST(a_wrong_service_is_told_with_its_line),
        TEST(the_sixty_fifth_service_is_one_too_many),
        TEST(a_long_line_is_refused_unless_it_is_a_comment),
        TEST(a_file_that_is_no_text_or_too_large_or_missing_is_refused),
        TEST(a_profile_that_is_not_in_the_file_is_refused),
        TEST(listen_takes_addresses_apart),
        TEST(a_reload_takes_over_what_may_change_and_names_what_waits),
        TEST(a_reload_of_a_wrong_file_changes_nothing),
        TEST(logfmt_quotes_what_has_to_be_quoted),
        TEST(json_escapes_control_characters_and_what_is_not_utf8),
        TEST(logfmt_never_lets_a_value_begin_a_line),
        TEST(a_line_that_is_too_long_is_cut_and_closed),
        TEST(lines_below_the_level_are_left_out),
        TEST(a_repeated_line_is_written_once_a_second_with_its_count),
        TEST(lines_of_one_event_that_differ_have_a_limit_too),
        TEST(an_event_that_is_ours_is_never_kept_back),
        TEST(any_token_of_the_file_is_let_in_and_nothing_else),
        TEST(a_file_that_others_can_read_is_taken_with_a_warning),
        TEST(wrong_token_files_are_refused_without_showing_a_token),
        TEST(systemd_is_told_over_the_socket_it_names),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
