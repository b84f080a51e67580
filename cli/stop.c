/* SIGINT, SIGTERM and SIGHUP as a wish to end in good order. */
#include "cli/stop.h"

#include "cli/times.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_EVERY_NS = 50 * 1000 * 1000, /* a signal between the look at `noted` and the sleep is not lost for longer */
    GRACE_S = 2,
    PRESS_EVERY_S = 1
};

static volatile sig_atomic_t noted, overdue, leaving;

static void note(int signal_number)
{
    noted = signal_number;
    alarm(GRACE_S);
}

static void press(int signal_number)
{
    (void)signal_number;
    overdue = 1;
    if (leaving)
        _exit(128 + noted);
    alarm(PRESS_EVERY_S);
}

static void watch(int signal_number, void (*handler)(int), int flags)
{
    struct sigaction before, action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

void stop_watch(void)
{
    signal(SIGALRM, SIG_DFL);
    watch(SIGALRM, press, 0);
    watch(SIGINT, note, (int)SA_RESETHAND);
    watch(SIGTERM, note, (int)SA_RESETHAND);
    watch(SIGHUP, note, (int)SA_RESETHAND);
}

int stop_signal(void)
{
    return noted;
}

bool stop_overdue(void)
{
    return overdue;
}

void stop_leave_when_overdue(bool leave)
{
    leaving = leave;
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
