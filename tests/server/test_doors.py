#!/usr/bin/env python3
"""Who is let in: a server on loopback is not opened by a browser that was sent there by somebody else's page.

    KAZAHANA=build/kazahana tests/server/test_doors.py
"""

import os
import sys

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


if __name__ == "__main__":
    parallel.main()
