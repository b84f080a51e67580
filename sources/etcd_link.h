/* One way to the members of an etcd cluster, over its JSON gateway: a request out, an answer in, within a time. */
#ifndef KZ_SOURCES_ETCD_LINK_H
#define KZ_SOURCES_ETCD_LINK_H

#include "core/url.h"

#include <jansson.h>

typedef struct kz__etcd_link kz__etcd_link;

/* Reads //[user:password@]host[:port][,host[:port]...], ?cacert=, ?cert= and ?key=. Says nothing to anybody yet. No
 * message shows the password. `name` is for messages, and kept. */
kz_status kz__etcd_link_new(kz__etcd_link **link, const kz__url *url, const char *name,
                            const kz_source_options *options, kz_error *err);
/* `forked`: the connections are the parent's, and are left as they are. */
void kz__etcd_link_free(kz__etcd_link *link, bool forked);

/* A call to the source begins: it ends within the timeout. Then: ms left of it. */
void kz__etcd_enter(kz__etcd_link *link);
int64_t kz__etcd_left_ms(const kz__etcd_link *link);
void kz__etcd_wait(kz__etcd_link *link, int64_t most_ms); /* a random part of it */

/* Sends a request (which it takes over) to one member after the other until one answers. `once`: it changes something,
 * so it stops at the first that may have carried it out. KZ_UNAVAILABLE: no answer, or not now; with `once` it may have
 * been carried out, if *doubt says so. KZ_AGAIN: begin anew. KZ_STORE: see to it. */
kz_status kz__etcd_call(kz__etcd_link *link, const char *path, json_t *request, bool once, bool *doubt, json_t **answer,
                        kz_error *err);

/* The time by the members' clocks: our wall clock, held to the second that the lower median of their Dates names.
 * Members are asked at first and every ten minutes; one whose clock differs is named in the log. KZ_STORE: there is no
 * Date in their answers. */
kz_status kz__etcd_time(kz__etcd_link *link, int64_t *now_ms, kz_error *err);

#endif
