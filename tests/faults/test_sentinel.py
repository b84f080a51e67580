#!/usr/bin/env python3
"""Generators over a Redis that sentinels watch, while its master is replaced or lost.

    KAZAHANA=build/kazahana tests/faults/test_sentinel.py
"""

import json
import os
import socket
import subprocess
import sys
import threading
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
        answer = server.ask("HGET", "lease:store", "generation").split("\r\n")
        return int(answer[1]) if len(answer) > 2 else 0

    def wait_for_the_replica(self):
        self.wait_for("the replica promoted", lambda: self.sentinel.master_port() == self.replica.port)
        self.wait_for("the replica a master", lambda: "role:master" in self.replica.ask("INFO", "replication"))

    def test_generators_outlive_a_killed_master_and_go_on_with_its_replica(self):
        fleet = self.fleet("?lease=3s")
        # What a copy older than half a lease may have forgotten is not granted for four leases and a margin.
        self.master.ask("HSET", "lease:store", "margin", "0")
        self.wait_for("a replica in step", lambda: "margin\r\n$1\r\n0" in self.replica.ask("HGETALL", "lease:store"))
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


class Way:
    """A port that leads to one server, and from some moment on to another."""

    def __init__(self, port):
        self.to = port
        self.listener = socket.create_server((LOOPBACK, 0))
        self.port = self.listener.getsockname()[1]
        self.links = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection((LOOPBACK, self.to))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            self.links += [near, far]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    @staticmethod
    def carry(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def lead_to(self, port):
        self.to = port
        for link in self.links:
            link.close()

    def close(self):
        self.listener.close()
        self.lead_to(0)


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class Forgetful(Fleet):
    """A master is killed with grants that its replica never saw. Their holders go on minting on them."""

    def setUp(self):
        super().setUp()
        self.master = self.up(Redis(self.folder, *DURABLE))
        # The replica logs in as somebody of its own, so that it can be shut out.
        self.master.ask("ACL", "SETUSER", "copier", "on", ">pw", "+psync", "+replconf", "+ping")
        self.replica = self.up(Redis(self.folder, *DURABLE, "--masteruser", "copier", "--masterauth", "pw",
                                     "--replicaof", LOOPBACK, str(self.master.port)))
        self.wait_for("a replica in step", lambda: "master_link_status:up" in self.replica.ask("INFO", "replication"))

    def up(self, service):
        self.addCleanup(service.kill)
        return service.start()

    def mint(self, url, count=4):
        fleet = [self.start(url, "-n", "10000000", "--rate", "1000/s", "--timeout", PATIENCE) for _ in range(count)]
        self.wait_for_ids(fleet)
        return fleet

    def lose_grants(self, url, rule=True):
        """Who holds what the replica knows of, and who what it does not; the master is dead then."""
        known = self.mint(url, 2)
        self.wait_for("a replica in step", lambda: self.master.ask("HGETALL", "lease:store") ==
                      self.replica.ask("HGETALL", "lease:store"))
        self.master.ask("ACL", "SETUSER", "copier", "off")
        self.master.ask("CLIENT", "KILL", "TYPE", "replica")
        lost = self.mint(url)
        self.assertNotEqual(self.master.ask("ZCARD", "lease:nodes"), self.replica.ask("ZCARD", "lease:nodes"))
        if not rule:
            # A store that does not know its place finds no change of it.
            self.replica.ask("CONFIG", "SET", "replica-read-only", "no")
            self.replica.ask("HSET", "lease:store", "place", "")
        self.master.kill()
        return known + lost

    def equal_after(self, url, fleet):
        """Newcomers come to the new master, and all go on side by side."""
        later = self.mint(url)
        self.wait_for_ids(fleet + later, 1000)
        for process in later:
            self.assertFalse(process.last() & FALLBACK_BIT)
        self.end_all(fleet + later)
        ids = [number for process in fleet + later for number in process.ids()]
        print(f"{len(ids)} IDs, {len(ids) - len(set(ids))} equal", file=sys.stderr)
        return len(ids) - len(set(ids))

    def behind_sentinels(self, rule):
        sentinel = self.up(Sentinel(self.folder, self.master))
        self.wait_for("a sentinel that knows both", lambda: "num-slaves\r\n$1\r\n1" in sentinel.ask(
            "SENTINEL", "master", Sentinel.name))
        url = f"redis+sentinel://{LOOPBACK}:{sentinel.port}/{Sentinel.name}/0"
        fleet = self.lose_grants(url, rule)
        self.wait_for("the replica promoted", lambda: sentinel.master_port() == self.replica.port)
        self.wait_for("the replica a master", lambda: "role:master" in self.replica.ask("INFO", "replication"))
        return self.equal_after(url, fleet)

    def behind_a_proxy(self, rule):
        way = Way(self.master.port)
        self.addCleanup(way.close)
        url = f"redis://{LOOPBACK}:{way.port}/0"
        fleet = self.lose_grants(url, rule)
        self.replica.ask("REPLICAOF", "NO", "ONE")
        way.lead_to(self.replica.port)
        return self.equal_after(url, fleet)

    def test_behind_sentinels_nothing_is_granted_twice_and_newcomers_are_served_at_once(self):
        self.assertEqual(self.behind_sentinels(rule=True), 0)

    def test_behind_a_proxy_nothing_is_granted_twice_and_newcomers_are_served_at_once(self):
        self.assertEqual(self.behind_a_proxy(rule=True), 0)

    def test_without_the_rule_there_are_equal_ids(self):
        self.assertGreater(self.behind_a_proxy(rule=False), 0)


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
