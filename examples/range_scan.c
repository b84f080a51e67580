/* Introduces kz_layout_parse, kz_layout_describe, kz_time_parse, kz_time_text, kz_min_id and kz_max_id: the IDs of a
 * span of time, for an index scan instead of a column with the time of creation. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>

int main(void)
{
    kz_error err;
    kz_layout layout;
    int64_t since_ms, until_ms;
    kz_id low, high;
    kz_parts parts;

    if (kz_layout_parse("discord", &layout, &err) || kz_time_parse("2016-04-30", &since_ms, &err) ||
        kz_time_parse("2016-04-30T23:59:59.999Z", &until_ms, &err) || kz_min_id(&layout, since_ms, &low, &err) ||
        kz_max_id(&layout, until_ms, &high, &err)) {
        fprintf(stderr, "range_scan: %s\n", err.message);
        return 1;
    }
    printf("SELECT * FROM message WHERE id BETWEEN %" PRIu64 " AND %" PRIu64 ";\n", low, high);

    /* An ID of that day lies within, and says when it was made. */
    const kz_id known = 175928847299117063u;
    if (known < low || known > high) {
        fprintf(stderr, "range_scan: an ID of that day is not in its range\n");
        return 1;
    }
    if (kz_decode(&layout, known, &parts, &err)) {
        fprintf(stderr, "range_scan: %s\n", err.message);
        return 1;
    }
    char made[KZ_TIME_TEXT_SIZE];
    kz_time_text(parts.unix_ms, made);
    printf("%" PRIu64 " was made at %s\n", known, made);

    /* The span outside a layout's life has no IDs at all. */
    kz_layout_facts facts;
    kz_layout_describe(&layout, &facts);
    if (kz_min_id(&layout, facts.first_unix_ms - 1, &low, &err) != KZ_INVALID) {
        fprintf(stderr, "range_scan: an ID before the epoch\n");
        return 1;
    }
    char last[KZ_TIME_TEXT_SIZE];
    kz_time_text(facts.last_unix_ms, last);
    printf("the layout lasts until %s\n", last);
    return 0;
}
