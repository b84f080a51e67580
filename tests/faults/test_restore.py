#!/usr/bin/env python3
"""A lease file that is replaced by an older copy under the processes that use it, in every way that people do it.

    KAZAHANA=build/kazahana tests/faults/test_restore.py [CLASS]

Whoever runs must not be granted from a file that newcomers do not see, and newcomers must not be granted what those who
run still hold. The oracle: no two IDs of all processes are equal, each process's own increase, and it was said.
"""

import os
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

PROGRAM = os.path.abspath(os.environ.get("KAZAHANA", "build/kazahana"))
PATIENCE_S = 100
RUNNING, NEW = 5, 3


class Process:
    """`kazahana next` with its IDs going to a file."""

    def __init__(self, folder, number, url):
        self.out_path, self.err_path = (os.path.join(folder, "%s.%d" % (what, number)) for what in ("ids", "err"))
        with open(self.out_path, "w") as out, open(self.err_path, "w") as err:
            self.popen = subprocess.Popen(
                [PROGRAM, "next", "-n", "100000000", "--rate", "20000/s", "--throughput", "256:256", "--timeout", "4s",
                 "--from", url], stdout=out, stderr=err, stdin=subprocess.DEVNULL)

    def lines(self):
        return os.path.getsize(self.out_path) // 17

    def err(self):
        with open(self.err_path) as file:
            return file.read()

    def ids(self):
        with open(self.out_path) as file:
            return [int(line) for line in file if line.endswith("\n")]


class Restore:
    """What must hold, whatever the way. A class for each way follows."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="kz-restore-")
        self.folder = os.path.join(self.top, "state")
        os.mkdir(self.folder)
        self.file = os.path.join(self.folder, "leases.db")
        self.backup = os.path.join(self.top, "backup.db")
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.popen.kill()
            process.popen.wait()
        shutil.rmtree(self.top)

    def start(self, count, lease):
        url = "sqlite:%s?lease=%s" % (self.file, lease)
        new = [Process(self.top, len(self.processes) + i, url) for i in range(count)]
        self.processes += new
        return new

    def wait_for(self, what, reached):
        until = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > until:
                self.fail("%s: not within %d s\n%s" % (what, PATIENCE_S, "\n".join(p.err() for p in self.processes)))
            time.sleep(0.05)

    def wait_for_ids(self, processes, more=2000):
        have = {p: p.lines() for p in processes}
        self.wait_for("%d more IDs of each" % more, lambda: all(p.lines() >= have[p] + more for p in processes))

    def back_up(self):
        source, copy = sqlite3.connect(self.file, timeout=PATIENCE_S), sqlite3.connect(self.backup)
        source.backup(copy)
        source.close()
        copy.close()

    def remove_log(self):
        for suffix in "-wal", "-shm":
            try:
                os.remove(self.file + suffix)
            except FileNotFoundError:
                pass  # the last who closed the file removed it

    def judge(self):
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGTERM)
        seen, total = set(), 0
        for process in self.processes:
            process.popen.wait(PATIENCE_S)
            ids = process.ids()
            self.assertEqual(ids, sorted(set(ids)))
            total += len(ids)
            seen.update(ids)
        self.assertEqual(total - len(seen), 0, "equal IDs of %d" % total)
        return total

    def said(self):
        return "\n".join(process.err() for process in self.processes)

    def test_a_copy_that_is_still_fresh_goes_on_behind_what_it_forgot(self):
        first = self.start(2, "5min")
        self.wait_for_ids(first)
        self.back_up()
        running = self.start(RUNNING - 2, "5min")
        self.wait_for_ids(running)
        self.replace()
        newcomers = self.start(NEW, "5min")
        self.wait_for_ids(newcomers)
        self.wait_for_ids(first + running)
        self.assertIn(self.fresh_words, self.said())
        self.judge()

    def test_an_old_copy_grants_nothing_until_what_it_forgot_has_ended(self):
        first = self.start(1, "3s")
        self.wait_for_ids(first)
        self.back_up()
        running = first + self.start(RUNNING - 1, "3s")
        self.wait_for_ids(running)
        time.sleep(2)  # not for something to happen: the copy is to be older than half a lease
        self.replace()
        newcomers = self.start(NEW, "3s")
        # All who run have asked since, and were told; newcomers got nothing.
        self.wait_for("a word of each", lambda: all(p.err() for p in running + newcomers))
        self.judge()
        for process in newcomers:
            self.assertEqual(process.ids(), [])
            self.assertRegex(process.err(), self.old_words)


SET_ASIDE = "are set aside for"
NOTHING_YET = "nothing is granted until then"


class CopiedOver(Restore, unittest.TestCase):
    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def replace(self):
        self.remove_log()
        shutil.copyfile(self.backup, self.file)


class CopiedOverUnderTheLog(Restore, unittest.TestCase):
    """The log stays, but all of it is in the file that is copied over: only what comes after is left. Where somebody
    renews in that moment, nothing is lost, so there is no other test of it."""

    fresh_words = SET_ASIDE
    test_an_old_copy_grants_nothing_until_what_it_forgot_has_ended = None

    def replace(self):
        db = sqlite3.connect(self.file, timeout=PATIENCE_S)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copyfile(self.backup, self.file)
        db.close()


class Moved(Restore, unittest.TestCase):
    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def replace(self):
        self.remove_log()
        os.rename(self.backup, self.file)


class MovedUnderTheLog(Restore, unittest.TestCase):
    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def replace(self):
        os.rename(self.backup, self.file)


class Restored(Restore, unittest.TestCase):
    """As sqlite3's .restore does it: within a transaction, through the log."""

    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def replace(self):
        copy, target = sqlite3.connect(self.backup), sqlite3.connect(self.file, timeout=PATIENCE_S)
        copy.backup(target)
        copy.close()
        target.close()


class LogRemoved(Restore, unittest.TestCase):
    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def back_up(self):
        """What the file itself has is as old as the last time that the log was moved into it."""
        db = sqlite3.connect(self.file, timeout=PATIENCE_S)
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        db.close()

    def replace(self):
        self.remove_log()


class FolderMadeAnew(Restore, unittest.TestCase):
    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def replace(self):
        os.rename(self.folder, self.folder + ".old")
        os.mkdir(self.folder)
        shutil.copyfile(self.backup, self.file)


class RolledBack(Restore, unittest.TestCase):
    """The whole folder as it was, as a snapshot of the disk gives it back."""

    fresh_words, old_words = SET_ASIDE, NOTHING_YET

    def back_up(self):
        for process in self.processes:
            process.popen.send_signal(signal.SIGSTOP)
        shutil.copytree(self.folder, self.folder + ".snapshot")
        for process in self.processes:
            process.popen.send_signal(signal.SIGCONT)

    def replace(self):
        os.rename(self.folder, self.folder + ".old")
        os.rename(self.folder + ".snapshot", self.folder)


if __name__ == "__main__":
    parallel.main()
