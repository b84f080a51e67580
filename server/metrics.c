/* GET /metrics: Prometheus text. */
#include "server/app.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct scrape {
    app *app;
    http_reply *reply;
} scrape;

static void family(http_reply *reply, const char *name, const char *type, const char *help)
{
    http_reply_printf(reply, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* One sample with the service of /id's generator. */
static void sample(scrape *s, const char *name, const char *type, const char *help, double value)
{
    family(s->reply, name, type, help);
    http_reply_printf(s->reply, "%s{service=\"%s\"} %.15g\n", name, s->app->settings->service, value);
}

typedef double (*census_value)(const service_census *of, int64_t now_ms);

static double leases_of(const service_census *of, int64_t now_ms)
{
    (void)now_ms;
    return (double)of->leases;
}

static double age_of(const service_census *of, int64_t now_ms)
{
    return of->oldest_ms < now_ms ? (double)(now_ms - of->oldest_ms) / 1000 : 0;
}

static double nodes_of(const service_census *of, int64_t now_ms)
{
    (void)now_ms;
    return (double)of->nodes;
}

static double free_of(const service_census *of, int64_t now_ms)
{
    (void)now_ms;
    return (double)of->nodes_free;
}

/* By service: the largest, and the rest as one. The server's own comes from its health, which also knows nodes that
 * rest, and is there without a lease. */
static void write_census(scrape *s, const store_census *census)
{
    static const struct {
        const char *name, *help;
        census_value value;
    } gauges[] = {
        {"kazahana_leases_active", "Leases that are held now.", leases_of},
        {"kazahana_lease_age_seconds", "Age of the oldest lease that is held.", age_of},
        {"kazahana_nodes", "Nodes that can be leased.", nodes_of},
        {"kazahana_nodes_free", "Nodes that could be granted now.", free_of},
    };
    kz_layout_facts facts;
    kz_layout_describe(&census->health.layout, &facts);
    service_census own = {
        .oldest_ms = INT64_MAX, .nodes = facts.leasable_nodes, .nodes_free = census->health.nodes_free};
    strcpy(own.service, census->own_service);
    bool listed = false;
    for (size_t i = 0; i < census->count && !listed; i++)
        listed = strcmp(census->services[i].service, own.service) == 0;
    for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++) {
        family(s->reply, gauges[g].name, "gauge", gauges[g].help);
        for (size_t i = 0; i < census->count; i++)
            http_reply_printf(s->reply, "%s{service=\"%s\"} %.15g\n", gauges[g].name, census->services[i].service,
                              gauges[g].value(&census->services[i], census->health.source_ms));
        if (!listed)
            http_reply_printf(s->reply, "%s{service=\"%s\"} %.15g\n", gauges[g].name, own.service,
                              gauges[g].value(&own, census->health.source_ms));
    }
}

static void write_generator(scrape *s)
{
    kz_stats stats;
    kz_layout layout;
    kz_layout_facts facts;
    kz_stats_init(&stats);
    if (kz_stats_get(s->app->gen, &stats))
        return;
    kz_generator_layout(s->app->gen, &layout);
    kz_layout_describe(&layout, &facts);
    const char *service = s->app->settings->service;
    family(s->reply, "kazahana_ids_total", "counter", "IDs minted by this server, by kind.");
    http_reply_printf(s->reply,
                      "kazahana_ids_total{service=\"%s\",kind=\"leased\"} %" PRIu64
                      "\nkazahana_ids_total{service=\"%s\",kind=\"fenced\"} %" PRIu64
                      "\nkazahana_ids_total{service=\"%s\",kind=\"unfenced\"} %" PRIu64 "\n",
                      service, stats.ids_leased, service, stats.ids_fenced, service, stats.ids_unfenced);
    sample(s, "kazahana_layout_last_day_timestamp_seconds", "gauge", "When the layout's time field runs out.",
           (double)facts.last_unix_ms / 1000);
    sample(s, "kazahana_sequence_exhausted_total", "counter", "Milliseconds whose slots were used up.",
           (double)stats.sequence_exhausted);
    sample(s, "kazahana_clock_backward_total", "counter", "Steps of the clock backwards.",
           (double)stats.clock_backward);
    sample(s, "kazahana_clock_backward_max_seconds", "gauge", "The largest step of the clock backwards.",
           (double)stats.clock_backward_max_ms / 1000);
    sample(s, "kazahana_ahead_seconds", "gauge", "How far the last ID is ahead of the clock.",
           (double)stats.ahead_ms / 1000);
    sample(s, "kazahana_generator_lease_age_seconds", "gauge", "Age of the lease this server mints from.",
           (double)stats.lease_age_ms / 1000);
}

static void write_results(http_reply *reply, const char *name, const char *service, const char *good, uint64_t done,
                          uint64_t refused, uint64_t failed)
{
    http_reply_printf(reply,
                      "%s{service=\"%s\",result=\"%s\"} %" PRIu64 "\n%s{service=\"%s\",result=\"refused\"} %" PRIu64
                      "\n%s{service=\"%s\",result=\"failed\"} %" PRIu64 "\n",
                      name, service, good, done, name, service, refused, name, service, failed);
}

/* What clients that lease from this server told about themselves. */
static void write_used(http_reply *reply, const store_counts *c)
{
    family(reply, "kazahana_client_ids_total", "counter",
           "IDs that clients minted from leases of this server, by kind.");
    for (size_t i = 0; i < c->service_count; i++) {
        const service_counts *of = &c->services[i];
        http_reply_printf(reply,
                          "kazahana_client_ids_total{service=\"%s\",kind=\"leased\"} %" PRIu64
                          "\nkazahana_client_ids_total{service=\"%s\",kind=\"fenced\"} %" PRIu64
                          "\nkazahana_client_ids_total{service=\"%s\",kind=\"unfenced\"} %" PRIu64 "\n",
                          of->service, of->used.ids, of->service, of->used.fenced, of->service, of->used.unfenced);
    }
    family(reply, "kazahana_client_exhausted_total", "counter", "Milliseconds whose slots clients used up.");
    for (size_t i = 0; i < c->service_count; i++)
        http_reply_printf(reply, "kazahana_client_exhausted_total{service=\"%s\"} %" PRIu64 "\n",
                          c->services[i].service, c->services[i].used.exhausted);
    family(reply, "kazahana_client_clock_back_total", "counter", "Steps backwards of clients' clocks.");
    for (size_t i = 0; i < c->service_count; i++)
        http_reply_printf(reply, "kazahana_client_clock_back_total{service=\"%s\"} %" PRIu64 "\n",
                          c->services[i].service, c->services[i].used.clock_back);
}

static void write_store(scrape *s, bool up)
{
    http_reply *reply = s->reply;
    store_counts c;
    store_counts_get(s->app->store, &c);
    family(reply, "kazahana_lease_acquisitions_total", "counter", "Requests for leases, by result.");
    for (size_t i = 0; i < c.service_count; i++) {
        const service_counts *of = &c.services[i];
        write_results(reply, "kazahana_lease_acquisitions_total", of->service, "granted", of->acquired,
                      of->acquire_refused, of->acquire_failed);
    }
    family(reply, "kazahana_lease_releases_total", "counter", "Releases of leases, by result.");
    for (size_t i = 0; i < c.service_count; i++) {
        const service_counts *of = &c.services[i];
        write_results(reply, "kazahana_lease_releases_total", of->service, "done", of->released, of->release_refused,
                      of->release_failed);
    }
    write_used(reply, &c);
    family(reply, "kazahana_store_seconds", "histogram", "Time a request spent waiting for the store and in it.");
    uint64_t sum = 0;
    for (int i = 0; i < 9; i++)
        http_reply_printf(reply, "kazahana_store_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", store_bucket_s[i],
                          sum += c.latency_buckets[i]);
    http_reply_printf(reply,
                      "kazahana_store_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\nkazahana_store_seconds_sum %.9g\n"
                      "kazahana_store_seconds_count %" PRIu64 "\n",
                      c.latency_count, c.latency_sum_s, c.latency_count);
    family(reply, "kazahana_store_queue", "gauge", "Requests that wait for the store.");
    http_reply_printf(reply, "kazahana_store_queue %" PRIu64 "\n", c.queue_now);
    family(reply, "kazahana_up", "gauge", "Whether a component works.");
    http_reply_printf(reply, "kazahana_up{component=\"store\"} %d\n", up);
}

/* A route's counts over all loops. */
static void add_up(const app *a, int route, uint64_t by_class[static 6], uint64_t buckets[static HTTP_BUCKETS + 1],
                   uint64_t *sum_ns)
{
    for (unsigned loop = 0; loop < a->loops; loop++) {
        const route_counts *c = &a->counts[loop][route];
        for (int i = 0; i < 6; i++)
            by_class[i] += atomic_load_explicit(&c->by_class[i], memory_order_relaxed);
        for (int i = 0; i <= HTTP_BUCKETS; i++)
            buckets[i] += atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        *sum_ns += atomic_load_explicit(&c->sum_ns, memory_order_relaxed);
    }
}

static void write_requests(http_reply *reply, const char *labels, const uint64_t by_class[static 6])
{
    for (int class = 2; class < 6; class ++)
        http_reply_printf(reply, "kazahana_http_requests_total{%s,status=\"%dxx\"} %" PRIu64 "\n", labels, class,
                          by_class[class]);
}

static void write_latencies(http_reply *reply, const char *labels, const uint64_t buckets[static HTTP_BUCKETS + 1],
                            uint64_t sum_ns)
{
    static const char name[] = "kazahana_http_request_seconds";
    uint64_t sum = 0;
    for (int b = 0; b < HTTP_BUCKETS; b++)
        http_reply_printf(reply, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels, (double)http_bucket_us[b] / 1e6,
                          sum += buckets[b]);
    sum += buckets[HTTP_BUCKETS];
    http_reply_printf(reply, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, sum);
    http_reply_printf(reply, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", name, labels, (double)sum_ns / 1e9, name,
                      labels, sum);
}

static void write_http(scrape *s)
{
    http_reply *reply = s->reply;
    app *a = s->app;
    struct {
        char labels[80];
        uint64_t by_class[6], buckets[HTTP_BUCKETS + 1], sum_ns;
    } routes[ROUTES] = {0};
    for (int r = 0; r < ROUTES; r++) {
        snprintf(routes[r].labels, sizeof routes[r].labels, "method=\"%s\",route=\"%s\"", route_method((route_name)r),
                 route_path((route_name)r));
        add_up(a, r, routes[r].by_class, routes[r].buckets, &routes[r].sum_ns);
    }
    family(reply, "kazahana_http_requests_total", "counter",
           "Requests, by method (HEAD with GET), route and class of status.");
    for (int r = 0; r < ROUTES; r++)
        write_requests(reply, routes[r].labels, routes[r].by_class);
    family(reply, "kazahana_http_request_seconds", "histogram", "From a request's last byte to its answer.");
    for (int r = 0; r < ROUTES; r++)
        write_latencies(reply, routes[r].labels, routes[r].buckets, routes[r].sum_ns);
    http_counts counts;
    http_server_counts(a->http, &counts);
    family(reply, "kazahana_http_connections", "gauge", "Connections that are open.");
    http_reply_printf(reply, "kazahana_http_connections %" PRIu64 "\n", counts.connections_now);
    family(reply, "kazahana_http_refused_total", "counter", "Connections refused because there were too many.");
    http_reply_printf(reply, "kazahana_http_refused_total %" PRIu64 "\n", counts.refused_total);
    family(reply, "kazahana_http_cut_total", "counter", "Connections cut because they were too slow.");
    http_reply_printf(reply, "kazahana_http_cut_total %" PRIu64 "\n", counts.cut_total);
}

static void scraped(store_job *job)
{
    scrape *s = &(scrape){job->app, job->reply};
    store_census census;
    http_reply_type(s->reply, "text/plain; version=0.0.4; charset=utf-8");
    family(s->reply, "kazahana_build_info", "gauge", "The version that runs.");
    http_reply_printf(s->reply, "kazahana_build_info{version=\"%s\"} 1\n", kz_version());
    store_census_get(s->app->store, &census);
    if (job->status == KZ_OK)
        write_census(s, &census);
    write_generator(s);
    write_store(s, job->status == KZ_OK);
    write_http(s);
    http_reply_send(s->reply);
    store_job_free(job);
}

http_outcome get_metrics(call *c)
{
    return submit(c, store_job_new(STORE_CENSUS), scraped);
}
