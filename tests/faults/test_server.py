#!/usr/bin/env python3
"""The real server under real clients: what it answers, and what happens when it is killed, stopped, flooded or alone.

    KAZAHANA=build/kazahana HTTP_LOAD=build/bench/http_load tests/faults/test_server.py
"""

import contextlib
import glob
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from services import Redis, free_port  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("KAZAHANA", "build/kazahana"))
LOAD = os.path.abspath(os.environ.get("HTTP_LOAD", "build/bench/http_load"))
PATIENCE_S = 60  # for what takes a moment on a machine with nothing else to do
TOKEN = "a-token-for-this-test-only-0001"
EPOCH_2024_MS = 1704067200000
FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


def environment(**more):
    """Nobody's settings but the test's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAZAHANA", "WORKER_ID"))}
    return dict(kept, **more)


def in_parallel(count, work):
    """Runs work(i) on so many threads; what any of them raised is raised here."""
    results, raised = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as e:  # noqa: B902: shown by the thread that waits
            raised.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return results


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.type = response.getheader("Content-Type", "")
        self.headers = dict((name.lower(), value) for name, value in response.getheaders())
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Server:
    """`kazahana serve` with a log of its own. `port` 0: one that is free, learned from the log."""

    def __init__(self, folder, *arguments, port=0, env=None, wait=True):
        self.log_path = tempfile.mkstemp(prefix="serve-", suffix=".log", dir=folder)[1]
        self.log_file = open(self.log_path, "w")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:%d" % port, *arguments],
            env=environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log_file,
        )
        self.port = self.learn_port() if wait else None

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def learn_port(self):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.log().splitlines():
                found = re.search(r"\bevent=listening\b.*\baddress=\S*:(\d+)", line)
                if found:
                    return int(found.group(1))
            time.sleep(0.01)
        text = self.log()
        self.kill()
        raise AssertionError("the server did not come up: " + text)

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    def connect(self, timeout=PATIENCE_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body=body, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log_file.close()

    def wait(self, timeout):
        try:
            status = self.process.wait(timeout)
        finally:
            self.kill()
        return status


class ServerCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kz-server-")
        self.store = "sqlite:" + os.path.join(self.folder, "leases.db")
        self.cleanups = []

    def tearDown(self):
        for cleanup in reversed(self.cleanups):
            cleanup()
        shutil.rmtree(self.folder)

    def serve(self, *arguments, store=None, **more):
        server = Server(self.folder, "--store", store or self.store, *arguments, **more)
        self.cleanups.append(server.kill)
        return server

    def client(self, *arguments, env=None):
        """`kazahana next`, printing to a file so that no pipe holds it up."""
        out = tempfile.TemporaryFile("w+", dir=self.folder)
        err = tempfile.TemporaryFile("w+", dir=self.folder)
        process = subprocess.Popen(
            [PROGRAM, "next", *arguments], env=environment(**(env or {})), stdin=subprocess.DEVNULL, stdout=out,
            stderr=err,
        )

        def cleanup():
            if process.poll() is None:
                process.kill()
            process.wait()
            out.close()
            err.close()

        self.cleanups.append(cleanup)
        return process, out, err

    def finish(self, client, timeout=2 * PATIENCE_S):
        """The IDs it printed, its status, and what it complained about."""
        process, out, err = client
        process.wait(timeout)
        out.seek(0)
        err.seek(0)
        return [int(line) for line in out], process.returncode, err.read()

    def run_client(self, *arguments, env=None):
        return self.finish(self.client(*arguments, env=env))

    def collect(self, clients, count):
        """Every client did all its work, upward, and no two IDs of all of them are equal."""
        everything = []
        for client in clients:
            ids, status, err = self.finish(client)
            self.assertEqual(status, 0, err)
            self.assertEqual(len(ids), count, err)
            self.assertTrue(all(a < b for a, b in zip(ids, ids[1:])))
            everything += ids
        self.assertEqual(len(set(everything)), len(everything))

    def leases(self, url):
        done = subprocess.run(
            [PROGRAM, "leases", "--from", url, "--json"], env=environment(), capture_output=True, text=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]

    def assert_problem(self, answer, status):
        self.assertEqual(answer.status, status, answer.body)
        self.assertTrue(answer.type.startswith("application/problem+json"), answer.type)
        problem = answer.json()
        self.assertEqual(problem["status"], status)
        for name in ("type", "title", "detail"):
            self.assertIsInstance(problem[name], str)
        self.assertTrue(problem["title"])
        return problem


def sign(secret, node, timestamp_ms):
    return hmac.new(secret.encode(), b"%d:%d" % (node, timestamp_ms), hashlib.sha256).hexdigest()


class Ids(ServerCase):
    def test_64_connections_on_two_loops_get_no_id_twice(self):
        # The load looks at every answer: a 200, above the one before on its connection, and equal to no other.
        server = self.serve("--loops", "2", "--throughput", "2048:4096")
        done = subprocess.run(
            [LOAD, "--ids", "--connections", "64", "--seconds", "10", str(server.port)],
            env=environment(), capture_output=True, text=True, timeout=120,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(int(done.stdout), 640)

    def test_ids_are_unique_over_all_threads(self):
        server = self.serve()

        def hammer(_):
            ids, connection = [], server.connect()
            for i in range(400):
                if i % 8:
                    connection.request("GET", "/id")
                    data = Answer(connection.getresponse()).json()["data"]
                    self.assertEqual(str(data["id"]), data["id_str"])
                    mine = [data["id"]]
                else:
                    connection.request("GET", "/ids?count=100")
                    mine = [int(text) for text in Answer(connection.getresponse()).json()["data"]["ids"]]
                    self.assertEqual(len(mine), 100)
                self.assertEqual(mine, sorted(mine))
                if ids:
                    self.assertLess(ids[-1], mine[0])
                ids += mine
            connection.close()
            return ids

        everything = sum(in_parallel(16, hammer), [])
        self.assertEqual(len(everything), 16 * (350 + 50 * 100))
        self.assertEqual(len(set(everything)), len(everything))

    def test_many_come_as_lines_too_and_counts_have_limits(self):
        server = self.serve()
        answer = server.ask("GET", "/ids?count=3", headers={"Accept": "text/plain"})
        self.assertTrue(answer.type.startswith("text/plain"), answer.type)
        self.assertEqual(len([int(line) for line in answer.body.decode().splitlines()]), 3)
        self.assertEqual(len(server.ask("GET", "/ids?count=10000").json()["data"]["ids"]), 10000)
        for count in ("0", "10001", "-1", "x", "99999999999999999999", ""):
            self.assert_problem(server.ask("GET", "/ids?count=" + count), 400)

    def test_the_number_of_a_worker_is_in_its_ids(self):
        for number, env in ((7, {"WORKER_ID": "7"}), (0, {}), (1023, {"WORKER_ID": "1023"})):
            server = self.serve("--ids-from", "env:WORKER_ID?default=0", "--layout", "snowflake", env=env)
            number_id = server.ask("GET", "/id").json()["data"]["id"]
            self.assertEqual(number_id >> 12 & 1023, number)
            self.assertAlmostEqual((number_id >> 22) + EPOCH_2024_MS, time.time() * 1000, delta=PATIENCE_S * 1000)
            parts = server.ask("GET", "/decode/%d" % number_id).json()
            self.assertIn('"node": %d' % number, json.dumps(parts))
            server.kill()

    def test_a_worker_number_that_does_not_fit_refuses_to_start(self):
        for value in ("2000", "-1", "seven", ""):
            server = self.serve(
                "--ids-from", "env:WORKER_ID?default=0", "--layout", "snowflake", env={"WORKER_ID": value}, wait=False
            )
            self.assertNotEqual(server.wait(PATIENCE_S), 0)
            self.assertIn("WORKER_ID", server.log())
            self.assertNotIn("event=listening", server.log())


class Leases(ServerCase):
    def acquire(self, server, **more):
        answer = server.ask("POST", "/lease", {"serviceId": "default", "meta": {"host": "a"}, **more})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def release(self, server, lease, timestamp_ms, **changes):
        body = {"signature": sign(lease["secret"], lease["id"], timestamp_ms), "timestamp": timestamp_ms, **changes}
        return server.ask("DELETE", "/lease/%d" % lease["id"], body)

    def now_ms(self, server):
        answer = server.ask("GET", "/time").json()
        self.assertGreaterEqual(answer["generation"], 0)
        return answer["serverTime"]

    def test_a_lease_is_taken_and_given_back(self):
        server = self.serve()
        before_ms = self.now_ms(server)
        answer = self.acquire(server, throughputPerMs=1024, requestId="0123456789abcdef" * 2)
        self.assertEqual(answer["requestId"], "0123456789abcdef" * 2)
        self.assertGreaterEqual(answer["serverTime"], before_ms)
        self.assertEqual(len(answer["leases"]), 4)
        names = "id created expired secret customEpoch bitReserve bitTs bitId bitSeq fallbackCreated fallbackExpired"
        for lease in answer["leases"]:
            self.assertEqual(set(lease), set(names.split()))
            self.assertEqual([lease[b] for b in ("bitReserve", "bitTs", "bitId", "bitSeq")], [1, 41, 14, 8])
            self.assertEqual(lease["expired"] - lease["created"], 600000)
            self.assertGreaterEqual(len(lease["secret"]), 32)
        self.assertEqual(len({lease["id"] for lease in answer["leases"]}), 4)
        # Asking twice is asking once, whoever asks in between.
        again = self.acquire(server, throughputPerMs=1024, requestId="0123456789abcdef" * 2)
        self.assertEqual(again["leases"], answer["leases"])
        self.assertGreaterEqual(again["generation"], answer["generation"])
        other = {"throughputPerMs": 5, "requestId": "0123456789abcdef" * 2}
        self.assert_problem(server.ask("POST", "/lease", other), 409)
        listed = server.ask("GET", "/leases")
        for lease in answer["leases"]:
            self.assertNotIn(lease["secret"].encode(), listed.body)
        self.assertTrue({lease["id"] for lease in answer["leases"]} <= {row["id"] for row in listed.json()["leases"]})
        for lease in answer["leases"]:
            self.assertEqual(self.release(server, lease, self.now_ms(server)).status, 204)
            self.assert_problem(self.release(server, lease, self.now_ms(server)), 404)

    def test_a_release_without_a_service_finds_the_one_that_signed(self):
        server = self.serve()
        leases = {name: self.acquire(server, serviceId=name)["leases"][0] for name in ("zoo", "bar", "foo")}
        self.assertEqual({lease["id"] for lease in leases.values()}, {0})
        self.assert_problem(self.release(server, {"id": 0, "secret": "x"}, self.now_ms(server)), 403)
        for name in ("foo", "zoo", "bar"):
            self.assertEqual(self.release(server, leases.pop(name), self.now_ms(server)).status, 204)
            left = {row["service"] for row in server.ask("GET", "/leases").json()["leases"]} - {"default"}
            self.assertEqual(left, set(leases))

    def test_the_table_is_told_in_pages(self):
        server = self.serve()
        taken = self.acquire(server, throughputPerMs=256 * 25)["leases"]
        seen, after = [], None
        for _ in range(100):
            onward = "&after=" + urllib.parse.quote(after) if after else ""
            page = server.ask("GET", "/leases?limit=4" + onward).json()
            self.assertLessEqual(len(page["leases"]), 4)
            seen += [(row["service"], row["id"]) for row in page["leases"]]
            after = page["next"]
            if after is None:
                break
        self.assertIsNone(after)
        self.assertEqual(seen, sorted(set(seen)))
        self.assertTrue({("default", lease["id"]) for lease in taken} <= set(seen))
        # A full page may be the last; a service's name stands for its first lease.
        for query, lines in (("limit=%d" % len(seen), len(seen)), ("after=default", len(seen)), ("after=e", 0)):
            page = server.ask("GET", "/leases?" + query).json()
            self.assertEqual((len(page["leases"]), page["next"]), (lines, None), query)
        for query in ("limit=0", "limit=1001", "limit=x", "after=default:x", "after=default:", "after=a:-1"):
            self.assert_problem(server.ask("GET", "/leases?" + query), 400)

    def test_a_wrong_release_changes_nothing(self):
        server = self.serve()
        lease = self.acquire(server)["leases"][0]
        now_ms = self.now_ms(server)
        self.assert_problem(self.release(server, lease, now_ms, signature="0" * 64), 403)
        self.assert_problem(self.release(server, lease, now_ms, timestamp=now_ms + 1), 403)
        self.assert_problem(self.release(server, lease, now_ms - 31000), 400)
        self.assert_problem(self.release(server, lease, now_ms + 40000), 400)
        self.assert_problem(self.release(server, lease, now_ms, signature="xyz"), 400)
        self.assert_problem(self.release(server, lease, now_ms, signature=5), 400)
        self.assert_problem(self.release(server, lease, now_ms, timestamp="now"), 400)
        self.assert_problem(self.release(server, {"id": 8000, "secret": "x"}, now_ms), 404)
        self.assert_problem(server.ask("DELETE", "/lease/x", {"signature": "0" * 64, "timestamp": now_ms}), 400)
        self.assert_problem(server.ask("DELETE", "/lease/99999999999", {"signature": "0" * 64, "timestamp": 1}), 400)
        self.assertEqual(self.release(server, lease, self.now_ms(server)).status, 204)

    def test_what_makes_no_sense_is_refused_with_its_status(self):
        server = self.serve()
        for body in (
            "", "{", "[]", "null", "{} x", '{"serviceId":"a","serviceId":"b"}', '{"serviceId":5}',
            '{"serviceId":"a/b"}', '{"throughputPerMs":"many"}', '{"throughputPerMs":0}', '{"throughputPerMs":-1}',
            '{"throughputPerMs":1.5}', '{"throughputPerMs":1e300}', '{"throughputPerMs":99999999999999999999}',
            '{"throughputPerMs":9007199254740993}', '{"throughputPerMs":4294967295}', '{"meta":"me"}',
            '{"requestId":"short"}', '{"requestId":7}', b"\xff\xfe", "[" * 5000,
        ):
            with self.subTest(body=body[:40]):
                self.assert_problem(server.ask("POST", "/lease", body), 400)
        self.assert_problem(server.ask("GET", "/nothing/here"), 404)
        for method, path in (("DELETE", "/id"), ("POST", "/ids"), ("GET", "/lease"), ("PUT", "/leases")):
            with self.subTest(method=method, path=path):
                answer = server.ask(method, path)
                self.assert_problem(answer, 405)
                self.assertIn("allow", answer.headers)
        # None of it took a lease: there are only the server's own.
        rows = server.ask("GET", "/leases").json()["leases"]
        self.assertLessEqual(len(rows), 1)

    def test_a_body_of_a_megabyte_is_refused(self):
        server = self.serve()
        connection = server.connect()
        connection.putrequest("POST", "/lease")
        connection.putheader("Content-Length", str(1 << 20))
        connection.endheaders()
        try:
            connection.send(b" " * (1 << 20))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it need not listen to the end
        self.assert_problem(Answer(connection.getresponse()), 413)
        connection.close()
        self.assertEqual(server.ask("GET", "/id").status, 200)

    def test_an_unknown_service_can_be_forbidden(self):
        server = self.serve("--no-create-services")
        self.assert_problem(server.ask("POST", "/lease", {"serviceId": "unheard-of"}), 404)
        ids, status, err = self.run_client("--from", server.url + "?service=unheard-of", "--timeout", "20s")
        self.assertEqual((ids, status), ([], 1))
        self.assertIn("unheard-of", err)

    def test_health_says_up(self):
        server = self.serve()
        health = server.ask("GET", "/health")
        self.assertEqual(health.status, 200)
        self.assertEqual(health.json()["status"], "UP")
        self.assertTrue({"store", "clock", "generator"} <= set(health.json()["components"]))
        for path in ("/health/live", "/health/ready"):
            self.assertEqual(server.ask("GET", path).status, 200)


class Faults(ServerCase):
    COUNT = 20000

    def test_killed_and_started_again_no_client_notices(self):
        store = self.store + "?lease=2s"  # so that leases end and are handed over while it is gone
        server = self.serve(store=store)
        arguments = ("--from", server.url, "-n", str(self.COUNT), "--rate", "5000/s")
        clients = [self.client(*arguments) for _ in range(12)]
        time.sleep(1)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        clients += [self.client(*arguments) for _ in range(8)]  # these find nobody at first
        time.sleep(1)
        again = self.serve(store=store, port=server.port)
        self.assertEqual(again.port, server.port)
        self.collect(clients, self.COUNT)

    def test_killed_again_and_again(self):
        store = self.store + "?lease=1s"
        server = self.serve(store=store)
        port = server.port
        clients = [self.client("--from", server.url, "-n", "10000", "--rate", "2000/s") for _ in range(8)]
        for _ in range(5):
            time.sleep(0.6)
            server.kill()
            server = self.serve(store=store, port=port)
        self.collect(clients, 10000)

    def test_what_clients_held_is_given_back(self):
        server = self.serve()
        own = len(self.leases(server.url))
        ids, status, err = self.run_client("--from", server.url, "-n", "1000")
        self.assertEqual((len(ids), status), (1000, 0), err)
        self.assertEqual(len(self.leases(server.url)), own)

    def test_a_stop_under_load_answers_everything_and_gives_back(self):
        server = self.serve()
        over = threading.Event()
        broken = []

        def hammer():
            # An answer that begins comes whole. A connection may end between two requests: that is how a server goes.
            connection = server.connect()
            while not over.is_set():
                try:
                    connection.request("GET", "/id")
                    response = connection.getresponse()
                except (ConnectionError, http.client.RemoteDisconnected, OSError):
                    return
                try:
                    answer = Answer(response)
                    if answer.status != 200 or "id" not in answer.json()["data"]:
                        broken.append((answer.status, answer.body))
                except Exception as e:  # noqa: B902: whatever it was, the answer was not whole
                    broken.append(e)

        threads = [threading.Thread(target=hammer) for _ in range(8)]
        for thread in threads:
            thread.start()
        # At 256 a millisecond these take 250 ms together, so that some are under way when the signal comes.
        waiting = [server.connect() for _ in range(16)]
        for connection in waiting:
            connection.request("GET", "/ids?count=4000")
        server.process.send_signal(signal.SIGTERM)
        everything = []
        for connection in waiting:
            answer = Answer(connection.getresponse())
            self.assertEqual(answer.status, 200, answer.body[:200])
            everything += answer.json()["data"]["ids"]
            connection.close()
        self.assertEqual(server.wait(PATIENCE_S), 0, server.log())
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(broken, [])
        self.assertEqual(len(set(everything)), 64000)
        self.assertEqual(self.leases(self.store), [])

    def test_slow_clients_are_cut_and_others_do_not_notice(self):
        server = self.serve("--request-timeout", "1s")
        slow, heads = [], (b"GET /id HTTP/1.1\r\nX: ", b"POST /lease HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{")
        for i in range(100):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.sendall(heads[i % 2])
            s.setblocking(False)
            slow.append(s)
        self.cleanups.append(lambda: [s.close() for s in slow])
        answered, until = 0, time.monotonic() + PATIENCE_S
        while self.metric(server, "kazahana_http_cut_total") < len(slow):
            self.assertLess(time.monotonic(), until, "not all were cut")
            self.assertEqual(server.ask("GET", "/id").status, 200)
            answered += 1
            for s in slow:  # a byte now and then does not help
                with contextlib.suppress(OSError):
                    s.send(b" ")
            time.sleep(0.05)
        self.assertGreater(answered, 0)
        for s in slow:
            s.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                self.assertIn(b" 408 ", s.recv(4096))
                while s.recv(4096):
                    pass

    def metric(self, server, name):
        return float(re.search(r"^%s (\S+)$" % name, server.ask("GET", "/metrics").body.decode(), re.M).group(1))


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class TwoServers(ServerCase):
    def start_redis(self):
        redis = Redis(self.folder).start()
        self.cleanups.append(redis.kill)
        return redis.url

    def test_clients_of_two_servers_go_on_with_one(self):
        store = self.start_redis() + "?lease=2s"
        a, b = self.serve(store=store), self.serve(store=store)
        both = ["http://127.0.0.1:%d,127.0.0.1:%d" % ports for ports in ((a.port, b.port), (b.port, a.port))]
        clients = [self.client("--from", both[i % 2], "-n", "20000", "--rate", "4000/s") for i in range(10)]
        time.sleep(1.5)
        a.kill()
        late = [self.client("--from", both[0], "-n", "20000") for _ in range(4)]
        self.collect(clients + late, 20000)
        self.assertEqual(b.ask("GET", "/id").status, 200)

    def test_a_release_reaches_whichever_server_is_left(self):
        store = self.start_redis()
        a, b = self.serve(store=store), self.serve(store=store)
        lease = a.ask("POST", "/lease", {}).json()["leases"][0]
        a.kill()
        now_ms = b.ask("GET", "/time").json()["serverTime"]
        body = {"signature": sign(lease["secret"], lease["id"], now_ms), "timestamp": now_ms}
        self.assertEqual(b.ask("DELETE", "/lease/%d" % lease["id"], body).status, 204)


@unittest.skipIf(Redis.missing(), "redis-server is not installed")
class HungStore(ServerCase):
    def setUp(self):
        super().setUp()
        redis = Redis(self.folder).start()
        self.cleanups.append(redis.kill)
        self.server = self.serve(store=redis.url)
        redis.process.send_signal(signal.SIGSTOP)
        self.cleanups.append(lambda: redis.process.send_signal(signal.SIGCONT))

    ASKED = [("GET", "/metrics", None), ("GET", "/health", None), ("POST", "/lease", {}), ("GET", "/leases", None)]

    def test_nobody_waits_for_the_sum_of_all_that_wait(self):
        # Each of the forty costs the store five seconds, if it is tried.
        answers = in_parallel(40, lambda i: self.server.ask(*self.ASKED[i % 4]))
        for i, answer in enumerate(answers):
            self.assertEqual(answer.status, 200 if i % 4 == 0 else 503, answer.body[:200])
        self.assertIn("kazahana_up{component=\"store\"} 0", answers[0].body.decode())
        self.assertEqual(self.server.ask("GET", "/id").status, 200)

    def test_it_ends_while_requests_wait(self):
        clients = [self.server.connect() for _ in range(40)]
        for i, client in enumerate(clients):
            self.cleanups.append(client.close)
            method, path, body = self.ASKED[i % 4]
            client.request(method, path, body=json.dumps(body) if body is not None else None)
        self.assertEqual(self.server.ask("GET", "/id").status, 200)
        self.server.process.terminate()
        self.assertEqual(self.server.wait(PATIENCE_S), 0, self.server.log())


@unittest.skipIf(Redis.missing() or not FAKETIME, "redis-server or libfaketime is not installed")
class OtherClock(ServerCase):
    def test_a_clock_that_is_hours_off_the_stores_is_a_warning(self):
        redis = Redis(self.folder).start()
        self.cleanups.append(redis.kill)
        for offset in ("+5h", "-5h"):
            faked = {"LD_PRELOAD": FAKETIME[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
            server = self.serve(store=redis.url, env=faked)
            self.assertEqual(server.ask("GET", "/id").status, 200)
            answer = server.ask("GET", "/health")
            self.assertEqual(answer.status, 200, answer.body)
            parts = {name: part["status"] for name, part in answer.json()["components"].items()}
            self.assertEqual(parts, {"store": "UP", "clock": "WARN", "generator": "UP"})


class LockedStore(ServerCase):
    def test_time_spent_on_what_failed_is_counted_as_it_was(self):
        began = time.monotonic()
        server = self.serve()
        with contextlib.closing(sqlite3.connect(self.store.split(":")[1], isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = in_parallel(8, lambda _: server.ask("POST", "/lease", {}))
            other.execute("ROLLBACK")
        self.assertEqual({answer.status for answer in answers}, {503})
        self.assertEqual(server.ask("POST", "/lease", {}).status, 200)
        text = server.ask("GET", "/metrics").body.decode()
        total, count = re.findall(r"^kazahana_store_seconds_(?:sum|count) (\S+)$", text, re.M)
        self.assertGreater(float(total), 1)
        self.assertLess(float(total), int(count) * (time.monotonic() - began))


class Secrets(ServerCase):
    def test_a_token_is_asked_for_where_it_matters(self):
        path = os.path.join(self.folder, "tokens")
        with open(path, "w") as file:
            file.write("# for this test\n%s\nanother-token-for-rotation-0002\n" % TOKEN)
        server = self.serve("--token-file", path)
        right = {"Authorization": "Bearer " + TOKEN}
        for method, route, body in (
            ("POST", "/lease", {}),
            ("DELETE", "/lease/1", {"signature": "0" * 64, "timestamp": 1}),
            ("GET", "/leases", None),
        ):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
                answer = server.ask(method, route, body, headers)
                self.assertIn(answer.status, (401, 403))
                self.assert_problem(answer, answer.status)
            self.assertNotIn(server.ask(method, route, body, right).status, (401, 403))
        for route in ("/id", "/time", "/health"):
            self.assertEqual(server.ask("GET", route).status, 200)
        other = {"Authorization": "Bearer another-token-for-rotation-0002"}
        self.assertEqual(server.ask("POST", "/lease", {}, other).status, 200)
        for url, env in ((server.url + "?token-file=" + path, {}), (server.url, {"KAZAHANA_TOKEN": TOKEN})):
            ids, status, err = self.run_client("--from", url, "-n", "10", env=env)
            self.assertEqual((len(ids), status), (10, 0), err)
        for url in (server.url, server.url + "?token=" + TOKEN + "x"):
            ids, status, err = self.run_client("--from", url, "--timeout", "20s")
            self.assertEqual((ids, status), ([], 1))
            self.assertIn("401", err)
            self.assertNotIn(TOKEN, err)
        self.assertNotIn(TOKEN, server.log())

    def make_certificate(self):
        certificate, key = os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            + ["-keyout", key, "-out", certificate],
            check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        return certificate, key

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_everything_goes_over_tls_too(self):
        certificate, key = self.make_certificate()
        server = self.serve("--tls-cert", certificate, "--tls-key", key)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=PATIENCE_S, context=ssl.create_default_context(cafile=certificate)
        )
        for _ in range(3):
            connection.request("GET", "/id")
            self.assertEqual(Answer(connection.getresponse()).status, 200)
        connection.close()
        url = "https://127.0.0.1:%d" % server.port
        ids, status, err = self.run_client("--from", url + "?cacert=" + certificate, "-n", "1000")
        self.assertEqual((len(ids), status), (1000, 0), err)
        # A certificate that nobody vouches for is not believed, and plain words are not understood.
        ids, status, err = self.run_client("--from", url, "--timeout", "20s")
        self.assertEqual((ids, status), ([], 1))
        self.assertIn("cacert", err)
        ids, status, err = self.run_client("--from", server.url, "--timeout", "2s")
        self.assertEqual((ids, status), ([], 1))
        self.assertEqual(self.leases(self.store)[1:], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
