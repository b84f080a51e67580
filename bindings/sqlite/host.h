/* Before every file of this build: SQLite's functions are those of the program that loads the extension. So there is
 * one copy of SQLite in the process, also for the lease file, and two copies cannot lose each other's locks. */
#ifndef KZ_SQLITE_HOST_H
#define KZ_SQLITE_HOST_H

#include <sqlite3ext.h>

extern const sqlite3_api_routines *sqlite3_api;

#endif
