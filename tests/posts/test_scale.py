#!/usr/bin/env python3
"""scripts/scale-demo with fewer posts: five backends, two killed and two started meanwhile.

    POSTS=build/examples/posts/posts tests/posts/test_scale.py
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))
from services import Nginx, Postgres, Posts, Redis  # noqa: E402

MISSING = Redis.missing() or Postgres.missing() or Nginx.missing() or Posts.missing()
TIMEOUT_S = 240


@unittest.skipIf(MISSING, MISSING)
class Scale(unittest.TestCase):
    def demo(self, *flags):
        """Its exit status and its report. It leaves no files behind."""
        with tempfile.TemporaryDirectory(prefix="kz-scale-test-") as folder:
            os.chmod(folder, 0o711)  # PostgreSQL may run as another user
            environment = {**os.environ, "TMPDIR": folder, "POSTS": os.path.abspath(Posts.program)}
            result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "scale-demo"), "--json", *flags],
                                    env=environment, cwd=folder, capture_output=True, text=True,
                                    timeout=TIMEOUT_S, check=False)
            self.assertTrue(result.stdout, result.stderr)
            self.assertEqual(glob.glob(folder + "/*"), [])
        return result.returncode, json.loads(result.stdout)

    def test_the_backend_is_found_from_whatever_directory(self):
        environment = {name: value for name, value in os.environ.items() if name != "POSTS"}
        path = subprocess.run([sys.executable, "-c", "from services import Posts; print(Posts.program)"], cwd="/",
                              env={**environment, "PYTHONPATH": os.path.join(ROOT, "tests")}, capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=True).stdout.strip()
        self.assertEqual(os.path.realpath(path), os.path.realpath(os.path.join(ROOT, "build/examples/posts/posts")))
        self.assertTrue(os.path.isabs(path))

    def test_no_id_is_given_twice_while_instances_die_and_start(self):
        status, report = self.demo("--posts", "5000")
        self.assertEqual([name for name, check in report["checks"].items() if not check["holds"]], [])
        self.assertEqual(status, 0)
        self.assertEqual(report["sent"], 5000)
        self.assertEqual(report["created"] + sum(report["errors"].values()), 5000)
        self.assertEqual(report["created"] + report["rows_without_201"], report["rows"])
        self.assertEqual(len(report["instances"]), 7)
        self.assertEqual(sum(one["killed"] for one in report["instances"]), 2)

    def test_the_demo_would_notice_instances_that_share_a_node(self):
        status, report = self.demo("--posts", "3000", "--source", "static:1")
        self.assertEqual(status, 1)
        failed = {name for name, check in report["checks"].items() if not check["holds"]}
        self.assertEqual(failed, {"five instances, five nodes", "no duplicate key",
                                  "no two instances on one node at the same ID time"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
