/* etcd://host:2379,...: a lease table in etcd. This file: from the URL to a source.
 *
 * The rules are core/table's, by way of far_table; etcd keeps the rows. Nobody locks: a write compares one key, and who
 * was slower begins anew. */
#include "core/error.h"
#include "sources/all.h"
#include "sources/etcd_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kz__table_store store = {KZ__FAR_CALLS, .page = kz__etcd_page, .health = kz__etcd_health,
                                      .forget = kz__etcd_count};

static void etcd_close(void *ctx, bool forked)
{
    kz__etcd *e = ctx;
    kz__etcd_link_free(e->link, forked);
    kz__far_free(&e->far);
    kz__memory_rows_free(e->listed);
    free(e);
}

static kz_status read_url(kz__etcd *e, const char *text, const kz_source_options *options, kz_error *err)
{
    static const char *const more[] = {"prefix", "cacert", "cert", "key", NULL};
    kz__url url;
    kz_status status = kz__url_parse(text, &url, err);
    if (status)
        return status;
    /* What messages call it: the URL without its login and parameters. */
    const char *login = strrchr(url.body, '@'), *given = kz__url_param(&url, "prefix");
    snprintf(e->name, sizeof e->name, "%s://%s", url.scheme, login ? login + 1 : url.body + strspn(url.body, "/"));
    const char *prefix = given ? given : "kazahana";
    size_t length = strlen(prefix);
    bool slash = length && prefix[length - 1] == '/';
    if (!length || length + !slash > KZ__ETCD_PREFIX_MAX)
        status = kz__fail(err, KZ_INVALID, "source %s: a prefix has 1 to %d characters", url.scheme,
                          KZ__ETCD_PREFIX_MAX - 1);
    else
        snprintf(e->prefix, sizeof e->prefix, "%s%s", prefix, slash ? "" : "/");
    if (status == KZ_OK)
        status = kz__far_init(&e->far, &kz__etcd_store, &store, e->name, &url, options, more, err);
    if (status == KZ_OK)
        status = kz__etcd_link_new(&e->link, &url, e->name, options, err);
    explicit_bzero(&url, sizeof url);
    return status;
}

static kz_status etcd_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                           kz_error *err)
{
    kz__etcd *e = calloc(1, sizeof *e);
    if (!e)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_status status = read_url(e, url, options, err);
    kz_layout layout = e->far.base.params.layout;
    if (status == KZ_OK && e->far.base.params.quarantine)
        status = kz__fail(err, KZ_UNSUPPORTED,
                          "source etcd: knows no ?amnesia=quarantine: etcd keeps what it has answered. If its data was "
                          "removed, wait four lease durations, then start without it");
    if (status == KZ_OK) {
        kz_error why = {0};
        status = kz__table_source_look(&e->far.base, &layout, &why);
        /* A cluster that is down now may be up for the first acquire: whoever opens decides how long to wait. */
        if (status == KZ_UNAVAILABLE)
            status = KZ_OK;
        else if (status && err)
            *err = why;
    }
    if (status) {
        etcd_close(e, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = layout};
    *out = e;
    return KZ_OK;
}

const kz_source_ops kz__source_etcd = {KZ__TABLE_SOURCE_CALLS, .scheme = "etcd", .open = etcd_open,
                                       .close = etcd_close},
                    kz__source_etcds = {KZ__TABLE_SOURCE_CALLS, .scheme = "etcds", .open = etcd_open,
                                        .close = etcd_close};
