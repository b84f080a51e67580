/* What a lease server answers, read without believing any of it: pure functions over a text. */
#ifndef KZ_SOURCES_HTTP_ANSWER_H
#define KZ_SOURCES_HTTP_ANSWER_H

#include <kazahana.h>

#define KZ__HTTP_REQUEST_SIZE 33 /* 32 hex digits and a terminating zero */
#define KZ__HTTP_CURSOR_SIZE  256

/* The answer to POST /lease. `request`: our request's ID, NULL if it had none; an answer to another is thrown away with
 * KZ_UNAVAILABLE, so that it is asked for again. KZ_STORE: no answer of a lease server; the message says why. */
kz_status kz__http_grant_read(const char *text, size_t length, const char *request, kz_grant *grant, kz_error *err);

/* The answer to GET /time. */
kz_status kz__http_time_read(const char *text, size_t length, int64_t *source_ms, uint64_t *generation, kz_error *err);

/* One page of GET /leases. `cursor` becomes where the next begins, empty after the last; *more is false once `visit`
 * has had enough. */
kz_status kz__http_page_read(const char *text, size_t length, kz_lease_visit visit, void *ctx, bool *more,
                             char cursor[static KZ__HTTP_CURSOR_SIZE], kz_error *err);

/* The answer to GET /health, as far as it goes: what it does not say stays as it is. */
kz_status kz__http_health_read(const char *text, size_t length, kz_source_health *health, kz_error *err);

/* An answer that is a refusal. */
typedef struct kz__http_problem {
    bool no_free_node; /* it says that no machine ID is free */
    char text[224];    /* its detail, else its title, as one line; empty: it says nothing */
} kz__http_problem;

/* One line that a terminal can be shown: control characters are taken out. */
void kz__http_one_line(char *text);

void kz__http_problem_read(const char *text, size_t length, kz__http_problem *problem);

#endif
