/* kazahana.so: IDs in SQLite. `SELECT load_extension('kazahana')`, then
 *
 *     CREATE TABLE t (id INTEGER PRIMARY KEY DEFAULT (kazahana_next()), ...) WITHOUT ROWID;
 *
 * Leases come from this machine's lease file, never from the open database: a second connection to it would wait for
 * the caller's own lock, and the caller's own connection would roll a lease back with the caller's work. */
#include "functions.h"
#include "generators.h"

const sqlite3_api_routines *sqlite3_api;

__attribute__((visibility("default"))) int sqlite3_kazahana_init(sqlite3 *db, char **error,
                                                                 const sqlite3_api_routines *api);

/* The keeper's thread runs code of this file, so it stays loaded when the connection is closed. */
int sqlite3_kazahana_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
    sqlite3_api = api;
    int status = kz_sql_generators_init(db);
    if (status == SQLITE_OK)
        status = kz_sql_functions_init(db);
    if (status == SQLITE_OK)
        return SQLITE_OK_LOAD_PERMANENTLY;
    *error = sqlite3_mprintf("kazahana: %s", sqlite3_errmsg(db));
    return status;
}
