/* GET /health, /health/live, /health/ready: can this server do its work? */
#include "server/app.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Windows are in the time of whoever granted them, which is the store's unless IDs come from elsewhere: this machine's
 * clock may be hours off that, and nothing is wrong with the IDs. */
static bool generator_works(const app *a, const store_job *job, kz_stats *stats)
{
    kz_stats_init(stats);
    if (kz_stats_get(a->gen, stats))
        return false;
    bool same_clock = job->status == KZ_OK && !a->settings->ids_from;
    return stats->window_end_unix_ms > (same_clock ? job->health.source_ms : wall_ms()) - 1000;
}

static void examined(store_job *job)
{
    const app *a = job->app;
    http_reply *reply = job->reply;
    kz_stats stats;
    bool store_up = job->status == KZ_OK;
    bool generator_up = generator_works(a, job, &stats);
    int64_t off_ms = store_up ? job->health.source_ms - wall_ms() : 0;
    bool up = store_up && generator_up;
    char window_end[24] = "null"; /* no end */
    if (stats.window_end_unix_ms != INT64_MAX)
        snprintf(window_end, sizeof window_end, "%" PRId64, stats.window_end_unix_ms);
    http_reply_status(reply, up ? 200 : 503);
    http_reply_printf(reply, "{\"status\":\"%s\",\"components\":{\"store\":{\"status\":\"%s\"", up ? "UP" : "DOWN",
                      store_up ? "UP" : "DOWN");
    if (store_up) {
        char layout[KZ_LAYOUT_TEXT_SIZE];
        kz_layout_text(&job->health.layout, layout);
        http_reply_printf(reply,
                          ",\"leases\":%" PRIu64 ",\"nodesFree\":%" PRIu64
                          ",\"durable\":%s,\"layout\":\"%s\",\"leaseMs\":%" PRId64 ",\"note\":",
                          job->health.leases_out, job->health.nodes_free, job->health.durable ? "true" : "false",
                          layout, job->health.lease_ms);
        write_json_text(reply, job->health.note);
    } else {
        http_reply_printf(reply, ",\"error\":");
        write_json_text(reply, job->err.message);
    }
    http_reply_printf(reply,
                      "},\"clock\":{\"status\":\"%s\",\"storeAheadMs\":%" PRId64 ",\"stepsBack\":%" PRIu64
                      ",\"largestStepBackMs\":%" PRId64 "},\"generator\":{\"status\":\"%s\",\"leases\":%" PRIu64
                      ",\"acquireFailures\":%" PRIu64 ",\"windowEndMs\":%s,\"unfenced\":%s,\"contended\":%s}}}",
                      off_ms > 2000 || off_ms < -2000 ? "WARN" : "UP", off_ms, stats.clock_backward,
                      stats.clock_backward_max_ms,
                      !generator_up                       ? "DOWN"
                      : stats.unfenced || stats.contended ? "WARN"
                                                          : "UP",
                      stats.leases, stats.acquire_failures_now, window_end, stats.unfenced ? "true" : "false",
                      stats.contended ? "true" : "false");
    http_reply_send(reply);
    store_job_free(job);
}

http_outcome get_health(call *c)
{
    return submit(c, store_job_new(STORE_HEALTH), examined);
}

http_outcome get_live(call *c)
{
    http_reply_printf(c->reply, "{\"status\":\"UP\"}");
    return HTTP_DONE;
}
