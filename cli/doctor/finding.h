/* One result of kazahana doctor: what was found and what to do about it. */
#ifndef CLI_FINDING_H
#define CLI_FINDING_H

#include "cli/output.h"

enum finding_level { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct findings {
    struct output *out;
    bool json;
    int failed; /* how many */
};

/* Prints it at once: later checks may take their time. `advice` may be NULL. */
__attribute__((format(printf, 5, 6))) void findings_add(struct findings *findings, enum finding_level level,
                                                        const char *check, const char *advice, const char *format, ...);

#endif
