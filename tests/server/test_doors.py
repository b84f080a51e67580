#!/usr/bin/env python3
"""Who is let in: a server on loopback is not opened by a browser that was sent there by somebody else's page.

    KAZAHANA=build/kazahana tests/server/test_doors.py
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
sys.dont_write_bytecode = True
import test_server as real  # noqa: E402: how a server is started
import parallel  # noqa: E402


class Hosts(real.ServerCase):
    def status(self, server, method="GET", path="/id", body=None, **headers):
        answer = server.ask(method, path, body, headers)
        if answer.status == 403:
            self.assert_problem(answer, 403)
        return answer.status

    def test_a_name_that_was_made_to_resolve_to_loopback_is_refused(self):
        server = self.serve()
        for host in (
            "evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example", "notlocalhost",
            "10.0.0.1", "[::2]", "1.127.0.0", "", "127.0.0.1@evil.example", "[::1", "0x7f.1", "2130706433",
        ):
            for method, path, body in (("GET", "/id", None), ("GET", "/leases", None), ("POST", "/lease", {}),
                                       ("GET", "/nowhere", None)):
                self.assertEqual(self.status(server, method, path, body, Host=host), 403, (host, method))
        for host in (
            "localhost", "LocalHost:1", "localhost.", "app.localhost:7070", "127.0.0.1", "127.1.2.3:80", "[::1]:7070",
            "[::1]",
        ):
            self.assertEqual(self.status(server, Host=host), 200, host)

    def test_names_of_the_settings_are_let_in(self):
        server = self.serve("--server-name", "ids.example, ids")
        for host, status in (("ids.example:7070", 200), ("IDS", 200), ("id", 403), ("example", 403), ("x.ids", 403)):
            self.assertEqual(self.status(server, Host=host), status, host)

    def test_a_page_of_another_site_may_not_ask(self):
        server = self.serve("--server-name", "ids.example")
        own = "127.0.0.1:%d" % server.port
        for origin, status in (
            ("http://" + own, 200), ("http://evil.example", 403), ("http://127.0.0.1:1", 403), ("null", 403),
            ("https://ids.example", 200), ("http://%s.evil.example" % own, 403), ("http://ids.example.evil", 403),
        ):
            self.assertEqual(self.status(server, "POST", "/lease", {}, Origin=origin, Host=own), status, origin)

    def test_with_a_token_every_name_is_let_in(self):
        path = os.path.join(self.folder, "tokens")
        with open(path, "w") as file:
            file.write(real.TOKEN + "\n")
        server = self.serve("--token-file", path)
        token = {"Authorization": "Bearer " + real.TOKEN}
        self.assertEqual(self.status(server, "POST", "/lease", {}, Host="ids.example", **token), 200)
        self.assertEqual(self.status(server, "POST", "/lease", {}, Host="ids.example"), 401)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Certificates(real.ServerCase):
    """A client that does not trust the server says what would help."""

    def make(self, name, names, env=None):
        cert, key = os.path.join(self.folder, name + ".pem"), os.path.join(self.folder, name + ".key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
             "-subj", "/CN=test", "-addext", "subjectAltName=" + names, "-keyout", key, "-out", cert],
            check=True, capture_output=True, env=dict(os.environ, **(env or {})),
        )
        server = self.serve("--tls-cert", cert, "--tls-key", key)
        return "https://127.0.0.1:%d?cacert=%s" % (server.port, cert)

    def ask(self, url):
        done = subprocess.run([real.PROGRAM, "next", "--from", url, "--timeout", "5000"], env=real.environment(),
                              capture_output=True, text=True, timeout=2 * real.PATIENCE_S)
        return done.returncode, done.stderr

    def test_one_that_is_right_is_trusted(self):
        self.assertEqual(self.ask(self.make("good", "IP:127.0.0.1")), (0, ""))

    def test_another_name_is_told(self):
        status, text = self.ask(self.make("other", "DNS:other.example"))
        self.assertEqual(status, 1)
        self.assertIn("a name that its certificate has", text)
        self.assertNotIn("issuer", text)

    @unittest.skipUnless(real.FAKETIME, "libfaketime is not installed")
    def test_one_that_has_run_out_is_told(self):
        status, text = self.ask(self.make("old", "IP:127.0.0.1", {"LD_PRELOAD": real.FAKETIME[0], "FAKETIME": "-10d"}))
        self.assertEqual(status, 1)
        self.assertIn("renew the server's certificate", text)
        self.assertNotIn("issuer", text)


class Files(real.ServerCase):
    def test_doctor_warns_of_a_lease_file_that_others_can_read_or_write(self):
        self.serve().kill()
        path = self.store[len("sqlite:"):]
        for mode, word in ((0o600, None), (0o660, None), (0o644, "warn"), (0o666, "fail")):
            os.chmod(path, mode)
            done = subprocess.run([real.PROGRAM, "doctor", "--from", self.store], env=real.environment(),
                                  capture_output=True, text=True, timeout=real.PATIENCE_S)
            found = re.findall(r"(?m)^(\w+) +file +(.*)", done.stdout)
            self.assertEqual([line[0] for line in found], [word] if word else [], done.stdout)
            self.assertEqual(done.returncode, 1 if word == "fail" else 0, done.stdout)


if __name__ == "__main__":
    parallel.main()
