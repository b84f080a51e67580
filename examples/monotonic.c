/* Introduces kz_mono_* and kz_monouuid_*: nanoseconds that only grow, and UUIDs of them, resumed from the last one. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>
#include <string.h>

static int nanoseconds(void)
{
    kz_error err;
    kz_mono *mono;

    /* The last value that an earlier run stored, here from a clock that stood in the year 2100. */
    const int64_t stored_ns = INT64_C(4102444800000000000);
    if (kz_mono_new(&mono, stored_ns, &err)) {
        fprintf(stderr, "monotonic: %s\n", err.message);
        return 1;
    }
    int result = 0;
    int64_t last_ns = stored_ns;
    for (int i = 0; i < 1000 && result == 0; i++) {
        int64_t next_ns;
        if (kz_mono_next(mono, &next_ns) != KZ_OK || next_ns <= last_ns) {
            fprintf(stderr, "monotonic: a value is not above the one before\n");
            result = 1;
        } else {
            last_ns = next_ns;
        }
    }
    printf("%" PRId64 " ns\n", last_ns);
    kz_mono_free(mono);
    return result;
}

static int uuids(void)
{
    kz_error err;
    kz_uuid last, next;
    kz_monouuid *gen = NULL;
    int result = 1;
    char text[KZ_UUID_TEXT_SIZE];

    if (kz_uuid_from_text("0124e053-3580-7000-8e35-500000100001", &last, &err) ||
        kz_monouuid_new(&gen, 1, &last, &err)) {
        fprintf(stderr, "monotonic: %s\n", err.message);
        goto out;
    }
    for (int i = 0; i < 3; i++) {
        if (kz_monouuid_next(gen, &next) != KZ_OK || memcmp(next.bytes, last.bytes, sizeof next.bytes) <= 0) {
            fprintf(stderr, "monotonic: a UUID is not above the one before\n");
            goto out;
        }
        last = next;
        kz_uuid_text(&next, text);
        printf("%s\n", text);
    }

    uint32_t node;
    int64_t unix_ns;
    if (kz_monouuid_parse(&last, &node, &unix_ns, &err) || node != 1) {
        fprintf(stderr, "monotonic: the UUID does not say node 1\n");
        goto out;
    }
    printf("made by node %" PRIu32 " at %" PRId64 " ns\n", node, unix_ns);
    result = 0;

out:
    kz_monouuid_free(gen);
    return result;
}

int main(void)
{
    return nanoseconds() || uuids();
}
