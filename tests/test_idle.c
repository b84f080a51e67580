/* A generator that is not used lets the machine sleep. */
#include "bench/switches.h"
#include "tests/test.h"

#include <time.h>

static double boot_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What comes after opening is over when nothing has moved for a while. */
static bool comes_to_rest(void)
{
    double give_up_s = boot_s() + 30;
    for (long before = -1, now; boot_s() < give_up_s; before = now) {
        now = times_switched();
        if (now == before)
            return true;
        usleep(200000);
    }
    return false;
}

static void an_idle_generator_wakes_nobody(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* the sanitizer has a thread of its own that wakes up */
#endif
    if (times_switched() < 0)
        skip(); /* no /proc */
    kz_options options;
    kz_generator *gen;
    kz_id id;
    kz_options_init(&options);
    options.layout = "41-15-7@2026-01-01";
    assert_ok(kz_open(&gen, "memory:?lease=1h", &options, NULL));
    assert_ok(kz_next(gen, &id));
    assert_true(comes_to_rest());
    assert_true(times_switched() > 0); /* it has a keeper */

    long before = times_switched();
    double since_s = boot_s();
    sleep(2);
    long switches = times_switched() - before;
    double slept_s = boot_s() - since_s;

    /* None is expected. Whoever looks round by itself does so many times a second; a timer of the lease may come in
     * between when this took long. */
    if ((double)switches > 1 + slept_s / 2)
        fail_msg("%ld wake-ups in %.1f s", switches, slept_s);
    kz_close(gen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_idle_generator_wakes_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
