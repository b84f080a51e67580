/* One way to a lease server, or to several that share a store, by libcurl. */
#include "sources/http_link.h"
#include "core/error.h"
#include "sources/http_answer.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define LEFT_MIN_MS 50  /* what a server gets at least when those before it took their time */
#define TOO_LARGE   100 /* CURLE_TOO_LARGE, which libcurl has since 8.6 */

struct kz__http_link {
    kz__http_address address;
    size_t good; /* the server that answered last is asked first */
    CURL *curl;
    struct curl_slist *headers;
    size_t length;
    bool too_large;
    char why[CURL_ERROR_SIZE];
    char body[KZ__HTTP_BODY_MAX + 1];
};

static int64_t boot_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* libcurl's own beginning is not safe everywhere for two threads at once. */
static pthread_once_t curl_begun = PTHREAD_ONCE_INIT;
static bool curl_usable;

static void begin_curl(void)
{
    curl_usable = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static size_t take(char *bytes, size_t one, size_t count, void *ctx)
{
    kz__http_link *link = ctx;
    if (count > KZ__HTTP_BODY_MAX - link->length) {
        link->too_large = true;
        return 0;
    }
    memcpy(link->body + link->length, bytes, count);
    link->length += count;
    return one * count;
}

/* A program that the caller starts does not get the connection. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    (void)ctx;
    (void)purpose;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static bool add_header(kz__http_link *link, const char *line)
{
    struct curl_slist *longer = curl_slist_append(link->headers, line);
    if (longer)
        link->headers = longer;
    return longer != NULL;
}

/* The headers of every request. The list may hold the token, so it is wiped before it goes. */
static void drop_headers(kz__http_link *link)
{
    for (struct curl_slist *h = link->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(link->headers);
    link->headers = NULL;
}

static kz_status set_headers(kz__http_link *link, kz_error *err)
{
    char line[KZ__HTTP_TOKEN_SIZE + 32];
    drop_headers(link);
    bool done = add_header(link, "Content-Type: application/json") && add_header(link, "Accept: application/json") &&
                add_header(link, "Expect:");
    if (done && *link->address.token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", link->address.token);
        done = add_header(link, line);
        explicit_bzero(line, sizeof line);
    }
    done = done && curl_easy_setopt(link->curl, CURLOPT_HTTPHEADER, link->headers) == CURLE_OK;
    return done ? KZ_OK : kz__fail(err, KZ_NO_MEMORY, "no memory for the headers of a request");
}

static bool restrict_protocols(CURL *curl)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    return curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
    return curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) == CURLE_OK;
#endif
}

/* What holds for all requests. Nothing from the environment or a user's files: no proxy, no .netrc, no cookies; and no
 * redirect, so that the token goes nowhere else. */
static kz_status set_up(kz__http_link *link, kz_error *err)
{
    CURL *c = link->curl;
    bool done = restrict_protocols(c) && !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
                !curl_easy_setopt(c, CURLOPT_PROXY, "") && !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
                !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                !curl_easy_setopt(c, CURLOPT_USERAGENT, "kazahana/" KZ_VERSION) &&
                !curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) && !curl_easy_setopt(c, CURLOPT_TCP_NODELAY, 1L) &&
                !curl_easy_setopt(c, CURLOPT_MAXCONNECTS, (long)link->address.host_count) &&
                !curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
                !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, link) &&
                !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, link->why);
    if (done && *link->address.socket)
        done = !curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, link->address.socket);
    if (done && *link->address.cacert)
        done = !curl_easy_setopt(c, CURLOPT_CAINFO, link->address.cacert);
    return done ? set_headers(link, err) : kz__fail(err, KZ_NO_MEMORY, "libcurl cannot be set up");
}

kz_status kz__http_link_new(kz__http_link **out, const kz__http_address *address, kz_error *err)
{
    pthread_once(&curl_begun, begin_curl);
    if (!curl_usable)
        return kz__fail(err, KZ_SYSTEM, "libcurl cannot be used: its initialisation failed");
    kz__http_link *link = calloc(1, sizeof *link);
    if (!link)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    link->address = *address;
    link->curl = curl_easy_init();
    kz_status status = link->curl ? set_up(link, err) : kz__fail(err, KZ_NO_MEMORY, "no memory for libcurl");
    if (status)
        kz__http_link_free(link, false);
    else
        *out = link;
    return status;
}

void kz__http_link_free(kz__http_link *link, bool forked)
{
    if (!link)
        return;
    /* To end a connection libcurl would speak to the server in the parent's name. */
    if (!forked) {
        curl_easy_cleanup(link->curl);
        drop_headers(link);
    }
    explicit_bzero(link, sizeof *link);
    free(link);
}

void kz__http_link_hide(const kz__http_link *link, char *text)
{
    const char *token = link->address.token;
    size_t length = strlen(token);
    for (char *found = text; length && (found = strstr(found, token));)
        memset(found, '*', length);
}

/* Certificates and names are settled questions: asking again does not help, a person must. */
/* What to do about a certificate that was refused, by libcurl's words for it. */
static const char *certificate_advice(const char *why)
{
    if (strstr(why, "expired") || strstr(why, "not yet valid"))
        return " (renew the server's certificate; or is this machine's clock wrong?)";
    if (strstr(why, "subject name") || strstr(why, "does not match"))
        return " (call the server by a name that its certificate has)";
    return " (name the certificate's issuer with ?cacert=)";
}

static kz_status failed(kz__http_link *link, const char *host, CURLcode code, kz_error *err)
{
    if (link->too_large)
        return kz__fail(err, KZ_STORE, "%s: an answer of more than %zu bytes: is this a kazahana lease server?", host,
                        KZ__HTTP_BODY_MAX);
    kz__http_one_line(link->why); /* it may quote a certificate */
    const char *why = *link->why ? link->why : curl_easy_strerror(code);
    bool certificate = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
                       code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_CERTPROBLEM;
    bool nonsense = code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY;
    if (code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE) {
        /* libcurl's words for a header above its limit, which is the server's doing. */
        why = "a header that is too long to read, or no memory for it";
        nonsense = true;
    }
    return kz__fail(err, certificate || nonsense ? KZ_STORE : KZ_UNAVAILABLE, "%s: %s%s", host, why,
                    certificate ? certificate_advice(why)
                    : nonsense  ? " (is this a kazahana lease server?)"
                                : "");
}

typedef struct request {
    const char *method, *path, *body;
} request;

static kz_status ask(kz__http_link *link, const char *host, const request *asked, int64_t limit_ms,
                     kz__http_answer *answer, kz_error *err)
{
    CURL *c = link->curl;
    char url[1024];
    long status = 0;
    if (snprintf(url, sizeof url, "%s%s", *link->address.socket ? "http://localhost" : host, asked->path) >=
        (int)sizeof url)
        return kz__fail(err, KZ_INVALID, "%s: a request that is too long", host);
    link->length = 0;
    link->too_large = false;
    link->why[0] = '\0';
    /* Fields make it a POST, so a GET says last that it is one. */
    bool set = !curl_easy_setopt(c, CURLOPT_URL, url) &&
               !curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, asked->body ? (long)strlen(asked->body) : 0L) &&
               !curl_easy_setopt(c, CURLOPT_POSTFIELDS, asked->body) &&
               (asked->body || !curl_easy_setopt(c, CURLOPT_HTTPGET, 1L)) &&
               !curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, asked->body ? asked->method : NULL) &&
               !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)limit_ms) &&
               !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    if (!set)
        return kz__fail(err, KZ_NO_MEMORY, "%s: no memory for a request", host);
    CURLcode code = curl_easy_perform(c);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, NULL);
    if (!code)
        code = curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (code)
        return failed(link, host, code, err);
    link->body[link->length] = '\0';
    *answer = (kz__http_answer){.status = (int)status, .body = link->body, .length = link->length, .from = host};
    return KZ_OK;
}

/* A token file may have been written anew since it was read. True: it was, and asking again makes sense. */
static bool token_changed(kz__http_link *link)
{
    char token[KZ__HTTP_TOKEN_SIZE];
    bool changed = *link->address.token_file && !kz__http_token_load(link->address.token_file, token, NULL) &&
                   strcmp(token, link->address.token) != 0;
    if (changed)
        strcpy(link->address.token, token);
    explicit_bzero(token, sizeof token);
    return changed && set_headers(link, NULL) == KZ_OK;
}

static bool is_down(const kz__http_answer *answer)
{
    kz__http_problem problem;
    if (answer->status < 500)
        return false;
    kz__http_problem_read(answer->body, answer->length, &problem);
    return !problem.no_free_node;
}

kz_status kz__http_send(kz__http_link *link, const char *method, const char *path, const char *body,
                        kz__http_answer *answer, kz_error *err)
{
    const request asked = {method, path, body};
    size_t hosts = link->address.host_count, first = link->good;
    int64_t deadline_ms = boot_ms() + link->address.timeout_ms;
    kz_error why = {0};
    bool may_pass = false;             /* at least one server could not be reached: asking again may help */
    char before[KZ_MESSAGE_SIZE] = ""; /* what was wrong with the servers asked before */
    for (size_t i = 0; i < hosts; i++) {
        const char *host = link->address.hosts[(first + i) % hosts];
        int64_t limit_ms = (deadline_ms - boot_ms()) / (int64_t)(hosts - i);
        limit_ms = limit_ms < LEFT_MIN_MS ? LEFT_MIN_MS : limit_ms;
        kz_status status = ask(link, host, &asked, limit_ms, answer, &why);
        if (!status && answer->status == 401 && token_changed(link))
            status = ask(link, host, &asked, limit_ms, answer, &why);
        bool last = i + 1 == hosts;
        if (!status && (!is_down(answer) || (last && !*before))) {
            link->good = (first + i) % hosts;
            return KZ_OK;
        }
        if (status && status != KZ_UNAVAILABLE && status != KZ_STORE) {
            if (err)
                *err = why;
            return status;
        }
        if (!status)
            kz__fail(&why, KZ_UNAVAILABLE, "%s: answered %d", host, answer->status);
        may_pass |= why.status == KZ_UNAVAILABLE;
        if (last)
            return kz__fail(err, may_pass ? KZ_UNAVAILABLE : KZ_STORE, "%s%s%s", before, *before ? "; " : "",
                            why.message);
        size_t used = strlen(before), room = sizeof before / hosts;
        snprintf(before + used, room, "%s%s", used ? "; " : "", why.message);
    }
    return kz__fail(err, KZ_INVALID, "no server to ask");
}
