#!/usr/bin/env python3
"""The real program over real lease tables while processes, clocks, disks and Redis fail under it.

    KAZAHANA=build/kazahana tests/faults/test_leases.py [CLASS]

The oracle: every ID is written down; no two of all processes are equal; each process's own increase.
"""

import glob
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import parallel  # noqa: E402
from services import Redis  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("KAZAHANA", "build/kazahana"))
FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")

# 32 nodes to lease: with so few each is granted again and again while the processes run.
LAYOUT = "41-6-8@2026-01-01"
FALLBACK_BIT = 1 << 13
MS_SHIFT = 14
EPOCH_MS = 1767225600000
LINE_SIZE = 16  # of an ID as text
PATIENCE = "100s"
PATIENCE_S = 100  # for what takes a moment: only a program that hangs is ever waited for so long


def permitted(*command):
    try:
        return subprocess.run(command, capture_output=True, timeout=PATIENCE_S).returncode == 0
    except OSError:
        return False


def remove(folder):
    """What a killed server leaves running may write for a moment longer than it lives."""
    end = time.monotonic() + 60
    while True:
        try:
            return shutil.rmtree(folder)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Process:
    """`kazahana next` with its IDs going to a file."""

    def __init__(self, folder, url, *arguments, before=(), environment=None, layout=LAYOUT, program=PROGRAM, **more):
        Process.count = getattr(Process, "count", 0) + 1
        self.out_path = os.path.join(folder, "ids.%d" % Process.count)
        self.err_path = os.path.join(folder, "err.%d" % Process.count)
        command = [*before, program, "next"]
        command += ["--layout", layout] if layout else []
        command += ["--from", url] if url else []
        with open(self.out_path, "w") as out, open(self.err_path, "w") as err:
            self.popen = subprocess.Popen(
                [*command, *arguments], stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                env=dict(os.environ, **(environment or {})), **more)

    def send(self, number):
        self.popen.send_signal(number)

    def alive(self):
        return self.popen.poll() is None

    def end(self, number=signal.SIGTERM):
        """Asks it to end, and waits; the status as the shell would show it."""
        if self.alive() and number:
            self.send(number)
        return self.wait()

    def wait(self):
        try:
            return self.popen.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise

    def ids(self):
        with open(self.out_path) as file:
            return [int(line) for line in file if line.endswith("\n")]

    def last(self):
        """The last ID so far, without reading all of them; 0 before the first."""
        with open(self.out_path, "rb") as file:
            file.seek(max(0, os.path.getsize(self.out_path) - 100))
            return int(file.read().rpartition(b"\n")[0].rpartition(b"\n")[2] or 0)

    def lines(self):
        """About how many IDs there are: all have the same length."""
        return os.path.getsize(self.out_path) // LINE_SIZE

    def err(self):
        with open(self.err_path) as file:
            return file.read()


class Fleet(unittest.TestCase):
    """Processes that mint side by side, and what must hold for them."""

    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kz-leases-")
        self.file = os.path.join(self.folder, "leases.db")
        self.processes = []
        self.redis = None
        self.mounted = []

    def tearDown(self):
        for process in self.processes:
            if process.alive():
                process.send(signal.SIGCONT)
                process.popen.kill()
            process.popen.wait()
        if self.redis:
            self.redis.kill()
        for place in self.mounted:
            subprocess.run(["umount", "-l", place], capture_output=True)
        remove(self.folder)

    def start(self, url, *arguments, **more):
        process = Process(self.folder, url, *arguments, **more)
        self.processes.append(process)
        return process

    def start_redis(self):
        self.redis = Redis(self.folder).start()
        return self.redis

    def urls(self, parameters=""):
        """Both stores, so that one test takes the time of one."""
        found = ["sqlite:" + self.file + parameters]
        if not Redis.missing():
            found.append(self.start_redis().url + parameters)
        return found

    def leases(self, url, environment=None):
        command = [PROGRAM, "leases", "--json"] + (["--from", url.partition("?")[0]] if url else [])
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **(environment or {})))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def end_all(self, processes):
        for process in processes:
            if process.alive():
                process.send(signal.SIGTERM)
        for process in processes:
            process.wait()

    def wait_for(self, what, reached):
        until = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > until:
                self.fail("%s: not within %d s\n%s" % (what, PATIENCE_S, "".join(p.err() for p in self.processes)))
            time.sleep(0.05)

    def wait_for_ids(self, processes, more=20):
        have = {p: p.lines() for p in processes}
        self.wait_for("%d more IDs of each" % more, lambda: all(p.lines() >= have[p] + more for p in processes))

    def assert_no_twins(self, processes):
        """The oracle. The processes are those of one store: those of two may well be equal."""
        seen = set()
        total = 0
        for process in processes:
            ids = process.ids()
            for before, after in zip(ids, ids[1:]):
                self.assertLess(before, after)
            total += len(ids)
            seen.update(ids)
        self.assertEqual(len(seen), total, "%d equal IDs" % (total - len(seen)))
        return total


class Crowds(Fleet):
    """Many at once, some of which are killed or stopped."""

    def test_20_processes_at_once_mint_no_twin_and_leave_no_lease(self):
        state = {"XDG_STATE_HOME": os.path.join(self.folder, "state")}
        stores = [(None, state)]
        if not Redis.missing():
            stores.append((self.start_redis().url, {}))
        for url, environment in stores:
            fleet = [self.start(url, "-n", "50000", "--timeout", PATIENCE, layout=None, environment=environment)
                     for _ in range(20)]
            for process in fleet:
                self.assertEqual(process.wait(), 0, process.err())
            self.assertEqual(self.assert_no_twins(fleet), 1000000)
            self.assertEqual(self.leases(url, environment), [])

    def test_half_of_them_killed_leave_no_twin_and_their_leases_end_by_themselves(self):
        stores = self.urls("?lease=2s")
        minting = ("-n", "10000000", "--rate", "1000/s", "--timeout", PATIENCE)
        fleets = [[self.start(url, *minting) for _ in range(12)] for url in stores]
        for url, fleet in zip(stores, fleets):
            self.wait_for_ids(fleet)
            asked_s = time.monotonic()
            held = [json.loads(line) for line in self.leases(url)]
            for process in fleet[::2]:
                process.send(signal.SIGKILL)
            left = {json.loads(line)["id"] for line in self.leases(url)}
            passed_ms = (time.monotonic() - asked_s) * 1000
            # Nobody gave theirs back: what cannot have ended yet is still out.
            self.assertLessEqual({lease["id"] for lease in held if lease["left_ms"] > passed_ms}, left)
        # Others come at once, into what is left.
        for url, fleet in zip(stores, fleets):
            fleet += [self.start(url, *minting) for _ in range(4)]
        for url, fleet in zip(stores, fleets):
            self.wait_for_ids(fleet[12:])
            self.end_all(fleet)
            self.wait_for("no lease out", lambda: not self.leases(url))
            fleet += [self.start(url, "-n", "1000", "--timeout", PATIENCE) for _ in range(4)]
            for process in fleet[16:]:
                self.assertEqual(process.wait(), 0, process.err())
            self.assert_no_twins(fleet)

    def test_processes_stopped_beyond_their_lease_and_continued_mint_no_twin(self):
        fleets = []
        minting = ("-n", "10000000", "--rate", "1000/s", "--timeout", PATIENCE)
        # Beyond the lease, and beyond the twin too.
        for url in self.urls("?lease=2s") + ["sqlite:" + self.file + ".2?lease=500ms"]:
            fleets.append([self.start(url, *minting) for _ in range(8)])
        for fleet in fleets:
            self.wait_for_ids(fleet)
            for process in fleet[::2]:
                process.send(signal.SIGSTOP)
        time.sleep(2.6)
        for fleet in fleets:
            # Their nodes may be somebody else's by now.
            fleet += [self.start(fleet[0].popen.args[5], *minting) for _ in range(2)]
            for process in fleet[:8:2]:
                process.send(signal.SIGCONT)
        for fleet in fleets:
            self.wait_for_ids(fleet, 200)
            self.end_all(fleet)
            for process in fleet:
                self.assertEqual(process.wait(), 128 + signal.SIGTERM, process.err())
            self.assert_no_twins(fleet)


class Clocks(Fleet):
    def faked(self, offset_s, boot_too=False):
        """The environment of a process whose wall clock is off, and its clock since boot too."""
        # A file for each, which nobody reads while it is written.
        setting = os.path.join(self.folder, "clock.%d" % len(os.listdir(self.folder)))
        with open(setting, "w") as file:
            file.write("%+d\n" % offset_s)
        return {
            "LD_PRELOAD": FAKETIME[0],
            "FAKETIME_TIMESTAMP_FILE": setting,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "0" if boot_too else "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    @unittest.skipUnless(FAKETIME, "libfaketime is not installed")
    def test_clocks_an_hour_off_make_no_twin(self):
        fleets = []
        for url in self.urls("?lease=2s"):
            fleets.append([
                self.start(url, "-n", "3000", "--rate", "1000/s", "--timeout", PATIENCE,
                           environment=self.faked((0, 3600, 0, -3600)[i % 4]) if i % 2 else {})
                for i in range(10)])
        for fleet in fleets:
            for process in fleet:
                self.assertEqual(process.wait(), 0, process.err())
            self.assertEqual(self.assert_no_twins(fleet), 30000)

    @unittest.skipUnless(FAKETIME, "libfaketime is not installed")
    def test_clocks_since_boot_an_hour_off_make_no_twin_and_stop_nobody(self):
        """Where every clock of some processes is off, the file's time cannot be right for all: but it goes on."""
        url = "sqlite:" + self.file + "?lease=2s"
        fleet = [self.start(url, "-n", "3000", "--rate", "1000/s", "--timeout", PATIENCE,
                            environment=self.faked((0, 3600, 0, -3600)[i % 4], boot_too=True) if i % 2 else {})
                 for i in range(8)]
        for process in fleet:
            self.assertEqual(process.wait(), 0, process.err())
        self.assertEqual(self.assert_no_twins(fleet), 24000)

    @unittest.skipUnless(permitted("unshare", "--time", "--boottime", "100000", "--fork", "true"),
                         "time namespaces are not permitted here")
    def test_boot_clocks_that_are_apart_make_no_twin(self):
        """Containers of one machine can each have a boot clock of their own, and one lease file."""
        url = "sqlite:" + self.file + "?lease=1s"
        apart = ("unshare", "--time", "--boottime", "100000", "--fork")
        fleet = [self.start(url, "-n", "3000", "--rate", "1000/s", "--timeout", PATIENCE, before=apart if i % 2 else ())
                 for i in range(8)]
        for process in fleet:
            self.assertEqual(process.wait(), 0, process.err())
        self.assertEqual(self.assert_no_twins(fleet), 24000)
        newest = max(process.last() for process in fleet) >> MS_SHIFT
        # Nobody's boot clock carried the table's time away.
        self.assertLess(abs(newest + EPOCH_MS - time.time() * 1000), 90000)


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class Outages(Fleet):
    def test_generators_outlive_a_killed_redis_and_come_back_to_it(self):
        redis = self.start_redis()
        url = redis.url + "?lease=4s"
        fleet = [self.start(url, "-n", "10000000", "--rate", "500/s", "--timeout", PATIENCE) for _ in range(8)]
        never = self.start(url, "-n", "10000000", "--rate", "500/s", "--fallback", "never", "--timeout", "3s")
        self.wait_for_ids(fleet + [never])
        redis.kill()
        killed_s, killed_ms = time.monotonic(), time.time() * 1000 - EPOCH_MS
        self.wait_for("fenced twins", lambda: all(p.last() & FALLBACK_BIT for p in fleet))
        self.assertEqual(never.wait(), 1)
        self.assertIn("no lease, and no fallback left", never.err())
        self.assertFalse(any(i & FALLBACK_BIT for i in never.ids()))
        self.assertLess(never.last() >> MS_SHIFT, killed_ms + 4000)
        outage_ms = (time.monotonic() - killed_s) * 1000
        redis.start()
        self.wait_for("leases again", lambda: all(not p.last() & FALLBACK_BIT for p in fleet))
        self.wait_for_ids(fleet)
        for process in fleet:
            self.assertTrue(process.alive(), process.err())
            self.assertIn("minting goes on with what is held", process.err())
        self.end_all(fleet)
        self.assert_no_twins(fleet + [never])
        for process in fleet:
            # No hole as long as the outage, however busy the machine is.
            ids = process.ids()
            widest = max((b >> MS_SHIFT) - (a >> MS_SHIFT) for a, b in zip(ids, ids[1:]))
            self.assertLess(widest, outage_ms, process.err())
        self.assertEqual(self.leases(url), [])

    def test_a_flushed_redis_is_noticed_and_nobody_gets_a_lease_from_it(self):
        redis = self.start_redis()
        url = redis.url + "?lease=1s"
        fleet = [self.start(url, "-n", "10000000", "--rate", "500/s", "--timeout", "3s") for _ in range(4)]
        self.wait_for_ids(fleet)
        redis.ask("FLUSHALL")
        for process in fleet:
            self.assertEqual(process.wait(), 1)
            self.assertIn("no lease, and no fallback left", process.err())
        self.assert_no_twins(fleet)


class Files(Fleet):
    """The lease file and the disk that it is on."""

    def test_an_older_copy_of_the_file_is_noticed_and_its_grants_are_refused(self):
        url = "sqlite:" + self.file + "?lease=1s"
        first = self.start(url)
        self.assertEqual(first.wait(), 0, first.err())
        copy = sqlite3.connect(os.path.join(self.folder, "copy.db"))
        with sqlite3.connect(self.file) as live:
            live.backup(copy)
        live.close()
        fleet = [self.start(url, "-n", "10000000", "--rate", "500/s", "--timeout", "3s") for _ in range(6)]
        self.wait_for_ids(fleet, 1500)
        live = sqlite3.connect(self.file, timeout=PATIENCE_S)
        copy.backup(live)
        live.close()
        copy.close()
        for process in fleet:
            self.assertEqual(process.wait(), 1)
            self.assertIn("went back in time", process.err())
        self.assert_no_twins([first] + fleet)

    def test_a_file_deleted_in_use_is_noticed_and_a_new_one_in_quarantine_makes_no_twin(self):
        url = "sqlite:" + self.file + "?lease=500ms&amnesia=quarantine"
        plain = "sqlite:" + self.file + "?lease=500ms"
        fleet = [self.start(plain, "-n", "10000000", "--rate", "500/s", "--timeout", "3s") for _ in range(4)]
        self.wait_for_ids(fleet)
        for path in glob.glob(self.file + "*"):
            os.unlink(path)
        later = [self.start(url, "-n", "1000", "--rate", "500/s", "--timeout", PATIENCE) for _ in range(4)]
        for process in fleet:
            self.assertEqual(process.wait(), 1)
            self.assertIn("it was removed or replaced while in use", process.err())
        for process in later:
            self.assertEqual(process.wait(), 0, process.err())
        self.assert_no_twins(fleet + later)
        ended = max(process.last() for process in fleet) >> MS_SHIFT
        self.assertGreater(min(process.ids()[0] for process in later) >> MS_SHIFT, ended)

    def mount(self, size):
        place = os.path.join(self.folder, "disk")
        os.mkdir(place)
        if not permitted("mount", "-t", "tmpfs", "-o", "size=" + size, "none", place):
            return None
        self.mounted.append(place)
        return place

    def test_a_full_disk_is_told_and_what_is_held_goes_on(self):
        place = self.mount("1m")
        if not place:
            self.skipTest("mounting a small disk is not permitted here")
        url = "sqlite:" + os.path.join(place, "leases.db") + "?lease=4s"
        old = self.start(url, "-n", "10000000", "--rate", "500/s", "--timeout", PATIENCE)
        self.wait_for_ids([old])
        filler = os.path.join(place, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        new = self.start(url)
        self.assertEqual(new.wait(), 1)
        self.assertIn("the disk is full", new.err())
        self.assertEqual(new.ids(), [])
        self.wait_for("a fenced twin", lambda: old.last() & FALLBACK_BIT)
        os.unlink(filler)
        again = self.start(url)
        self.assertEqual(again.wait(), 0, again.err())
        self.wait_for("a lease again", lambda: not old.last() & FALLBACK_BIT)
        old.end()
        self.assertIn("the disk is full", old.err())
        self.assert_no_twins([old, new, again])
        self.assertEqual(self.leases(url), [])

    def test_a_file_that_may_not_grow_is_told(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

        url = "sqlite:" + self.file
        process = self.start(url, preexec_fn=limit, restore_signals=False)
        self.assertEqual(process.wait(), 1)
        self.assertRegex(process.err(), "lease file .*leases.db: ")
        self.assertEqual(process.ids(), [])
        # It left nothing that is in the way.
        self.assertEqual(self.start(url).wait(), 0)

    def test_a_file_that_cannot_be_written_is_told(self):
        place = self.mount("4m")
        if not place:
            self.skipTest("mounting a disk is not permitted here")
        url = "sqlite:" + os.path.join(place, "leases.db")
        self.assertEqual(self.start(url).wait(), 0)
        self.assertTrue(permitted("mount", "-o", "remount,ro", place))
        process = self.start(url)
        self.assertEqual(process.wait(), 1)
        self.assertRegex(process.err(), r"leases\.db: .*writ")
        self.assertEqual(process.ids(), [])

    def test_a_damaged_file_is_told(self):
        damages = {
            "header": lambda data: b"not a database at all" + data[21:],
            "pages": lambda data: data[:4096] + bytes(b ^ 0x5A for b in data[4096:]),
            "cut": lambda data: data[:5000],
        }
        url = "sqlite:" + self.file
        for name, damage in damages.items():
            for path in glob.glob(self.file + "*"):
                os.unlink(path)
            self.assertEqual(self.start(url).wait(), 0)
            with open(self.file, "rb") as file:
                data = file.read()
            with open(self.file, "wb") as file:
                file.write(damage(data))
            process = self.start(url)
            self.assertEqual(process.wait(), 1, name)
            self.assertRegex(process.err(), r"leases\.db: .*(damaged|not a database)", name)
            self.assertEqual(process.ids(), [], name)


if __name__ == "__main__":
    parallel.main()
