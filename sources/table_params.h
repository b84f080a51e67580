/* What every lease table reads from its URL and its options. */
#ifndef KZ_SOURCES_TABLE_PARAMS_H
#define KZ_SOURCES_TABLE_PARAMS_H

#include "core/table.h"
#include "core/url.h"

typedef struct kz__table_params {
    char service[KZ_SERVICE_SIZE]; /* from ?service=, else the option, else "default" */
    char opener[KZ_SERVICE_SIZE];  /* the option, else "default": a generator's requests name it, and mean `service` */
    int64_t lease_ms;              /* from ?lease=, for a service that does not exist yet */
    bool quarantine;               /* ?amnesia=quarantine: a store found empty grants nothing for a while */
    bool create;                   /* false with ?create=no: what is not there is an error, and not made */
    kz_layout layout;              /* for a service that does not exist yet */
    bool layout_given;             /* then an existing service must agree */
} kz__table_params;

/* Reads lease, service, amnesia and create; any other parameter must be in `more` (NULL-terminated). */
kz_status kz__table_params_read(const kz__url *url, const kz_source_options *options, const char *const *more,
                                kz__table_params *params, kz_error *err);

/* The service that a request, a release or a question means: `asked`, or the URL's where the opener's own is asked for.
 * KZ_INVALID: not a name. */
kz_status kz__table_service(const kz__table_params *params, const char *asked, const char **name, kz_error *err);

/* KZ_MISMATCH, naming both, if a layout was given and the service has another. */
kz_status kz__table_layout_check(const kz__table_params *params, const kz__service *service, kz_error *err);

#endif
