/* SIGINT and SIGTERM as a wish to end in good order. */
#include "cli/stop.h"

#include "cli/times.h"

#include <signal.h>
#include <time.h>

/* A signal between the look at `noted` and the sleep is not lost for longer than this. */
enum { LOOK_EVERY_NS = 50 * 1000 * 1000 };

static volatile sig_atomic_t noted;

static void note(int signal_number)
{
    noted = signal_number;
}

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int stop_signal(void)
{
    return noted;
}

void stop_or_sleep_until(int64_t boot_ns)
{
    while (!noted) {
        int64_t left_ns = boot_ns - times_boot_ns();
        if (left_ns <= 0)
            return;
        if (left_ns > LOOK_EVERY_NS)
            left_ns = LOOK_EVERY_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)left_ns}, NULL);
    }
}
