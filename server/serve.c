/* Running the server: opens what it needs, waits for signals, and puts everything back in order. */
#include "server/serve.h"
#include "server/app.h"
#include "server/handover.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/tls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRAIN_MS 4000

static void log_library(void *ctx, kz_log_level level, const char *message)
{
    (void)ctx;
    log_often((int)level, "library", "message", message, NULL);
}

static void log_http(void *ctx, int level, const char *message)
{
    (void)ctx;
    /* syslog's levels, of which 3 is an error and 4 a warning */
    log_often(level <= 3 ? LOG_AT_ERROR : level == 4 ? LOG_AT_WARNING : LOG_AT_INFO, "http", "message", message, NULL);
}

static void log_access(void *ctx, const http_request *request, const char *peer, int status, size_t bytes, int64_t ns)
{
    (void)ctx;
    char path[256], method[16], numbers[3][24];
    snprintf(method, sizeof method, "%.*s", (int)request->method.length, request->head ? "HEAD" : request->method.at);
    if (request->head)
        strcpy(method, "HEAD");
    snprintf(path, sizeof path, "%.*s", request->path.length < 200 ? (int)request->path.length : 200, request->path.at);
    snprintf(numbers[0], sizeof numbers[0], "%d", status);
    snprintf(numbers[1], sizeof numbers[1], "%zu", bytes);
    snprintf(numbers[2], sizeof numbers[2], "%lld", (long long)ns / 1000);
    /* The query may hold names of services, and what else somebody writes there. */
    log_event(LOG_AT_INFO, "access", "peer", peer, "method", method, "path", path, "status", numbers[0], "bytes",
              numbers[1], "us", numbers[2], NULL);
}

/* A source's URL without what may be a password: no user, no parameters. */
static void shown_url(const char *url, char shown[static 256])
{
    size_t scheme = strcspn(url, ":");
    const char *rest = url[scheme] ? url + scheme + 1 : "";
    const char *at = strncmp(rest, "//", 2) == 0 ? memrchr(rest, '@', strcspn(rest, "?")) : NULL;
    snprintf(shown, 256, "%.*s:%s%.*s", (int)scheme, url, at ? "//" : "", (int)strcspn(at ? at + 1 : rest, "?"),
             at ? at + 1 : rest);
}

static int fail(const char *event, const char *message)
{
    log_event(LOG_AT_ERROR, event, "message", message, NULL);
    return 1;
}

static void set_options(const settings *s, kz_options *table, kz_options *ids)
{
    kz_options_init(table);
    table->log = log_library;
    table->service = s->service;
    table->max_services = s->max_services;
    *ids = s->ids;
    ids->log = log_library;
    ids->service = s->service;
    ids->layout = s->layout;
}

/* Opens the store, the generator and the tokens. The exit status, or 0. */
static int open_parts(app *a)
{
    settings *s = a->settings;
    kz_options for_store, for_ids;
    kz_error err = {0};
    char message[512] = "";
    set_options(s, &for_store, &for_ids);
    if (s->token_file && !tokens_load(&a->tokens, s->token_file, message))
        return fail("tokens", message);
    a->has_tokens = a->tokens;
    if (s->token_file && *message)
        log_event(LOG_AT_WARNING, "tokens", "message", message, NULL);
    if (s->key_file && kz_external_keys_load(&a->keys, s->key_file, &err))
        return fail("keys", err.message);
    if (store_open(&a->store, s->store, &for_store, s->services, s->service_count, &err))
        return fail("store", err.message);
    if (kz_open(&a->gen, s->ids_from ? s->ids_from : s->store, &for_ids, &err))
        return fail("generator", err.message);
    a->minter = minter_start(a);
    if (!a->minter)
        return fail("minter", "no thread for those who wait for an ID");
    char table[256], ids[256], layout[KZ_LAYOUT_TEXT_SIZE];
    kz_layout used;
    kz_generator_layout(a->gen, &used);
    kz_layout_text(&used, layout);
    shown_url(store_url(a->store), table);
    shown_url(s->ids_from ? s->ids_from : store_url(a->store), ids);
    log_event(LOG_AT_INFO, "starting", "version", kz_version(), "store", table, "ids_from", ids, "service", s->service,
              "layout", layout, NULL);
    return 0;
}

#define OTHER_FILES 100 /* listeners, loops, the store and the log */

/* The usual limit of 1,024 files is for programs that use select. */
static void allow_files(unsigned connections)
{
    struct rlimit files;
    rlim_t wanted = (rlim_t)connections + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    char message[160];
    if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur == wanted)
        return;
    snprintf(message, sizeof message,
             "%u connections need %llu open files, and %llu are allowed: raise the limit (LimitNOFILE, ulimit -n) or "
             "lower connections",
             connections, (unsigned long long)wanted, (unsigned long long)files.rlim_cur);
    log_event(LOG_AT_WARNING, "limits", "message", message, NULL);
}

static int listen_for_requests(app *a)
{
    const settings *s = a->settings;
    char host[64] = "", message[512], address[160];
    uint16_t port = 0;
    bool on_unix = settings_unix_path(s->listen);
    int fd = handed_over(message);
    if (*message || (!fd && !on_unix && !settings_listen(s->listen, host, &port, message)))
        return fail("listen", message);
    a->on_loopback = address_is_loopback(host);
    if (fd)
        describe_socket(fd, address, &a->on_loopback, &on_unix);
    allow_files(s->connections_max);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    a->loops = s->loops ? s->loops : cores > 0 ? (unsigned)cores : 1;
    a->counts = calloc(a->loops, sizeof *a->counts);
    if (!a->counts)
        return fail("start", "out of memory");
    http_settings http = {.address = host,
                          .port = port,
                          .path = fd ? NULL : settings_unix_path(s->listen),
                          .fd = fd,
                          .handshakes_max = s->handshakes_max,
                          .access = s->access_log ? log_access : NULL,
                          .loops = a->loops,
                          .connections_max = s->connections_max,
                          .request_ms = s->request_ms,
                          .idle_ms = s->idle_ms,
                          .write_ms = s->write_ms,
                          .tls_cert = s->tls_cert,
                          .tls_key = s->tls_key,
                          .handler = app_handle,
                          .app = a,
                          .observe = app_observe,
                          .log = log_http};
    const char *wrong = http_server_start(&a->http, &http);
    if (wrong)
        return fail("listen", wrong);
    if (!fd && on_unix)
        snprintf(address, sizeof address, "%s", s->listen);
    else if (!fd)
        snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, http_server_port(a->http));
    log_event(LOG_AT_INFO, "listening", "address", address, "tls", s->tls_cert ? "yes" : "no", NULL);
    if (!a->on_loopback && !on_unix && !a->tokens)
        log_event(LOG_AT_WARNING, "open-to-others", "message",
                  "anybody who reaches this address can take leases: give --token-file, or listen on loopback", NULL);
    return 0;
}

/* Could a URL be opened? Nothing is made, and whether the other end is there is not asked. A lease file that is not
 * there yet is looked at as a table in memory with the same parameters. */
static bool check_url(const char *url, const kz_options *options, char message[static 512])
{
    kz_source *source = NULL;
    kz_error err = {0};
    char shown[256], looked_at[4096];
    size_t length = strcspn(url, "?");
    snprintf(looked_at, sizeof looked_at, "%.*s", (int)length, url);
    bool absent = strncmp(url, "sqlite:", 7) == 0 && length > 7 && access(looked_at + 7, F_OK) != 0;
    snprintf(looked_at, sizeof looked_at, "memory:%s", url + length);
    kz_status status = kz_source_open(&source, absent ? looked_at : url, options, &err);
    kz_source_close(source);
    shown_url(url, shown);
    if (status == KZ_INVALID || status == KZ_UNSUPPORTED || status == KZ_MISMATCH)
        snprintf(message, 512, "%.120s: %s", shown, err.message);
    return !*message;
}

bool serve_check(const settings *s, char message[static 512])
{
    tokens *t = NULL;
    kz_external_keys *keys = NULL;
    kz_error err = {0};
    tls_context *tls = NULL;
    const char *wrong = NULL;
    kz_options for_store, for_ids;
    set_options(s, &for_store, &for_ids);
    for_store.log = for_ids.log = NULL;
    *message = '\0';
    if (s->token_file && !tokens_load(&t, s->token_file, message))
        return false;
    *message = '\0'; /* a warning */
    tokens_free(t);
    if (s->key_file && kz_external_keys_load(&keys, s->key_file, &err)) {
        snprintf(message, 512, "%s", err.message);
        return false;
    }
    kz_external_keys_free(keys);
    if (s->tls_cert && (wrong = tls_context_open(&tls, s->tls_cert, s->tls_key))) {
        snprintf(message, 512, "%s", wrong);
        return false;
    }
    tls_context_close(tls);
    return (!s->store || check_url(s->store, &for_store, message)) &&
           (!s->ids_from || check_url(s->ids_from, &for_ids, message));
}

static void configured(store_job *job)
{
    if (job->status)
        log_event(LOG_AT_ERROR, "reload", "service", job->configure.name, "message", job->err.message, NULL);
    store_job_free(job);
}

/* The tokens of the file that is named now. A file that is no longer named does not open the doors. */
static void reload_tokens(app *a)
{
    char message[512] = "";
    tokens *fresh = NULL;
    if (!a->settings->token_file) {
        if (a->tokens)
            log_event(LOG_AT_WARNING, "reload", "message",
                      "no token file is named any more: the old tokens stay until "
                      "the server is started again",
                      NULL);
        return;
    }
    if (!tokens_load(&fresh, a->settings->token_file, message)) {
        log_event(LOG_AT_ERROR, "reload", "message", message, NULL);
        return;
    }
    if (*message)
        log_event(LOG_AT_WARNING, "tokens", "message", message, NULL);
    pthread_rwlock_wrlock(&a->reload_lock);
    tokens *old = a->tokens;
    a->tokens = fresh;
    pthread_rwlock_unlock(&a->reload_lock);
    tokens_free(old);
}

/* SIGHUP: what may change while running. */
static void reload(app *a)
{
    char message[512] = "";
    settings *s = a->settings;
    pthread_rwlock_wrlock(&a->reload_lock);
    bool good = settings_reload(s, message);
    pthread_rwlock_unlock(&a->reload_lock);
    if (!good) {
        log_event(LOG_AT_ERROR, "reload", "message", message, NULL);
        return;
    }
    if (*message)
        log_event(LOG_AT_WARNING, "reload", "message", message, NULL);
    log_set_level(s->log_level);
    reload_tokens(a);
    for (size_t i = 0; i < s->service_count; i++) {
        store_job *job = store_job_new(STORE_CONFIGURE);
        if (job) {
            job->configure = s->services[i];
            job->done = configured;
        }
        if (!job || !store_submit(a->store, job)) {
            store_job_free(job);
            log_event(LOG_AT_ERROR, "reload", "service", s->services[i].name, "message",
                      "the store has too much to do: send SIGHUP again", NULL);
        }
    }
    log_event(LOG_AT_INFO, "reloaded", NULL);
}

static void wait_for_the_end(app *a, const sigset_t *signals)
{
    for (int signal; sigwait(signals, &signal) == 0;) {
        if (signal != SIGHUP) {
            log_event(LOG_AT_INFO, "stopping", "signal", strsignal(signal), NULL);
            return;
        }
        reload(a);
    }
}

int serve(settings *s)
{
    /* Before any thread is there, so that all of them leave the signals to this one. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    log_setup(s->log_level, s->log_json);

    app *a = calloc(1, sizeof *a);
    if (!a)
        return fail("start", "out of memory");
    a->settings = s;
    pthread_rwlock_init(&a->reload_lock, NULL);
    int result = open_parts(a);
    if (result == 0)
        result = listen_for_requests(a);
    if (result == 0) {
        notify_ready("serving");
        wait_for_the_end(a, &signals);
        notify_stopping("finishing what is under way");
    }
    if (a->http)
        http_server_stop(a->http, DRAIN_MS);
    /* What the store was still busy with looks at the server and the generator when it is done. */
    store_close(a->store);
    http_server_free(a->http);
    minter_stop(a->minter);
    kz_close(a->gen);
    kz_external_keys_free(a->keys);
    tokens_free(a->tokens);
    pthread_rwlock_destroy(&a->reload_lock);
    free(a->counts);
    free(a);
    log_flush();
    return result;
}
