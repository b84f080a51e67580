/* What is measured of kazahana. Each fill does one call, or one batch, for each result. */
#ifndef KZ_BENCH_OURS_H
#define KZ_BENCH_OURS_H

#include "bench/measure.h"
#include "cli/next/idlines.h"

#include <kazahana.h>

/* A generator and what it has given. */
typedef struct minter {
    kz_generator *gen;
    ledger ids;
} minter;

/* Opens it and mints until its quick way is ready. Says what is wrong and exits if it cannot. */
void minter_open(minter *m, const char *name, const char *url, const char *layout, kz_clock_kind clock);
/* Another thread mints one ID and ends; then this one mints for a second. */
void minter_disturb(minter *m);
void minter_close(minter *m);

/* Gives the generator this many live rectangles of 1 << height slots each, in place of what it held. */
void minter_hold(minter *m, size_t rects, unsigned height);

#define BATCH 64

void fill_with_next(void *minter, void *ids, size_t count);
void fill_with_batches(void *minter, void *ids, size_t count);
void check_minted(void *minter, const void *ids, size_t count, moment when);

typedef struct mono {
    kz_mono *gen;
    ledger values;
} mono;

void mono_open(mono *m, const char *name);
void fill_with_mono(void *mono, void *unix_ns, size_t count);
void check_mono(void *mono, const void *unix_ns, size_t count, moment when);

typedef struct monouuid {
    kz_monouuid *gen;
    kz_uuid last;
    ledger values;
} monouuid;

void monouuid_open(monouuid *m);
void fill_with_monouuid(void *monouuid, void *uuids, size_t count);
void check_monouuid(void *monouuid, const void *uuids, size_t count, moment when);

/* IDs turned into texts, which are read back while no time is taken. */
typedef struct printer {
    kz_external_keys *keys;
    kz_form form;
    struct id_lines lines;
    kz_id ids[1024];
    ledger texts;
} printer;

typedef struct printed {
    char text[KZ_TEXT_SIZE];
} printed;

/* Room for one line; the lines stand in it without gaps, as a program prints them. */
typedef struct printed_line {
    char room[ID_LINE_ROOM];
} printed_line;

/* `key_line` as in a key file; NULL: no keys. */
void printer_open(printer *p, const char *name, kz_form form, const char *key_line, minter *from);
void fill_with_texts(void *printer, void *texts, size_t count);
void check_texts(void *printer, const void *texts, size_t count, moment when);
void fill_with_lines(void *printer, void *lines, size_t count);
void check_lines(void *printer, const void *lines, size_t count, moment when);
void fill_with_externals(void *printer, void *texts, size_t count);
void check_externals(void *printer, const void *texts, size_t count, moment when);

#endif
