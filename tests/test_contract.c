/* The suite for lease tables, over each kind that there is. Add yours to the list. */
#include "contract.h"
#include "far_memory.h"
#include "postgres_server.h"
#include "redis_server.h"
#include "sources/all.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const kz_source_ops own_table_ops; /* examples/own_table.c */

static bool set_up_own(char url[256], const char **why)
{
    (void)why;
    strcpy(url, "own:");
    return true;
}

static bool set_up_memory(char url[256], const char **why)
{
    (void)why;
    strcpy(url, "memory:");
    return true;
}

static void tear_down_nothing(const char *url)
{
    (void)url;
}

/* The driver of far stores, with an injected clock: PostgreSQL and etcd have clocks of their own. */
static bool set_up_far(char url[256], const char **why)
{
    (void)why;
    strcpy(url, "far:");
    return true;
}

static void tear_down_far(const char *url)
{
    (void)url;
    far_memory_forget();
}

static bool set_up_sqlite(char url[256], const char **why)
{
    char folder[] = "/tmp/kazahana-contract-XXXXXX";
    *why = "no folder under /tmp";
    if (!mkdtemp(folder))
        return false;
    snprintf(url, 256, "sqlite:%s/leases.db", folder);
    return true;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void tear_down_sqlite(const char *url)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", url + strlen("sqlite:"));
    *strrchr(folder, '/') = '\0';
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#ifdef KZ_HAVE_REDIS
static redis_server redis;

/* Its time is Redis' own, so what needs an injected clock is left to tests/test_redis_reference.c. */
static bool set_up_redis(char url[256], const char **why)
{
    *why = redis_server_missing();
    if (*why)
        return false;
    redis_server_start(&redis, NULL);
    snprintf(url, 256, "%s", redis.url);
    return true;
}

static void tear_down_redis(const char *url)
{
    (void)url;
    redis_server_stop(&redis);
}
#endif

#ifdef KZ_HAVE_POSTGRES
static postgres_server postgres;

/* One server for all of them; what a test made goes with it. Its time is PostgreSQL's own: what needs an injected clock
 * is held by far:, the same driver over memory. */
static bool set_up_postgres(char url[256], const char **why)
{
    *why = postgres_server_missing();
    if (*why)
        return false;
    if (!postgres.pid)
        postgres_server_start(&postgres, NULL);
    snprintf(url, 256, "%s", postgres.url);
    return true;
}

static void tear_down_postgres(const char *url)
{
    (void)url;
    postgres_server_sql(&postgres, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS kazahana CASCADE", NULL,
                        0);
}
#endif

int main(void)
{
    static const contract_kind kinds[] = {
        {"memory", &kz__source_memory, set_up_memory, tear_down_nothing, true},
        {"own", &own_table_ops, set_up_own, tear_down_nothing, true},
        {"far", &far_memory_source, set_up_far, tear_down_far, true},
        {"sqlite", &kz__source_sqlite, set_up_sqlite, tear_down_sqlite, true},
#ifdef KZ_HAVE_REDIS
        {"redis", &kz__source_redis, set_up_redis, tear_down_redis, false},
#endif
#ifdef KZ_HAVE_POSTGRES
        {"postgres", &kz__source_postgres, set_up_postgres, tear_down_postgres, false},
#endif
    };
    size_t count = sizeof kinds / sizeof kinds[0];
    int failed = 0;
    for (size_t i = 0; i < count; i++)
        failed += contract_run(&kinds[i]);
    for (size_t i = 1; i < count; i++)
        if (kinds[i].injected_clock)
            failed += contract_compare(&kinds[0], &kinds[i]);
#ifdef KZ_HAVE_POSTGRES
    postgres_server_remove(&postgres);
#endif
    return failed != 0;
}
