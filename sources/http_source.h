/* What the files of the HTTP source share. */
#ifndef KZ_SOURCES_HTTP_SOURCE_H
#define KZ_SOURCES_HTTP_SOURCE_H

#include "sources/http_answer.h"
#include "sources/http_link.h"
#include "sources/table_params.h"

typedef struct kz__http {
    kz__http_link *link;
    kz__table_params params; /* service, opener and layout: the rest is the server's to say */
} kz__http;

/* Turns an answer that is no success into a status and a message that names the server and what it said. */
kz_status kz__http_refused(const kz__http *source, const kz__http_answer *answer, kz_error *err);

/* Puts the server's name before the message about an answer that makes no sense. */
kz_status kz__http_nonsense(const kz__http_answer *answer, const kz_error *why, kz_error *err);

/* A GET. A path that a server of another make does not have is KZ_UNSUPPORTED. */
kz_status kz__http_get(kz__http *source, const char *path, kz__http_answer *answer, kz_error *err);

kz_status kz__http_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err);
kz_status kz__http_list(void *source, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err);
kz_status kz__http_health(void *source, const char *service, kz_source_health *health, kz_error *err);

#endif
