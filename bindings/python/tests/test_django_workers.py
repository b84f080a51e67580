"""Many processes that create rows in one PostgreSQL through Django without any WORKER_ID: independent ones, forked
ones, and those of a real gunicorn. The sample project is what they run."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from services import LOOPBACK, Postgres, Redis, free_port

import django_support as support
from snowflake_id import decode

WORKERS = 8
ROWS = 100_000
FEWER_ROWS = 8_000
TEMPLATE = "onde_jogar_template"
PROGRAM = support.TESTS / "django_create_rows.py"


def new_database(name):
    """Migrated. The first one is, the others are copies of it."""
    server = support.postgres()
    if not server.sql(f"SELECT 1 FROM pg_database WHERE datname = '{TEMPLATE}'"):
        server.sql(f"CREATE DATABASE {TEMPLATE}")
        environment = support.environment(database=TEMPLATE, WORKER_ID="0")
        status, said = support.run(environment, support.SAMPLE / "manage.py", "migrate", "-v0")
        if status:
            raise RuntimeError(said)
    server.sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    return name


def in_database(name, sql):
    """As text. psql runs on the database `postgres`, so it changes over first."""
    return support.postgres().sql(f"\\connect {name}\n{sql}")


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
@unittest.skipIf(Postgres.missing(), Postgres.missing())
class EightWorkers(unittest.TestCase):
    def source(self, kind):
        if kind == "sqlite":
            return f"sqlite:{support.folder()}/{self.id().rpartition('.')[2]}.db"
        if Redis.missing():
            self.skipTest(Redis.missing())
        folder = os.path.join(support.folder(), self.id().rpartition(".")[2])
        os.mkdir(folder)
        redis = Redis(folder).start()
        self.addCleanup(redis.kill)
        return redis.url

    def create(self, kind, rows, forked):
        name = new_database(f"rows_{kind}_{'forked' if forked else 'apart'}")
        environment = support.environment(database=name, SNOWFLAKE_SOURCE=self.source(kind))
        each = str(rows // WORKERS)
        if forked:
            answers = [support.run(environment, PROGRAM, each, WORKERS)]
        else:
            with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
                answers = list(pool.map(lambda _: support.run(environment, PROGRAM, each), range(WORKERS)))
        for status, said in answers:
            self.assertEqual(status, 0, said)
        # The key is unique, so a twin would have been an error already; and each worker had a place of its own.
        expected = rows + (2 if forked else 0)
        processes = WORKERS + (1 if forked else 0)
        counts = "count(*), count(DISTINCT id), count(DISTINCT id >> 12 & 1023)"
        self.assertEqual(in_database(name, f"SELECT {counts} FROM games_event"), f"{expected}|{expected}|{processes}")

    def test_apart_with_leases_in_sqlite(self):
        self.create("sqlite", FEWER_ROWS, forked=False)

    def test_forked_after_ids_were_made_with_leases_in_redis(self):
        self.create("redis", ROWS, forked=True)

    def test_apart_with_leases_in_redis(self):
        self.create("redis", FEWER_ROWS, forked=False)

    def test_forked_after_ids_were_made_with_leases_in_sqlite(self):
        self.create("sqlite", FEWER_ROWS, forked=True)


class Gunicorn:
    """A real one, on the sample project. Its log is a file beside the others."""

    def __init__(self, case, name, workers, *options, **environment):
        self.port = free_port()
        self.log = os.path.join(support.folder(), f"gunicorn-{name}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "--bind", f"{LOOPBACK}:{self.port}", "--workers", str(workers),
                 "--timeout", "120", *options, "onde_jogar.wsgi"],
                env=support.environment(**environment), cwd=support.folder(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        case.addCleanup(self.end)
        until = time.monotonic() + support.PATIENCE_S
        while self.get("/events/") is None:
            if self.process.poll() is not None or time.monotonic() > until:
                case.fail(f"gunicorn does not answer:\n{self.said()}")
            time.sleep(0.05)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}{path}", timeout=60) as answer:
                return json.load(answer)
        except OSError:
            return None

    def post(self, _=None):
        """Creates an event: the status, and the answer's text."""
        form = urllib.parse.urlencode({"name": "Futebol"}).encode()
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/events/", form, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
@unittest.skipIf(Postgres.missing(), Postgres.missing())
class GunicornsWorkers(unittest.TestCase):
    def test_preloaded_workers_with_leases_make_no_twins_even_if_their_master_made_ids(self):
        name = new_database("gunicorn_leases")
        settings = os.path.join(support.folder(), "gunicorn.conf.py")
        with open(settings, "w", encoding="utf-8") as file:
            file.write("def when_ready(server):\n"
                       "    from django.db import connections\n"
                       "    from games.models import Event\n"
                       "    Event.objects.create(name='of the master')\n"
                       "    connections.close_all()\n")
        server = Gunicorn(self, "leases", 4, "--preload", "--config", settings, database=name,
                          SNOWFLAKE_SOURCE=f"sqlite:{support.folder()}/gunicorn.db")
        ids = []
        until = time.monotonic() + support.PATIENCE_S
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            # Until every worker has had its turn: which one answers is the kernel's choice.
            while len({decode(id).worker_id for id in ids}) < 4 or len(ids) < 400:
                self.assertLess(time.monotonic(), until, "not every worker had its turn")
                for status, text in pool.map(server.post, range(100)):
                    self.assertEqual(status, 201, text)
                    ids.append(int(json.loads(text)["id"]))
        self.assertEqual(len(set(ids)), len(ids))
        self.assertEqual(in_database(name, "SELECT count(*), count(DISTINCT id >> 12 & 1023) FROM games_event"),
                         f"{len(ids) + 1}|5")

    def test_preloaded_workers_that_share_a_number_are_refused(self):
        name = new_database("gunicorn_number")
        server = Gunicorn(self, "number", 2, "--preload", database=name, WORKER_ID="7")
        status, text = server.post()
        self.assertEqual(status, 500)
        self.assertIn("env:WORKER_ID is the number of the process that this one was forked from", text)
        self.assertEqual(in_database(name, "SELECT count(*) FROM games_event"), "0")

    def test_one_worker_with_a_number_works(self):
        server = Gunicorn(self, "one", 1, database=new_database("gunicorn_one"), WORKER_ID="7")
        status, text = server.post()
        self.assertEqual(status, 201, text)
        self.assertEqual(decode(json.loads(text)["id"]).worker_id, 7)


if __name__ == "__main__":
    unittest.main()
