/* redis:// and redis+sentinel://, rediss:// and rediss+sentinel:// with TLS: a lease table in Redis. The rules run
 * there, as scripts (sources/lua). This file: from the URL to a source. */
#include "core/error.h"
#include "sources/all.h"
#include "sources/redis_source.h"

#include <stdlib.h>
#include <string.h>

/* In a forked child too: nothing of it says anything to the server. */
static void redis_close(void *self, bool forked)
{
    kz__redis *source = self;
    (void)forked;
    if (!source)
        return;
    kz__redis_link_free(source->link);
    for (kz__redis_seen *s = source->seen; s;) {
        kz__redis_seen *next = s->next;
        free(s);
        s = next;
    }
    free(source);
}

static kz_status read_url(kz__redis *source, const char *text, const kz_source_options *options, kz_error *err)
{
    static const char *const more[] = {"prefix", "cacert", "insecure", "sentinel-user", "sentinel-password", NULL};
    kz__url url;
    kz__redis_address address;
    kz_status status = kz__url_parse(text, &url, err);
    if (!status)
        status = kz__table_params_read(&url, options, more, &source->params, err);
    if (!status)
        status = kz__redis_slots_check(&source->params.layout, err);
    if (!status)
        status = kz__redis_prefix_read(&url, source->prefix, err);
    if (!status)
        status = kz__redis_address_read(&url, options->timeout_ms, &address, err);
    if (!status)
        status = kz__redis_link_new(&source->link, &address, err);
    explicit_bzero(&url, sizeof url);
    explicit_bzero(&address, sizeof address);
    return status;
}

static kz_status redis_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                            kz_error *err)
{
    kz__redis *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    kz_status status = read_url(source, url, options, err);
    source->layout = source->params.layout;
    source->clock = *options->clock;
    source->options = *options;
    if (!status) {
        kz_error reason;
        const char *service;
        status = kz__redis_ready(source, NULL, &service, &reason);
        /* A server that is down now may be up for the first acquire: whoever opens decides how long to wait. */
        if (status == KZ_UNAVAILABLE)
            status = KZ_OK;
        else if (status && err)
            *err = reason;
    }
    if (status) {
        redis_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = source->layout};
    *out = source;
    return KZ_OK;
}

/* They differ in their URLs only, and the URL is read when it is opened. */
#define REDIS_OPS(name)                                                                                                \
    {                                                                                                                  \
        .struct_size = sizeof(kz_source_ops), .scheme = name, .open = redis_open, .acquire = kz__redis_acquire,        \
        .release = kz__redis_release, .now = kz__redis_now, .list = kz__redis_list, .health = kz__redis_health,        \
        .configure = kz__redis_configure, .close = redis_close                                                         \
    }

const kz_source_ops kz__source_redis = REDIS_OPS("redis"), kz__source_rediss = REDIS_OPS("rediss"),
                    kz__source_redis_sentinel = REDIS_OPS("redis+sentinel"),
                    kz__source_rediss_sentinel = REDIS_OPS("rediss+sentinel");
