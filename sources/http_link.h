/* One way to a lease server, or to several that share a store: a request out, an answer in, within a time and a size.
 */
#ifndef KZ_SOURCES_HTTP_LINK_H
#define KZ_SOURCES_HTTP_LINK_H

#include "core/url.h"

#define KZ__HTTP_HOSTS_MAX  16
#define KZ__HTTP_TOKEN_SIZE 1025             /* up to 1024 characters and a terminating zero */
#define KZ__HTTP_BODY_MAX   ((size_t)262144) /* of an answer */

typedef struct kz__http_address {
    size_t host_count;
    char hosts[KZ__HTTP_HOSTS_MAX][288]; /* "http://host:port", for requests and for messages */
    char socket[108];                    /* the path of a Unix socket, and its URL is the only host; empty: none */
    char token[KZ__HTTP_TOKEN_SIZE];     /* empty: none */
    char token_file[512];                /* where the token came from; empty: from elsewhere */
    char cacert[512];                    /* empty: the system's certificates */
    int64_t timeout_ms;                  /* for a request, whichever servers it goes to */
} kz__http_address;

/* Reads //host[:port][,host[:port]...], or ///path of a Unix socket in a http+unix: URL; ?token-file=, ?token= and
 * ?cacert=; a token may be in KAZAHANA_TOKEN too. KZ_SYSTEM: the token file cannot be read. No message shows a token.
 */
kz_status kz__http_address_read(const kz__url *url, int64_t timeout_ms, kz__http_address *address, kz_error *err);

/* The first line of the file that is neither blank nor begins with #. */
kz_status kz__http_token_load(const char *path, char token[static KZ__HTTP_TOKEN_SIZE], kz_error *err);

typedef struct kz__http_link kz__http_link;

/* Says nothing to anybody yet. */
kz_status kz__http_link_new(kz__http_link **link, const kz__http_address *address, kz_error *err);

/* `forked`: the connections are the parent's, and what libcurl has of them is left as it is. */
void kz__http_link_free(kz__http_link *link, bool forked);

typedef struct kz__http_answer {
    int status;       /* 200, 404, ... */
    const char *body; /* the link's, until the next request; a zero stands behind it */
    size_t length;
    const char *from; /* "http://host:port" */
} kz__http_answer;

/* Sends a request and waits for the answer. A server that cannot be reached, or answers 5xx for another reason than
 * that no machine ID is free, is passed over for the next; the one that answered is asked first from then on. Every
 * request can be repeated without harm, so it does not matter whether one that failed was carried out.
 * KZ_UNAVAILABLE: none answered. KZ_STORE: what came is no answer to a request, or too large. */
kz_status kz__http_send(kz__http_link *link, const char *method, const char *path, const char *body,
                        kz__http_answer *answer, kz_error *err);

/* Takes the token out of a text that a server sent, before anybody sees it. */
void kz__http_link_hide(const kz__http_link *link, char *text);

#endif
