/* One way to the members of an etcd cluster, by libcurl: members in turn, a login, and the time by their clocks. */
#include "sources/etcd_link.h"
#include "core/error.h"
#include "host/clock.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#define HOSTS_MAX    16
#define BODY_MAX     ((size_t)8 << 20) /* of an answer */
#define LEFT_MIN_MS  50                /* what a member gets at least when those before it took their time */
#define ASK_AGAIN_MS 600000            /* between two looks at the clocks of all members */
#define OFF_MS       2000              /* such a clock is named in the log */
#define TIMEOUT_MIN  1000
#define TIMEOUT_MAX  60000

typedef struct member {
    char url[300];            /* "http://host:port", for requests and for messages */
    int64_t date_ms, boot_ms; /* its clock, and ours when it said so; boot_ms 0: it has not */
} member;

struct kz__etcd_link {
    const char *name;
    kz_source_options options;
    kz_clock clock;
    member members[HOSTS_MAX];
    size_t count, good; /* the one that answered last is asked first */
    char user[128], password[256], token[600];
    int64_t timeout_ms, deadline_ms, asked_ms;
    CURL *curl;
    char *body;
    size_t length, room;
    int64_t date_ms; /* of this answer; 0: none */
    char why[CURL_ERROR_SIZE];
};

static int64_t boot_ms(const kz__etcd_link *link)
{
    return link->clock.boot_ns(link->clock.ctx) / KZ__NS_PER_MS;
}

/* ------------------------------------------------------------------------------------------------- the URL */

/* user:password@, with %XX for what would end it. */
static kz_status read_login(kz__etcd_link *link, const char *text, size_t size, kz_error *err)
{
    char login[512];
    bool fits = size < sizeof login;
    snprintf(login, sizeof login, "%.*s", (int)(fits ? size : 0), text);
    char *colon = strchr(login, ':');
    if (colon)
        *colon = '\0';
    int user = 0, password = 0;
    char *name = curl_easy_unescape(link->curl, login, 0, &user);
    char *secret = curl_easy_unescape(link->curl, colon ? colon + 1 : "", 0, &password);
    fits = fits && name && secret && user && password && (size_t)user < sizeof link->user &&
           (size_t)password < sizeof link->password && !memchr(name, 0, (size_t)user) &&
           !memchr(secret, 0, (size_t)password);
    if (fits) {
        strcpy(link->user, name);
        strcpy(link->password, secret);
    }
    if (secret)
        explicit_bzero(secret, (size_t)password);
    curl_free(name);
    curl_free(secret);
    explicit_bzero(login, sizeof login);
    return fits ? KZ_OK
                : kz__fail(err, KZ_INVALID,
                           "source etcd: a login before @ is user:password, of at most 127 and 255 characters (write @ "
                           "as %%40, / as %%2F, %% as %%25)");
}

static kz_status read_members(kz__etcd_link *link, const kz__url *url, kz_error *err)
{
    const char *scheme = strcmp(url->scheme, "etcds") == 0 ? "https" : "http", *at = url->body;
    if (strncmp(at, "//", 2) != 0)
        return kz__fail(err, KZ_INVALID, "source %s: expected %s://host:2379", url->scheme, url->scheme);
    at += 2;
    const char *login = strrchr(at, '@');
    kz_status status = login ? read_login(link, at, (size_t)(login - at), err) : KZ_OK;
    if (status)
        return status;
    for (at = login ? login + 1 : at;; at++) {
        size_t size = strcspn(at, ",/"), host = *at == '[' ? strcspn(at, "]") : 0;
        size_t port = host + strcspn(at + host, ":,/"), digits = port < size ? size - port - 1 : 0;
        bool sound = size && port && size < 256 && link->count < HOSTS_MAX && (port == size || digits) && digits <= 5 &&
                     (port == size || strspn(at + port + 1, "0123456789") == digits) &&
                     strcspn(at, " \\#?\"<>") >= size;
        if (!sound)
            return kz__fail(err, KZ_INVALID,
                            "source %s: expected host:port with commas between them, at most %d, and a login before "
                            "an @",
                            url->scheme, HOSTS_MAX);
        snprintf(link->members[link->count++].url, sizeof link->members[0].url, "%s://%.*s%s", scheme, (int)size, at,
                 port == size ? ":2379" : "");
        at += size;
        if (*at != ',')
            break;
    }
    return strcmp(at, "/") == 0 || !*at
               ? KZ_OK
               : kz__fail(err, KZ_INVALID, "source %s: nothing but ?name=value follows the hosts", url->scheme);
}

/* ------------------------------------------------------------------------------------------------- libcurl */

/* libcurl's own beginning is not safe everywhere for two threads at once. */
static pthread_once_t curl_begun = PTHREAD_ONCE_INIT;
static bool curl_usable;

static void begin_curl(void)
{
    curl_usable = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static size_t take(char *bytes, size_t one, size_t count, void *ctx)
{
    kz__etcd_link *link = ctx;
    if (count > BODY_MAX - link->length)
        return 0;
    if (link->length + count > link->room) {
        size_t room = 2 * (link->length + count);
        char *grown = realloc(link->body, room);
        if (!grown)
            return 0;
        link->body = grown;
        link->room = room;
    }
    memcpy(link->body + link->length, bytes, count);
    link->length += count;
    return one * count;
}

static size_t take_header(char *line, size_t one, size_t count, void *ctx)
{
    kz__etcd_link *link = ctx;
    char date[64];
    if (count > 6 && count < sizeof date && strncasecmp(line, "Date: ", 6) == 0) {
        snprintf(date, sizeof date, "%.*s", (int)(count - 6), line + 6);
        time_t s = curl_getdate(date, NULL);
        link->date_ms = s > 0 ? (int64_t)s * 1000 : 0;
    }
    return one * count;
}

/* A program that the caller starts does not get the connection. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)ctx;
    (void)purpose;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Nothing from the environment or a user's files: no proxy, no .netrc, no cookies; and no redirect. */
static bool set_up(kz__etcd_link *link, const kz__url *url)
{
    CURL *c = link->curl;
    const char *cacert = kz__url_param(url, "cacert"), *cert = kz__url_param(url, "cert"),
               *key = kz__url_param(url, "key");
    return !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) && !curl_easy_setopt(c, CURLOPT_PROXY, "") &&
           !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           !curl_easy_setopt(c, CURLOPT_USERAGENT, "kazahana/" KZ_VERSION) &&
           !curl_easy_setopt(c, CURLOPT_TCP_NODELAY, 1L) &&
           !curl_easy_setopt(c, CURLOPT_MAXCONNECTS, (long)link->count) &&
           !curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, link) &&
           !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header) &&
           !curl_easy_setopt(c, CURLOPT_HEADERDATA, link) && !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, link->why) &&
           (!cacert || !curl_easy_setopt(c, CURLOPT_CAINFO, cacert)) &&
           (!cert || !curl_easy_setopt(c, CURLOPT_SSLCERT, cert)) &&
           (!key || !curl_easy_setopt(c, CURLOPT_SSLKEY, key));
}

kz_status kz__etcd_link_new(kz__etcd_link **out, const kz__url *url, const char *name, const kz_source_options *options,
                            kz_error *err)
{
    pthread_once(&curl_begun, begin_curl);
    if (!curl_usable)
        return kz__fail(err, KZ_SYSTEM, "libcurl cannot be used: its initialisation failed");
    kz__etcd_link *link = calloc(1, sizeof *link);
    if (!link)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    link->name = name;
    link->options = *options;
    link->clock = *options->clock;
    int64_t ms = options->timeout_ms;
    link->timeout_ms = ms < 0 || ms > TIMEOUT_MAX ? TIMEOUT_MAX : ms < TIMEOUT_MIN ? TIMEOUT_MIN : ms;
    link->curl = curl_easy_init();
    kz_status status = link->curl ? read_members(link, url, err) : kz__fail(err, KZ_NO_MEMORY, "no memory for libcurl");
    if (status == KZ_OK && !set_up(link, url))
        status = kz__fail(err, KZ_NO_MEMORY, "libcurl cannot be set up");
    if (status)
        kz__etcd_link_free(link, false);
    else
        *out = link;
    return status;
}

void kz__etcd_link_free(kz__etcd_link *link, bool forked)
{
    if (!link)
        return;
    if (!forked) /* to end a connection libcurl would speak to the member in the parent's name */
        curl_easy_cleanup(link->curl);
    free(link->body);
    explicit_bzero(link, sizeof *link);
    free(link);
}

/* ---------------------------------------------------------------------------------------------------- calls */

void kz__etcd_enter(kz__etcd_link *link)
{
    link->deadline_ms = boot_ms(link) + link->timeout_ms;
}

int64_t kz__etcd_left_ms(const kz__etcd_link *link)
{
    int64_t left_ms = link->deadline_ms - boot_ms(link);
    return left_ms > 0 ? left_ms : 0;
}

void kz__etcd_wait(kz__etcd_link *link, int64_t most_ms)
{
    uint32_t drawn = 0;
    if (most_ms > kz__etcd_left_ms(link))
        most_ms = kz__etcd_left_ms(link);
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn)
        drawn = UINT32_MAX / 2;
    int64_t ns = most_ms * (int64_t)(drawn >> 12); /* of 2^20 parts */
    ns = (ns >> 20) * KZ__NS_PER_MS;
    nanosleep(&(struct timespec){.tv_sec = ns / (1000 * KZ__NS_PER_MS), .tv_nsec = ns % (1000 * KZ__NS_PER_MS)}, NULL);
}

/* One exchange with one member. *sent: it may have got the request. */
static kz_status exchange(kz__etcd_link *link, member *m, const char *path, const char *body, int64_t limit_ms,
                          long *code, bool *sent, kz_error *err)
{
    char url[400], timeout[64], token[sizeof link->token + 32];
    struct curl_slist *headers = NULL;
    CURL *c = link->curl;
    snprintf(url, sizeof url, "%s%s", m->url, path);
    /* A little less than ours, so that the member gives up first and says so. */
    snprintf(timeout, sizeof timeout, "Grpc-Timeout: %" PRId64 "m", limit_ms - limit_ms / 8);
    snprintf(token, sizeof token, "Authorization: %s", link->token);
    const char *const lines[] = {"Content-Type: application/json", "Expect:", timeout, *link->token ? token : NULL};
    bool set = true;
    for (size_t i = 0; set && i < 4 && lines[i]; i++) {
        struct curl_slist *longer = curl_slist_append(headers, lines[i]);
        set = longer != NULL;
        headers = longer ? longer : headers;
    }
    link->length = 0;
    link->date_ms = 0;
    *link->why = '\0';
    set = set && !curl_easy_setopt(c, CURLOPT_URL, url) && !curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers) &&
          (body ? !curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)strlen(body)) &&
                      !curl_easy_setopt(c, CURLOPT_POSTFIELDS, body)
                : !curl_easy_setopt(c, CURLOPT_HTTPGET, 1L)) &&
          !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    CURLcode result = set ? curl_easy_perform(c) : CURLE_OUT_OF_MEMORY;
    if (!result)
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, code);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, NULL);
    curl_slist_free_all(headers);
    *sent = set && result != CURLE_COULDNT_CONNECT && result != CURLE_COULDNT_RESOLVE_HOST;
    if (link->date_ms && !result) {
        m->date_ms = link->date_ms;
        m->boot_ms = boot_ms(link);
    }
    if (!result)
        return KZ_OK;
    bool settled = result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
                   result == CURLE_SSL_CERTPROBLEM || result == CURLE_WRITE_ERROR;
    return kz__fail(err, settled ? KZ_STORE : KZ_UNAVAILABLE, "%s: %s", m->url,
                    *link->why ? link->why : curl_easy_strerror(result));
}

/* It may have been carried out: 408 and 499 are a gateway's words for a time that was over. */
static bool is_unknown(long code)
{
    return code < 400 || code >= 500 || code == 408 || code == 499;
}

/* What a refusal means. *login: the token is no longer good. */
static kz_status explain(const member *m, long code, json_t *answer, bool *login, kz_error *err)
{
    const char *said = json_string_value(json_object_get(answer, "error"));
    said = said ? said : "no answer of etcd's";
    *login = code == 401 || strstr(said, "auth token") || strstr(said, "auth store is old");
    if (strstr(said, "compacted"))
        return kz__fail(err, KZ_AGAIN, "%s: the history was compacted meanwhile", m->url);
    if (strstr(said, "space exceeded"))
        return kz__fail(err, KZ_STORE,
                        "%s: %s: compact and defragment it, then end the alarm (etcdctl compact, defrag, alarm disarm)",
                        m->url, said);
    if (strstr(said, "permission denied") || strstr(said, "user name is empty") || strstr(said, "authentication fail"))
        return kz__fail(err, KZ_STORE, "%s: %s: name a user with the role readwrite on the prefix: user:password@",
                        m->url, said);
    bool passes = is_unknown(code) || code == 429 || *login;
    return kz__fail(err, passes ? KZ_UNAVAILABLE : KZ_STORE, "%s: %.200s (%ld)", m->url, said, code);
}

/* A request to one member, and its answer as JSON. */
static kz_status ask(kz__etcd_link *link, member *m, const char *path, const char *body, int64_t limit_ms, bool *sent,
                     bool *login, json_t **answer, kz_error *err)
{
    long code = 0;
    json_error_t ignored;
    *login = false;
    kz_status status = exchange(link, m, path, body, limit_ms, &code, sent, err);
    if (status)
        return status;
    json_t *found = json_loadb(link->body ? link->body : "", link->length, JSON_REJECT_DUPLICATES, &ignored);
    if (code == 200 && json_is_object(found)) {
        *answer = found;
        return KZ_OK;
    }
    status = code == 200 ? kz__fail(err, KZ_STORE, "%s: is this an etcd? Its answer makes no sense", m->url)
                         : explain(m, code, found, login, err);
    *sent = *sent && is_unknown(code); /* else it says that it did nothing */
    json_decref(found);
    return status;
}

static kz_status log_in(kz__etcd_link *link, member *m, int64_t limit_ms, kz_error *err)
{
    json_t *answer = NULL, *request = json_pack("{s:s,s:s}", "name", link->user, "password", link->password);
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    bool sent, login;
    *link->token = '\0';
    kz_status status = body ? ask(link, m, "/v3/auth/authenticate", body, limit_ms, &sent, &login, &answer, err)
                            : kz__fail(err, KZ_INVALID, "%s: a login that is not UTF-8", link->name);
    const char *token = json_string_value(json_object_get(answer, "token"));
    if (status == KZ_OK && (!token || strlen(token) >= sizeof link->token))
        status = kz__fail(err, KZ_STORE, "%s: a login was answered without a token", m->url);
    if (status == KZ_OK)
        strcpy(link->token, token);
    if (body)
        explicit_bzero(body, strlen(body));
    free(body);
    json_decref(request);
    json_decref(answer);
    return status;
}

kz_status kz__etcd_call(kz__etcd_link *link, const char *path, json_t *request, bool once, bool *doubt, json_t **answer,
                        kz_error *err)
{
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (!body)
        return kz__fail(err, KZ_NO_MEMORY, "%s: no memory for a request", link->name);
    kz_status status = KZ_UNAVAILABLE;
    size_t first = link->good;
    bool sent = false, login = false;
    for (size_t i = 0; i < link->count; i++) {
        size_t at = (first + i) % link->count;
        int64_t limit_ms = kz__etcd_left_ms(link) / (int64_t)(link->count - i);
        if (limit_ms < LEFT_MIN_MS) {
            status = status && i ? status : kz__fail(err, KZ_UNAVAILABLE, "%s: no answer in time", link->name);
            break;
        }
        sent = false;
        status = *link->user && !*link->token ? log_in(link, &link->members[at], limit_ms, err) : KZ_OK;
        for (int tries = 0; status == KZ_OK && tries < 2; tries++) {
            status = ask(link, &link->members[at], path, body, limit_ms, &sent, &login, answer, err);
            if (!login || !*link->user || tries)
                break;
            status = log_in(link, &link->members[at], limit_ms, err);
        }
        link->good = status == KZ_UNAVAILABLE ? (at + 1) % link->count : at;
        if (status != KZ_UNAVAILABLE || (once && sent))
            break;
    }
    if (doubt)
        *doubt = status && sent;
    free(body);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- time */

/* Everybody's clock, as far as they answer: beside the call under way, so that it costs each little. */
static void ask_clocks(kz__etcd_link *link)
{
    for (size_t i = 0; i < link->count; i++) {
        member *m = &link->members[i];
        int64_t limit_ms = kz__etcd_left_ms(link) / (int64_t)(2 * link->count);
        long code;
        bool sent;
        if (m->boot_ms != boot_ms(link) && limit_ms >= LEFT_MIN_MS &&
            exchange(link, m, "/version", NULL, limit_ms, &code, &sent, NULL))
            m->boot_ms = 0;
    }
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

kz_status kz__etcd_time(kz__etcd_link *link, int64_t *now_ms, kz_error *err)
{
    int64_t dates[HOSTS_MAX], now = boot_ms(link);
    size_t count = 0;
    bool look = link->count > 1 && (!link->asked_ms || now - link->asked_ms >= ASK_AGAIN_MS);
    if (look) {
        ask_clocks(link);
        link->asked_ms = now = boot_ms(link);
    }
    for (size_t i = 0; i < link->count; i++)
        if (link->members[i].boot_ms)
            dates[count++] = link->members[i].date_ms + now - link->members[i].boot_ms;
    if (!count)
        return kz__fail(err, KZ_STORE, "%s: its answers have no Date: a proxy must let that header through",
                        link->name);
    qsort(dates, count, sizeof dates[0], by_time);
    int64_t median_ms = dates[(count - 1) / 2], wall_ms = link->clock.wall_ns(link->clock.ctx) / KZ__NS_PER_MS;
    for (size_t i = 0; look && link->options.log && i < link->count; i++) {
        const member *m = &link->members[i];
        int64_t off_ms = m->date_ms + now - m->boot_ms - median_ms;
        char line[KZ_MESSAGE_SIZE];
        if (!m->boot_ms || (off_ms < OFF_MS && off_ms > -OFF_MS))
            continue;
        snprintf(line, sizeof line, "%s: the clock of %s is %" PRId64 " s %s those of the others: set it", link->name,
                 m->url, (off_ms < 0 ? -off_ms : off_ms) / 1000, off_ms < 0 ? "behind" : "ahead of");
        link->options.log(link->options.log_ctx, KZ_LOG_WARNING, line);
    }
    *now_ms = wall_ms < median_ms ? median_ms : wall_ms > median_ms + 999 ? median_ms + 999 : wall_ms;
    return KZ_OK;
}
