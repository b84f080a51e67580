/* Options as texts: each is read, wrong ones are named and change nothing, and the table says what there is. */
#include "test.h"

#include <kazahana.h>

static kz_options options;
static kz_error err;

static kz_status set(const char *name, const char *text)
{
    err = (kz_error){0};
    return kz_options_set(&options, name, text, &err);
}

static void refuse(const char *name, const char *text, const char *says)
{
    kz_options before = options;
    assert_status(set(name, text), KZ_INVALID);
    assert_memory_equal(&before, &options, sizeof before);
    assert_memory_equal(err.message, name, strlen(name));
    assert_contains(err.message, says);
    assert_contains(err.message, text);
}

static void each_option_is_set_by_its_name(void **state)
{
    (void)state;
    kz_options_init(&options);
    assert_ok(set("service", "payments"));
    assert_string_equal(options.service, "payments");
    assert_ok(set("layout", "41-12-10@2026-01-01"));
    assert_string_equal(options.layout, "41-12-10@2026-01-01");
    assert_ok(set("fallback", "any"));
    assert_int_equal(options.fallback, KZ_FALLBACK_ANY);
    assert_ok(set("backward", "fail"));
    assert_int_equal(options.backward, KZ_BACKWARD_FAIL);
    assert_ok(set("backward", "wait:20s"));
    assert_int_equal(options.backward, KZ_BACKWARD_WAIT);
    assert_int_equal(options.max_backward_ms, 20000);
    assert_ok(set("backward", "wait:forever"));
    assert_int_equal(options.max_backward_ms, -1);
    assert_ok(set("throughput", "16:4096"));
    assert_int_equal(options.throughput_min_per_ms, 16);
    assert_int_equal(options.throughput_max_per_ms, 4096);
    assert_ok(set("throughput", "300"));
    assert_int_equal(options.throughput_min_per_ms, 300);
    assert_int_equal(options.throughput_max_per_ms, 300);
    assert_ok(set("timeout", "250"));
    assert_int_equal(options.timeout_ms, 250);
    assert_ok(set("timeout", "2min"));
    assert_int_equal(options.timeout_ms, 120000);
    assert_ok(set("timeout", "-1"));
    assert_int_equal(options.timeout_ms, -1);
    assert_ok(set("seq-start", "random"));
    assert_int_equal(options.seq_start, KZ_SEQ_RANDOM);
    assert_ok(set("seq_start", "zero"));
    assert_int_equal(options.seq_start, KZ_SEQ_ZERO);
    assert_ok(set("clock", "coarse"));
    assert_int_equal(options.clock, KZ_CLOCK_COARSE);
    assert_ok(set("max_ahead", "1h"));
    assert_int_equal(options.max_ahead_ms, 3600000);
    assert_ok(set("renew_at", "0.75"));
    assert_true(options.renew_at > 0.74 && options.renew_at < 0.76);
    assert_ok(set("retry_initial", "2s"));
    assert_ok(set("retry_max", "1min"));
    assert_int_equal(options.retry_initial_ms, 2000);
    assert_int_equal(options.retry_max_ms, 60000);
    assert_ok(set("meta", "{\"a\":\"b\"}"));
    assert_string_equal(options.meta, "{\"a\":\"b\"}");
    assert_ok(set("max_services", "7"));
    assert_int_equal(options.max_services, 7);
}

static void what_is_no_value_is_named_and_changes_nothing(void **state)
{
    (void)state;
    kz_options_init(&options);
    refuse("service", "a b", "name of a service");
    refuse("layout", "41-12", "");
    refuse("fallback", "maybe", "never, fenced, any");
    refuse("backward", "wait:2d", "at most a day");
    refuse("backward", "wait:-1", "wait:forever");
    refuse("throughput", "4:2", "MIN must be at least 1 and at most MAX");
    refuse("throughput", "0", "MIN must be at least 1");
    refuse("throughput", "256:99999999999", "MIN:MAX");
    refuse("throughput", "111111111111111111111111111111111111111111", "MIN:MAX");
    refuse("timeout", "soon", "not a duration");
    refuse("timeout", "99999999999999999999", "");
    refuse("clock", "", "precise, coarse");
    refuse("max_ahead", "25h", "between");
    refuse("renew_at", "1", "0.99");
    refuse("renew_at", "nan", "0.1");
    refuse("max_services", "4294967296", "4294967295");
    assert_status(set("colour", "blue"), KZ_NOT_FOUND);
    assert_contains(err.message, "colour");
    assert_status(set("fallback_", "any"), KZ_NOT_FOUND);
    assert_status(kz_options_set(&options, "timeout", "soon", NULL), KZ_INVALID);
}

static void options_without_a_size_are_refused(void **state)
{
    (void)state;
    options = (kz_options){0};
    assert_status(set("timeout", "1"), KZ_INVALID);
    assert_contains(err.message, "kz_options_init");
}

/* What the table says a value looks like is what is taken. */
static void the_table_tells_names_and_choices(void **state)
{
    (void)state;
    const kz_option_info *info;
    size_t count = 0, choices = 0;
    kz_options_init(&options);
    for (; (info = kz_option_at(count)); count++) {
        assert_true(*info->name && *info->takes && *info->help);
        assert_status(set(info->name, "\x01"), strcmp(info->name, "meta") == 0 ? KZ_OK : KZ_INVALID);
        char takes[64];
        assert_true(strlen(info->takes) < sizeof takes);
        strcpy(takes, info->takes);
        for (char *at = takes, *one; strchr(info->takes, '|') && (one = strsep(&at, "|"));) {
            char *ms = strstr(one, ":MS");
            if (ms)
                strcpy(ms, ":5");
            assert_ok(set(info->name, one));
            choices++;
        }
    }
    assert_true(count >= 13);
    assert_true(choices >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_is_set_by_its_name),
        cmocka_unit_test(what_is_no_value_is_named_and_changes_nothing),
        cmocka_unit_test(options_without_a_size_are_refused),
        cmocka_unit_test(the_table_tells_names_and_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
