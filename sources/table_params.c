/* What every lease table reads from its URL and its options. */
#include "sources/table_params.h"
#include "core/error.h"
#include "core/values.h"

#include <string.h>

static kz_status check_params(const kz__url *url, const char *const *more, kz_error *err)
{
    const char *known[KZ__URL_PARAMS_MAX + 1] = {"lease", "service", "amnesia", "create"};
    size_t count = 4;
    while (more && *more && count < KZ__URL_PARAMS_MAX)
        known[count++] = *more++;
    return kz__url_only(url, known, err);
}

kz_status kz__table_params_read(const kz__url *url, const kz_source_options *options, const char *const *more,
                                kz__table_params *params, kz_error *err)
{
    kz__table_params p = {.lease_ms = KZ__LEASE_MS_DEFAULT, .layout_given = options->layout != NULL};
    p.layout = options->layout ? *options->layout : *kz_layout_preset(0);
    kz_status status = check_params(url, more, err);
    if (status)
        return status;
    const char *lease = kz__url_param(url, "lease");
    if (lease && (status = kz_duration_parse(lease, KZ__LEASE_MS_MIN, KZ__LEASE_MS_MAX, &p.lease_ms, err)))
        return status;
    const char *amnesia = kz__url_param(url, "amnesia");
    if (amnesia && strcmp(amnesia, "quarantine") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: amnesia=%s is not known, only amnesia=quarantine", url->scheme,
                        amnesia);
    p.quarantine = amnesia != NULL;
    const char *create = kz__url_param(url, "create");
    if (create && strcmp(create, "no") != 0)
        return kz__fail(err, KZ_INVALID, "source %s: create=%s is not known, only create=no", url->scheme, create);
    p.create = !create;
    const char *opener = options->service && *options->service ? options->service : "default";
    const char *service = kz__url_param(url, "service");
    if (!service)
        service = opener;
    if ((status = kz__service_name_check(opener, err)) || (status = kz__service_name_check(service, err)))
        return status;
    strcpy(p.opener, opener);
    strcpy(p.service, service);
    kz__service probe;
    status = kz__service_init(&probe, p.service, &p.layout, p.lease_ms, err);
    if (status == KZ_OK)
        *params = p;
    return status;
}

kz_status kz__table_service(const kz__table_params *params, const char *asked, const char **name, kz_error *err)
{
    if (!asked || !*asked || strcmp(asked, params->opener) == 0) {
        *name = params->service;
        return KZ_OK;
    }
    kz_status status = kz__service_name_check(asked, err);
    if (status == KZ_OK)
        *name = asked;
    return status;
}

kz_status kz__table_layout_check(const kz__table_params *params, const kz__service *service, kz_error *err)
{
    kz__service wanted, stored = *service;
    if (!params->layout_given)
        return KZ_OK;
    kz_status status = kz__service_init(&wanted, service->name, &params->layout, service->lease_ms, err);
    if (status == KZ_OK)
        status = kz__service_adopt(&stored, &wanted, err);
    if (status || (stored.node_bits == service->node_bits && stored.seq_bits == service->seq_bits))
        return status;
    return kz__fail(err, KZ_MISMATCH,
                    "service %s has %u node and %u sequence bits, not %u and %u: its own division counts, leave the "
                    "layout out",
                    service->name, service->node_bits, service->seq_bits, wanted.node_bits, wanted.seq_bits);
}
