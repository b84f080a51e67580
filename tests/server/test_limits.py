#!/usr/bin/env python3
"""One client cannot starve the others: what each may take, and who comes first.

    KAZAHANA=build/kazahana tests/server/test_limits.py
"""

import contextlib
import os
import select
import sys

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


if __name__ == "__main__":
    parallel.main()
