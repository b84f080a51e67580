/* Source URLs: scheme, body, and parameters that are all accounted for. */
#ifndef KZ_CORE_URL_H
#define KZ_CORE_URL_H

#include <kazahana.h>

#define KZ__URL_MAX        2048
#define KZ__URL_PARAMS_MAX 16

typedef struct kz__url {
    char text[KZ__URL_MAX]; /* cut into pieces; percent signs in values decoded */
    const char *scheme;     /* "static" */
    const char *body;       /* what stands between the colon and the question mark */
    size_t param_count;
    struct {
        const char *name, *value;
    } params[KZ__URL_PARAMS_MAX];
} kz__url;

/* No message of these shows more of the text than its scheme and the names of parameters: the rest may be a password,
 * or a part of one that was not written as it should be. */
kz_status kz__url_parse(const char *text, kz__url *url, kz_error *err);
kz_status kz__url_no_scheme(const char *text, kz_error *err); /* KZ_INVALID: there is none */

/* For bodies //[login@]host[:port][,host[:port]...][/rest]: KZ_INVALID if what stands where a port does is none, which
 * may be a password without its @. */
kz_status kz__url_ports_check(const kz__url *url, kz_error *err);

/* The value of a parameter, or NULL. */
const char *kz__url_param(const kz__url *url, const char *name);

/* KZ_INVALID, naming it, if a parameter is not in the NULL-terminated list. */
kz_status kz__url_only(const kz__url *url, const char *const *known, kz_error *err);

#endif
