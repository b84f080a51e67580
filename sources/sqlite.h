/* sqlite: a lease table in a file. */
#ifndef KZ_SOURCES_SQLITE_H
#define KZ_SOURCES_SQLITE_H

#include <kazahana.h>

extern const kz_source_ops kz__source_sqlite;

#endif
