/* Running the server: opens what it needs, waits for signals, and puts everything back in order. */
#include "server/serve.h"
#include "server/app.h"
#include "server/log.h"
#include "server/notify.h"

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

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
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
    if (store_open(&a->store, s->store, &for_store, s->services, s->service_count, &err))
        return fail("store", err.message);
    if (kz_open(&a->gen, s->ids_from ? s->ids_from : s->store, &for_ids, &err))
        return fail("generator", err.message);
    a->minter = minter_start(a);
    return a->minter ? 0 : fail("minter", "no thread for those who wait for an ID");
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
    char host[64], message[512], address[96];
    uint16_t port;
    if (!settings_listen(s->listen, host, &port, message))
        return fail("listen", message);
    a->on_loopback = is_loopback(host);
    allow_files(s->connections_max);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    a->loops = s->loops ? s->loops : cores > 0 ? (unsigned)cores : 1;
    a->counts = calloc(a->loops, sizeof *a->counts);
    if (!a->counts)
        return fail("start", "out of memory");
    http_settings http = {.address = host,
                          .port = port,
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
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, http_server_port(a->http));
    log_event(LOG_AT_INFO, "listening", "address", address, "tls", s->tls_cert ? "yes" : "no", NULL);
    if (!a->on_loopback && !a->tokens)
        log_event(LOG_AT_WARNING, "open-to-others", "message",
                  "anybody who reaches this address can take leases: give --token-file, or listen on loopback", NULL);
    return 0;
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
    tokens_free(a->tokens);
    pthread_rwlock_destroy(&a->reload_lock);
    free(a->counts);
    free(a);
    log_flush();
    return result;
}
