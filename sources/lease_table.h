/* What all lease tables share: their URL parameters, secrets, and the checks of a release. */
#ifndef KZ_SOURCES_LEASE_TABLE_H
#define KZ_SOURCES_LEASE_TABLE_H

#include "core/table.h"
#include "lib/url.h"

typedef struct kz__table_params {
    char service[KZ_SERVICE_SIZE]; /* from ?service=, else the option, else "default" */
    char opener[KZ_SERVICE_SIZE];  /* the option, else "default": a generator's requests name it, and mean `service` */
    int64_t lease_ms;              /* from ?lease=, for a service that does not exist yet */
    bool quarantine;               /* ?amnesia=quarantine: a store found empty grants nothing for a while */
    kz_layout layout;              /* for a service that does not exist yet */
    bool layout_given;             /* then an existing service must agree */
    bool create;                   /* false with ?create=no: what is not there is an error, and not made */
} kz__table_params;

/* Reads lease, service, amnesia and create; any other parameter must be in `more` (NULL-terminated). */
kz_status kz__table_params_read(const kz__url *url, const kz_source_options *options, const char *const *more,
                                kz__table_params *params, kz_error *err);

/* The service that a request, a release or a question means: `asked`, or the URL's where the opener's own is asked for.
 * KZ_INVALID: not a name. */
kz_status kz__table_service(const kz__table_params *params, const char *asked, const char **name, kz_error *err);

/* KZ_MISMATCH, naming both, if a layout was given and the service has another. */
kz_status kz__table_layout_check(const kz__table_params *params, const kz__service *service, kz_error *err);

/* "10min", "2s", "1h", "500ms", "7d". */
kz_status kz__duration_parse(const char *text, int64_t *ms, kz_error *err);

/* 1 to 63 characters of a-z A-Z 0-9 . _ - */
kz_status kz__service_name_check(const char *name, kz_error *err);

/* 128 random bits for each, as hex. */
kz_status kz__secrets_draw(char (*secrets)[KZ_SECRET_SIZE], size_t count, kz_error *err);

/* Aligned blocks of the service's usual size in the lower half's part of a free range. */
uint64_t kz__table_blocks_in(const kz__service *service, kz__range range);

/* Shape and age of a release (KZ_INVALID), in the order: signature of 64 hex digits, timestamp within 30 s of now. */
kz_status kz__release_check(const kz_release *release, int64_t now_ms, kz_error *err);

/* In constant time. */
bool kz__release_signed_with(const kz_release *release, const char *secret);

/* All of a release inside one transaction: the checks above, then the lease, then the signature, then its end. */
kz_status kz__table_release_signed(const kz__rows *rows, kz__service *service, const kz_release *release,
                                   int64_t now_ms, kz_error *err);

/* Listings are read in pages of this many lines, and shown when nothing is locked any more. */
#define KZ__LIST_PAGE 64

/* Copies the part of a grant that is filled. */
void kz__grant_copy(kz_grant *to, const kz_grant *from);

/* When the store's time was written last, and by which boot clock: its time goes on from there when the wall clock was
 * set back. */
#define KZ__BOOT_NAME_SIZE 96
typedef struct kz__table_time {
    int64_t high_ms;               /* the highest time ever answered */
    int64_t wall_ms, boot_ms;      /* the clocks then */
    char boot[KZ__BOOT_NAME_SIZE]; /* which boot clock that was: two with the same name can be compared */
} kz__table_time;

/* The name of this process's boot clock: the boot's ID, and the time namespace. */
void kz__boot_name(char name[static KZ__BOOT_NAME_SIZE]);

/* The table's time now, from what was written last: max(wall, high, high + boot time since * (1 - 500 ppm)). `time`
 * becomes what is to be written with it. *step_ms is how far the wall clock was set since, 0 if it was not. */
int64_t kz__table_time_read(kz__table_time *time, const kz_clock *clock, const char *boot, int64_t *step_ms);

/* The time of a store with a clock of its own, which other machines write too: max(its clock, high_ms). `wall_ms` is
 * our own clock, as a witness. KZ_UNAVAILABLE: it is more than a day ahead of high_ms and we know nothing of it, since
 * time that was written never goes back; or, if this is for a grant, behind by more than a second. */
kz_status kz__table_clock_check(const char *name, int64_t clock_ms, int64_t high_ms, int64_t wall_ms, bool grants,
                                int64_t *now_ms, kz_error *err);

/* Logs such a step. */
void kz__table_step_log(const kz_source_options *options, const char *where, int64_t step_ms);

#endif
