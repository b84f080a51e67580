"""A clock that is set back under the generator, by libfaketime: in a process of its own, which sets it itself."""

import glob
import os
import unittest

from helpers import InFolder, run_script

LIBRARIES = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")

PRELUDE = """
import os, signal, sys, threading, time, kazahana
def set_clock(offset_s):
    with open(os.environ["FAKETIME_TIMESTAMP_FILE"] + ".new", "w") as file:
        file.write("%+d\\n" % offset_s)
    os.rename(file.name, os.environ["FAKETIME_TIMESTAMP_FILE"])
def set_back(offset_s, **options):
    set_clock(0)
    generator = kazahana.Generator("static:1", layout="41-2-20@2026-01-01", **options)
    last = generator.next_id()
    set_clock(-offset_s)
    return generator, last
def refusal(generator):
    try:
        generator.next_ids(10_000_000)
    except kazahana.ClockBackwardError as error:
        return error
    raise AssertionError("the clock went back, and nobody minded")
"""


@unittest.skipUnless(LIBRARIES, "libfaketime is not installed")
class Clock(InFolder):
    def run_with_clock(self, script):
        setting = self.path("clock")
        with open(setting, "w", encoding="utf-8") as file:
            file.write("+0\n")
        environment = dict(os.environ, LD_PRELOAD=LIBRARIES[0], FAKETIME_TIMESTAMP_FILE=setting,
                           FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_FORCE_MONOTONIC_FIX="0")
        environment.pop("FAKETIME", None)
        return run_script(PRELUDE + script, env=environment)

    def test_the_policy_fail_says_by_how_much(self):
        self.run_with_clock("""
generator, last = set_back(1000, backward="fail")
error = refusal(generator)
assert 900_000 < error.backward_ms <= 1_000_000 and error.limit_ms == 0, vars(error)
assert str(error.backward_ms) in str(error), error
""")

    def test_a_wait_that_is_too_long_for_the_policy_is_refused(self):
        self.run_with_clock("""
generator, last = set_back(1000)
error = refusal(generator)
assert error.backward_ms > 900_000 and error.limit_ms == 5000, vars(error)
""")

    def test_a_wait_that_is_too_long_for_the_timeout_is_refused_at_once_and_names_the_timeout(self):
        self.run_with_clock("""
generator, last = set_back(1000, max_backward_ms=-1, timeout_ms=300_000)
error = refusal(generator)
assert error.backward_ms > 900_000 and 200_000 < error.limit_ms <= 300_000, vars(error)
assert str(error.limit_ms) in str(error), error
""")

    def test_a_wait_that_both_allow_ends_above_the_last_id(self):
        self.run_with_clock("""
generator, last = set_back(1000, max_backward_ms=-1, timeout_ms=-1)
while (id := generator.try_next_id()) is not None:
    last = id
threading.Timer(0.3, set_clock, (0,)).start()
assert generator.next_id() > last
assert generator.stats().clock_backward > 0
""")

    def test_a_wait_for_the_clock_ends_with_a_signal(self):
        self.run_with_clock("""
generator, last = set_back(1000, max_backward_ms=-1, timeout_ms=-1)
signal.signal(signal.SIGALRM, lambda number, frame: 1 / 0)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    while True:  # the millisecond that was begun may have IDs left
        generator.next_id()
except ZeroDivisionError:
    pass
""")

    def test_the_logical_policy_goes_on_upward(self):
        self.run_with_clock("""
generator, last = set_back(1000, backward="logical")
assert generator.next_id() > last
assert generator.stats().ahead_ms > 0
""")


if __name__ == "__main__":
    unittest.main()
