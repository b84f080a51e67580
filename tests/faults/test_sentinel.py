#!/usr/bin/env python3
"""Generators over a Redis that sentinels watch, while its master is replaced or lost.

    KAZAHANA=build/kazahana tests/faults/test_sentinel.py
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from services import LOOPBACK, Redis, Sentinel, free_port  # noqa: E402
from test_leases import PATIENCE, PROGRAM, FALLBACK_BIT, Fleet  # noqa: E402

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class Failovers(Fleet):
    def setUp(self):
        super().setUp()
        self.master = self.up(Redis(self.folder, *DURABLE))
        self.replica = self.up(Redis(self.folder, *DURABLE, "--replicaof", LOOPBACK, str(self.master.port)))
        self.wait_for("a replica in step", lambda: "master_link_status:up" in self.replica.ask("INFO", "replication"))
        self.sentinel = self.up(Sentinel(self.folder, self.master))
        self.wait_for("a sentinel that knows both", lambda: "num-slaves\r\n$1\r\n1" in self.sentinel.ask(
            "SENTINEL", "master", Sentinel.name))
        # Nobody is at the first: they are asked in turn.
        self.url = f"redis+sentinel://{LOOPBACK}:{free_port()},{LOOPBACK}:{self.sentinel.port}/{Sentinel.name}/0"

    def up(self, service):
        self.addCleanup(service.kill)
        return service.start()

    def fleet(self, parameters=""):
        """Some that mint; the replica has seen all that was granted to them."""
        fleet = [self.start(self.url + parameters, "-n", "10000000", "--rate", "500/s", "--timeout", PATIENCE)
                 for _ in range(4)]
        self.wait_for_ids(fleet)
        self.wait_for("a replica in step", lambda: self.generation(self.master) == self.generation(self.replica) > 0)
        return fleet

    def generation(self, server):
        answer = server.ask("GET", "lease:generation").split("\r\n")
        return int(answer[1]) if len(answer) > 2 else 0

    def wait_for_the_replica(self):
        self.wait_for("the replica promoted", lambda: self.sentinel.master_port() == self.replica.port)
        self.wait_for("the replica a master", lambda: "role:master" in self.replica.ask("INFO", "replication"))

    def test_generators_outlive_a_killed_master_and_go_on_with_its_replica(self):
        fleet = self.fleet("?lease=3s")
        self.master.kill()
        self.wait_for_the_replica()
        self.wait_for("leases again", lambda: all(
            not p.last() & FALLBACK_BIT for p in fleet) and len(self.leases(self.url)) >= len(fleet))
        self.end_all(fleet)
        self.assert_no_twins(fleet)

    def test_a_master_that_was_replaced_is_left_although_it_goes_on(self):
        fleet = self.fleet()
        self.wait_for("leave to fail over", lambda: self.sentinel.ask(
            "SENTINEL", "failover", Sentinel.name).startswith("+OK"))
        self.wait_for_the_replica()
        later = self.start(self.url, "-n", "100")
        self.assertEqual(later.wait(), 0, later.err())
        # What they give back arrives at the new master, if it was a second ago that they asked which one it is.
        time.sleep(1.1)
        self.end_all(fleet)
        self.assertEqual(self.leases(self.url), [])
        self.assert_no_twins(fleet + [later])

    def test_a_replica_that_lacks_the_last_grants_is_noticed(self):
        fleet = self.fleet("?lease=2s")
        self.master.kill()
        # As if the last of them had not reached it.
        self.replica.ask("CONFIG", "SET", "replica-read-only", "no")
        self.replica.ask("SET", "lease:generation", "0")
        self.wait_for_the_replica()
        self.wait_for("all to notice", lambda: all("went back in time" in p.err() for p in fleet))
        self.assertEqual(self.generation(self.replica), 0)
        self.assert_no_twins(fleet)

    def test_doctor_says_what_a_failover_can_forget(self):
        done = subprocess.run([PROGRAM, "doctor", "--from", self.url, "--json"], stdout=subprocess.PIPE, text=True)
        checks = {check["check"]: check for check in map(json.loads, done.stdout.splitlines())}
        self.assertEqual((done.returncode, checks["durable"]["result"]), (0, "warn"), done.stdout)
        self.assertIn("forget the last leases granted", checks["durable"]["detail"])
        self.assertIn("min-replicas-to-write", checks["durable"]["advice"])

    def test_a_master_that_no_sentinel_knows_is_told(self):
        process = self.start(self.url.replace(Sentinel.name, "another"))
        self.assertEqual(process.wait(), 1)
        self.assertIn("knows no master called another", process.err())


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class Sealed(Fleet):
    """Servers and sentinels that speak TLS only, each kind with a password of its own."""

    def setUp(self):
        super().setUp()
        pem = os.path.join(self.folder, "both.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{LOOPBACK}",
                        "-keyout", pem, "-out", pem + ".cert"], check=True, stderr=subprocess.DEVNULL)
        with open(pem, "a", encoding="ascii") as both, open(pem + ".cert", encoding="ascii") as cert:
            both.write(cert.read())
        self.master = Redis(self.folder, *DURABLE, certificate=pem, password="m4sterpw")
        self.sentinel = Sentinel(self.folder, self.master, password="sent1nelpw")
        for service in (self.master, self.sentinel):
            self.addCleanup(service.kill)
            service.start()
        self.url = (f"rediss+sentinel://:m4sterpw@{LOOPBACK}:{self.sentinel.port}/{Sentinel.name}/0?cacert={pem}"
                    f"&sentinel-password=")

    def test_ids_come_from_behind_both_doors(self):
        process = self.start(self.url + "sent1nelpw", "-n", "100")
        self.assertEqual(process.wait(), 0, process.err())
        self.assertIn("lease:0", self.master.ask("KEYS", "lease:0"))

    def test_a_wrong_password_of_the_sentinels_is_told_and_not_shown(self):
        process = self.start(self.url + "wr0ngpw", "-n", "1", "--timeout", "2000")
        self.assertEqual(process.wait(), 1)
        self.assertIn("the sentinel at", process.err())
        self.assertIn("wrong user or password", process.err())
        for word in ("wr0ngpw", "m4sterpw"):
            self.assertNotIn(word, process.err())


if __name__ == "__main__":
    unittest.main(verbosity=2)
