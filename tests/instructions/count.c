/* Does each call a few and a few more times under callgrind, which writes down how many instructions that took. The
 * difference is that of the calls alone: what happens once cancels out. tests/instructions/check does the sums. */
#include "cli/next/idlines.h"
#include "lib/generator.h"

#include <kazahana.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

enum { FEW = 1000, MORE = 3000, BATCH = 64, ROUNDS = 5 };

/* A clock that stands, or goes on by a step with every reading. */
typedef struct hand_clock {
    int64_t wall_ns, step_ns;
} hand_clock;

static int64_t read_hand_clock(void *ctx)
{
    hand_clock *c = ctx;
    return c->wall_ns += c->step_ns;
}

static void sleep_on_hand_clock(void *ctx, int64_t ns)
{
    ((hand_clock *)ctx)->wall_ns += ns;
}

static kz_generator *standing, *stepping, *real;
static kz_mono *mono;
static kz_monouuid *uuids;
static kz_external_keys *speck, *xtea;
static kz_form form;
static const kz_external_keys *keys;

static void must(kz_status status, const char *what)
{
    if (status == KZ_OK)
        return;
    fprintf(stderr, "count: %s: %s\n", what, kz_status_text(status));
    exit(1);
}

static kz_generator *open_generator(const char *layout, hand_clock *hand)
{
    kz_clock clock = {
        .wall_ns = read_hand_clock, .boot_ns = read_hand_clock, .sleep_ns = sleep_on_hand_clock, .ctx = hand};
    kz_options options;
    kz_generator *gen;
    kz_error err;
    kz_options_init(&options);
    options.layout = layout;
    options.use_clock = hand ? &clock : NULL;
    if (kz_open(&gen, "static:1", &options, &err)) {
        fprintf(stderr, "count: %s\n", err.message);
        exit(1);
    }
    return gen;
}

/* True when the calls read the tick counter instead of the clock, which takes some milliseconds. */
static bool quick_way_opens(kz_generator *gen)
{
    time_t give_up = time(NULL) + 3;
    kz_id id;
    while (!gen->hot->rate.per_ms && time(NULL) < give_up)
        must(kz_next(gen, &id), "kz_next");
    return gen->hot->rate.per_ms != 0;
}

/* ---------------------------------------------------------------------------------------------- what is counted */

static void next_standing(int calls)
{
    kz_id id;
    for (int i = 0; i < calls; i++)
        must(kz_next(standing, &id), "kz_next");
}

static void try_next_standing(int calls)
{
    kz_id id;
    for (int i = 0; i < calls; i++)
        must(kz_try_next(standing, &id), "kz_try_next");
}

static void next_stepping(int calls)
{
    kz_id id;
    for (int i = 0; i < calls; i++)
        must(kz_next(stepping, &id), "kz_next");
}

static void batch_standing(int calls)
{
    kz_id ids[BATCH];
    for (int i = 0; i < calls; i++)
        must(kz_next_batch(standing, ids, BATCH), "kz_next_batch");
}

static void next_real(int calls)
{
    kz_id id;
    for (int i = 0; i < calls; i++)
        must(kz_next(real, &id), "kz_next");
}

static void try_next_real(int calls)
{
    kz_id id;
    for (int i = 0; i < calls; i++)
        must(kz_try_next(real, &id), "kz_try_next");
}

static void batch_real(int calls)
{
    kz_id ids[BATCH];
    for (int i = 0; i < calls; i++)
        must(kz_next_batch(real, ids, BATCH), "kz_next_batch");
}

static void mono_at(int calls)
{
    int64_t ns;
    for (int i = 0; i < calls; i++)
        must(kz_mono_next_at(mono, i, &ns), "kz_mono_next_at");
}

static void monouuid_at(int calls)
{
    kz_uuid uuid;
    for (int i = 0; i < calls; i++)
        must(kz_monouuid_next_at(uuids, i, &uuid), "kz_monouuid_next_at");
}

static void external(int calls)
{
    char text[KZ_EXTERNAL_SIZE];
    for (int i = 0; i < calls; i++)
        kz_external_encode(keys, UINT64_C(116264089600000000) + (unsigned)i, text);
}

static void text(int calls)
{
    char text[KZ_TEXT_SIZE];
    for (int i = 0; i < calls; i++)
        kz_text(UINT64_C(116264089600000000) + (unsigned)i, form, text);
}

static void lines(int calls)
{
    static struct id_lines of_form;
    static kz_id ids[MORE];
    static char written[MORE * ID_LINE_ROOM];
    id_lines_begin(&of_form, (enum id_format)form, NULL);
    for (int i = 0; i < calls; i++)
        ids[i] = UINT64_C(116264089600000000) + (unsigned)i;
    id_lines_write(&of_form, ids, (size_t)calls, written);
}

/* ------------------------------------------------------------------------------------------------- the counting */

static void count(const char *name, void (*calls)(int))
{
    char mark[64];
    calls(FEW);
    for (int round = 0; round < ROUNDS; round++) {
        CALLGRIND_ZERO_STATS;
        calls(FEW);
        snprintf(mark, sizeof mark, "%s %d", name, FEW);
        CALLGRIND_DUMP_STATS_AT(mark);
        CALLGRIND_ZERO_STATS;
        calls(MORE);
        snprintf(mark, sizeof mark, "%s %d", name, MORE);
        CALLGRIND_DUMP_STATS_AT(mark);
    }
}

static void count_texts(void)
{
    static const struct {
        const char *text, *line;
        kz_form form;
    } forms[] = {{"text-decimal", "line-decimal", KZ_DECIMAL},
                 {"text-hex", "line-hex", KZ_HEX},
                 {"text-base32", "line-base32", KZ_BASE32},
                 {"text-base62", "line-base62", KZ_BASE62},
                 {"text-base64url", "line-base64url", KZ_BASE64URL}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        form = forms[i].form;
        count(forms[i].text, text);
        count(forms[i].line, lines);
    }
}

static void count_externals(void)
{
    static const char speck_line[] = "0 speck 000102030405060708090a0b0c0d0e0f";
    static const char xtea_line[] = "1 xtea 000102030405060708090a0b0c0d0e0f";
    must(kz_external_keys_parse(&speck, speck_line, strlen(speck_line), NULL), "key");
    must(kz_external_keys_parse(&xtea, xtea_line, strlen(xtea_line), NULL), "key");
    count("external-mixer", external);
    keys = speck;
    count("external-speck", external);
    keys = xtea;
    count("external-xtea", external);
    kz_external_keys_free(speck);
    kz_external_keys_free(xtea);
}

int main(void)
{
    const int64_t at_ns = INT64_C(1800000000000000000);
    hand_clock stands = {.wall_ns = at_ns}, steps = {.wall_ns = at_ns, .step_ns = 1000000};
    if (!RUNNING_ON_VALGRIND) {
        fprintf(stderr, "count: tests/instructions/check runs this under valgrind\n");
        return 2;
    }
#ifdef __clang__
    puts("clang");
#else
    puts("gcc");
#endif
    standing = open_generator("41-1-21@2026-01-01", &stands);
    stepping = open_generator("41-2-20@2026-01-02", &steps);
    real = open_generator("41-2-20@2026-01-03", NULL);
    must(kz_mono_new(&mono, 0, NULL), "kz_mono_new");
    must(kz_monouuid_new(&uuids, 1, NULL, NULL), "kz_monouuid_new");

    count("next", next_standing);
    count("try-next", try_next_standing);
    count("next-batch-64", batch_standing);
    count("next-new-ms", next_stepping);
    if (quick_way_opens(real)) {
        count("next-quick", next_real);
        count("try-next-quick", try_next_real);
        count("next-batch-64-quick", batch_real);
    } else {
        printf("no tick counter here: the quick way is not counted\n");
    }
    count("mono-next-at", mono_at);
    count("monouuid-next-at", monouuid_at);
    count_externals();
    count_texts();

    kz_monouuid_free(uuids);
    kz_mono_free(mono);
    kz_close(real);
    kz_close(stepping);
    kz_close(standing);
    return 0;
}
