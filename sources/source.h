/* What a source of rectangles is: one small file for each kind, which ends with its table of functions. */
#ifndef KZ_SOURCES_SOURCE_H
#define KZ_SOURCES_SOURCE_H

#include "core/plane.h"
#include "lib/url.h"

typedef struct kz__source_ops kz__source_ops;

/* The part every source has; a source's own struct begins with it. */
typedef struct kz__source {
    const kz__source_ops *ops;
    kz_layout layout; /* of every ID minted from it */
    double renew_at;  /* the part of a window after which the next one is asked for */
} kz__source;

/* What the caller wants, handed to open. */
typedef struct kz__source_want {
    const kz_layout *layout; /* NULL: the source's own default */
    kz_fallback fallback;
} kz__source_want;

/* One rectangle, to be added to what the generator holds. */
typedef struct kz__grant {
    kz__rect rect;
    kz_id resume;     /* nothing below may be minted, whatever the window: a mark that was found on disk */
    int64_t grace_ms; /* how far such a mark may be ahead of the clock by design */
} kz__grant;

struct kz__source_ops {
    const char *scheme;
    kz_status (*open)(kz__source **source, const kz__url *url, const kz__source_want *want, kz_error *err);
    /* Grants a window that covers `from_ms` (ID time) and some time after it. Never overlaps what it granted before.
     * May block on I/O: called by kz_open and by the keeper's thread, never by a minter. */
    kz_status (*acquire)(kz__source *source, uint64_t from_ms, kz__grant *grant, kz_error *err);
    /* The generator is done; it used nothing at or above `next`. NULL if there is nothing to give back. */
    kz_status (*release)(kz__source *source, kz_id next, kz_error *err);
    /* `forked`: in a child that must leave alone what it shares with its parent. */
    void (*close)(kz__source *source, bool forked);
};

/* The source for a URL's scheme, or NULL. */
const kz__source_ops *kz__source_find(const char *scheme);

/* Lists the schemes for a message: "static:, env:, standalone:". */
const char *kz__source_schemes(void);

extern const kz__source_ops kz__source_static, kz__source_env, kz__source_standalone;

#endif
