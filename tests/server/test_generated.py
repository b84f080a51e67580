#!/usr/bin/env python3
"""The description used by others' programs: a client made from it, and a tool that looks for what contradicts it.

Both come from the package index into an environment in the build directory; without the index the tests are skipped.

    KAZAHANA=build/kazahana KZ_VENV=/tmp/venv tests/server/test_generated.py
"""

import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
sys.dont_write_bytecode = True
import test_server as real  # noqa: E402: how a server is started

VENV = os.path.abspath(os.environ.get("KZ_VENV", "build/venv-generated"))
CASES = os.environ.get("KZ_CASES", "10")  # for each operation and kind; 5,000 in all were run by hand
PACKAGES = ("schemathesis==4.*", "openapi-python-client==0.*")
CLIENT = """
import hashlib, hmac, sys
from kazahana_client import Client
from kazahana_client.api.default import acquire_leases, decode_id, get_health, get_id, get_ids, get_time, list_leases
from kazahana_client.api.default import release_lease
from kazahana_client.models import LeaseRequest, LeaseRequestMeta, Problem, Release, Usage

with Client(base_url=sys.argv[1]) as client:
    one = get_id.sync(client=client).data
    assert str(one.id) == one.id_str, one
    many = get_ids.sync(client=client, count=3).data.ids
    assert len(many) == 3 and int(many[0]) > one.id
    parts = decode_id.sync(one.id_str, client=client).data
    assert parts.layout.startswith("41-14-8@") and not parts.fallback, parts
    meta = LeaseRequestMeta.from_dict({"host": "generated"})
    answer = acquire_leases.sync(client=client, body=LeaseRequest(meta=meta, throughput_per_ms=512, used=Usage(ids=5)))
    assert len(answer.leases) == 2, answer
    page = list_leases.sync(client=client, limit=1000)
    assert "generated" in [line.meta["host"] for line in page.leases], page
    for lease in answer.leases:
        now_ms = get_time.sync(client=client).server_time
        signature = hmac.new(lease.secret.encode(), b"%d:%d" % (lease.id, now_ms), hashlib.sha256).hexdigest()
        done = release_lease.sync_detailed(lease.id, client=client, body=Release(signature=signature, timestamp=now_ms))
        assert done.status_code == 204, done
    problem = get_ids.sync(client=client, count=10001)
    assert isinstance(problem, Problem) and problem.status == 400, problem
    assert get_health.sync(client=client).status == "UP"
"""


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def environment():
    """Why there is none, or None."""
    python = os.path.join(VENV, "bin", "python")
    if os.path.exists(os.path.join(VENV, "complete")):
        return None
    made = run(sys.executable, "-m", "venv", VENV)
    if made.returncode:
        return "no virtual environment: " + made.stderr.strip().splitlines()[-1]
    done = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
    if done.returncode:
        return "the package index is out of reach: " + done.stderr.strip().splitlines()[-1]
    open(os.path.join(VENV, "complete"), "w").close()
    return None


@unittest.skipIf(sys.version_info < (3, 10), "the tools want Python 3.10")
class Generated(real.ServerCase):
    def setUp(self):
        super().setUp()
        missing = environment()
        if missing:
            self.skipTest(missing)
        self.server = self.serve()

    def program(self, name):
        return os.path.join(VENV, "bin", name)

    def test_a_client_made_from_the_description_works(self):
        made = run(self.program("openapi-python-client"), "generate", "--path", os.path.join(ROOT, "server", "openapi.json"),
                   "--output-path", os.path.join(self.folder, "client"), "--meta", "none", cwd=self.folder,
                   env=dict(os.environ, PATH=os.path.join(VENV, "bin") + ":" + os.environ["PATH"]))
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.assertNotIn("WARNING", made.stdout + made.stderr)
        os.rename(os.path.join(self.folder, "client"), os.path.join(self.folder, "kazahana_client"))
        done = run(self.program("python"), "-B", "-c", CLIENT, self.server.url, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_nothing_contradicts_the_description(self):
        done = run(
            self.program("st"), "--config-file", os.path.join(ROOT, "tests", "server", "schemathesis.toml"), "run",
            self.server.url + "/openapi.json", "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful",
            "--max-examples", CASES, "--generation-database", "none", "--continue-on-failure", cwd=self.folder,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr)
        self.assertRegex(done.stdout, r"\d+ generated")


if __name__ == "__main__":
    unittest.main(verbosity=2)
