/* What a lease table in etcd tells about itself: the leases, and its health. */
#include "core/error.h"
#include "core/values.h"
#include "sources/etcd_source.h"
#include "sources/memory_page.h"

#include <stdio.h>
#include <string.h>

#define ROWS_ASKED   1000
#define HISTORY_LONG 100000 /* revisions */

/* Services are not forgotten here: they are only counted. */
kz_status kz__etcd_count(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                         kz_error *err)
{
    (void)like;
    (void)before_ms;
    kz__etcd *e = (kz__etcd *)base;
    char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE];
    json_t *kvs = NULL, *ops = json_array();
    kz__etcd_key(e, at, "s/");
    kz__etcd_key(e, end, "s0");
    kz__etcd_want(e, ops, at, end, 0, true);
    kz_status status = kz__etcd_bring(e, ops, &kvs, NULL, err);
    *left = json_array_size(json_array_get(kvs, 0));
    json_decref(kvs);
    return status;
}

/* All keys of a kind and a service, page by page: the rows into `rows` or the part, free ranges into the part. */
static kz_status load_all(kz__etcd *e, char kind, const char *service, kz__memory_rows *rows, kz__part *part,
                          kz_error *err)
{
    kz_status status = KZ_OK;
    uint64_t from = 0;
    int limit = kind == 'f' ? KZ__ETCD_RANGES_ASKED : ROWS_ASKED;
    for (size_t count = (size_t)limit; status == KZ_OK && count == (size_t)limit;) {
        char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE];
        json_t *kvs = NULL, *ops = json_array(), *kv;
        size_t i;
        kz__etcd_key(e, at, "%c/%s/" KZ__ETCD_HEX, kind, service, from ? from + 1 : 0);
        kz__etcd_key(e, end, "%c/%s/g", kind, service);
        kz__etcd_want(e, ops, at, end, limit, false);
        status = kz__etcd_bring(e, ops, &kvs, NULL, err);
        const json_t *page = json_array_get(kvs, 0);
        count = json_array_size(page);
        if (status == KZ_OK && kind == 'f')
            status = kz__etcd_tell_free(e, part, page, from, limit, err);
        else if (status == KZ_OK && part)
            status = kz__etcd_tell_rows(e, part, page, err);
        json_array_foreach(page, i, kv)
        {
            kz__row row;
            if (status == KZ_OK && rows && (status = kz__etcd_read_row(e, kv, &row, err)) == KZ_OK)
                status = kz__memory_rows_use(rows).out_add(rows, &row, err);
            if (i + 1 == count)
                from = kz__etcd_key_number(kv, at);
        }
        json_decref(kvs);
    }
    return status;
}

/* The rows of a service, kept for the listing's next pages as long as nobody writes. */
static kz_status list_rows(kz__etcd *e, const char *service, kz_error *err)
{
    if (e->listed && strcmp(service, e->listed_service) == 0 && e->listed_revision == e->head_revision)
        return KZ_OK;
    kz__memory_rows_free(e->listed);
    e->listed = kz__memory_rows_new();
    if (!e->listed)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a listing");
    strcpy(e->listed_service, service);
    e->listed_revision = -1;
    kz_status status = load_all(e, 'o', service, e->listed, NULL, err);
    if (status == KZ_OK)
        e->listed_revision = e->head_revision;
    return status;
}

kz_status kz__etcd_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                        kz_lease_info *lines, size_t room, size_t *count, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)base;
    char at[KZ__ETCD_KEY_SIZE], end[KZ__ETCD_KEY_SIZE];
    json_t *kvs = NULL, *ops = json_array(), *kv;
    size_t i;
    kz__etcd_key(e, at, "s/%s", from->service);
    kz__etcd_key(e, end, "s0");
    kz__etcd_want(e, ops, at, end, 0, false);
    kz_status status = kz__etcd_bring(e, ops, &kvs, NULL, err);
    json_array_foreach(json_array_get(kvs, 0), i, kv)
    {
        kz__service service;
        uint64_t heights;
        (void)kz__etcd_key_number(kv, at);
        const char *name = strrchr(at, '/') ? strrchr(at, '/') + 1 : "";
        if (status || *count == room || (status = kz__service_name_check(name, err)) ||
            (status = kz__etcd_read_service(e, kv, name, &service, &heights, err)) ||
            (status = list_rows(e, name, err)))
            break;
        kz__memory_page(&service, e->listed, from, t->now_ms, lines, room, count);
    }
    json_decref(kvs);
    return status;
}

kz_status kz__etcd_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err)
{
    kz__etcd *e = (kz__etcd *)base;
    json_t *state = NULL, *alarms = NULL, *first = NULL;
    char at[KZ__ETCD_KEY_SIZE];
    kz_status status = kz__etcd_call(e->link, "/v3/maintenance/status", json_object(), false, NULL, &state, err);
    if (status)
        return status;
    kz__etcd_key(e, at, "h");
    /* Who may not ask for these goes without. */
    (void)kz__etcd_call(e->link, "/v3/maintenance/alarm", json_pack("{s:s}", "action", "GET"), false, NULL, &alarms,
                        NULL);
    bool whole =
        e->revision > HISTORY_LONG &&
        kz__etcd_call(e->link, "/v3/kv/range", json_pack("{s:o,s:s}", "key", kz__etcd_encoded(at), "revision", "1"),
                      false, NULL, &first, NULL) == KZ_OK;
    const char *alarm =
        json_string_value(json_object_get(json_array_get(json_object_get(alarms, "alarms"), 0), "alarm"));
    int64_t size = kz__etcd_number(state, "dbSize");
    health->durable = !alarm;
    if (alarm)
        snprintf(health->note, sizeof health->note,
                 "etcd has the alarm %s, so nothing is granted. Compact and defragment it, then etcdctl alarm disarm",
                 alarm);
    else if (whole)
        snprintf(health->note, sizeof health->note,
                 "its history of %" PRId64 " revisions was never compacted (%" PRId64
                 " MB), and at its quota nothing is granted. Start etcd with --auto-compaction-retention=1h",
                 e->revision, size >> 20);
    else
        snprintf(health->note, sizeof health->note,
                 "leases survive as long as a majority of the members keeps its disks (%" PRId64 " MB in use)",
                 size >> 20);
    json_decref(state);
    json_decref(alarms);
    json_decref(first);
    if (t->found)
        status = load_all(e, 'o', t->service.name, NULL, e->far.service->part, err);
    if (t->found && status == KZ_OK)
        status = load_all(e, 'f', t->service.name, NULL, e->far.service->part, err);
    return status ? status : kz__table_source_count(base, t, health, err);
}
