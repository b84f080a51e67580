/* Sources by URL: the registry of kinds, and looking at one without minting. */
#include "lib/source.h"
#include "core/error.h"
#include "core/url.h"
#include "host/clock.h"
#include "sources/all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KINDS_MAX 64

static const kz_source_ops *kinds[KINDS_MAX] = {KZ__SOURCES_BUILT_IN};

/* What this build leaves out is still known by name, so that the message can say why it is missing. */
static const char *const known_schemes[] = {
    "static",          "env",        "standalone",  "memory", "sqlite", "redis",     "rediss",   "redis+sentinel",
    "rediss+sentinel", "tsid+redis", "tsid+rediss", "http",   "https",  "http+unix", "postgres", "etcd"};

static const kz_source_ops *find(const char *url, size_t length)
{
    for (size_t i = 0; i < KINDS_MAX && kinds[i]; i++)
        if (strlen(kinds[i]->scheme) == length && memcmp(kinds[i]->scheme, url, length) == 0)
            return kinds[i];
    return NULL;
}

kz_status kz_source_register(const kz_source_ops *ops, kz_error *err)
{
    if (!ops || ops->struct_size != sizeof *ops || !ops->scheme || !*ops->scheme || !ops->open || !ops->close)
        return kz__fail(err, KZ_INVALID, "a source needs struct_size, a scheme, open and close");
    if (find(ops->scheme, strlen(ops->scheme)))
        return kz__fail(err, KZ_IN_USE, "there is a source of the kind %s: already", ops->scheme);
    for (size_t i = 0; i < KINDS_MAX; i++) {
        if (!kinds[i]) {
            kinds[i] = ops;
            return KZ_OK;
        }
    }
    return kz__fail(err, KZ_UNSUPPORTED, "more than %d kinds of source", KINDS_MAX);
}

bool kz__source_is_ours(const char *url)
{
    static const kz_source_ops *const ours[] = {KZ__SOURCES_BUILT_IN};
    const char *colon = url ? strchr(url, ':') : NULL;
    const kz_source_ops *ops = colon ? find(url, (size_t)(colon - url)) : NULL;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (ours[i] == ops)
            return true;
    return !url;
}

static kz_status unknown(const char *url, size_t length, kz_error *err)
{
    char list[256] = "";
    for (size_t i = 0; i < KINDS_MAX && kinds[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s:", used ? ", " : "", kinds[i]->scheme);
    }
    for (size_t i = 0; i < sizeof known_schemes / sizeof known_schemes[0]; i++)
        if (strlen(known_schemes[i]) == length && memcmp(known_schemes[i], url, length) == 0)
            return kz__fail(err, KZ_UNSUPPORTED, "the source %s: is not in this build (there are %s)", known_schemes[i],
                            list);
    if (memchr(url, '@', length) || memchr(url, '/', length))
        return kz__url_no_scheme(url, err);
    return kz__fail(err, KZ_UNSUPPORTED, "no source of the kind \"%.*s:\" (there are %s)",
                    length > 32 ? 32 : (int)length, url, list);
}

/* Where leases are kept when nobody says where. */
static kz_status default_url(char *url, size_t size, kz_error *err)
{
    const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    int length;
    if (state && *state)
        length = snprintf(url, size, "sqlite:%s/kazahana/leases.db", state);
    else if (geteuid() == 0)
        length = snprintf(url, size, "sqlite:/var/lib/kazahana/leases.db");
    else if (home && *home)
        length = snprintf(url, size, "sqlite:%s/.local/state/kazahana/leases.db", home);
    else
        return kz__fail(err, KZ_INVALID,
                        "no source given, and neither XDG_STATE_HOME nor HOME says where the default "
                        "lease table could be");
    if (length < 0 || (size_t)length >= size)
        return kz__fail(err, KZ_INVALID, "the path of the default lease table is too long");
    return KZ_OK;
}

static kz_status open_handle(kz_source *source, const kz_options *options, const kz_clock *clock, kz_error *err)
{
    kz_layout layout;
    if (options->layout) {
        kz_status status = kz_layout_parse(options->layout, &layout, err);
        if (status)
            return status;
        if (layout.flags & KZ_LAYOUT_DECODE_ONLY)
            return kz__fail(err, KZ_UNSUPPORTED, "layout %s can be decoded, not minted", layout.name);
    }
    /* One exchange may take a part of the patience of a call, so that there is time for another try. */
    int64_t timeout_ms = options->timeout_ms > 0 && options->timeout_ms < 10000 ? options->timeout_ms : 10000;
    kz_source_options want = {.layout = options->layout ? &layout : NULL,
                              .fallback = options->fallback,
                              .service = options->service,
                              .log = options->log,
                              .log_ctx = options->log_ctx,
                              .clock = clock,
                              .timeout_ms = timeout_ms / 2 > 100 ? timeout_ms / 2 : 100,
                              .max_services = options->max_services};
    source->facts = (kz_source_facts){.layout = options->layout ? layout : *kz_layout_preset(0)};
    return source->ops->open(&source->handle, source->url, &want, &source->facts, err);
}

kz_status kz__source_open(kz_source **out, const char *url, const kz_options *options, const kz_clock *clock,
                          kz_error *err)
{
    char embedded[4096];
    kz_status status = KZ_OK;
    if (!url) {
        status = default_url(embedded, sizeof embedded, err);
        url = embedded;
    }
    if (status)
        return status;
    const char *colon = strchr(url, ':');
    if (!colon || colon == url)
        return kz__url_no_scheme(url, err);
    const kz_source_ops *ops = find(url, (size_t)(colon - url));
    if (!ops)
        return unknown(url, (size_t)(colon - url), err);
    if (strlen(options->service) >= KZ_SERVICE_SIZE)
        return kz__fail(err, KZ_INVALID, "a service name of %zu characters is too long (at most %d)",
                        strlen(options->service), KZ_SERVICE_SIZE - 1);
    kz_source *source = calloc(1, sizeof *source);
    if (!source || !(source->url = strdup(url))) {
        free(source);
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    }
    source->ops = ops;
    strcpy(source->service, options->service);
    status = open_handle(source, options, clock, err);
    if (status) {
        free(source->url);
        free(source);
        return status;
    }
    *out = source;
    return KZ_OK;
}

void kz__source_abandon(kz_source *source)
{
    if (source->handle)
        source->ops->close(source->handle, true);
    source->handle = NULL;
}

/* The generator was made for what the source was at first. One that is there only in some other way now (TSID slots in
 * dev mode, without Redis) is not the one that was opened. */
kz_status kz__source_reopen(kz_source *source, const kz_options *options, const kz_clock *clock, kz_error *err)
{
    kz_source_facts before = source->facts;
    kz_status status = open_handle(source, options, clock, err);
    if (!status && source->facts.flags != before.flags) {
        source->ops->close(source->handle, false);
        source->handle = NULL;
        status = kz__fail(err, KZ_UNAVAILABLE,
                          "source %s: is not as the parent process opened it, as if its store could not be reached",
                          source->ops->scheme);
    }
    if (status)
        source->facts = before;
    return status;
}

void kz__source_close(kz_source *source, bool forked)
{
    if (!source)
        return;
    if (source->handle)
        source->ops->close(source->handle, forked);
    free(source->url);
    free(source);
}

/* --------------------------------------------------------------------------------------------- looking at one */

kz_status kz_source_open(kz_source **source, const char *url, const kz_options *given, kz_error *err)
{
    kz_options options;
    kz_status status = kz__options_read(given, &options, err);
    return status ? status : kz__source_open(source, url, &options, &kz__machine_clock, err);
}

static kz_status lacks(const kz_source *source, const char *what, kz_error *err)
{
    return kz__fail(err, KZ_UNSUPPORTED, "a source of the kind %s: has no %s", source->ops->scheme, what);
}

kz_status kz_source_acquire(kz_source *source, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    if (!source->ops->acquire)
        return lacks(source, "leases", err);
    return source->ops->acquire(source->handle, request, grant, err);
}

kz_status kz_source_release(kz_source *source, const kz_release *release, kz_error *err)
{
    if (!source->ops->release)
        return lacks(source, "leases to give back", err);
    return source->ops->release(source->handle, release, err);
}

kz_status kz_source_group_begin(kz_source *source, kz_error *err)
{
    return source->ops->group_begin ? source->ops->group_begin(source->handle, err) : KZ_OK;
}

kz_status kz_source_group_commit(kz_source *source, kz_error *err)
{
    return source->ops->group_commit ? source->ops->group_commit(source->handle, err) : KZ_OK;
}

kz_status kz_source_configure(kz_source *source, const kz_service_settings *settings, kz_error *err)
{
    if (!source->ops->configure)
        return lacks(source, "settings of services to change", err);
    return source->ops->configure(source->handle, settings, err);
}

kz_status kz_source_reserve(kz_source *source, const kz_reservation *reservation, kz_error *err)
{
    if (!source->ops->reserve)
        return lacks(source, "nodes to reserve", err);
    return source->ops->reserve(source->handle, reservation, err);
}

kz_status kz_source_now(kz_source *source, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    if (!source->ops->now)
        return lacks(source, "clock", err);
    return source->ops->now(source->handle, source_ms, generation, err);
}

typedef struct listing {
    const kz_list_from *from;
    kz_lease_visit visit;
    void *ctx;
} listing;

/* For sources that can only begin at the beginning. */
static bool visit_from(void *ctx, const kz_lease_info *info)
{
    const listing *l = ctx;
    int order = strcmp(info->service, l->from->service);
    if (order < 0 || (order == 0 && info->id < l->from->id))
        return true;
    return l->visit(l->ctx, info);
}

kz_status kz_source_list_from(kz_source *source, const kz_list_from *from, kz_lease_visit visit, void *ctx,
                              kz_error *err)
{
    if (!source->ops->list)
        return lacks(source, "table of leases", err);
    if (!from)
        return source->ops->list(source->handle, NULL, visit, ctx, err);
    return source->ops->list(source->handle, from, visit_from, &(listing){from, visit, ctx}, err);
}

kz_status kz_source_list(kz_source *source, kz_lease_visit visit, void *ctx, kz_error *err)
{
    return kz_source_list_from(source, NULL, visit, ctx, err);
}

kz_status kz_source_health_get(kz_source *source, kz_source_health *health, kz_error *err)
{
    if (!source->ops->health)
        return lacks(source, "health to ask about", err);
    return source->ops->health(source->handle, source->service, health, err);
}

const char *kz_source_url(const kz_source *source)
{
    return source->url;
}

void kz_source_close(kz_source *source)
{
    kz__source_close(source, false);
}
