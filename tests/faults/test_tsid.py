#!/usr/bin/env python3
"""The real program on TSID slots in a real Redis, while slots are taken away, processes die and Redis goes.

    KAZAHANA=build/kazahana tests/faults/test_tsid.py

The oracle: every ID is written down; no two of all processes are equal; each process's own increase; none is past the
window that its slot was granted for.
"""

import os
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_leases import PROGRAM, Fleet, Process, Redis  # noqa: E402
from test_server import Server  # noqa: E402

EPOCH_MS = 1577836800000  # 2020-01-01
FOREVER = ("-n", "10000000", "--rate", "500/s")


def node_of(number):
    return number >> 12 & 1023


def ms_of(number):
    return (number >> 22) + EPOCH_MS


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class Slots(Fleet):
    def setUp(self):
        super().setUp()
        self.start_redis()

    def url(self, parameters=""):
        return "tsid+" + self.redis.url + parameters

    def start(self, parameters="", *arguments, **more):
        process = Process(self.folder, self.url(parameters), *arguments, layout=None, **more)
        self.processes.append(process)
        return process

    def ask(self, *words):
        """What Redis says: a text, a number, or None."""
        answer = self.redis.ask(*words)
        if answer[0] == ":":
            return int(answer[1:])
        self.assertIn(answer[0], "+$", answer)
        return None if answer.startswith("$-1") else answer.split("\r\n")[answer[0] == "$"].removeprefix("+")

    def lock(self, first, last):
        """As a Java instance does, for a day."""
        self.ask("EVAL", "for i = %d, %d do redis.call('SET', 'sys:tsid:node:' .. i, 'LOCKED', 'NX', 'EX', 86400) end "
                 "return 'done'" % (first, last), "0")

    def node(self, process):
        return node_of(process.last())

    def holder(self, node):
        return self.ask("GET", "sys:tsid:node:%d" % node)

    # --------------------------------------------------------------------------------------------- starting

    def test_with_1024_slots_taken_the_next_one_fails_and_says_how_to_look(self):
        self.lock(0, 1022)
        last = self.start("", *FOREVER)
        self.wait_for_ids([last])
        self.assertEqual(self.node(last), 1023)
        for parameters in ("", "?dev=1"):
            late = self.start(parameters)
            self.assertEqual(late.wait(), 1)
            self.assertIn("all 1024 TSID nodes are in use", late.err())
            self.assertIn('"kazahana leases --from ' + self.url() + '" shows by whom', late.err())
            self.assertEqual(late.ids(), [])
        lines = self.leases(self.url())
        self.assertEqual(len(lines), 1024)
        self.assertEqual(sum('"meta":"LOCKED"' in line for line in lines), 1023)
        self.assertEqual(sum('"pid":"%d"' % last.popen.pid in line for line in lines), 1)
        self.assertNotIn(self.holder(1023).split()[1], "".join(lines))
        self.assertEqual(last.end(), 128 + signal.SIGTERM)
        again = self.start()
        self.assertEqual(again.wait(), 0, again.err())
        self.assertEqual(self.node(again), 1023)
        self.assert_no_twins([last, again])

    def test_without_redis_a_start_fails_at_once_unless_dev_mode_is_on(self):
        self.redis.kill()
        # A lease table would be waited for, for ever.
        refused = self.start("", "--timeout", "forever")
        self.assertEqual(refused.wait(), 1)
        self.assertIn(self.url(), refused.err())
        self.assertIn("?dev=1 or KAZAHANA_ALLOW_DEV=1", refused.err())
        self.assertEqual(refused.ids(), [])
        for parameters, environment in (("?dev=1", {}), ("", {"KAZAHANA_ALLOW_DEV": "1"})):
            allowed = self.start(parameters, "-n", "5000", environment=environment)
            self.assertEqual(allowed.wait(), 0)
            self.assertIn("warning: DEV MODE: cannot connect to " + self.url(), allowed.err())
            self.assertIn("NOT guaranteed to be unique", allowed.err())
            self.assertEqual(self.assert_no_twins([allowed]), 5000)
        self.assertEqual(self.start("?dev=0", environment={"KAZAHANA_ALLOW_DEV": "1"}).wait(), 1)
        doctor = subprocess.run([PROGRAM, "doctor", "--from", self.url("?dev=1")], capture_output=True, text=True)
        self.assertIn("DEV MODE", doctor.stdout)
        self.assertIn("NOT unique among several instances", doctor.stdout)
        server = Server(self.folder, "--store", "memory:", "--ids-from", self.url("?dev=1"), "--layout", "tsid")
        try:
            health = server.ask("GET", "/health").json()
        finally:
            server.kill()
        self.assertEqual(health["status"], "UP")
        self.assertEqual(health["components"]["generator"]["status"], "WARN")
        self.assertIs(health["components"]["generator"]["unfenced"], True)

    # ------------------------------------------------------------------------------------------- lost slots

    def test_a_slot_deleted_or_overwritten_by_hand_is_left_and_another_claimed(self):
        ways = {"deleted": ("DEL",), "locked": ("SET", "LOCKED", "EX", "1000"), "another type": ("DEL", "RPUSH", "x")}
        for way, words in ways.items():
            self.redis.ask("FLUSHALL")
            process = self.start("?ttl=60s&refresh=500ms", *FOREVER)
            self.wait_for_ids([process])
            key, old = "sys:tsid:node:0", node_of(process.last())
            self.assertEqual(old, 0, way)
            if words[0] == "DEL":
                self.ask("DEL", key)
            if words[-1] == "x":
                self.ask("RPUSH", key, "x")
            if words[0] == "SET":
                self.ask(words[0], key, *words[1:])
            # Nothing is granted there from now on, so this stays the end of its last window.
            end_ms = int(self.ask("HGET", "sys:tsid:floor", "0"))
            other = self.start("?ttl=60s&refresh=500ms", *FOREVER)
            self.wait_for("another node", lambda: self.node(process) != 0)
            self.wait_for_ids([process, other], 100)
            self.assertLess(self.ask("PTTL", key), 1000000)
            self.assertEqual(int(self.ask("HGET", "sys:tsid:floor", "0")), end_ms, way)
            if words[0] == "SET":
                self.assertEqual(self.holder(0), "LOCKED")
            self.end_all([process, other])
            self.assert_no_twins([process, other])
            self.assertLess(max(ms_of(i) for i in process.ids() if node_of(i) == 0), end_ms)
            self.assertNotIn(0, {node_of(i) for i in other.ids()}, way)
            self.assertIn("sys:tsid:node:0", process.err())
            self.assertIn("asking for another lease", process.err())
            # Only what was its own is given back.
            self.assertEqual(self.ask("EXISTS", key), int(words[0] == "SET" or words[-1] == "x"))
            self.assertEqual(len(self.leases(self.url())), int(words[0] == "SET"))

    def test_stopped_beyond_the_ttl_and_continued_it_makes_no_twin(self):
        fleet = [self.start("?ttl=3s&refresh=600ms" if i % 2 else "?ttl=1h", *FOREVER) for i in range(6)]
        self.wait_for_ids(fleet)
        stopped = fleet[1::2]
        for process in stopped:
            process.send(signal.SIGSTOP)
        nodes = {self.node(process) for process in stopped}
        for node in nodes:
            self.wait_for("the slot's end", lambda: not self.ask("EXISTS", "sys:tsid:node:%d" % node))
        # These take the first free ones, which were theirs.
        later = [self.start("?ttl=1h", *FOREVER) for _ in stopped]
        self.wait_for_ids(later)
        taken = nodes & {self.node(process) for process in later}
        self.assertTrue(taken)
        values = {node: self.holder(node) for node in taken}
        for process in stopped:
            process.send(signal.SIGCONT)
        self.wait_for("other nodes", lambda: all(self.node(process) not in taken for process in stopped))
        self.wait_for_ids(fleet + later, 100)
        self.assertEqual({node: self.holder(node) for node in values}, values)
        self.end_all(fleet + later)
        for process in fleet + later:
            self.assertEqual(process.wait(), 128 + signal.SIGTERM, process.err())
        self.assert_no_twins(fleet + later)
        self.assertEqual(self.leases(self.url()), [])

    def test_a_loop_of_kills_with_few_nodes_free_makes_no_twin(self):
        self.lock(0, 1015)  # 8 are left
        dice = random.Random(5)
        fleet, gone = [], []
        end = time.monotonic() + 150
        while len(gone) < 30 and time.monotonic() < end:
            process = self.start("?ttl=1s&refresh=300ms", "-n", "10000000", "--rate", "2000/s")
            self.wait_for("a start or a refusal", lambda: not process.alive() or process.lines() > 5)
            if process.alive():
                fleet.append(process)
            else:
                self.assertEqual(process.wait(), 1)
                self.assertIn("all 1024 TSID nodes are in use", process.err())
                time.sleep(0.05)
            if len(fleet) > 5:
                victim = fleet.pop(dice.randrange(len(fleet)))
                victim.end(signal.SIGKILL)
                gone.append(victim)
        self.assertEqual(len(gone), 30)
        self.wait_for_ids(fleet)
        self.end_all(fleet)
        self.assert_no_twins(fleet + gone)
        # More processes than nodes: each was used again and again.
        used = [{node_of(i) for i in process.ids()} for process in fleet + gone]
        self.assertLessEqual(set().union(*used), set(range(1016, 1024)))
        self.assertTrue(all(used))

    # ------------------------------------------------------------------------------------------- Redis goes

    def test_when_redis_is_gone_minting_goes_on_to_the_window_s_end_and_not_beyond(self):
        # A half of the timeout is for one exchange with Redis, which writes to the disk before it answers.
        brief = self.start("?ttl=10s&refresh=500ms", *FOREVER, "--timeout", "5000")
        steady = [self.start("?ttl=10min&refresh=500ms", *FOREVER) for _ in range(3)]
        self.wait_for_ids([brief] + steady)
        self.wait_for("a refresh", lambda: self.ask("PTTL", "sys:tsid:node:%d" % self.node(steady[0])) > 300000)
        self.redis.kill()
        self.assertEqual(brief.wait(), 1)
        self.assertIn("no lease, and no fallback left: slot sys:tsid:node:", brief.err())
        self.assertRegex(brief.err(), r"slot sys:tsid:node:\d+, ours until 20[0-9TZ:.-]+, could not be refreshed: "
                                      r".*; minting goes on with what is held, trying again")
        self.wait_for_ids(steady, 200)
        self.redis.start()
        end_ms = int(self.ask("HGET", "sys:tsid:floor", str(self.node(brief))))
        self.assertLess(ms_of(brief.last()), end_ms)
        before = {process: self.node(process) for process in steady}
        later = self.start("", "-n", "2000", "--rate", "1000/s")
        self.assertEqual(later.wait(), 0, later.err())
        self.wait_for_ids(steady, 200)
        self.assertEqual({process: self.node(process) for process in steady}, before)
        self.end_all(steady)
        self.assert_no_twins([brief, later] + steady)
        self.assertEqual(self.leases(self.url()), [])

    def test_a_redis_that_comes_back_empty_is_told_who_holds_what(self):
        """A Redis without a disk, as caches are run: those who hold a slot must not be given to others."""
        self.redis.kill()
        self.redis = Redis(os.path.join(self.folder, "forgetful"), "--appendonly", "no").start()
        fleet = [self.start("?ttl=10min&refresh=500ms", *FOREVER) for _ in range(6)]
        self.wait_for_ids(fleet)
        nodes = {process: self.node(process) for process in fleet}
        self.redis.kill()
        self.redis.start()
        self.wait_for("all slots again", lambda: all(self.holder(node) for node in nodes.values()))
        later = [self.start("", *FOREVER) for _ in range(3)]
        self.wait_for_ids(fleet + later)
        self.assertEqual({process: self.node(process) for process in fleet}, nodes)
        self.end_all(fleet + later)
        self.assert_no_twins(fleet + later)
        self.assertEqual(self.leases(self.url()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
