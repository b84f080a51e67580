/* http:// and https:// URLs of lease servers, and the token that goes with the requests. */
#include "core/error.h"
#include "sources/http_link.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_FILE_MAX 81920
#define TOKEN_VARIABLE "KAZAHANA_TOKEN"
#define HOST_MAX       253
#define NAME_CHARS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define V6_CHARS       "0123456789abcdefABCDEF:."

/* ----------------------------------------------------------------------------------------------------- token */

/* A token goes into a header: nothing in it may end the line. */
static bool is_token(const char *text, size_t length)
{
    if (!length || length >= KZ__HTTP_TOKEN_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x21 || text[i] > 0x7e)
            return false;
    return true;
}

static kz_status read_file(const char *path, char *text, size_t room, size_t *length, kz_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return kz__fail(err, KZ_SYSTEM, "token file %s: %s", path, strerror(errno));
    ssize_t got = 1;
    for (*length = 0; got > 0 && *length<room; *length += got> 0 ? (size_t)got : 0)
        do
            got = read(fd, text + *length, room - *length);
        while (got < 0 && errno == EINTR);
    int failure = errno;
    close(fd);
    if (got < 0)
        return kz__fail(err, KZ_SYSTEM, "token file %s: %s", path, strerror(failure));
    if (*length == room)
        return kz__fail(err, KZ_INVALID, "token file %s has more than %zu bytes", path, room - 1);
    return KZ_OK;
}

static kz_status first_token(const char *path, const char *text, size_t length, char *token, kz_error *err)
{
    unsigned line = 0;
    for (size_t at = 0; at < length;) {
        const char *begin = text + at, *end = memchr(begin, '\n', length - at);
        size_t size = end ? (size_t)(end - begin) : length - at;
        at += size + 1;
        line++;
        while (size && isspace((unsigned char)begin[size - 1]))
            size--;
        while (size && isspace((unsigned char)*begin)) {
            begin++;
            size--;
        }
        if (!size || *begin == '#')
            continue;
        if (!is_token(begin, size))
            return kz__fail(err, KZ_INVALID, "token file %s, line %u: not a token of 1 to %d visible characters", path,
                            line, KZ__HTTP_TOKEN_SIZE - 1);
        memcpy(token, begin, size);
        token[size] = '\0';
        return KZ_OK;
    }
    return kz__fail(err, KZ_INVALID, "token file %s has no token in it", path);
}

kz_status kz__http_token_load(const char *path, char token[static KZ__HTTP_TOKEN_SIZE], kz_error *err)
{
    size_t length = 0, room = TOKEN_FILE_MAX + 1;
    char *text = malloc(room);
    if (!text)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a token file");
    kz_status status = read_file(path, text, room, &length, err);
    if (status == KZ_OK)
        status = first_token(path, text, length, token, err);
    explicit_bzero(text, room);
    free(text);
    return status;
}

static kz_status read_token(const kz__url *url, kz__http_address *address, kz_error *err)
{
    const char *file = kz__url_param(url, "token-file"), *token = kz__url_param(url, "token");
    const char *where = "token=";
    if (file && token)
        return kz__fail(err, KZ_INVALID, "source %s: token= or token-file=, not both", url->scheme);
    if (file) {
        if (strlen(file) >= sizeof address->token_file)
            return kz__fail(err, KZ_INVALID, "source %s: the path in token-file is too long", url->scheme);
        strcpy(address->token_file, file);
        return kz__http_token_load(file, address->token, err);
    }
    if (!token) {
        token = secure_getenv(TOKEN_VARIABLE);
        where = TOKEN_VARIABLE;
        if (!token || !*token)
            return KZ_OK;
    }
    if (!is_token(token, strlen(token)))
        return kz__fail(err, KZ_INVALID, "source %s: what %s has is not a token of 1 to %d visible characters",
                        url->scheme, where, KZ__HTTP_TOKEN_SIZE - 1);
    strcpy(address->token, token);
    return KZ_OK;
}

/* ----------------------------------------------------------------------------------------------------- hosts */

static bool read_port(const char *text, size_t size, unsigned *port)
{
    unsigned value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
        if (value > 65535)
            return false;
    }
    *port = value;
    return value > 0;
}

/* host, host:port, [v6], [v6]:port; as in any URL of the kind the port is 80, or 443 with TLS. */
static kz_status read_host(const char *scheme, const char *text, size_t size, char *host, size_t room, kz_error *err)
{
    bool v6 = size && *text == '[';
    const char *close = v6 ? memchr(text, ']', size) : NULL;
    const char *name = v6 ? text + 1 : text;
    size_t length = v6 ? (close ? (size_t)(close - name) : 0) : strcspn(text, ":,");
    length = length < size ? length : size;
    const char *rest = v6 && close ? close + 1 : name + length;
    size_t left = size - (size_t)(rest - text);
    unsigned port = strcmp(scheme, "https") == 0 ? 443 : 80;
    if (!length || length > HOST_MAX || strspn(name, v6 ? V6_CHARS : NAME_CHARS) < length)
        return kz__fail(err, KZ_INVALID, "source %s: not a host: write %s://host:port, several with commas", scheme,
                        scheme);
    if (left && (*rest != ':' || !read_port(rest + 1, left - 1, &port)))
        return kz__fail(err, KZ_INVALID, "source %s: what follows the colon behind the host is not a port (1..65535)",
                        scheme);
    snprintf(host, room, v6 ? "%s://[%.*s]:%u" : "%s://%.*s:%u", scheme, (int)length, name, port);
    return KZ_OK;
}

static kz_status read_hosts(const kz__url *url, kz__http_address *address, kz_error *err)
{
    const char *p = url->body;
    /* Without showing it: it may be a password. */
    if (strchr(p, '@'))
        return kz__fail(err, KZ_INVALID,
                        "source %s: no login before the host: a token goes into ?token-file= or " TOKEN_VARIABLE,
                        url->scheme);
    if (strncmp(p, "//", 2) != 0)
        return kz__fail(err, KZ_INVALID, "source %s: write %s://host:port, several with commas", url->scheme,
                        url->scheme);
    p += 2;
    size_t all = strcspn(p, "/");
    if (p[all] && p[all + 1])
        return kz__fail(err, KZ_INVALID, "source %s: a / and more behind the host: a lease server has no path",
                        url->scheme);
    for (const char *end = p + all; p <= end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        size_t size = (size_t)((comma ? comma : end) - p);
        if (address->host_count == KZ__HTTP_HOSTS_MAX)
            return kz__fail(err, KZ_INVALID, "source %s: more than %d servers", url->scheme, KZ__HTTP_HOSTS_MAX);
        kz_status status =
            read_host(url->scheme, p, size, address->hosts[address->host_count], sizeof address->hosts[0], err);
        if (status)
            return status;
        address->host_count++;
        p += size + 1;
    }
    return KZ_OK;
}

/* ///path */
static kz_status read_socket(const kz__url *url, kz__http_address *address, kz_error *err)
{
    const char *path = url->body + 2;
    if (strncmp(url->body, "///", 3) != 0 || strlen(path) >= sizeof address->socket || strchr(path, '@'))
        return kz__fail(err, KZ_INVALID, "source %s: write %s:///path/of/the.sock, with at most %zu characters of path",
                        url->scheme, url->scheme, sizeof address->socket - 1);
    strcpy(address->socket, path);
    snprintf(address->hosts[0], sizeof address->hosts[0], "%s://%s", url->scheme, path);
    address->host_count = 1;
    return KZ_OK;
}

kz_status kz__http_address_read(const kz__url *url, int64_t timeout_ms, kz__http_address *address, kz_error *err)
{
    const char *cacert = kz__url_param(url, "cacert");
    *address = (kz__http_address){0};
    address->timeout_ms = timeout_ms < 0 || timeout_ms > 10000 ? 10000 : timeout_ms < 100 ? 100 : timeout_ms;
    if (cacert && strcmp(url->scheme, "https") != 0)
        return kz__fail(err, KZ_INVALID, "source http: cacert is for https://, this connection is not encrypted");
    if (cacert && strlen(cacert) >= sizeof address->cacert)
        return kz__fail(err, KZ_INVALID, "source https: the path in cacert is too long");
    if (cacert)
        strcpy(address->cacert, cacert);
    kz_status status =
        strcmp(url->scheme, "http+unix") == 0 ? read_socket(url, address, err) : read_hosts(url, address, err);
    return status ? status : read_token(url, address, err);
}
