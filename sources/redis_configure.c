/* A service's settings in Redis: those of a new one, and how they are changed. The script knows which may. */
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

void kz__redis_opening_fill(const kz__redis *source, const kz__redis_seen *seen, kz__redis_opening *o,
                            const char *args[static KZ__REDIS_OPENING_ARGS])
{
    static const char *const flags[2][2] = {{"", "g"}, {"q", "qg"}};
    const kz_layout *layout = &source->params.layout;
    const char *texts[KZ__REDIS_OPENING_ARGS] = {kz__redis_digits(o->epoch, layout->epoch_ms),
                                                 kz__redis_digits(o->time, layout->time_bits),
                                                 kz__redis_digits(o->node, layout->node_bits),
                                                 kz__redis_digits(o->seq, layout->seq_bits),
                                                 kz__redis_digits(o->lease, source->params.lease_ms),
                                                 kz__redis_digits(o->most, KZ__MAX_THROUGHPUT_DEFAULT),
                                                 flags[source->params.quarantine][source->params.layout_given],
                                                 kz__redis_digits(o->generation, seen->generation),
                                                 seen->born};
    memcpy(args, texts, sizeof texts);
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
    if (!kz__redis_read_layout(reply, 1, &layout))
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
static const char *change(char text[static KZ__REDIS_DIGITS], int64_t number, bool wanted)
{
    return wanted ? kz__redis_digits(text, number) : "";
}

kz_status kz__redis_configure(void *self, const kz_service_settings *settings, kz_error *err)
{
    kz__redis *source = self;
    const char *service = NULL;
    kz_status status = kz__table_service(&source->params, settings->service, &service, err);
    if (!status)
        status = check(source, service, settings, err);
    if (!status)
        status = kz__redis_ready(source, err);
    kz__redis_seen *seen = status ? NULL : kz__redis_seen_of(source, service, err);
    if (!seen)
        return status ? status : KZ_NO_MEMORY;

    kz__redis_opening opening;
    const char *args[KZ__REDIS_OPENING_ARGS + 7];
    kz__redis_opening_fill(source, seen, &opening, args);
    static const kz_layout none;
    const kz_layout *layout = settings->layout ? settings->layout : &none;
    char epoch[KZ__REDIS_DIGITS], time[KZ__REDIS_DIGITS], node[KZ__REDIS_DIGITS], seq[KZ__REDIS_DIGITS],
        lease[KZ__REDIS_DIGITS], most[KZ__REDIS_DIGITS];
    const char *changes[] = {change(epoch, layout->epoch_ms, settings->layout),
                             change(time, layout->time_bits, settings->layout),
                             change(node, layout->node_bits, settings->layout),
                             change(seq, layout->seq_bits, settings->layout),
                             change(lease, settings->lease_ms, settings->lease_ms),
                             change(most, settings->max_throughput, settings->max_throughput),
                             settings->high_blocks > 0   ? "1"
                             : settings->high_blocks < 0 ? "0"
                                                         : ""};
    memcpy(args + KZ__REDIS_OPENING_ARGS, changes, sizeof changes);

    redisReply *reply = NULL;
    kz__redis_place place = {source->prefix, service};
    status = kz__redis_run(source->link, KZ__REDIS_CONFIGURE, &place, KZ__REDIS_OPENING_ARGS + 7, args, &reply, err);
    if (status)
        return status;
    int64_t source_ms;
    kz_layout is;
    if (kz__redis_said(reply, "MISMATCH"))
        status = refused(source, service, settings, reply, err);
    else if (!kz__redis_read_layout(reply, 4, &is) || !kz__redis_read_head(reply, seen, &source_ms))
        status = kz__redis_unexpected(source->link, "configure", reply, err);
    else if (strcmp(service, source->params.service) == 0)
        source->layout = is;
    freeReplyObject(reply);
    return status;
}
