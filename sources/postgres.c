/* postgres://user@host/db: a lease table in PostgreSQL. This file: from the URL to a source.
 *
 * The rules are core/table's, by way of far_table; PostgreSQL keeps the rows. All writers take one lock, the row of
 * meta, and the time is read behind it by the primary's clock. */
#include "core/error.h"
#include "sources/all.h"
#include "sources/postgres_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kz__table_store store = {KZ__FAR_CALLS, .page = kz__postgres_page, .health = kz__postgres_health,
                                      .forget = kz__postgres_forget};

static void postgres_close(void *ctx, bool forked)
{
    kz__postgres *p = ctx;
    if (!p)
        return;
    kz__pg_free(p->link, forked);
    kz__far_free(&p->far);
    for (size_t i = 0; i < KZ__PG_STATEMENTS; i++)
        free(p->texts[i]);
    free(p);
}

/* ?schema=, quoted so that any name is one. */
static kz_status set_schema(kz__postgres *p, const char *given, kz_error *err)
{
    const char *name = given ? given : "kazahana";
    size_t length = strlen(name), out = 0;
    if (!length || length > KZ__PG_SCHEMA_MAX || strpbrk(name, "'\\"))
        return kz__fail(err, KZ_INVALID,
                        "source postgres: schema=%.70s: a schema's name has 1 to %d characters, and "
                        "neither ' nor \\",
                        name, KZ__PG_SCHEMA_MAX);
    strcpy(p->schema, name);
    p->quoted[out++] = '"';
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '"')
            p->quoted[out++] = '"';
        p->quoted[out++] = name[i];
    }
    p->quoted[out++] = '"';
    for (size_t i = 0; i < KZ__PG_STATEMENTS; i++)
        if (!(p->texts[i] = kz__pg_put_schema(kz__pg_statements[i], "@", p->quoted)))
            return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    return KZ_OK;
}

/* What messages call it: the URL without its login and parameters. A colon behind the host's part may begin a password
 * that was not written as it should be. */
static void set_name(kz__postgres *p, const kz__url *url)
{
    const char *login = strrchr(url->body, '@'), *at = login ? login + 1 : url->body + strspn(url->body, "/");
    size_t hosts = strcspn(at, "/");
    int shown = (int)(hosts + strcspn(at + hosts, ":"));
    snprintf(p->name, sizeof p->name, "postgres://%.*s", shown, at);
}

/* libpq's own parameters are let through to it. */
static kz_status read_url(kz__postgres *p, const char *text, const kz_source_options *options, kz_error *err)
{
    static const char *const own[] = {"lease", "service", "amnesia", "create", "schema", NULL};
    const char *more[KZ__URL_PARAMS_MAX + 2] = {"schema"};
    size_t count = 1;
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status == KZ_OK)
        status = kz__url_ports_check(&url, err);
    if (status)
        return status;
    for (size_t i = 0; i < url.param_count; i++)
        if (kz__pg_knows(url.params[i].name))
            more[count++] = url.params[i].name;
    set_name(p, &url);
    status = set_schema(p, kz__url_param(&url, "schema"), err);
    if (status == KZ_OK)
        status = kz__far_init(&p->far, &kz__postgres_store, &store, p->name, &url, options, more, err);
    if (status == KZ_OK)
        status = kz__pg_new(&p->link, &url, own, p->name, (const char *const *)p->texts, options->timeout_ms, err);
    explicit_bzero(&url, sizeof url);
    return status;
}

static kz_status postgres_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                               kz_error *err)
{
    kz__postgres *p = calloc(1, sizeof *p);
    if (!p)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_layout layout;
    kz_status status = read_url(p, url, options, err);
    if (status == KZ_OK) {
        kz_error why = {0};
        layout = p->far.base.params.layout;
        status = kz__table_source_look(&p->far.base, &layout, &why);
        /* A server that is down now may be up for the first acquire: whoever opens decides how long to wait. */
        if (status == KZ_UNAVAILABLE)
            status = KZ_OK;
        else if (status && err)
            *err = why;
    }
    if (status) {
        postgres_close(p, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout};
    *out = p;
    return KZ_OK;
}

const kz_source_ops kz__source_postgres = {KZ__TABLE_SOURCE_CALLS, .scheme = "postgres", .open = postgres_open,
                                           .close = postgres_close},
                    kz__source_postgresql = {KZ__TABLE_SOURCE_CALLS, .scheme = "postgresql", .open = postgres_open,
                                             .close = postgres_close};
