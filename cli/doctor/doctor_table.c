/* What kazahana doctor finds out about a lease table. */
#include "cli/doctor/doctor_table.h"

#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_WARN_MS = 1000, FREE_WARN_PERCENT = 10 };

static void check_durable(struct findings *findings, const kz_source_health *health)
{
    if (health->durable) {
        findings_add(findings, FINDING_OK, "durable", NULL, "%s",
                     health->note[0] ? health->note : "a lease that was granted survives a crash of the store");
        return;
    }
    /* A note that has a second sentence says there what to do. */
    char note[KZ_MESSAGE_SIZE];
    snprintf(note, sizeof note, "%s", health->note[0] ? health->note : "a crash of the store can forget leases");
    char *advice = strstr(note, ". ");
    if (advice) {
        *advice = '\0';
        advice += 2;
    }
    findings_add(findings, FINDING_WARN, "durable",
                 advice ? advice
                        : "use a store that keeps what it promised: sqlite: on a local disk, or redis:// with "
                          "appendonly yes and appendfsync always",
                 "%s", note);
}

/* One question and its answer, between two looks at the clock of this machine. */
static void check_exchange(struct findings *findings, kz_source *source)
{
    kz_error err;
    int64_t source_ms;
    uint64_t generation;
    int64_t before_ms = times_wall_ms(), begin_ns = times_boot_ns();
    if (kz_source_now(source, &source_ms, &generation, &err) != KZ_OK) {
        findings_add(findings, FINDING_FAIL, "clocks", "see to it before anything depends on this source", "%s",
                     err.message);
        return;
    }
    int64_t took_ns = times_boot_ns() - begin_ns, after_ms = times_wall_ms();
    findings_add(findings, FINDING_OK, "reachable", NULL, "answers in %.1f ms", (double)took_ns * 1e-6);
    int64_t ahead_ms = source_ms > after_ms ? source_ms - after_ms : source_ms < before_ms ? source_ms - before_ms : 0;
    bool far = ahead_ms > CLOCK_WARN_MS || ahead_ms < -CLOCK_WARN_MS;
    if (!ahead_ms)
        findings_add(findings, FINDING_OK, "clocks", NULL, "the table's clock agrees with this machine's");
    else
        findings_add(findings, far ? FINDING_WARN : FINDING_OK, "clocks",
                     far ? "IDs carry the table's time; let chrony or systemd-timesyncd keep both clocks" : NULL,
                     "the table's clock is %.3f s %s this machine's", (double)llabs(ahead_ms) * 1e-3,
                     ahead_ms > 0 ? "ahead of" : "behind");
}

static void check_nodes(struct findings *findings, const kz_source_health *health, const char *service)
{
    char free_text[NUMBER_GROUPED_SIZE], all_text[NUMBER_GROUPED_SIZE], out_text[NUMBER_GROUPED_SIZE];
    char lease_text[TIMES_TEXT_SIZE];
    kz_layout_facts facts;
    kz_layout_describe(&health->layout, &facts);
    /* Not every source keeps half of the nodes for fallback. */
    uint64_t known = health->nodes_free + health->leases_out;
    uint64_t all = known > facts.leasable_nodes ? known : facts.leasable_nodes;
    bool few = (double)health->nodes_free < (double)all / 100.0 * FREE_WARN_PERCENT;
    findings_add(findings,
                 !health->nodes_free ? FINDING_FAIL
                 : few               ? FINDING_WARN
                                     : FINDING_OK,
                 "nodes",
                 few ? "see kazahana leases for who holds them; lower the throughput, or use a layout with more node "
                       "bits for a new service"
                     : NULL,
                 "service %s: %s of %s nodes free, %s lease%s out", service,
                 number_grouped(health->nodes_free, free_text), number_grouped(all, all_text),
                 number_grouped(health->leases_out, out_text), health->leases_out == 1 ? "" : "s");
    times_span_text(health->lease_ms, lease_text);
    findings_add(findings, FINDING_OK, "lease", NULL, "a lease lasts %s", lease_text);
}

enum doctor_table doctor_check_table(struct findings *findings, kz_source *source, const char *service,
                                     kz_layout *layout)
{
    kz_source_health health;
    kz_error err;
    kz_status status = kz_source_health_get(source, &health, &err);
    if (status == KZ_UNSUPPORTED)
        return TABLE_NONE;
    if (status != KZ_OK) {
        findings_add(findings, FINDING_FAIL, "reachable",
                     status == KZ_UNAVAILABLE ? "start the store, or correct the address" : "see to the store", "%s",
                     err.message);
        return TABLE_SILENT;
    }
    /* Connected by now, so that this measures an exchange and nothing else. */
    check_exchange(findings, source);
    check_durable(findings, &health);
    check_nodes(findings, &health, service);
    *layout = health.layout;
    return TABLE_ANSWERS;
}

struct search {
    const char *holder;
    bool found;
    uint32_t node;
};

static bool look(void *ctx, const kz_lease_info *info)
{
    struct search *search = ctx;
    search->found = strcmp(info->holder, search->holder) == 0;
    search->node = info->id;
    return !search->found;
}

void doctor_check_released(struct findings *findings, kz_source *source, const char *holder)
{
    struct search search = {.holder = holder};
    kz_error err;
    if (kz_source_list(source, look, &search, &err) != KZ_OK)
        findings_add(findings, FINDING_FAIL, "release", "see to it before anything depends on this source", "%s",
                     err.message);
    else if (search.found)
        findings_add(findings, FINDING_FAIL, "release", "it ends by itself; see whether the store takes writes",
                     "the lease of node %" PRIu32 " was not given back", search.node);
    else
        findings_add(findings, FINDING_OK, "release", NULL, "the lease was given back");
}
