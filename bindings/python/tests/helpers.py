"""What the tests share."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 120  # for what takes a moment on a quiet machine


def wait_until(condition, what):
    """Waits for a condition, not for a time."""
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come about within {LIMIT_S} s")
        time.sleep(0.005)
    return value


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kazahana-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def lease_file(self, **settings):
        query = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"sqlite:{self.path('leases.db')}" + (f"?{query}" if query else "")


def start_script(script, *arguments, **settings):
    """Another Python, which runs a text."""
    return subprocess.Popen([sys.executable, "-c", script, *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **settings)


def run_script(script, *arguments, **settings):
    """What it prints; an AssertionError with all that it said unless it ends well."""
    process = start_script(script, *arguments, **settings)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it hung: {process.communicate()}") from None
    if process.returncode:
        raise AssertionError(f"exit status {process.returncode}\n{out}\n{err}")
    return out
