/* URLs with a password or a token in them (a path to a Unix socket has neither), whole and broken, given to every
 * source that knows one: no message and no line of the log shows it. The first byte picks the scheme, the second how
 * the rest is put together. No name is looked up and nobody is reached. */
#include "target.h"

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>

#define SECRET "s3cretPW0"

/* libcurl comes to these too. */
#define EVERYBODYS __attribute__((visibility("default")))

EVERYBODYS int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list)
{
    (void)host;
    (void)port;
    (void)hints;
    (void)list;
    return EAI_NONAME;
}

EVERYBODYS int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size)
{
    (void)fd;
    (void)to;
    (void)size;
    errno = ECONNREFUSED;
    return -1;
}

static const char *const schemes[] = {"redis:",
                                      "rediss:",
                                      "redis+sentinel:",
                                      "rediss+sentinel:",
                                      "tsid+redis:",
                                      "tsid+rediss:",
                                      "http:",
                                      "https:",
                                      "postgres:",
                                      "etcd:",
                                      "etcds:",
                                      "postgresql:",
                                      ":",
                                      "",
                                      "redis"};

static void must_not_show(void *ctx, kz_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    MUST(!strstr(line, SECRET));
}

/* Where a password or a token can stand in a URL, with whatever around it. */
static bool compose(char *url, size_t room, unsigned how, const char *before, const char *after)
{
    switch (how % 4) {
    case 0: /* behind a colon; behind the ? only parameters' values stand, unless a login follows */
        if (strchr(before, '?') && !strchr(after, '@'))
            return false;
        return snprintf(url, room, "%s:" SECRET "%s", before, after) < (int)room;
    case 1:
        if (strchr(before, '?') || strchr(before, '#'))
            return false;
        return snprintf(url, room, "%s?token=" SECRET "%s", before, after) < (int)room;
    case 2:
        return snprintf(url, room, "%s" SECRET "@%s", before, after) < (int)room;
    default:
        return snprintf(url, room, "//u:" SECRET "@%s%s", before, after) < (int)room;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1024)
        return 0;
    char *text = text_of(data + 2, size - 2), url[4096], body[3072];
    char *cut = strchr(text, '\n');
    if (cut)
        *cut++ = '\0';
    kz_options options;
    kz_options_init(&options);
    options.log = must_not_show;
    options.timeout_ms = 100;
    const char *scheme = schemes[data[0] % (sizeof schemes / sizeof *schemes)];
    /* Without a scheme the text must not bring one: files are not made here. */
    if ((*scheme || !*text || strchr("/:@", *text)) && compose(body, sizeof body, data[1], text, cut ? cut : "")) {
        kz_source *source = NULL;
        kz_error err = {0};
        snprintf(url, sizeof url, "%s%s", scheme, body);
        kz_status status = kz_source_open(&source, url, &options, &err);
        if (status) {
            must_explain(&err, status);
            MUST(!strstr(err.message, SECRET));
        } else {
            int64_t ms;
            uint64_t generation;
            if (kz_source_now(source, &ms, &generation, &err))
                MUST(!strstr(err.message, SECRET));
            kz_source_close(source);
        }
    }
    free(text);
    return 0;
}
