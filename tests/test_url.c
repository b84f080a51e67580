/* Source URLs: what is read, and what is refused. */
#include "random.h"
#include "test.h"

#include "core/url.h"

#include <stdio.h>

static void assert_refused(const char *text, const char *part)
{
    kz__url url;
    kz_error err;
    assert_status(kz__url_parse(text, &url, &err), KZ_INVALID);
    assert_int_equal(err.status, KZ_INVALID);
    assert_contains(err.message, part);
    assert_status(kz__url_parse(text, &url, NULL), KZ_INVALID);
}

static void scheme_and_body_stand_before_and_behind_the_first_colon(void **state)
{
    (void)state;
    kz__url url;
    assert_ok(kz__url_parse("static:7", &url, NULL));
    assert_string_equal(url.scheme, "static");
    assert_string_equal(url.body, "7");
    assert_int_equal(url.param_count, 0);
    assert_ok(kz__url_parse("redis://:secret@host:6379/0", &url, NULL));
    assert_string_equal(url.scheme, "redis");
    assert_string_equal(url.body, "//:secret@host:6379/0");
    assert_ok(kz__url_parse("standalone:", &url, NULL));
    assert_string_equal(url.body, "");
}

static void parameters_are_found_by_their_names(void **state)
{
    (void)state;
    kz__url url;
    assert_ok(kz__url_parse("env:W?default=0&state=/var/lib/a?b=c", &url, NULL));
    assert_string_equal(url.body, "W");
    assert_int_equal(url.param_count, 2);
    assert_string_equal(kz__url_param(&url, "default"), "0");
    assert_string_equal(kz__url_param(&url, "state"), "/var/lib/a?b=c");
    assert_null(kz__url_param(&url, "stat"));
    assert_null(kz__url_param(&url, ""));
    assert_ok(kz__url_parse("static:7?state=", &url, NULL));
    assert_string_equal(kz__url_param(&url, "state"), "");
}

static void percent_signs_in_values_are_decoded(void **state)
{
    (void)state;
    kz__url url;
    assert_ok(kz__url_parse("static:7?state=/a%20b%26c%3Dd%2fe%2Ff%25", &url, NULL));
    assert_string_equal(kz__url_param(&url, "state"), "/a b&c=d/e/f%");
    assert_int_equal(url.param_count, 1);
    assert_ok(kz__url_parse("static:7?state=%ff%01", &url, NULL));
    assert_string_equal(kz__url_param(&url, "state"), "\xff\x01");
}

static void what_is_no_url_is_refused_with_the_offending_piece(void **state)
{
    (void)state;
    assert_refused("", "is not a URL");
    assert_refused("static", "\"static\"");
    assert_refused("7", "static:7");
    assert_refused(":7", "is not a URL");
    assert_refused("static:7?state", "parameter 1");
    assert_refused("static:7?", "name=value");
    assert_refused("static:7?=x", "name=value");
    assert_refused("static:7?a=b&", "name=value");
    assert_refused("static:7?a=b&&c=d", "name=value");
    assert_refused("static:7?a=1&b=2&a=3", "a is given twice");
    assert_refused("static:7?a/b=1", "name=value");
    const char *const percents[] = {"%", "%2", "%2g", "%g2", "%00", "%%20", "x%2"};
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "static:7?state=%s", percents[i]);
        assert_refused(text, "two hex digits");
    }
}

static void lengths_and_numbers_of_parameters_have_limits(void **state)
{
    (void)state;
    char text[KZ__URL_MAX + 1] = "static:";
    kz__url url;
    memset(text + 7, '1', sizeof text - 8);
    text[sizeof text - 1] = 0;
    text[KZ__URL_MAX - 1] = 0;
    assert_ok(kz__url_parse(text, &url, NULL));
    assert_int_equal(strlen(url.body), KZ__URL_MAX - 1 - 7);
    text[KZ__URL_MAX - 1] = '1';
    text[KZ__URL_MAX] = 0;
    assert_refused(text, "too long");

    char many[256] = "static:7?";
    for (int i = 0; i < KZ__URL_PARAMS_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%sp%d=%d", i ? "&" : "", i, i);
    assert_ok(kz__url_parse(many, &url, NULL));
    assert_string_equal(kz__url_param(&url, "p15"), "15");
    strcat(many, "&one=more");
    assert_refused(many, "more than 16");
}

static void a_parameter_that_is_not_known_is_named(void **state)
{
    (void)state;
    static const char *const known[] = {"default", "state", NULL}, *const none[] = {NULL};
    kz__url url;
    kz_error err;
    assert_ok(kz__url_parse("env:W?default=0&state=x", &url, NULL));
    assert_ok(kz__url_only(&url, known, &err));
    assert_status(kz__url_only(&url, none, &err), KZ_INVALID);
    assert_contains(err.message, "takes none");
    assert_ok(kz__url_parse("env:W?State=x", &url, NULL));
    assert_status(kz__url_only(&url, known, &err), KZ_INVALID);
    assert_contains(err.message, "\"State\"");
    assert_contains(err.message, "default, state");
    assert_ok(kz__url_parse("env:W", &url, NULL));
    assert_ok(kz__url_only(&url, none, &err));
}

static void random_bytes_never_lead_outside_the_text(void **state)
{
    (void)state;
    static const char alphabet[] = "static:env?&&==%%0123456789abcdefxyz/\x01\xff";
    uint64_t random = 4;
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t length = test_random(&random) % (sizeof text - 1);
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[test_random(&random) % (sizeof alphabet - 1)];
        text[length] = 0;
        kz__url url;
        if (kz__url_parse(text, &url, NULL))
            continue;
        const char *end = url.text + length + 1;
        assert_true(url.scheme == url.text && url.body > url.scheme && url.body < end);
        for (size_t i = 0; i < url.param_count; i++)
            assert_true(url.params[i].name > url.body && url.params[i].value > url.params[i].name &&
                        url.params[i].value < end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scheme_and_body_stand_before_and_behind_the_first_colon),
        cmocka_unit_test(parameters_are_found_by_their_names),
        cmocka_unit_test(percent_signs_in_values_are_decoded),
        cmocka_unit_test(what_is_no_url_is_refused_with_the_offending_piece),
        cmocka_unit_test(lengths_and_numbers_of_parameters_have_limits),
        cmocka_unit_test(a_parameter_that_is_not_known_is_named),
        cmocka_unit_test(random_bytes_never_lead_outside_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
