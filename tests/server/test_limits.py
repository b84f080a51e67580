#!/usr/bin/env python3
"""One client cannot starve the others: what each may take, and who comes first.

    KAZAHANA=build/kazahana tests/server/test_limits.py
"""

import contextlib
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
sys.dont_write_bytecode = True
import test_server as real  # noqa: E402: how a server is started
import parallel  # noqa: E402


class Turns(real.ServerCase):
    # 16 IDs a millisecond: 10,000 of them take at least 625 ms, whatever the machine.
    SLOW = ("--ids-from", "static:1", "--layout", "41-18-4@2026-01-01")

    def ask_for_long(self, server, count):
        """Connections that wait for 10,000 IDs each."""
        connections = []
        for _ in range(count):
            connection = server.connect()
            self.cleanups.append(connection.close)
            connection.request("GET", "/ids?count=10000")
            connections.append(connection)
        return connections

    def test_id_is_answered_before_long_requests_that_came_earlier(self):
        server = self.serve(*self.SLOW)
        long = self.ask_for_long(server, 8)
        ids = []
        with contextlib.closing(server.connect()) as connection:
            for _ in range(5):
                connection.request("GET", "/id")
                ids.append(real.Answer(connection.getresponse()).json()["data"]["id"])
            # They take turns, so the first of them is served when nearly all are: after five seconds.
            self.assertEqual(select.select([c.sock for c in long], [], [], 0)[0], [])
        for connection in long:
            mine = [int(text) for text in real.Answer(connection.getresponse()).json()["data"]["ids"]]
            self.assertEqual((len(mine), mine), (10000, sorted(mine)))
            ids += mine
        self.assertEqual(len(set(ids)), len(ids))

    def test_whoever_would_wait_for_too_long_is_refused_at_once(self):
        server = self.serve(*self.SLOW)
        long = self.ask_for_long(server, 12)
        self.assertEqual(server.ask("GET", "/ids?count=16").status, 200)  # short ones are let in
        answers = [real.Answer(connection.getresponse()) for connection in long]
        refused = [answer for answer in answers if answer.status != 200]
        self.assertTrue(0 < len(refused) < 6, refused)
        for answer in refused:
            self.assertIn("--throughput", self.assert_problem(answer, 503)["detail"])
            self.assertEqual(answer.headers["retry-after"], "1")


class Services(real.ServerCase):
    """Names that clients make up."""

    def make(self, server, count):
        """So many services with a lease each, of node 0."""
        def some(worker):
            with contextlib.closing(server.connect()) as connection:
                for i in range(worker, count, 8):
                    connection.request("POST", "/lease", body=json.dumps({"serviceId": "s%04d" % i}))
                    answer = real.Answer(connection.getresponse())
                    self.assertEqual((answer.status, answer.json()["leases"][0]["id"]), (200, 0), answer.body)

        real.in_parallel(8, some)

    def out(self, server):
        lines = server.ask("GET", "/leases?limit=1000").json()["leases"]
        return ["%s:%d" % (line["service"], line["id"]) for line in lines]

    def metrics(self, server, name):
        text = server.ask("GET", "/metrics").body.decode()
        return {service: float(value) for service, value in re.findall(r'^%s\{service="(.*)"\} (.*)$' % name, text, re.M)}

    def test_there_are_no_more_than_allowed(self):
        server = self.serve("--max-services", "3")
        self.make(server, 2)
        refused = server.ask("POST", "/lease", {"serviceId": "one-more"})
        self.assertIn("max_services", self.assert_problem(refused, 503)["detail"])
        self.assertEqual(refused.headers["retry-after"], "1")
        for service in ("default", "s0000", "s0001"):
            self.assertEqual(server.ask("POST", "/lease", {"serviceId": service}).status, 200)
        self.assert_problem(server.ask("POST", "/lease", {"serviceId": "another"}), 503)

    def test_a_release_that_names_no_service_holds_nobody_up(self):
        server = self.serve("--max-services", "500")
        self.make(server, 400)
        now_ms = server.ask("GET", "/time").json()["serverTime"]
        body = json.dumps({"signature": "0" * 64, "timestamp": now_ms})
        wrong = []
        for _ in range(40):
            connection = server.connect()
            self.cleanups.append(connection.close)
            connection.request("DELETE", "/lease/0", body=body)
            wrong.append(connection)
        # Each of them tries 400 services; a lease does not wait until they have.
        self.assertEqual(server.ask("POST", "/lease", {}).status, 200)
        answered = select.select([c.sock for c in wrong], [], [], 0)[0]
        self.assertLess(len(answered), len(wrong))
        for connection in wrong:
            answer = real.Answer(connection.getresponse())
            self.assert_problem(answer, 503 if answer.status == 503 else 403)  # 503: it took more than 10 s
        # The right signature is still found, wherever it is.
        lease = server.ask("POST", "/lease", {"serviceId": "s0399"}).json()["leases"][0]
        body = {"signature": real.sign(lease["secret"], lease["id"], now_ms), "timestamp": now_ms}
        self.assertEqual(server.ask("DELETE", "/lease/%d" % lease["id"], body).status, 204)
        self.assertNotIn("s0399:%d" % lease["id"], self.out(server))

    def test_metrics_name_the_largest_services_and_add_up_the_rest(self):
        server = self.serve()
        self.assertEqual(self.metrics(server, "kazahana_nodes_free"), {"default": 8191})
        self.make(server, 150)
        for _ in range(3):
            server.ask("POST", "/lease", {"serviceId": "s0149", "throughputPerMs": 512})
        active = self.metrics(server, "kazahana_leases_active")
        self.assertEqual(len(active), 101)
        self.assertEqual((active["s0149"], active["default"], sum(active.values())), (7, 1, 1 + 150 + 6))
        self.assertEqual(active["other"], 51)
        nodes, free = self.metrics(server, "kazahana_nodes"), self.metrics(server, "kazahana_nodes_free")
        self.assertEqual((nodes["s0149"], free["s0149"]), (8192, 8185))
        self.assertEqual((nodes["other"], free["other"]), (51 * 8192, 51 * 8191))
        server.ask("POST", "/lease", {"serviceId": "other", "throughputPerMs": 2048})
        self.assertEqual(self.metrics(server, "kazahana_leases_active")["other"], 51 + 8)
        text = server.ask("GET", "/metrics").body.decode()
        samples = re.findall(r"(?m)^([^#\n]*) \S+$", text)
        self.assertEqual(len(samples), len(set(samples)))
        version = subprocess.run([real.PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertIn('\nkazahana_build_info{version="%s"} 1\n' % version, text)
        self.assertEqual(re.findall(r"\d\.\d{12,}", text), [])  # 0.601, not 0.60099999999999998

    def test_many_who_look_get_one_answer(self):
        server = self.serve()
        self.make(server, 100)

        def look(path):
            def many(_):
                with contextlib.closing(server.connect()) as connection:
                    for _ in range(10):
                        connection.request("GET", path)
                        self.assertEqual(real.Answer(connection.getresponse()).status, 200)
            return many

        for path in ("/metrics", "/health", "/time"):
            real.in_parallel(20, look(path))


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Handshakes(real.ServerCase):
    def test_there_is_a_limit_to_those_under_way(self):
        cert, key = os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
             "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True,
        )
        server = self.serve("--tls-cert", cert, "--tls-key", key, "--handshakes", "2", "--loops", "1")
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False

        def connect():
            return socket.create_connection(("127.0.0.1", server.port), timeout=real.PATIENCE_S)

        def ask(plain):
            with context.wrap_socket(plain) as secure:
                secure.sendall(b"GET /id HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return secure.recv(12)

        # Connections whose handshake is done do not count.
        done = [context.wrap_socket(connect()) for _ in range(5)]
        silent = [connect(), connect()]
        third = connect()
        self.assertEqual(third.recv(1), b"")  # turned away at once
        third.close()
        done[0].sendall(b"GET /id HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(done[0].recv(12), b"HTTP/1.1 200")
        silent.pop().close()
        for _ in range(1000):  # until the server has noticed
            with contextlib.suppress(OSError):
                self.assertEqual(ask(connect()), b"HTTP/1.1 200")
                break
        else:
            self.fail("nobody gets in any more")
        for connection in done + silent:
            connection.close()


if __name__ == "__main__":
    parallel.main()
