/* What the files of the etcd source share. */
#ifndef KZ_SOURCES_ETCD_SOURCE_H
#define KZ_SOURCES_ETCD_SOURCE_H

#include "core/memory_rows.h"
#include "sources/etcd_link.h"
#include "sources/far_table.h"

#include <inttypes.h>

#define KZ__ETCD_PREFIX_MAX   128
#define KZ__ETCD_HEX          "%016" PRIx64 /* a number in a key */
#define KZ__ETCD_RANGES_ASKED 256           /* free ranges at once, at most */

enum { KZ__ETCD_KEY_SIZE = KZ__ETCD_PREFIX_MAX + KZ_SERVICE_SIZE + 80, KZ__ETCD_VALUE_SIZE = KZ__ASIDE_TEXT_MAX + 512 };

typedef struct kz__etcd {
    kz__far far;
    kz__etcd_link *link;
    char name[300]; /* for messages */
    char prefix[KZ__ETCD_PREFIX_MAX + 1];
    int64_t revision;        /* all reads of the attempt are of this one */
    int64_t head_revision;   /* of the header key: nobody wrote since. 0: there is none yet */
    int64_t began_ms;        /* this attempt */
    bool no_memory;          /* for the request that is being built */
    bool repeatable;         /* a commit whose end is not known may be begun anew: its request's rows tell */
    kz__memory_rows *listed; /* the rows of one service, for a listing's next pages */
    char listed_service[KZ_SERVICE_SIZE];
    int64_t listed_revision;
} kz__etcd;

extern const kz__far_store kz__etcd_store;

/* Requests: a value that is appended, and whether that failed since the last time it was asked. */
void kz__etcd_append(kz__etcd *e, json_t *array, json_t *item);
kz_status kz__etcd_memory(kz__etcd *e, kz_error *err);
void kz__etcd_key(const kz__etcd *e, char out[static KZ__ETCD_KEY_SIZE], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
json_t *kz__etcd_encoded(const char *text); /* keys and values are base64 */
void kz__etcd_hex(const uint8_t *bytes, char text[static 2 * KZ_REQUEST_ID_SIZE + 1]);
void kz__etcd_row_text(const kz__row *row, char text[static KZ__ETCD_VALUE_SIZE]);

/* Questions, as of e->revision. A limit of 0 is none. */
void kz__etcd_want(kz__etcd *e, json_t *ops, const char *from, const char *end, int limit, bool keys_only);
void kz__etcd_want_row(kz__etcd *e, json_t *ops, const char *service, uint64_t lo);
void kz__etcd_want_free(kz__etcd *e, json_t *ops, const char *service, uint64_t from, int limit);
void kz__etcd_want_ended(kz__etcd *e, json_t *ops, const char *service, int64_t after_ms, uint64_t lo);
void kz__etcd_want_request(kz__etcd *e, json_t *ops, const char *service, const uint8_t *request);

/* Asks them: *kvs is an array with what each of them found, and *head (may be NULL) the answer's header. */
kz_status kz__etcd_bring(kz__etcd *e, json_t *ops, json_t **kvs, json_t **head, kz_error *err);

/* Answers. KZ_STORE: they make no sense. */
kz_status kz__etcd_nonsense(const kz__etcd *e, const char *what, kz_error *err);
int64_t kz__etcd_number(const json_t *object, const char *field);
void kz__etcd_decoded(const json_t *value, char *text, size_t room);
uint64_t kz__etcd_key_number(const json_t *kv, char text[static KZ__ETCD_KEY_SIZE]);
kz_status kz__etcd_read_row(const kz__etcd *e, const json_t *kv, kz__row *row, kz_error *err);
kz_status kz__etcd_read_service(const kz__etcd *e, const json_t *kv, const char *name, kz__service *out,
                                uint64_t *heights, kz_error *err);
kz_status kz__etcd_tell_rows(const kz__etcd *e, kz__part *part, const json_t *kvs, kz_error *err);
kz_status kz__etcd_tell_free(const kz__etcd *e, kz__part *part, const json_t *kvs, uint64_t from, int limit,
                             kz_error *err);

/* See kz__table_store. */
kz_status kz__etcd_count(kz__table_source *base, const kz__service *like, int64_t before_ms, size_t *left,
                         kz_error *err);
kz_status kz__etcd_page(kz__table_source *base, const kz__transaction *t, const kz_list_from *from,
                        kz_lease_info *lines, size_t room, size_t *count, kz_error *err);
kz_status kz__etcd_health(kz__table_source *base, const kz__transaction *t, kz_source_health *health, kz_error *err);

#endif
