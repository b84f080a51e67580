#!/usr/bin/env python3
"""How the server starts: profiles, sockets of other kinds, what is checked before, and what the log says of it.

    KAZAHANA=build/kazahana tests/server/test_start.py
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
sys.dont_write_bytecode = True
import test_server as real  # noqa: E402: how a server is started
import parallel  # noqa: E402
from services import Redis  # noqa: E402


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=real.PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(real.PATIENCE_S)
        self.sock.connect(self.path)


def ask(path, method="GET", target="/id", body=None, **headers):
    connection = UnixConnection(path)
    try:
        connection.request(method, target, body=json.dumps(body) if body is not None else None, headers=headers)
        return real.Answer(connection.getresponse())
    finally:
        connection.close()


class StartCase(real.ServerCase):
    def start(self, *arguments, env=None, command=None, **more):
        """Without a port of its own choice; waits until it listens or has ended."""
        log = open(os.path.join(self.folder, "log-%d" % len(self.cleanups)), "w+")
        process = subprocess.Popen(
            command or [real.PROGRAM, "serve", "--store", self.store, *arguments], env=real.environment(**(env or {})),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, **more,
        )

        def cleanup():
            if process.poll() is None:
                process.kill()
            process.wait()
            log.close()

        self.cleanups.append(cleanup)
        until = time.monotonic() + real.PATIENCE_S
        while time.monotonic() < until and process.poll() is None and "event=listening" not in self.read(log):
            time.sleep(0.02)
        return process, log

    def read(self, log):
        with open(log.name) as file:
            return file.read()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class Sockets(StartCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "k.sock")

    def test_a_unix_socket_serves_what_a_port_does(self):
        process, log = self.start("--listen", "unix:" + self.path, "--loops", "2")
        mode = os.stat(self.path)
        self.assertTrue(stat.S_ISSOCK(mode.st_mode))
        self.assertEqual(stat.S_IMODE(mode.st_mode), 0o660)
        self.assertIn("address=unix:" + self.path, self.read(log))
        self.assertNotIn("open-to-others", self.read(log))
        ids = real.in_parallel(8, lambda _: [ask(self.path).json()["data"]["id"] for _ in range(50)])
        self.assertEqual(len(set(sum(ids, []))), 400)
        lease = ask(self.path, "POST", "/lease", {}, Host="any.name").json()["leases"][0]
        self.assertIn("secret", lease)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(real.PATIENCE_S), 0)
        self.assertFalse(os.path.exists(self.path))

    def test_a_socket_in_use_is_refused_and_one_left_over_is_replaced(self):
        first, _ = self.start("--listen", "unix:" + self.path)
        second, log = self.start("--listen", "unix:" + self.path)
        self.assertEqual(second.wait(real.PATIENCE_S), 1)
        self.assertIn("in use", self.read(log))
        self.assertEqual(ask(self.path).status, 200)
        first.kill()
        first.wait()
        self.assertTrue(os.path.exists(self.path))
        self.start("--listen", "unix:" + self.path)
        self.assertEqual(ask(self.path).status, 200)

    def test_a_file_that_is_no_socket_is_left_alone(self):
        self.write("k.sock", "mine")
        process, log = self.start("--listen", "unix:" + self.path)
        self.assertEqual(process.wait(real.PATIENCE_S), 1)
        with open(self.path) as file:
            self.assertEqual(file.read(), "mine")
        for wrong in ("unix:", "unix:relative", "unix:/" + "x" * 120):
            done = subprocess.run([real.PROGRAM, "serve", "--listen", wrong, "--check-config"], env=real.environment(),
                                  capture_output=True, text=True, timeout=real.PATIENCE_S)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("unix:", done.stderr)

    def activated(self, listener):
        """As systemd does: the socket is number 3, and the variables name it and us."""
        script = 'exec 3<&%d; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"' % listener.fileno()
        return self.start(
            command=["bash", "-c", script, "sh", real.PROGRAM, "serve", "--store", self.store],
            pass_fds=[listener.fileno()],
        )

    def test_a_socket_of_systemd_is_taken_over(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(16)
            process, log = self.activated(listener)
            self.assertIn("address=unix:" + self.path, self.read(log))
            self.assertEqual(ask(self.path).status, 200)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(real.PATIENCE_S), 0)
            self.assertTrue(os.path.exists(self.path))  # it is systemd's
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(16)
            _, log = self.activated(listener)
            port = listener.getsockname()[1]
            self.assertIn("address=127.0.0.1:%d" % port, self.read(log))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=real.PATIENCE_S)
            connection.request("GET", "/id", headers={"Host": "evil.example"})
            self.assertEqual(real.Answer(connection.getresponse()).status, 403)
            connection.close()

    def test_what_is_no_listening_socket_is_refused(self):
        with socket.socket() as idle:
            process, log = self.activated(idle)
            self.assertEqual(process.wait(real.PATIENCE_S), 1)
            self.assertIn("handed over", self.read(log))


class Profiles(StartCase):
    def test_snowflake_is_the_worker_service_in_one_line(self):
        process, log = self.start("--profile", "snowflake", "--listen", "127.0.0.1:0", env={"WORKER_ID": "5"})
        port = int(re.search(r"address=127\.0\.0\.1:(\d+)", self.read(log)).group(1))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=real.PATIENCE_S)
        connection.request("GET", "/id")
        number = real.Answer(connection.getresponse()).json()["data"]["id"]
        connection.close()
        self.assertEqual(number >> 12 & 1023, 5)
        self.assertAlmostEqual((number >> 22) + real.EPOCH_2024_MS, time.time() * 1000, delta=real.PATIENCE_S * 1000)
        self.assertRegex(self.read(log), r"event=starting version=\S+ store=sqlite:\S+ ids_from=env:WORKER_ID .*layout=41-10-12")

    @unittest.skipIf(Redis.missing(), "redis-server is not installed")
    def test_tsid_takes_a_slot_in_the_redis_that_the_environment_names(self):
        redis = Redis(self.folder).start()
        self.cleanups.append(redis.kill)
        env = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(redis.port)}
        _, log = self.start("--profile", "tsid", "--listen", "127.0.0.1:0", env=env)
        self.assertIn("ids_from=tsid+redis://127.0.0.1:%d" % redis.port, self.read(log))
        self.assertIn("event=listening", self.read(log))

    def check(self, *arguments, env=None):
        return subprocess.run([real.PROGRAM, "serve", "--check-config", *arguments], env=real.environment(**(env or {})),
                              capture_output=True, text=True, timeout=real.PATIENCE_S)

    def test_a_profile_of_the_file_wins(self):
        path = self.write("k.conf", '[profile "snowflake"]\nids_from = static:9\n')
        _, log = self.start("--config", path, "--profile", "snowflake", "--listen", "127.0.0.1:0")
        self.assertIn("ids_from=static:9", self.read(log))
        other = self.write("other.conf", '[profile "mine"]\nids_from = static:9\n')
        _, log = self.start("--config", other, "--profile", "snowflake", "--listen", "127.0.0.1:0")
        self.assertIn("ids_from=env:WORKER_ID", self.read(log))
        self.assertEqual(self.check("--profile", "unheard-of").returncode, 2)
        self.assertEqual(self.check("--profile", "tsid", env={"REDIS_HOST": "a\nlisten = 0.0.0.0:1"}).returncode, 1)

    def test_variables_of_kubernetes_are_not_settings(self):
        env = {
            "KAZAHANA_SERVICE_HOST": "10.0.0.1", "KAZAHANA_SERVICE_PORT": "7070", "KAZAHANA_SERVICE_PORT_HTTP": "7070",
            "KAZAHANA_PORT": "tcp://10.0.0.1:7070", "KAZAHANA_PORT_7070_TCP": "tcp://10.0.0.1:7070",
            "KAZAHANA_PORT_7070_TCP_ADDR": "10.0.0.1",
        }
        done = self.check(env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("KAZAHANA_PORTS", self.check(env={"KAZAHANA_PORTS": "1"}).stderr)
        self.assertIn("KAZAHANA_SERVICES", self.check(env={"KAZAHANA_SERVICES": "1"}).stderr)


class Checked(Profiles):
    """--check-config opens what a start would open."""

    test_snowflake_is_the_worker_service_in_one_line = None
    test_tsid_takes_a_slot_in_the_redis_that_the_environment_names = None
    test_a_profile_of_the_file_wins = None
    test_variables_of_kubernetes_are_not_settings = None

    def wrong(self, *arguments):
        done = self.check(*arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
        return done.stderr

    def test_files_that_are_not_there_are_named(self):
        self.assertIn("/absent/tokens", self.wrong("--token-file", "/absent/tokens"))
        key = self.write("key.pem", "not a key")
        self.assertIn("certificate /absent/cert.pem: No such file", self.wrong("--tls-cert", "/absent/cert.pem", "--tls-key", key))
        self.assertIn("key /absent/key.pem: No such file", self.wrong("--tls-cert", key, "--tls-key", "/absent/key.pem"))
        self.assertIn(key, self.wrong("--tls-cert", key, "--tls-key", key))

    def test_urls_that_make_no_sense_are_named_without_their_password(self):
        for url in ("redis://:s3cretpw@host:notaport", "sqlite:", "nowhere:x", "static:99999999", "redis://h/0?color=blue"):
            for flag in ("--store", "--ids-from"):
                text = self.wrong(flag, url)
                self.assertNotIn("s3cretpw", text)
        self.assertEqual(self.check("--store", "redis://127.0.0.1:1/0").returncode, 0)  # whether it is there is not asked

    def test_nothing_is_made(self):
        path = os.path.join(self.folder, "never.db")
        self.assertEqual(self.check("--store", "sqlite:" + path).returncode, 0)
        self.assertFalse(os.path.exists(path))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_a_good_configuration_is_good(self):
        cert, key = os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
             "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True,
        )
        tokens = self.write("tokens", real.TOKEN + "\n")
        done = self.check("--tls-cert", cert, "--tls-key", key, "--token-file", tokens, "--store", "memory:")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Logs(real.ServerCase):
    def test_the_start_tells_what_runs(self):
        server = self.serve()
        version = subprocess.run([real.PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertRegex(
            server.log(), r"event=starting version=%s store=%s ids_from=%s service=default layout=41-14-8@2026-01-01"
            % (re.escape(version), re.escape(self.store), re.escape(self.store)),
        )

    def test_leases_are_told_at_debug_and_refusals_at_info(self):
        for level in ("info", "debug"):
            server = self.serve("--log-level", level)
            lease = server.ask("POST", "/lease", {"meta": {"host": "a"}}).json()["leases"][0]
            now_ms = server.ask("GET", "/time").json()["serverTime"]
            body = {"signature": real.sign(lease["secret"], lease["id"], now_ms), "timestamp": now_ms}
            server.ask("DELETE", "/lease/%d" % lease["id"], dict(body, signature="0" * 64))
            server.ask("DELETE", "/lease/%d" % lease["id"], body)
            log = server.log()
            self.assertEqual("event=lease-granted service=default node=%d" % lease["id"] in log, level == "debug", log)
            self.assertEqual("event=lease-released service=default" in log, level == "debug", log)
            self.assertIn("event=release-refused", log)
            self.assertIn("KZ_FORBIDDEN", log)
            self.assertNotIn(lease["secret"], log)

    def test_requests_are_logged_if_asked_for(self):
        quiet, loud = self.serve(), self.serve("--access-log")
        for server in (quiet, loud):
            server.ask("GET", "/ids?count=2")
            server.ask("HEAD", "/id")
            server.ask("GET", "/nowhere", headers={"Authorization": "Bearer " + real.TOKEN})
        self.assertNotIn("event=access", quiet.log())
        pattern = r"level=info event=access peer=127\.0\.0\.1:\d+ method=(\S+) path=(\S+) status=(\d+) bytes=\d+ us=\d+$"
        self.assertEqual(
            re.findall(pattern, loud.log(), re.M), [("GET", "/ids", "200"), ("HEAD", "/id", "200"), ("GET", "/nowhere", "404")]
        )
        self.assertNotIn(real.TOKEN, loud.log())


if __name__ == "__main__":
    parallel.main()
