/* Releases: how they are signed, and what is checked before a lease is given back. */
#ifndef KZ_CORE_RELEASE_H
#define KZ_CORE_RELEASE_H

#include "core/table.h"

/* Shape and age of a release (KZ_INVALID), in the order: signature of 64 hex digits, timestamp within 30 s of now. */
kz_status kz__release_check(const kz_release *release, int64_t now_ms, kz_error *err);

/* In constant time. */
bool kz__release_signed_with(const kz_release *release, const char *secret);

/* All of a release inside one transaction: the checks above, then the lease, then the signature, then its end. */
kz_status kz__table_release_signed(const kz__rows *rows, kz__service *service, const kz_release *release,
                                   int64_t now_ms, kz_error *err);

#endif
