/* A service's settings in Redis: as they are, those of a new one, and how they are changed. The scripts know which may.
 */
#include "core/error.h"
#include "sources/redis_source.h"

#include <string.h>

/* Numbers of slots must be exact in Lua. */
#define SLOT_BITS_MAX 50

kz_status kz__redis_slots_check(const kz_layout *layout, kz_error *err)
{
    int bits = layout->node_bits + layout->seq_bits;
    if (bits <= SLOT_BITS_MAX)
        return KZ_OK;
    return kz__fail(err, KZ_INVALID, "a lease table in Redis has room for %d node and sequence bits, not %d",
                    SLOT_BITS_MAX, bits);
}

static kz_layout layout_of(int64_t epoch_ms, int64_t time_bits, int64_t node_bits, int64_t seq_bits)
{
    kz__service service = {.epoch_ms = epoch_ms,
                           .time_bits = (uint8_t)time_bits,
                           .node_bits = (uint8_t)node_bits,
                           .seq_bits = (uint8_t)seq_bits};
    kz_layout layout;
    kz__service_layout(&service, &layout);
    return layout;
}

static bool read_layout(const redisReply *reply, size_t at, kz_layout *layout)
{
    int64_t epoch_ms, time_bits, node_bits, seq_bits;
    if (!kz__redis_number(reply, at, -KZ__REDIS_NUMBER_MAX, KZ__REDIS_NUMBER_MAX, &epoch_ms) ||
        !kz__redis_number(reply, at + 1, 1, 63, &time_bits) || !kz__redis_number(reply, at + 2, 1, 32, &node_bits) ||
        !kz__redis_number(reply, at + 3, 0, 32, &seq_bits) || time_bits + node_bits + seq_bits > 64)
        return false;
    *layout = layout_of(epoch_ms, time_bits, node_bits, seq_bits);
    return true;
}

/* The script found that the layout wanted is not the service's: the words are those of every lease table. */
kz_status kz__redis_mismatch(const kz__redis *source, const char *service, const redisReply *reply, kz_error *err)
{
    kz_layout stored;
    kz__service facts;
    if (!read_layout(reply, 1, &stored))
        return kz__redis_unexpected(source->link, "the service's settings", reply, err);
    kz_status status = kz__service_init(&facts, service, &stored, source->params.lease_ms, err);
    facts.granted = true;
    if (!status)
        status = kz__table_layout_check(&source->params, &facts, err);
    return status ? status : kz__redis_unexpected(source->link, "the service's settings", reply, err);
}

static bool read_foreign(const redisReply *reply, size_t at, kz__redis_settings *s)
{
    return kz__redis_number(reply, at, 0, UINT32_MAX, &s->foreign) &&
           kz__redis_number(reply, at + 1, 0, UINT32_MAX, &s->foreign_node) &&
           kz__redis_number(reply, at + 2, 0, 2 * KZ__REDIS_NUMBER_MAX, &s->foreign_until_ms);
}

kz_status kz__redis_settings_read(kz__redis *source, const char *service, bool adopt, kz__redis_settings *settings,
                                  kz_error *err)
{
    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_ADOPT, source, service);
    kz__redis_add(&call, adopt ? "1" : "0");
    kz__redis_add_layout(&call, &source->params.layout);
    kz_status status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    kz__redis_settings s = {.layout = source->params.layout};
    if (kz__redis_said(reply, "NONE") && kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &s.source_ms) &&
        read_foreign(reply, 2, &s))
        *settings = s;
    else if (kz__redis_said(reply, "MISMATCH"))
        status = kz__redis_mismatch(source, service, reply, err);
    else if (kz__redis_said(reply, "OK") && kz__redis_number(reply, 1, 0, KZ__REDIS_NUMBER_MAX, &s.source_ms) &&
             kz__redis_number(reply, 2, 0, KZ__REDIS_NUMBER_MAX, &s.generation) && read_layout(reply, 4, &s.layout) &&
             kz__redis_number(reply, 8, 1, KZ__REDIS_NUMBER_MAX, &s.lease_ms) &&
             kz__redis_number(reply, 9, 0, KZ__REDIS_NUMBER_MAX, &s.leases_out) &&
             kz__redis_number(reply, 10, 0, KZ__REDIS_NUMBER_MAX, &s.leases_ended) && kz__redis_text(reply, 11) &&
             !kz__aside_parse(kz__redis_text(reply, 11), s.asides, NULL) && read_foreign(reply, 12, &s)) {
        s.exists = true;
        *settings = s;
    } else {
        status = kz__redis_unexpected(source->link, "the service's settings", reply, err);
    }
    freeReplyObject(reply);
    return status;
}

kz_status kz__redis_ready(kz__redis *source, const char *asked, const char **service, kz_error *err)
{
    kz_status status = kz__table_service(&source->params, asked, service, err);
    if (status || source->ready)
        return status;
    kz__redis_settings settings;
    status = kz__redis_check_cluster(source->link, source->prefix, err);
    if (!status)
        status = kz__redis_settings_read(source, source->params.service, source->params.layout_given, &settings, err);
    if (!status && !settings.exists && !source->params.create)
        status = kz__fail(err, KZ_NOT_FOUND, "%s: there is no service %s, and create=no says not to make one",
                          kz__redis_link_name(source->link), source->params.service);
    if (status)
        return status;
    source->ready = true;
    source->layout = settings.layout;
    return KZ_OK;
}

void kz__redis_add_opening(kz__redis_call *call, const kz__redis *source, const kz__redis_seen *seen)
{
    static const char *const flags[2][2][2] = {{{"f", "fg"}, {"fq", "fqg"}}, {{"", "g"}, {"q", "qg"}}};
    const kz__table_params *p = &source->params;
    kz__redis_add_layout(call, &source->params.layout);
    kz__redis_add_number(call, source->params.lease_ms);
    kz__redis_add_number(call, KZ__MAX_THROUGHPUT_DEFAULT);
    kz__redis_add(call, flags[p->create][p->quarantine][p->layout_given]);
    kz__redis_add_number(call, seen->generation);
    kz__redis_add(call, seen->born);
}

/* What the settings are found wrong with before the store is asked. */
static kz_status check(const kz__redis *source, const char *service, const kz_service_settings *settings, kz_error *err)
{
    kz__service any, with;
    kz_status status = kz__service_init(&any, service, &source->params.layout, source->params.lease_ms, err);
    if (!status)
        status = kz__service_with(&any, settings, &with, err);
    if (!status && settings->layout)
        status = kz__redis_slots_check(settings->layout, err);
    return status;
}

/* The words of every lease table, for what the script refused. */
static kz_status refused(const kz__redis *source, const char *service, const kz_service_settings *settings,
                         const redisReply *reply, kz_error *err)
{
    kz_layout layout;
    kz__service stored, wanted;
    if (!read_layout(reply, 1, &layout))
        return kz__redis_unexpected(source->link, "the service's settings", reply, err);
    kz_status status = kz__service_init(&stored, service, &layout, source->params.lease_ms, err);
    stored.granted = true;
    if (!status)
        status = kz__service_with(&stored, settings, &wanted, err);
    if (!status)
        status = kz__service_adopt(&stored, &wanted, err);
    return status ? status : kz__redis_unexpected(source->link, "the service's settings", reply, err);
}

/* Empty: it stays as it is. */
static void add_change(kz__redis_call *call, int64_t number, bool wanted)
{
    if (wanted)
        kz__redis_add_number(call, number);
    else
        kz__redis_add(call, "");
}

kz_status kz__redis_configure(void *self, const kz_service_settings *settings, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__table_service(&source->params, settings->service, &service, err);
    if (!status)
        status = check(source, service, settings, err);
    if (!status)
        status = kz__redis_ready(source, settings->service, &service, err);
    kz__redis_seen *seen = status ? NULL : kz__redis_seen_of(source, service, err);
    if (!seen)
        return status ? status : KZ_NO_MEMORY;

    kz__redis_call call;
    redisReply *reply = NULL;
    kz__redis_call_of(&call, KZ__REDIS_CONFIGURE, source, service);
    kz__redis_add_opening(&call, source, seen);
    if (settings->layout)
        kz__redis_add_layout(&call, settings->layout);
    for (int i = 0; !settings->layout && i < 4; i++)
        kz__redis_add(&call, "");
    add_change(&call, settings->lease_ms, settings->lease_ms);
    add_change(&call, settings->max_throughput, settings->max_throughput);
    add_change(&call, settings->high_blocks > 0, settings->high_blocks);
    status = kz__redis_run(source->link, &call, &reply, err);
    if (status)
        return status;
    int64_t source_ms;
    kz_layout is;
    if (kz__redis_said(reply, "MISMATCH"))
        status = refused(source, service, settings, reply, err);
    else if (!read_layout(reply, 5, &is) || !kz__redis_read_head(source, reply, seen, &source_ms))
        status = kz__redis_unexpected(source->link, "configure", reply, err);
    else if (strcmp(service, source->params.service) == 0)
        source->layout = is;
    freeReplyObject(reply);
    return status;
}
