#include "generators.h"
#include "functions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 16
#define IDS_MAX      1000000
#define URL_MAX      4096

typedef struct service {
    char name[KZ_SERVICE_SIZE];
    _Atomic(kz_generator *) gen;
} service;

/* Opened by the first call of a service, closed at the end of the process: a generator for each connection would use
 * up the nodes of a machine with many short ones. */
static service services[SERVICES_MAX];
static char source[URL_MAX]; /* empty: KAZAHANA_SOURCE, else the embedded default */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void close_all(void)
{
    for (int i = 0; i < SERVICES_MAX; i++)
        kz_close(atomic_exchange(&services[i].gen, NULL));
}

static kz_status wrong(kz_error *err, const char *message)
{
    *err = (kz_error){.status = KZ_INVALID};
    strncpy(err->message, message, sizeof err->message - 1);
    return KZ_INVALID;
}

/* With the lock held. */
static kz_status open_service(service *s, const char *name, kz_error *err)
{
    static bool registered;
    kz_options options;
    kz_options_init(&options);
    options.service = name;
    const char *url = *source ? source : secure_getenv("KAZAHANA_SOURCE");
    kz_generator *gen;
    kz_status status = kz_open(&gen, url && *url ? url : NULL, &options, err);
    if (status)
        return status;
    /* After the first opening: handlers run in reverse order, and libraries below register theirs when first used. */
    if (!registered)
        registered = atexit(close_all) == 0;
    strcpy(s->name, name);
    atomic_store(&s->gen, gen);
    return KZ_OK;
}

static kz_status find(const char *name, kz_generator **gen, kz_error *err)
{
    for (int i = 0; i < SERVICES_MAX; i++) {
        *gen = atomic_load_explicit(&services[i].gen, memory_order_acquire);
        if (*gen && strcmp(services[i].name, name) == 0)
            return KZ_OK;
    }
    if (strlen(name) >= KZ_SERVICE_SIZE)
        return wrong(err, "a service's name has at most 63 characters");
    kz_status status = KZ_OK;
    service *empty = NULL;
    *gen = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SERVICES_MAX && !*gen; i++) {
        kz_generator *there = atomic_load(&services[i].gen);
        if (there && strcmp(services[i].name, name) == 0)
            *gen = there;
        else if (!there && !empty)
            empty = &services[i];
    }
    if (!*gen)
        status = empty ? open_service(empty, name, err) : wrong(err, "one process can use 16 services at most");
    if (!*gen && status == KZ_OK)
        *gen = atomic_load(&empty->gen);
    pthread_mutex_unlock(&lock);
    return status;
}

/* kazahana_next(), kazahana_next(service) */
static void next(sqlite3_context *context, int count, sqlite3_value **values)
{
    kz_error err = {0};
    kz_generator *gen;
    kz_id id;
    const char *name = count ? (const char *)sqlite3_value_text(values[0]) : "default";
    if (!name) {
        sqlite3_result_error(context, "kazahana_next: the service is NULL", -1);
        return;
    }
    kz_status status = find(name, &gen, &err);
    if (status == KZ_OK && kz_try_next(gen, &id) != KZ_OK) /* the quick way; else as long as the library waits */
        status = kz_mint(gen, &id, 1, 10000, &err);
    if (status)
        kz_sql_fail(context, &err);
    else
        sqlite3_result_int64(context, (sqlite3_int64)id);
}

/* kazahana_source(url): only from the top level, and before the first ID. */
static void set_source(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const char *url = (const char *)sqlite3_value_text(values[0]);
    bool used = false;
    if (!url || strlen(url) >= sizeof source) {
        sqlite3_result_error(context, "kazahana_source: a source URL is wanted, such as 'http://leases:7070'", -1);
        return;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SERVICES_MAX; i++)
        used |= atomic_load(&services[i].gen) != NULL;
    if (!used)
        strcpy(source, url);
    pthread_mutex_unlock(&lock);
    if (used)
        sqlite3_result_error(context, "kazahana_source: this process has minted already: name the source before", -1);
}

/* ---------------------------------------------------------------------- kazahana_ids(n): n IDs, a row each */

typedef struct cursor {
    sqlite3_vtab_cursor base;
    kz_id ids[1024];
    size_t at, have;
    sqlite3_int64 left, row;
} cursor;

static int ids_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **table, char **error)
{
    (void)aux, (void)argc, (void)argv, (void)error;
    int status = sqlite3_declare_vtab(db, "CREATE TABLE x(id INTEGER, n HIDDEN)");
    if (status)
        return status;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *table = sqlite3_malloc(sizeof **table);
    if (!*table)
        return SQLITE_NOMEM;
    memset(*table, 0, sizeof **table);
    return SQLITE_OK;
}

static int ids_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

/* n must be given; SQLite then calls ids_filter with it. */
static int ids_best(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    for (int i = 0; i < info->nConstraint; i++) {
        if (info->aConstraint[i].iColumn != 1 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = 1;
        info->aConstraintUsage[i].omit = 1;
        info->estimatedCost = 1000;
        return SQLITE_OK;
    }
    table->zErrMsg = sqlite3_mprintf("kazahana_ids: say how many: kazahana_ids(10)");
    return SQLITE_ERROR;
}

static int ids_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    memset(c, 0, sizeof *c);
    *out = &c->base;
    return SQLITE_OK;
}

static int ids_close(sqlite3_vtab_cursor *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

static int ids_fill(cursor *c)
{
    kz_error err = {0};
    kz_generator *gen;
    size_t want = c->left < 1024 ? (size_t)c->left : 1024;
    kz_status status = want ? find("default", &gen, &err) : KZ_OK;
    if (want && status == KZ_OK)
        status = kz_mint(gen, c->ids, want, 10000, &err);
    if (status) {
        c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", err.message);
        return SQLITE_ERROR;
    }
    c->have = want;
    c->at = 0;
    return SQLITE_OK;
}

static int ids_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count, sqlite3_value **values)
{
    (void)number, (void)text;
    cursor *c = (cursor *)base;
    c->left = count ? sqlite3_value_int64(values[0]) : 0;
    c->row = 0;
    if (c->left >= 0 && c->left <= IDS_MAX)
        return ids_fill(c);
    base->pVtab->zErrMsg = sqlite3_mprintf("kazahana_ids: %lld is not in 0..%d", c->left, IDS_MAX);
    return SQLITE_ERROR;
}

static int ids_next(sqlite3_vtab_cursor *base)
{
    cursor *c = (cursor *)base;
    c->left--;
    c->row++;
    return ++c->at < c->have ? SQLITE_OK : ids_fill(c);
}

static int ids_eof(sqlite3_vtab_cursor *base)
{
    return ((cursor *)base)->left <= 0;
}

static int ids_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    cursor *c = (cursor *)base;
    if (column == 0)
        sqlite3_result_int64(context, (sqlite3_int64)c->ids[c->at]);
    return SQLITE_OK;
}

static int ids_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *row)
{
    *row = ((cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module ids_module = {.xConnect = ids_connect,
                                          .xBestIndex = ids_best,
                                          .xDisconnect = ids_disconnect,
                                          .xOpen = ids_open,
                                          .xClose = ids_close,
                                          .xFilter = ids_filter,
                                          .xNext = ids_next,
                                          .xEof = ids_eof,
                                          .xColumn = ids_column,
                                          .xRowid = ids_rowid};

int kz_sql_generators_init(sqlite3 *db)
{
    /* Innocuous, so that a DEFAULT works with trusted_schema = off. */
    int flags = SQLITE_UTF8 | SQLITE_INNOCUOUS;
    int status = sqlite3_create_function(db, "kazahana_next", 0, flags, NULL, next, NULL, NULL);
    if (status == SQLITE_OK)
        status = sqlite3_create_function(db, "kazahana_next", 1, flags, NULL, next, NULL, NULL);
    if (status == SQLITE_OK)
        status = sqlite3_create_function(db, "kazahana_source", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, NULL, set_source,
                                         NULL, NULL);
    return status ? status : sqlite3_create_module(db, "kazahana_ids", &ids_module, NULL);
}
