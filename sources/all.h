/* The list of sources: adding one is a file and two lines here. What the build leaves out is not in it. */
#ifndef KZ_SOURCES_ALL_H
#define KZ_SOURCES_ALL_H

#include <kazahana.h>

extern const kz_source_ops kz__source_static, kz__source_env, kz__source_standalone, kz__source_memory,
    kz__source_sqlite, kz__source_redis, kz__source_rediss, kz__source_redis_sentinel, kz__source_rediss_sentinel,
    kz__source_tsid_redis, kz__source_tsid_rediss, kz__source_http, kz__source_https, kz__source_http_unix,
    kz__source_postgres, kz__source_postgresql, kz__source_etcd, kz__source_etcds;

#ifdef KZ_HAVE_SQLITE
#define KZ__SOURCE_SQLITE &kz__source_sqlite,
#else
#define KZ__SOURCE_SQLITE
#endif

#ifdef KZ_HAVE_REDIS
#define KZ__SOURCE_REDIS                                                                                               \
    &kz__source_redis, &kz__source_rediss, &kz__source_redis_sentinel, &kz__source_rediss_sentinel,                    \
        &kz__source_tsid_redis, &kz__source_tsid_rediss,
#else
#define KZ__SOURCE_REDIS
#endif

#ifdef KZ_HAVE_HTTP
#define KZ__SOURCE_HTTP &kz__source_http, &kz__source_https, &kz__source_http_unix,
#else
#define KZ__SOURCE_HTTP
#endif

#ifdef KZ_HAVE_POSTGRES
#define KZ__SOURCE_POSTGRES &kz__source_postgres, &kz__source_postgresql,
#else
#define KZ__SOURCE_POSTGRES
#endif

#ifdef KZ_HAVE_ETCD
#define KZ__SOURCE_ETCD &kz__source_etcd, &kz__source_etcds,
#else
#define KZ__SOURCE_ETCD
#endif

#define KZ__SOURCES_BUILT_IN                                                                                           \
    &kz__source_static, &kz__source_env, &kz__source_standalone, &kz__source_memory,                                   \
        KZ__SOURCE_SQLITE KZ__SOURCE_REDIS KZ__SOURCE_HTTP KZ__SOURCE_POSTGRES KZ__SOURCE_ETCD

#endif
