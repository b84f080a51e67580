/* One connection to PostgreSQL: statements out in a pipeline, results in, within a time. */
#ifndef KZ_SOURCES_POSTGRES_LINK_H
#define KZ_SOURCES_POSTGRES_LINK_H

#include "core/url.h"

#include <libpq-fe.h>

typedef struct kz__pg kz__pg;

/* `texts` are the statements, by number; they and `name` (for messages, without a password) live as long as the link.
 * KZ_INVALID: the URL or a parameter is not libpq's. Connects with the first trip. */
kz_status kz__pg_new(kz__pg **out, const kz__url *url, const char *const *own_params, const char *name,
                     const char *const *texts, int64_t timeout_ms, kz_error *err);

/* Is this parameter one of libpq's? */
bool kz__pg_knows(const char *param);

/* `forked`: the connection is the parent's. Its socket is closed here and nothing is said on it; the rest is left. */
void kz__pg_free(kz__pg *pg, bool forked);

/* Begins a call: from now on there is timeout_ms for all its trips. Only in a transaction statements are prepared. */
void kz__pg_enter(kz__pg *pg, bool transaction);
/* Connects if there is no connection, and says so in *fresh. KZ_UNAVAILABLE: no server can be reached, or none accepts
 * writes. KZ_STORE: the login or the database is refused. */
kz_status kz__pg_connected(kz__pg *pg, bool *fresh, kz_error *err);
bool kz__pg_is_open(const kz__pg *pg);
/* Ends it. A connection that is not used for 5 s is closed: they are dear. */
void kz__pg_leave(kz__pg *pg);
/* Closes the connection, as after a failure. */
void kz__pg_drop(kz__pg *pg);

/* Adds a statement to the trip: by number, prepared once for each connection, or as text. Values are texts, or NULL. */
void kz__pg_send(kz__pg *pg, int statement, int count, const char *const *values);
void kz__pg_send_text(kz__pg *pg, const char *sql);

/* Sends them and waits for all results. The first `room` are the caller's, to be given to kz__pg_clear. A failure is
 * the first statement's that failed, and those behind it were not carried out; then nothing is in `results`.
 *
 * KZ_AGAIN: the same may succeed when begun anew. KZ_NOT_FOUND: a table or schema is missing. KZ_UNAVAILABLE: no answer
 * (then there is no connection any more, and what was done is not known), or not now. KZ_STORE: see to it. */
kz_status kz__pg_trip(kz__pg *pg, PGresult **results, size_t room, kz_error *err);
void kz__pg_clear(PGresult **results, size_t count);

/* What the server has warned of in the last trip; NULL: nothing. What it called the last thing done ("COMMIT"). */
const char *kz__pg_warning(const kz__pg *pg);
const char *kz__pg_tag(const kz__pg *pg);

/* ms left in this call. */
int64_t kz__pg_left_ms(const kz__pg *pg);

/* The value of a parameter of the connection ("user", "dbname"), never the password; "" if it is not given. */
const char *kz__pg_param(const kz__pg *pg, const char *name);

/* In the results: the text, or the number, of a column. A null is "" and 0. */
const char *kz__pg_text(const PGresult *result, int row, int column);
int64_t kz__pg_int(const PGresult *result, int row, int column);

#endif
