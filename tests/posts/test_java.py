#!/usr/bin/env python3
"""examples/posts-java: Spring Boot instances over a real PostgreSQL and Redis, beside instances in C on the same slots.

    POSTS=build/examples/posts/posts POSTS_JAR=examples/posts-java/target/posts.jar tests/posts/test_java.py
"""

import json
import os
import shutil
import sys
import tempfile
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from services import LOOPBACK, Postgres, Posts, Redis, Service  # noqa: E402

JAR = os.environ.get("POSTS_JAR", "")
MISSING = Postgres.missing() or Redis.missing() or Posts.missing() or (None if os.path.exists(JAR) else "no POSTS_JAR")


class Application(Service):
    """One instance. Nobody gives it a number."""

    program = "java"
    patience_s = 300

    def __init__(self, folder, redis_port, postgres_port, *flags):
        super().__init__(folder)
        self.flags = [f"--server.port={self.port}", f"--server.address={LOOPBACK}",
                      f"--spring.data.redis.host={LOOPBACK}", f"--spring.data.redis.port={redis_port}",
                      f"--spring.datasource.url=jdbc:postgresql://{LOOPBACK}:{postgres_port}/postgres", *flags]

    def command(self):
        return [self.program, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar", JAR, *self.flags]

    def ask(self, path, body=None):
        request = urllib.request.Request(f"http://{LOOPBACK}:{self.port}{path}", body and json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def answers(self):
        try:
            return self.ask("/actuator/health")["status"] == "UP"
        except (OSError, ValueError):
            return False


def create(instance, number):
    body = {"communityId": "1", "userId": "2", "content": f"post {number}"}
    if isinstance(instance, Application):
        return instance.ask("/posts", body)["id"]
    request = urllib.request.Request(f"http://{LOOPBACK}:{instance.port}/posts", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["id"]


@unittest.skipIf(MISSING, MISSING)
class InJava(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kz-posts-java-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.redis = cls.enterClassContext(Redis(cls.folder))
        cls.postgres = cls.enterClassContext(Postgres(cls.folder))

    def start(self, *flags, redis_port=None):
        self.started = Application(self.folder, redis_port or self.redis.port, self.postgres.port, *flags)
        self.addCleanup(self.started.kill)
        return self.started.start()

    def test_instances_in_java_and_c_share_the_slots_and_never_meet(self):
        self.redis.ask("SET", "sys:tsid:node:0", "LOCKED")  # somebody else, by SETNX
        first = self.start()
        in_c = Posts(self.folder, "in-c", self.postgres.url, f"tsid+redis://{LOOPBACK}:{self.redis.port}/0")
        self.addCleanup(in_c.kill)
        in_c.start()
        second = self.start()
        with ThreadPoolExecutor(6) as threads:
            ids = list(threads.map(lambda n: create((first, in_c, second)[n % 3], n), range(600)))
        self.assertTrue(all(isinstance(id, str) for id in ids))
        self.assertEqual(len(set(ids)), 600)
        nodes = {int(id) >> 12 & 1023 for id in ids}
        self.assertEqual(nodes, {1, 2, 3})
        self.assertEqual(self.postgres.sql("SELECT count(*) FROM posts"), "600")

        post = first.ask(f"/posts/{ids[1]}")
        self.assertEqual((post["id"], post["communityId"]), (ids[1], "1"))
        newest = [int(post["id"]) for post in second.ask("/posts?limit=50")]
        self.assertEqual(newest, sorted(map(int, ids), reverse=True)[:50])
        health = first.ask("/actuator/health/kazahana")
        self.assertEqual((health["status"], health["details"]["unfenced"]), ("UP", False))
        metric = first.ask("/actuator/metrics/kazahana.ids?tag=kind:leased")
        self.assertGreaterEqual(metric["measurements"][0]["value"], 200)

        second.stop()
        node = int(next(id for n, id in enumerate(ids) if n % 3 == 2)) >> 12 & 1023
        self.assertIn(":0", self.redis.ask("EXISTS", f"sys:tsid:node:{node}"), "a stopped instance keeps its slot")

    def test_without_redis_it_does_not_start_and_says_why(self):
        with self.assertRaises(RuntimeError):
            self.start("--kazahana.timeout=1s", redis_port=1)
        self.assertIn("Redis connection failed", self.started.log())

    def test_the_profile_dev_starts_without_redis(self):
        instance = self.start("--spring.profiles.active=dev", "--kazahana.timeout=1s", redis_port=1)
        self.assertTrue(create(instance, 1).isdigit())
        self.assertTrue(instance.ask("/actuator/health/kazahana")["details"]["unfenced"])


if __name__ == "__main__":
    unittest.main()
