#!/usr/bin/python3
"""The SQLite extension in a real program: bindings/sqlite/test_extension.py PATH/kazahana.so"""

import json
import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENSION = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
VECTORS = json.loads((ROOT / "tests/vectors/ids.json").read_text())
CAN_LOAD = hasattr(sqlite3.Connection, "enable_load_extension")


def connect(path=":memory:"):
    db = sqlite3.connect(path, check_same_thread=False)
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def mint(count):
    return [row[0] for row in connect().execute("SELECT id FROM kazahana_ids(?)", (count,))]


@unittest.skipUnless(CAN_LOAD, "this Python was built without loadable extensions")
class Extension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kz-sqlite-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.environ["KAZAHANA_SOURCE"] = f"sqlite:{cls.folder}/leases.db"
        cls.db = connect()

    def one(self, sql, *values):
        return self.db.execute(f"SELECT {sql}", values).fetchone()[0]

    def refused(self, sql, *values):
        with self.assertRaises(sqlite3.Error) as caught:
            self.one(sql, *values)
        return str(caught.exception)

    def test_every_vector_is_decoded_and_written(self):
        for v in VECTORS["ids"]:
            id = signed(int(v["id"]))
            parts = json.loads(self.one("kazahana_decode(?, ?)", id, v["layout"]))
            self.assertEqual((parts["unixMs"], parts["node"], parts["sequence"]), (v["unix_ms"], v["node"], v["seq"]), v)
            self.assertEqual(self.one("kazahana_node(?, ?)", id, v["layout"]), v["node"])
            self.assertEqual(parts["time"], self.one("kazahana_time(?, ?)", id, v["layout"]))
            if v["layout"] != "sonyflake":
                low, high = (signed_to_unsigned(self.one(f"kazahana_{name}(?, ?)", v["unix_ms"], v["layout"]))
                             for name in ("min", "max"))
                self.assertTrue(low <= int(v["id"]) <= high, v)
        for v in VECTORS["text"]:
            for form in ("hex", "base32", "base62", "base64url"):
                self.assertEqual(self.one("kazahana_text(?, ?)", signed(int(v["id"])), form), v[form])
                self.assertEqual(self.one("kazahana_parse(?, ?)", v[form], form), signed(int(v["id"])))
        for v in VECTORS["external_no_secret"]:
            self.assertEqual(self.one("kazahana_external(?)", signed(int(v["id"]))), v["external"])
            self.assertEqual(self.one("kazahana_internal(?)", v["external"]), signed(int(v["id"])))

    def test_a_default_makes_keys_that_increase(self):
        self.db.execute("PRAGMA trusted_schema = off")
        self.db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY DEFAULT (kazahana_next()), x) WITHOUT ROWID")
        with self.db:
            self.db.executemany("INSERT INTO t (x) VALUES (?)", [(n,) for n in range(20000)])
        ids = [row[0] for row in self.db.execute("SELECT id FROM t ORDER BY x")]
        self.assertEqual(ids, sorted(set(ids)))
        since = self.db.execute("SELECT count(*) FROM t WHERE id >= kazahana_min(kazahana_time(?))", (ids[0],))
        self.assertEqual(since.fetchone()[0], 20000)

    def test_a_rollback_gives_no_id_again(self):
        self.db.execute("CREATE TABLE r (id INTEGER)")
        before = self.one("kazahana_next()")
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO r SELECT id FROM kazahana_ids(100)")
        taken = self.one("max(id) FROM r")
        self.db.execute("ROLLBACK")
        self.assertTrue(before < taken < self.one("kazahana_next()"))

    def test_threads_and_processes_never_meet(self):
        lists = []
        threads = [threading.Thread(target=lambda: lists.append(mint(20000))) for _ in range(4)]
        for thread in threads:
            thread.start()
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            lists += pool.map(mint, [20000] * 3)
        for thread in threads:
            thread.join()
        pid = os.fork()
        if not pid:  # a child of a process that has minted takes a lease of its own
            pathlib.Path(self.folder, "child").write_text("\n".join(map(str, mint(5000))))
            os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        lists.append([int(line) for line in pathlib.Path(self.folder, "child").read_text().split()])
        lists.append(mint(5000))
        for ids in lists:
            self.assertEqual(ids, sorted(ids))
        everything = [id for ids in lists for id in ids]
        self.assertEqual(len(set(everything)), 7 * 20000 + 2 * 5000)

    def test_services_are_spaces_of_their_own(self):
        self.assertGreater(self.one("kazahana_next('payments')"), 0)
        self.assertIn("63 characters", self.refused("kazahana_next(?)", "s" * 64))
        self.refused("kazahana_next(?)", "a b")
        self.refused("kazahana_next(NULL)")

    def test_bad_input_is_named(self):
        self.assertIn("soon", self.refused("kazahana_min('soon')"))
        self.assertIn("form", self.refused("kazahana_text(1, 'roman')"))
        self.assertIn("layout", self.refused("kazahana_time(1, NULL)"))
        self.refused("kazahana_parse('U', 'base32')")
        self.refused("kazahana_internal('short')")
        self.assertIn("-1", self.refused("count(*) FROM kazahana_ids(-1)"))
        self.assertIn("how many", self.refused("count(*) FROM kazahana_ids"))
        for name in ("time", "node", "decode", "min", "text", "parse", "external", "internal"):
            self.assertIsNone(self.one(f"kazahana_{name}(NULL)"))
        self.assertIn("minted already", self.refused("kazahana_source('static:1')"))
        self.db.execute("CREATE VIEW v AS SELECT kazahana_source('static:1')")
        self.assertIn("unsafe", self.refused("* FROM v"))

    def test_the_shell_gives_its_lease_back(self):
        shell = shutil.which("sqlite3")
        if not shell:
            self.skipTest("the sqlite3 shell is not installed")
        leases = pathlib.Path(self.folder, "shell.db")
        run = lambda: subprocess.run([shell, ":memory:", f".load {EXTENSION[:-3]}",  # noqa: E731
                                      f"SELECT kazahana_source('sqlite:{leases}?lease=1h'); SELECT kazahana_next();"],
                                     check=True, capture_output=True, text=True).stdout.split()[-1]
        self.assertLess(int(run()), int(run()))
        held = sqlite3.connect(leases).execute("SELECT count(*) FROM out WHERE NOT released").fetchone()[0]
        self.assertEqual(held, 0)


def signed_to_unsigned(number):
    return number % (1 << 64)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    os.environ["KZ_EXTENSION"] = EXTENSION
    unittest.main()
else:
    EXTENSION = os.environ.get("KZ_EXTENSION", EXTENSION)
