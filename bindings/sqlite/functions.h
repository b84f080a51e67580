/* What needs no generator: taking apart, ranges, texts, external IDs. */
#ifndef KZ_SQL_FUNCTIONS_H
#define KZ_SQL_FUNCTIONS_H

#include "host.h"

#include <kazahana.h>

int kz_sql_functions_init(sqlite3 *db);

/* Ends a call with the library's message. */
void kz_sql_fail(sqlite3_context *context, const kz_error *err);

#endif
