#!/usr/bin/env python3
"""The real program over a lease table in etcd, while members, clocks and connections fail under it.

    KAZAHANA=build/kazahana tests/faults/test_etcd.py [CLASS]

The oracle: every ID is written down; no two of all processes are equal; each process's own increase.
"""

import base64
import email.utils
import http.client
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import parallel  # noqa: E402
from services import LOOPBACK, Etcd  # noqa: E402
from test_leases import FAKETIME, FALLBACK_BIT, PATIENCE, PROGRAM, Fleet  # noqa: E402

MINUTES = ("-n", "10000000", "--rate", "200/s", "--timeout", PATIENCE)


class Proxy:
    """Between a client and one member. `shift_s` moves its Date; the next commit's answer is lost while `lose` is set,
    after it was carried out; with `status` it is answered with that instead."""

    def __init__(self, member):
        proxy = self
        self.shift_s, self.lose, self.status, self.lost = 0, False, 0, 0

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def version_string(self):
                return "proxy"

            def date_time_string(self, timestamp=None):
                return email.utils.formatdate(time.time() + proxy.shift_s, usegmt=True)

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                link = http.client.HTTPConnection(LOOPBACK, member.port)
                names = ("Content-Type", "Authorization", "Grpc-Timeout")
                link.request(self.command, self.path, body or None,
                             {name: self.headers[name] for name in names if name in self.headers})
                answer = link.getresponse()
                text, status = answer.read(), answer.status
                link.close()
                if proxy.lose and b"compare" in body:
                    proxy.lose, proxy.lost = False, proxy.lost + 1
                    if not proxy.status:
                        self.close_connection = True
                        return
                    status, text = proxy.status, b'{"error":"etcdserver: leader changed","code":14}'
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = forward

        self.server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kill(self):
        self.server.shutdown()
        self.server.server_close()


@unittest.skipIf(Etcd.missing(), "etcd is not installed")
class Table(Fleet):
    """A cluster, and what its table must be like."""

    size = 1
    settings = ()

    def setUp(self):
        super().setUp()
        self.members = Etcd.cluster(self.folder, self.size, *self.settings)
        for member in self.members:
            self.addCleanup(member.kill)
            member.start()
        self.wait_for("a leader", lambda: any(m.leads() for m in self.members))
        self.url = self.url_of(self.members)

    @staticmethod
    def url_of(members):
        return "etcd://" + ",".join(f"{LOOPBACK}:{m.port}" for m in members)

    def keys(self, prefix="kazahana/"):
        """All keys under it, without the prefix, and their values."""
        def text(value):
            return base64.b64decode(value).decode()

        key, end = (base64.b64encode(word.encode()).decode() for word in (prefix, prefix[:-1] + "0"))
        answers = (m.ask("kv/range", key=key, range_end=end) for m in self.members if m.process)
        found = next((answer for answer in answers if answer), {})
        return {text(kv["key"])[len(prefix):]: text(kv.get("value", "")) for kv in found.get("kvs", ())}

    def generation(self):
        return int(self.keys().get("h", "1 0 0").split()[2])

    def high_ms(self):
        return int(self.keys()["h"].split()[1])

    def tiles(self):
        """Free and held slots cover the space exactly once, and each row has its place in the orders."""
        keys = self.keys()
        spans, orders = [], set()
        for key, value in keys.items():
            words, fields = key.split("/"), value.split()
            if words[0] == "f":
                spans.append((int(value, 16), int(words[2], 16)))
            elif words[0] == "o":
                spans.append((int(words[2], 16), int(fields[0], 16)))
                orders.add(f"e/{words[1]}/{int(fields[2]):016x}/{words[2]}")
                orders.add(f"r/{words[1]}/{fields[8]}/{words[2]}")
        spans.sort()
        self.assertEqual(spans[0][0], 0)
        self.assertEqual(spans[-1][1], 1 << 14)
        for before, after in zip(spans, spans[1:]):
            self.assertEqual(before[1], after[0], spans)
        self.assertEqual(orders, {key for key in keys if key[0] in "er"})

    def refused(self, url, *words, timeout="3s"):
        """One process that gets nothing, says why in these words, and ends by itself."""
        process = self.start(url, "-n", "1", "--timeout", timeout)
        self.assertEqual(process.wait(), 1, process.err())
        for word in words:
            self.assertIn(word, process.err())
        self.assertEqual(process.ids(), [])


class Members(Table):
    """Three of them. Any one may fail at any time."""

    size = 3

    def fleet(self):
        fleet = [self.start(self.url + "?lease=2s", *MINUTES) for _ in range(5)]
        self.wait_for_ids(fleet)
        return fleet

    def which(self, leader):
        return next(m for m in self.members if m.leads() == leader)

    def handovers(self, fleet):
        """Everybody has leases, and they are handed over."""
        before = self.generation()
        self.wait_for("handovers", lambda: self.generation() > before + len(fleet))
        self.wait_for("leases again", lambda: all(not p.last() & FALLBACK_BIT for p in fleet))
        self.wait_for_ids(fleet)

    def finish(self, fleet):
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles()

    def test_kill_9_of_leader_and_follower(self):
        fleet = self.fleet()
        for leader in (True, False, True):
            member = self.which(leader)
            member.kill()
            self.handovers(fleet)
            member.start()
        self.finish(fleet)

    def test_a_leader_and_a_follower_that_stop(self):
        fleet = self.fleet()
        for leader in (True, False):
            member = self.which(leader)
            member.process.send_signal(signal.SIGSTOP)
            running = [m for m in self.members if m is not member]
            self.wait_for("a leader", lambda: any(m.leads() for m in running))
            self.members.sort(key=lambda m: m is member)  # those that answer are asked first
            self.handovers(fleet)
            member.process.send_signal(signal.SIGCONT)
        self.finish(fleet)

    def test_without_a_majority_nothing_is_granted_and_nobody_hangs(self):
        fleet = self.fleet()
        before = self.generation()
        leader = self.which(True)
        leader.kill()
        stopped = next(m for m in self.members if m.process)
        stopped.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.refused(self.url + "?lease=2s")
        self.assertLess(time.monotonic() - began, 60)
        stopped.process.send_signal(signal.SIGCONT)
        leader.start()
        self.wait_for("grants", lambda: self.generation() > before)
        self.handovers(fleet)
        self.finish(fleet)


class Users(Table):
    """Whatever one member does."""

    def test_16_processes_at_once_mint_no_duplicate_and_leave_no_lease(self):
        fleet = [self.start(self.url, "-n", "5000", "--timeout", PATIENCE) for _ in range(16)]
        for process in fleet:
            self.assertEqual(process.wait(), 0, process.err())
        self.assertEqual(self.assert_no_twins(fleet), 80000)
        self.assertEqual(self.leases(self.url), [])
        self.tiles()

    def test_killed_clients_and_short_leases_repeat_nothing(self):
        fleet = [self.start(self.url + "?lease=1s", *MINUTES) for _ in range(4)]
        self.wait_for_ids(fleet)
        for _ in range(4):
            fleet[-1].end(signal.SIGKILL)
            fleet.append(self.start(self.url + "?lease=1s", *MINUTES))
            self.wait_for_ids(fleet[-1:])
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles()

    def test_256_leases_in_one_commit(self):
        process = self.start(self.url, "-n", "1000000000", "--rate", "20/s", "--throughput", "16384:16384",
                             "--timeout", PATIENCE, layout="41-16-6@2026-01-01")
        self.wait_for("leases", lambda: len(self.leases(self.url)) == 256)
        process.end()
        self.assertEqual(self.leases(self.url), [])

    def lose_an_answer(self, status):
        proxy = Proxy(self.members[0])
        self.addCleanup(proxy.kill)
        proxy.status, proxy.lose = status, True
        process = self.start(self.url_of([proxy]), *MINUTES)
        self.wait_for_ids([process])
        self.assertEqual(proxy.lost, 1)
        # It was carried out, was asked for again, and is the same one.
        self.assertEqual(len(self.leases(self.url)), 1)
        self.end_all([process])
        self.tiles()

    def test_a_commit_whose_answer_is_lost(self):
        self.lose_an_answer(0)

    def test_a_commit_that_was_carried_out_and_is_answered_503(self):
        self.lose_an_answer(503)

    def test_compaction_meanwhile(self):
        fleet = [self.start(self.url + "?lease=1s", *MINUTES) for _ in range(3)]
        self.wait_for_ids(fleet)
        before = self.generation()
        while self.generation() < before + 12:
            revision = self.members[0].ask("maintenance/status")["header"]["revision"]
            self.members[0].ask("kv/compaction", revision=revision)
        self.end_all(fleet)
        self.assert_no_twins(fleet)
        self.tiles()

    def test_a_login_and_another_prefix(self):
        def ctl(*words):
            subprocess.run(["etcdctl", "--endpoints", f"{LOOPBACK}:{self.members[0].port}", *words], check=True,
                           capture_output=True, env=dict(os.environ, ETCDCTL_API="3"))

        ctl("user", "add", "root:r00t")
        ctl("user", "add", "app:p@ss/w")
        ctl("role", "add", "ids")
        ctl("role", "grant-permission", "ids", "readwrite", "--prefix=true", "mine/")
        ctl("user", "grant-role", "app", "ids")
        ctl("user", "grant-role", "root", "root")
        ctl("auth", "enable")
        url = f"etcd://app:%s@{LOOPBACK}:{self.members[0].port}?prefix=%s"
        process = self.start(url % ("p%40ss%2Fw", "mine"), "-n", "10")
        self.assertEqual(process.wait(), 0, process.err())
        self.refused(url % ("p%40ss%2Fw", "yours"), "permission denied", "readwrite on the prefix")
        self.refused(url % ("wr0ng", "mine"), "authentication failed", "user:password@")
        self.refused(self.url + "?prefix=mine", "user name is empty", "user:password@")
        for process in self.processes:
            for secret in ("wr0ng", "p@ss", "p%40"):
                self.assertNotIn(secret, process.err())

    def test_create_no_a_newer_table_nonsense_and_a_cluster_that_is_down(self):
        self.refused(self.url + "?create=no", "create=no")
        process = self.start(self.url + "?amnesia=quarantine", "-n", "1")
        self.assertEqual(process.wait(), 2)
        self.assertIn("wait four lease durations", process.err())
        self.assertEqual(self.keys(), {})
        key, value = (base64.b64encode(word).decode() for word in (b"kazahana/h", b"2 0 0"))
        self.members[0].ask("kv/put", key=key, value=value)
        self.refused(self.url, "newer kazahana")
        self.members[0].ask("kv/put", key=key, value="eA==")
        self.refused(self.url, "makes no sense")
        for bad in ("etcd:nothing", "etcd://u:s3cret@", "etcd://a:b", self.url + "?nonsense=1"):
            process = self.start(bad, "-n", "1")
            self.assertIn(process.wait(), (1, 2))
            self.assertNotIn("s3cret", process.err())
        self.members[0].kill()
        self.refused(self.url, "onnect")

    def test_a_copy_in_another_cluster_grants_nothing_that_it_may_have_forgotten(self):
        for _ in range(2):
            self.assertEqual(self.start(self.url, "-n", "1").wait(), 0)
        head, _, place = self.keys()["h"].partition("\n")
        # As if these keys had been written by another cluster.
        place = " ".join([*place.split(" ")[:-2], "1", "2"])
        key, value = (base64.b64encode(word.encode()).decode() for word in ("kazahana/h", f"{head}\n{place}"))
        self.members[0].ask("kv/put", key=key, value=value)
        process = self.start(self.url, "-n", "1")
        self.assertEqual(process.wait(), 0, process.err())
        self.assertIn("set aside", process.err())
        # Nodes 0 and 1 were granted, and a quarter of the 32 behind them may have been.
        self.assertEqual(process.ids()[0] >> 8 & 63, 10)

    def test_doctor_and_health(self):
        self.assertEqual(self.start(self.url, "-n", "1").wait(), 0)
        doctor = subprocess.run([PROGRAM, "doctor", "--from", self.url], capture_output=True, text=True)
        self.assertIn("majority of the members", doctor.stdout)


class Quota(Table):
    settings = ("--quota-backend-bytes", "200000")

    def test_no_space_is_told_and_grants_nothing(self):
        many = []
        while not any("space exceeded" in p.err() for p in many):
            many.append(self.start(self.url, "-n", "1", "--timeout", "3s"))
            many[-1].wait()
            self.assertLess(len(many), 400, "the quota is not reached")
        self.assertIn("alarm disarm", many[-1].err())
        self.assertEqual(many[-1].ids(), [])
        self.assert_no_twins(many)
        doctor = subprocess.run([PROGRAM, "doctor", "--from", self.url], capture_output=True, text=True)
        self.assertIn("NOSPACE", doctor.stdout)


class Clocks(Table):
    """Time is the members': neither a client nor one of three can move it."""

    size = 3

    def test_a_member_whose_clock_is_wrong_is_named_and_moves_nothing(self):
        for shift_s in (3600, -3600):
            proxy = Proxy(self.members[0])
            self.addCleanup(proxy.kill)
            proxy.shift_s = shift_s
            process = self.start(self.url_of([proxy, *self.members[1:]]), "-n", "10")
            self.assertEqual(process.wait(), 0, process.err())
            self.assertIn(f"the clock of http://{LOOPBACK}:{proxy.port} is", process.err())
            self.assertLess(self.high_ms(), time.time() * 1000 + 1000)

    @unittest.skipIf(not FAKETIME, "libfaketime is not installed")
    def test_a_client_whose_clock_is_wrong_moves_it_by_less_than_a_second(self):
        fleet = []
        for offset in ("+3600s", "-3600s", "+0s"):
            environment = {"LD_PRELOAD": FAKETIME[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
            fleet.append(self.start(self.url, "-n", "10", "--timeout", PATIENCE, environment=environment))
            self.assertEqual(fleet[-1].wait(), 0, fleet[-1].err())
            self.assertLess(self.high_ms(), time.time() * 1000 + 1000)
        self.assert_no_twins(fleet)


if __name__ == "__main__":
    parallel.main()
