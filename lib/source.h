/* Sources by URL: the registry, and an open source. */
#ifndef KZ_LIB_SOURCE_H
#define KZ_LIB_SOURCE_H

#include <kazahana.h>

struct kz_source {
    const kz_source_ops *ops;
    void *handle; /* the source's own */
    kz_source_facts facts;
    char *url;
    char service[KZ_SERVICE_SIZE];
};

/* `options` as kz_open has read them; `clock` must outlive the source. */
kz_status kz__source_open(kz_source **source, const char *url, const kz_options *options, const kz_clock *clock,
                          kz_error *err);

/* In a forked child: leaves the parent's handle alone. Then opens one of its own, which may fail and be tried again. */
void kz__source_abandon(kz_source *source);
kz_status kz__source_reopen(kz_source *source, const kz_options *options, const kz_clock *clock, kz_error *err);

/* Is it one of the library's own kinds, not a program's? NULL is. */
bool kz__source_is_ours(const char *url);

void kz__source_close(kz_source *source, bool forked);

/* lib/options.c: the caller's options over the defaults, checked. */
kz_status kz__options_read(const kz_options *given, kz_options *options, kz_error *err);

#endif
