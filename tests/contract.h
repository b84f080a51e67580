/* What every lease table must do, asked through the interface for sources: one suite for all of them. */
#ifndef KZ_TESTS_CONTRACT_H
#define KZ_TESTS_CONTRACT_H

#include <kazahana.h>

/* A kind of table to run the suite over. */
typedef struct contract_kind {
    const char *name;
    const kz_source_ops *ops;
    /* Makes an empty table and writes its URL, without parameters; false: it cannot be had here (the test is skipped,
     * with `why`). An unused one stands for the process's own table, where tests are told apart by service and time. */
    bool (*set_up)(char url[256], const char **why);
    void (*tear_down)(const char *url);
    /* Does the table take its time from options->clock? Else only what needs no waiting is tested. */
    bool injected_clock;
} contract_kind;

/* Runs the whole suite; returns the number of failed tests. */
int contract_run(const contract_kind *kind);

/* Tells one seeded story to two kinds with injected clocks; they must answer alike. */
int contract_compare(const contract_kind *one, const contract_kind *other);

/* A clock that is set by hand, shared by all sources of the suite. */
extern const kz_clock contract_clock;
void contract_clock_step(int64_t wall_ms, int64_t boot_ms);

#endif
