/* tsid+redis:// and tsid+rediss://: the node slots sys:tsid:node:0 .. 1023 in Redis, for TSIDs. */
#include "sources/tsid.h"
#include "core/error.h"
#include "core/values.h"
#include "sources/all.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_MS     INT64_C(86400000)
#define TTL_MIN_MS INT64_C(1000)
#define TTL_MAX_MS (30 * TTL_MS)

#define DEV_VARIABLE "KAZAHANA_ALLOW_DEV"

void kz__tsid_log(const kz__tsid *source, kz_log_level level, const char *format, ...)
{
    if (!source->log)
        return;
    char line[KZ_MESSAGE_SIZE + 128];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    source->log(source->log_ctx, level, line);
}

kz_status kz__tsid_reached(const kz__tsid *source, kz_error *err)
{
    if (!source->dev)
        return KZ_OK;
    return kz__fail(err, KZ_UNAVAILABLE, "DEV MODE: %s could not be reached, so there is nothing to look at",
                    kz__redis_link_name(source->link));
}

static void tsid_close(void *self, bool forked)
{
    kz__tsid *source = self;
    (void)forked; /* nothing of it says anything to the server */
    if (!source)
        return;
    kz__redis_link_free(source->link);
    free(source);
}

/* ------------------------------------------------------------------------------------------------------- the URL */

static kz_status read_times(kz__tsid *source, const kz__url *url, kz_error *err)
{
    const char *ttl = kz__url_param(url, "ttl"), *refresh = kz__url_param(url, "refresh");
    kz_status status = KZ_OK;
    source->ttl_ms = TTL_MS;
    if (ttl)
        status = kz_duration_parse(ttl, 0, INT64_MAX, &source->ttl_ms, err);
    if (!status && (source->ttl_ms < TTL_MIN_MS || source->ttl_ms > TTL_MAX_MS))
        return kz__fail(err, KZ_INVALID, "source %s: ttl=%s must lie between 1s and 30d", url->scheme, ttl);
    source->refresh_ms = source->ttl_ms / 2;
    if (!status && refresh)
        status = kz_duration_parse(refresh, 0, INT64_MAX, &source->refresh_ms, err);
    if (!status && (source->refresh_ms < 100 || source->refresh_ms >= source->ttl_ms))
        return kz__fail(err, KZ_INVALID,
                        "source %s: refresh=%s must be at least 100ms and below the ttl (%s): a slot that is not "
                        "refreshed before its end is lost",
                        url->scheme, refresh, ttl ? ttl : "24h");
    return status;
}

/* The layouts of one Redis must divide their low bits alike, else one's node 2 is a part of another's node 1. */
static kz_status read_layout(kz__tsid *source, const kz_source_options *options, const kz__url *url, kz_error *err)
{
    kz_status status = KZ_OK;
    if (options->layout)
        source->layout = *options->layout;
    else
        status = kz_layout_parse("tsid", &source->layout, err);
    if (status)
        return status;
    if (source->layout.node_bits != KZ__TSID_NODE_BITS)
        return kz__fail(err, KZ_INVALID,
                        "source %s: has %d nodes, which is %d node bits, not %u: leave the layout out, or use one with "
                        "%d (tsid, snowflake)",
                        url->scheme, KZ__TSID_NODES, KZ__TSID_NODE_BITS, source->layout.node_bits, KZ__TSID_NODE_BITS);
    if (options->fallback == KZ_FALLBACK_ANY)
        return kz__fail(err, KZ_INVALID,
                        "source %s: uses all nodes of its layout, so fallback IDs would be somebody else's: leave "
                        "fallback = any out",
                        url->scheme);
    if (options->service && *options->service && strcmp(options->service, "default") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: has no services, only the slots: use ?prefix= to keep %s apart",
                        url->scheme, options->service);
    return KZ_OK;
}

/* ?dev=, or else the environment. */
static kz_status read_dev(const kz__url *url, bool *allowed, kz_error *err)
{
    const char *given = kz__url_param(url, "dev"), *variable = secure_getenv(DEV_VARIABLE);
    const char *value = given ? given : variable && *variable ? variable : "0";
    *allowed = strcmp(value, "1") == 0;
    if (*allowed || strcmp(value, "0") == 0)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "%s=%s must be 1 or 0", given ? "dev" : DEV_VARIABLE, value);
}

static kz_status read_url(kz__tsid *source, const char *text, const kz_source_options *options, bool *dev,
                          kz_error *err)
{
    static const char *const known[] = {"ttl", "refresh", "dev", "prefix", "cacert", "insecure", NULL};
    kz__url url;
    kz__redis_address address;
    kz_status status = kz__url_parse(text, &url, err);
    if (!status)
        status = kz__url_only(&url, known, err);
    if (!status)
        status = read_times(source, &url, err);
    if (!status)
        status = read_layout(source, options, &url, err);
    if (!status)
        status = read_dev(&url, dev, err);
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

/* ------------------------------------------------------------------------------------------------------- opening */

/* Redis cannot be reached, and that was said to be all right. The warning is for who mints, with the first grant. */
static kz_status begin_dev_mode(kz__tsid *source, const kz_error *why, kz_error *err)
{
    uint16_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return kz__fail(err, KZ_SYSTEM, "the kernel gives no random numbers");
    source->dev = true;
    source->dev_node = random % KZ__TSID_NODES;
    strcpy(source->dev_why, why->message);
    return KZ_OK;
}

/* Redis must be there when a program starts: who has no slot may not mint. */
static kz_status look(kz__tsid *source, bool dev, kz_error *err)
{
    kz_error why;
    kz_status status = kz__redis_check_cluster(source->link, source->prefix, &why);
    if (status == KZ_UNAVAILABLE && dev)
        return begin_dev_mode(source, &why, err);
    if (status == KZ_UNAVAILABLE)
        return kz__fail(
            err, status,
            "%s. TSID nodes are handed out by Redis: start it or correct the address; for development only, "
            "?dev=1 or " DEV_VARIABLE "=1 allows a random node",
            why.message);
    if (status && err)
        *err = why;
    return status;
}

static kz_status tsid_open(void **out, const char *url, const kz_source_options *options, kz_source_facts *facts,
                           kz_error *err)
{
    kz__tsid *source = calloc(1, sizeof *source);
    if (!source)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a source");
    source->clock = options->clock;
    source->log = options->log;
    source->log_ctx = options->log_ctx;
    bool dev;
    kz_status status = read_url(source, url, options, &dev, err);
    if (!status)
        status = look(source, dev, err);
    if (status) {
        tsid_close(source, false);
        return status;
    }
    *facts = (kz_source_facts){.layout = source->layout, .throughput_per_ms = kz__tsid_throughput(&source->layout)};
    if (source->dev)
        facts->flags = KZ_SOURCE_WALL_CLOCK | KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED | KZ_SOURCE_UNFENCED;
    *out = source;
    return KZ_OK;
}

/* They differ in their URLs only, and the URL is read when it is opened. */
#define TSID_OPS(name)                                                                                                 \
    {                                                                                                                  \
        .struct_size = sizeof(kz_source_ops), .scheme = name, .open = tsid_open, .acquire = kz__tsid_acquire,          \
        .release = kz__tsid_release, .now = kz__tsid_now, .list = kz__tsid_list, .health = kz__tsid_health,            \
        .close = tsid_close                                                                                            \
    }

const kz_source_ops kz__source_tsid_redis = TSID_OPS("tsid+redis"), kz__source_tsid_rediss = TSID_OPS("tsid+rediss");
