/* Who gets IDs next when several wait. */
#include "test.h"

#include "server/turns.h"

static turns all;
static turn ones[200];

static int setup(void **state)
{
    (void)state;
    memset(&all, 0, sizeof all);
    memset(ones, 0, sizeof ones);
    return 0;
}

static turn *add(size_t number, size_t count)
{
    ones[number].count = count;
    turns_add(&all, &ones[number]);
    return &ones[number];
}

/* One turn of whoever's it is; who that was, or -1. */
static int step(size_t piece)
{
    turn *one = turns_take(&all, true);
    if (!one)
        return -1;
    one->given += turn_size(one, piece);
    if (one->given < one->count)
        turns_add(&all, one);
    return (int)(one - ones);
}

static void a_short_request_is_served_before_long_ones_that_came_earlier(void **state)
{
    (void)state;
    for (size_t i = 0; i < 100; i++)
        add(i, 10000);
    assert_int_equal(step(64), 0);
    add(100, 1);
    add(101, TURN_SHORT);
    assert_int_equal(step(64), 100);
    assert_int_equal(step(64), 101);
    assert_int_equal(step(64), 1);
    assert_int_equal(all.waiting, 100);
    assert_int_equal(all.owed, 100 * 10000 - 2 * 64);
}

static void long_requests_get_a_piece_each_in_turns(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++)
        add(i, 100 + i);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++)
            assert_int_equal(step(50), i);
    assert_int_equal(ones[0].given, 100); /* served: it is not in the line any more */
    for (int i = 1; i < 5; i++) {
        assert_int_equal(step(50), i);
        assert_int_equal(ones[i].given, 100 + i);
    }
    assert_int_equal(step(50), -1);
    assert_int_equal(all.waiting, 0);
    assert_int_equal(all.owed, 0);
}

static void short_requests_do_not_keep_a_long_one_waiting_for_ever(void **state)
{
    (void)state;
    add(0, 17);
    for (size_t i = 1; i <= TURN_SHORTS_MAX + 10; i++)
        add(i, 1);
    for (int i = 1; i <= TURN_SHORTS_MAX; i++)
        assert_int_equal(step(8), i);
    assert_int_equal(step(8), 0);
    assert_int_equal(step(8), TURN_SHORTS_MAX + 1);
}

static void a_long_one_waits_while_room_is_kept_for_others(void **state)
{
    (void)state;
    add(0, 10000);
    assert_null(turns_take(&all, false));
    turn *one = add(1, 1);
    assert_ptr_equal(turns_take(&all, false), one);
    assert_null(turns_take(&all, false));
    assert_ptr_equal(turns_take(&all, true), &ones[0]);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_short_request_is_served_before_long_ones_that_came_earlier),
        TEST(long_requests_get_a_piece_each_in_turns),
        TEST(short_requests_do_not_keep_a_long_one_waiting_for_ever),
        TEST(a_long_one_waits_while_room_is_kept_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
