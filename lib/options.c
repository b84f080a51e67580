/* Options: the defaults, and checking what a caller set. */
#include "core/error.h"
#include "lib/source.h"

#include <inttypes.h>
#include <string.h>

void kz_options_init(kz_options *options)
{
    *options = (kz_options){.struct_size = sizeof *options,
                            .service = "default",
                            .fallback = KZ_FALLBACK_FENCED,
                            .backward = KZ_BACKWARD_WAIT,
                            .max_backward_ms = 5000,
                            .max_ahead_ms = 1000,
                            .timeout_ms = 10000,
                            .throughput_min_per_ms = 256,
                            .throughput_max_per_ms = 256,
                            .renew_at = 0.9,
                            .retry_initial_ms = 1000,
                            .retry_max_ms = 60000};
}

static kz_status check_choices(const kz_options *o, kz_error *err)
{
    if ((unsigned)o->fallback > KZ_FALLBACK_ANY)
        return kz__fail(err, KZ_INVALID, "fallback %d is none of KZ_FALLBACK_*", (int)o->fallback);
    if ((unsigned)o->backward > KZ_BACKWARD_LOGICAL)
        return kz__fail(err, KZ_INVALID, "backward %d is none of KZ_BACKWARD_*", (int)o->backward);
    if ((unsigned)o->clock > KZ_CLOCK_COARSE)
        return kz__fail(err, KZ_INVALID, "clock %d is none of KZ_CLOCK_*", (int)o->clock);
    if ((unsigned)o->seq_start > KZ_SEQ_RANDOM)
        return kz__fail(err, KZ_INVALID, "seq_start %d is none of KZ_SEQ_*", (int)o->seq_start);
    if ((unsigned)o->keeper > KZ_KEEPER_CALLER)
        return kz__fail(err, KZ_INVALID, "keeper %d is none of KZ_KEEPER_*", (int)o->keeper);
    const kz_clock *clock = o->use_clock;
    if (clock && (!clock->wall_ns || !clock->boot_ns || !clock->sleep_ns))
        return kz__fail(err, KZ_INVALID, "use_clock lacks one of its three functions");
    return KZ_OK;
}

static kz_status check_numbers(const kz_options *o, kz_error *err)
{
    if (o->max_ahead_ms < 0 || o->max_ahead_ms > 86400000)
        return kz__fail(err, KZ_INVALID, "max_ahead_ms %" PRId64 " must lie between 0 and a day", o->max_ahead_ms);
    if (!o->throughput_min_per_ms || o->throughput_min_per_ms > o->throughput_max_per_ms)
        return kz__fail(err, KZ_INVALID,
                        "throughput %" PRIu32 " to %" PRIu32
                        " IDs a ms: the minimum must be at least 1 and not above the "
                        "maximum",
                        o->throughput_min_per_ms, o->throughput_max_per_ms);
    if (!(o->renew_at >= 0.1 && o->renew_at <= 0.99))
        return kz__fail(err, KZ_INVALID, "renew_at %g must lie between 0.1 and 0.99", o->renew_at);
    if (o->retry_initial_ms < 1 || o->retry_max_ms < o->retry_initial_ms || o->retry_max_ms > 3600000)
        return kz__fail(err, KZ_INVALID,
                        "retry pauses from %" PRId64 " to %" PRId64
                        " ms: they must grow, from at least 1 ms to at most an "
                        "hour",
                        o->retry_initial_ms, o->retry_max_ms);
    if (o->meta && strlen(o->meta) >= KZ_HOLDER_SIZE)
        return kz__fail(err, KZ_INVALID, "meta of %zu characters is too long (at most %d)", strlen(o->meta),
                        KZ_HOLDER_SIZE - 1);
    return KZ_OK;
}

/* A program built with an older header gives a shorter struct: the defaults stand for what it does not know. */
kz_status kz__options_read(const kz_options *given, kz_options *options, kz_error *err)
{
    kz_options_init(options);
    if (!given)
        return KZ_OK;
    if (given->struct_size < offsetof(kz_options, layout) || given->struct_size > sizeof *options)
        return kz__fail(
            err, KZ_INVALID,
            "kz_options of %zu bytes: call kz_options_init first, and build with the header of this library",
            given->struct_size);
    memcpy(options, given, given->struct_size);
    options->struct_size = sizeof *options;
    if (!options->service)
        options->service = "default";
    kz_status status = check_choices(options, err);
    return status ? status : check_numbers(options, err);
}
