#!/usr/bin/env python3
"""examples/posts on the TSID slots of a real Redis: how an instance gets its node, keeps it and gives it back.

    POSTS=build/examples/posts/posts tests/posts/test_slots.py
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from keep_alive import Connection  # noqa: E402
from services import LOOPBACK, Postgres, Posts, Redis, free_port  # noqa: E402

MISSING = Postgres.missing() or Redis.missing() or Posts.missing()
PATIENCE_S = 60
POST = json.dumps({"communityId": "1", "userId": "2", "content": "hello"})
folder = postgres = None


def setUpModule():
    global folder, postgres
    if MISSING:
        raise unittest.SkipTest(MISSING)
    folder = tempfile.mkdtemp(prefix="kz-slots-")
    postgres = Postgres(folder).start()


def tearDownModule():
    postgres.kill()
    shutil.rmtree(folder)


def node_of(posts):
    status, answer = posts.health()
    return {"code": status, **answer["components"]["node"]}


class Slots(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=folder)
        self.redis = Redis(self.folder).start()
        self.addCleanup(self.redis.kill)
        self.source = f"tsid+redis://{LOOPBACK}:{self.redis.port}/0"

    def start(self, name, source=None):
        posts = Posts(self.folder, name, postgres.url, source or self.source).start()
        self.addCleanup(posts.kill)
        return posts

    def slots(self):
        answer = self.redis.ask("EVAL", "local k = redis.call('KEYS', 'sys:tsid:node:*') table.sort(k) "
                                        "return table.concat(k, ' ')", "0")
        return [int(word.rsplit(":", 1)[1]) for word in answer.split("\r\n")[1].split()]

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                self.fail(f"not within {PATIENCE_S} s: {what}")
            time.sleep(0.05)

    def test_a_slot_is_claimed_at_the_start_and_given_back_at_the_end(self):
        first, second = self.start("first"), self.start("second")
        self.assertEqual((node_of(first)["node"], node_of(second)["node"]), (0, 1))
        self.assertEqual(self.slots(), [0, 1])
        self.assertEqual(first.stop(), 0)
        self.assertEqual(self.slots(), [1])
        second.kill()
        self.assertEqual(self.slots(), [1], "who is killed gives nothing back")

    def test_an_instance_that_cannot_serve_takes_no_slot(self):
        taken = self.start("taken")
        nowhere = f"postgresql://postgres@{LOOPBACK}:{free_port()}/postgres"
        result = subprocess.run([Posts.program, "--database", nowhere, "--source", self.source, "--database-wait", "0"],
                                capture_output=True, check=False, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 1)
        result = subprocess.run([Posts.program, "--database", postgres.url, "--source", self.source, "--listen",
                                 f"{LOOPBACK}:{taken.port}"], capture_output=True, check=False, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.slots(), [0])

    def test_a_slot_that_java_holds_is_passed_over(self):
        self.redis.ask("SET", "sys:tsid:node:0", "LOCKED", "NX", "EX", "86400")
        self.assertEqual(node_of(self.start("after-java"))["node"], 1)

    def test_without_redis_it_does_not_start_and_says_what_to_do(self):
        self.redis.kill()
        result = subprocess.run([Posts.program, "--database", postgres.url, "--source", self.source], text=True,
                                capture_output=True, check=False, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 1)
        self.assertIn(str(self.redis.port), result.stderr)
        self.assertIn("KAZAHANA_ALLOW_DEV", result.stderr)

    def test_dev_mode_is_asked_for_and_shown(self):
        self.assertIs(node_of(self.start("safe", self.source + "?dev=1"))["devMode"], False)
        self.redis.kill()
        posts = self.start("unsafe", self.source + "?dev=1")
        node = node_of(posts)
        self.assertEqual((node["code"], node["devMode"]), (200, True))
        self.assertIn("DEV MODE", node["lastError"]["message"])

    def test_health_tells_of_a_source_that_went_away_and_of_its_return(self):
        source = self.source + "?ttl=10s&refresh=1s"  # so long that a machine that stands still costs no slot
        posts = self.start("patient", source)
        before = node_of(posts)
        self.assertEqual((before["code"], before["lastError"], before["devMode"]), (200, None, False))
        self.assertEqual(before["source"], self.source)
        self.assertTrue(before["windowEnd"].endswith("Z"))
        self.redis.kill()
        # It goes on with what it holds; when that is over it makes no ID and says so.
        with Connection(LOOPBACK, posts.port) as link:
            self.wait_until(lambda: node_of(posts)["lastError"], "a complaint of the keeper")
            self.wait_until(lambda: node_of(posts)["code"] == 503, "the end of the slot")
            self.assertEqual(link.ask("POST", "/posts", POST)[0], 503)
            self.redis.start()
            self.wait_until(lambda: node_of(posts)["code"] == 200, "a slot again")
            self.assertEqual(link.ask("POST", "/posts", POST)[0], 201)

    def test_a_password_is_never_shown(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "hush")
        posts = self.start("quiet", self.source.replace("//", "//:hush@"))
        self.assertEqual(node_of(posts)["source"], self.source)
        self.assertEqual(posts.stop(), 0)
        self.assertNotIn("hush", posts.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
