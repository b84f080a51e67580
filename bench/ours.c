/* What is measured of kazahana. Each fill does one call, or one batch, for each result. */
#include "bench/ours.h"

#include "lib/generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(2);
}

/* At least once. */
static void mint_for(minter *m, int64_t for_ns)
{
    int64_t end_ns = (int64_t)kz__clock_ns(CLOCK_MONOTONIC) + for_ns;
    do {
        moment when = {.before_ns = (int64_t)kz__clock_ns(CLOCK_REALTIME)};
        kz_id id;
        fill_with_next(m, &id, 1);
        when.after_ns = (int64_t)kz__clock_ns(CLOCK_REALTIME);
        check_minted(m, &id, 1, when);
    } while ((int64_t)kz__clock_ns(CLOCK_MONOTONIC) < end_ns);
}

void minter_open(minter *m, const char *name, const char *url, const char *layout, kz_clock_kind clock)
{
    enum { READY_NS = 5000000 }; /* by then the rate of the tick counter is known */
    kz_options options;
    kz_error err;
    kz_layout parsed;
    kz_options_init(&options);
    options.layout = layout;
    options.clock = clock;
    if (kz_layout_parse(layout, &parsed, &err) || kz_open(&m->gen, url, &options, &err))
        die(name, err.message);
    m->ids =
        (ledger){.name = name, .time_shift = (unsigned)parsed.node_bits + parsed.seq_bits, .epoch_ms = parsed.epoch_ms};
    mint_for(m, READY_NS);
}

static void *mint_one(void *arg)
{
    mint_for(arg, 0);
    return NULL;
}

void minter_disturb(minter *m)
{
    pthread_t other;
    if (pthread_create(&other, NULL, mint_one, m) || pthread_join(other, NULL))
        die(m->ids.name, "no thread");
    mint_for(m, 1000000000);
}

void minter_close(minter *m)
{
    kz_close(m->gen);
    m->gen = NULL;
}

void minter_hold(minter *m, size_t rects, unsigned height)
{
    kz__hot *hot = m->gen->hot;
    kz__rect *held = calloc(rects, sizeof *held);
    if (!held)
        die(m->ids.name, "out of memory");
    for (size_t i = 0; i < rects; i++)
        held[i] = (kz__rect){.slot = (uint64_t)i << height,
                             .end_ms = kz__end_of_time_ms(&m->gen->layout),
                             .height = (uint8_t)height,
                             .rank = KZ__LEASED};
    pthread_mutex_lock(&hot->lock);
    kz__freeze(hot);
    free(hot->rects);
    hot->rects = m->gen->rects_memory = held;
    hot->rect_count = hot->rect_room = rects;
    pthread_mutex_unlock(&hot->lock);
}

void fill_with_next(void *ctx, void *results, size_t count)
{
    kz_generator *gen = ((minter *)ctx)->gen;
    kz_id *ids = results;
    for (size_t i = 0; i < count; i++) {
        kz_status status = kz_next(gen, &ids[i]);
        if (status)
            die("kz_next", kz_status_text(status));
    }
}

void fill_with_batches(void *ctx, void *results, size_t count)
{
    kz_generator *gen = ((minter *)ctx)->gen;
    kz_id *ids = results;
    for (size_t i = 0; i < count; i += BATCH) {
        kz_status status = kz_next_batch(gen, ids + i, BATCH);
        if (status)
            die("kz_next_batch", kz_status_text(status));
    }
}

void check_minted(void *ctx, const void *ids, size_t count, moment when)
{
    check_alone(&((minter *)ctx)->ids, ids, count, when);
}

/* ------------------------------------------------------------------------------------------- nanoseconds */

void mono_open(mono *m, const char *name)
{
    kz_error err;
    m->values = (ledger){.name = name};
    if (kz_mono_new(&m->gen, 0, &err))
        die("kz_mono_new", err.message);
}

void fill_with_mono(void *ctx, void *results, size_t count)
{
    kz_mono *gen = ((mono *)ctx)->gen;
    int64_t *unix_ns = results;
    for (size_t i = 0; i < count; i++) {
        kz_status status = kz_mono_next(gen, &unix_ns[i]);
        if (status)
            die("kz_mono_next", kz_status_text(status));
    }
}

void check_mono(void *ctx, const void *unix_ns, size_t count, moment when)
{
    check_alone(&((mono *)ctx)->values, unix_ns, count, when);
}

void monouuid_open(monouuid *m)
{
    kz_error err;
    m->values = (ledger){.name = "kz_monouuid_next"};
    if (kz_monouuid_new(&m->gen, 1, NULL, &err))
        die("kz_monouuid_new", err.message);
}

void fill_with_monouuid(void *ctx, void *results, size_t count)
{
    kz_monouuid *gen = ((monouuid *)ctx)->gen;
    kz_uuid *uuids = results;
    for (size_t i = 0; i < count; i++) {
        kz_status status = kz_monouuid_next(gen, &uuids[i]);
        if (status)
            die("kz_monouuid_next", kz_status_text(status));
    }
}

void check_monouuid(void *ctx, const void *results, size_t count, moment when)
{
    (void)when;
    monouuid *m = ctx;
    const kz_uuid *uuids = results;
    for (size_t i = 0; i < count; i++) {
        int order = memcmp(&m->last, &uuids[i], sizeof m->last);
        m->values.twins += order == 0;
        m->values.disorder += order > 0;
        m->values.garbled += !kz_monouuid_valid(&uuids[i]);
        m->last = uuids[i];
    }
    m->values.checked += count;
}

/* ------------------------------------------------------------------------------------------- texts */

void printer_open(printer *p, const char *name, kz_form form, const char *key_line, minter *from)
{
    kz_error err;
    p->texts = (ledger){.name = name};
    p->form = form;
    id_lines_begin(&p->lines, (enum id_format)form, NULL);
    if (key_line && kz_external_keys_parse(&p->keys, key_line, strlen(key_line), &err))
        die(name, err.message);
    fill_with_batches(from, p->ids, sizeof p->ids / sizeof *p->ids);
}

void fill_with_texts(void *ctx, void *results, size_t count)
{
    printer *p = ctx;
    printed *texts = results;
    for (size_t i = 0; i < count; i++)
        kz_text(p->ids[i], p->form, texts[i].text);
}

void check_texts(void *ctx, const void *results, size_t count, moment when)
{
    (void)when;
    printer *p = ctx;
    const printed *texts = results;
    for (size_t i = 0; i < count; i++) {
        kz_id id;
        p->texts.garbled += kz_text_parse(texts[i].text, p->form, &id, NULL) != KZ_OK || id != p->ids[i];
    }
    p->texts.checked += count;
}

void fill_with_lines(void *ctx, void *results, size_t count)
{
    printer *p = ctx;
    id_lines_write(&p->lines, p->ids, count, results);
}

void check_lines(void *ctx, const void *results, size_t count, moment when)
{
    (void)when;
    printer *p = ctx;
    const char *at = results;
    for (size_t i = 0; i < count; i++) {
        printed expected;
        size_t length = kz_text(p->ids[i], p->form, expected.text);
        p->texts.garbled += memcmp(at, expected.text, length) != 0 || at[length] != '\n';
        at += length + 1;
    }
    p->texts.checked += count;
}

void fill_with_externals(void *ctx, void *results, size_t count)
{
    printer *p = ctx;
    printed *texts = results;
    for (size_t i = 0; i < count; i++)
        kz_external_encode(p->keys, p->ids[i], texts[i].text);
}

void check_externals(void *ctx, const void *results, size_t count, moment when)
{
    (void)when;
    printer *p = ctx;
    const printed *texts = results;
    for (size_t i = 0; i < count; i++) {
        kz_id id;
        p->texts.garbled += kz_external_decode(p->keys, texts[i].text, &id, NULL) != KZ_OK || id != p->ids[i];
    }
    p->texts.checked += count;
}
