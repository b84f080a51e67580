/* Minting: kazahana_next, kazahana_ids, kazahana_source. One generator for each service, for the whole process. */
#ifndef KZ_SQL_GENERATORS_H
#define KZ_SQL_GENERATORS_H

#include "host.h"

int kz_sql_generators_init(sqlite3 *db);

#endif
