/* What cgo cannot say by itself: calls that hand over Go's callbacks, and options whose texts C must not keep. */
#ifndef KZ_GO_GLUE_H
#define KZ_GO_GLUE_H

#include "kazahana.h"

/* Each generator is one of its own: a second on one fixed node is refused. `log` is a handle of Go's, 0 for none. */
kz_status kz_go_open(kz_generator **gen, const char *url, kz_options *options, uintptr_t log, kz_error *err);

/* Makes http: and https: known, carried by Go's client. */
kz_status kz_go_register_http(kz_error *err);

/* The message of an error, which cgo shows as an array. */
static inline const char *kz_go_message(const kz_error *err)
{
    return err->message;
}

#endif
