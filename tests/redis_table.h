/* The lease table in Redis as its tests use it: opened, asked and given back to in one line each. */
#ifndef KZ_TESTS_REDIS_TABLE_H
#define KZ_TESTS_REDIS_TABLE_H

#include "host/clock.h"
#include "sources/all.h"
#include "tests/redis_server.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct redis_table {
    const kz_source_ops *ops;
    void *source;
    kz_source_facts facts;
    kz_error err;
    kz_grant grant;
    const char *service;
    uint64_t requests;
} redis_table;

static inline kz_status table_try(redis_table *table, const char *url, const char *service, const char *layout,
                                  int64_t timeout_ms)
{
    kz_layout parsed;
    if (layout)
        assert_ok(kz_layout_parse(layout, &parsed, NULL));
    kz_source_options options = {.layout = layout ? &parsed : NULL,
                                 .fallback = KZ_FALLBACK_FENCED,
                                 .service = service,
                                 .clock = &kz__machine_clock,
                                 .timeout_ms = timeout_ms};
    static const kz_source_ops *const kinds[] = {&kz__source_redis,          &kz__source_rediss,
                                                 &kz__source_redis_sentinel, &kz__source_rediss_sentinel,
                                                 &kz__source_tsid_redis,     &kz__source_tsid_rediss};
    *table = (redis_table){.ops = kinds[0], .service = service};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i]->scheme) == strcspn(url, ":") && strncmp(url, kinds[i]->scheme, strcspn(url, ":")) == 0)
            table->ops = kinds[i];
    /* Every table's requests are its own. */
    static uint64_t tables;
    table->requests = (uint64_t)time(NULL) << 40 | ++tables << 24;
    return table->ops->open(&table->source, url, &options, &table->facts, &table->err);
}

/* `more` goes behind the server's URL: "?lease=2s". */
static inline void table_open(redis_table *table, const redis_server *server, const char *more)
{
    char url[512];
    snprintf(url, sizeof url, "%s%s", server->url, more);
    kz_status status = table_try(table, url, "default", NULL, 5000);
    if (status)
        fail_msg("%s: %s", url, table->err.message);
}

static inline void table_close(redis_table *table)
{
    table->ops->close(table->source, false);
}

static inline kz_acquire table_request(redis_table *table, uint32_t throughput)
{
    kz_acquire request = {.service = table->service, .holder = "{\"host\":\"test\"}", .throughput_per_ms = throughput};
    table->requests++;
    memcpy(request.request_id, &table->requests, sizeof table->requests);
    request.request_id[15] = 1;
    return request;
}

static inline kz_status table_acquire(redis_table *table, uint32_t throughput)
{
    kz_acquire request = table_request(table, throughput);
    return table->ops->acquire(table->source, &request, &table->grant, &table->err);
}

static inline kz_status table_release(redis_table *table, const kz_lease *lease, int64_t timestamp_ms)
{
    char signature[KZ_SIGNATURE_SIZE];
    kz_release_sign(lease->secret, lease->id, timestamp_ms, signature);
    kz_release release = {
        .service = table->service, .id = lease->id, .timestamp_ms = timestamp_ms, .signature = signature};
    return table->ops->release(table->source, &release, &table->err);
}

static inline int64_t table_now(redis_table *table)
{
    int64_t ms = 0;
    uint64_t generation;
    assert_ok(table->ops->now(table->source, &ms, &generation, &table->err));
    return ms;
}

static inline void sleep_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Until it is so late at the table. */
static inline void sleep_until(redis_table *table, int64_t ms)
{
    for (int64_t now_ms; (now_ms = table_now(table)) < ms;)
        sleep_ms(ms - now_ms);
}

#endif
