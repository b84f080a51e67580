#!/usr/bin/python3
"""bindings/postgresql/kazahana-pure.sql in a real PostgreSQL."""

import json
import pathlib
import shutil
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from services import Postgres  # noqa: E402

try:
    import psycopg2
    MISSING = Postgres.missing()
except ImportError:
    MISSING = "psycopg2 is not installed"
NODE = 4095


@unittest.skipIf(MISSING, MISSING)
class PureSQL(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kz-pure-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.postgres = Postgres(cls.folder).start()
        cls.addClassCleanup(lambda: cls.postgres.kill())
        cls.sql((ROOT / "bindings/postgresql/kazahana-pure.sql").read_text())

    @classmethod
    def connect(cls):
        db = psycopg2.connect(cls.postgres.dsn)
        db.autocommit = True
        return db

    @classmethod
    def sql(cls, text, *values):
        db = cls.connect()
        try:
            with db.cursor() as cursor:
                cursor.execute(text, values or None)
                return cursor.fetchall() if cursor.description else None
        finally:
            db.close()

    def mint(self, sessions, count):
        lists = [[] for _ in range(sessions)]

        def one(ids):
            db = self.connect()
            with db.cursor() as cursor:
                for _ in range(count // 500):
                    cursor.execute("SELECT kazahana_next() FROM generate_series(1, 500)")
                    ids.extend(row[0] for row in cursor.fetchall())
            db.close()

        threads = [threading.Thread(target=one, args=(ids,)) for ids in lists]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return lists

    def check(self, lists, total):
        everything = [id for ids in lists for id in ids]
        self.assertEqual(len(everything), total)
        self.assertEqual(len(set(everything)), total)
        self.assertEqual({id >> 8 & 16383 for id in everything}, {NODE})
        for ids in lists:
            self.assertEqual(ids, sorted(ids))

    def test_sessions_never_meet_and_stay_in_their_block(self):
        self.check(self.mint(8, 3000), 24000)

    def test_a_crash_repeats_nothing(self):
        before = self.mint(4, 1000)
        self.postgres.kill()
        self.postgres.start()
        after = self.mint(4, 1000)
        self.check(before + after, 8000)

    def test_a_sequence_ahead_of_the_clock_is_not_taken_back(self):
        """As after a clock that was set back by an hour."""
        id = self.sql("SELECT kazahana_next()")[0][0]
        self.sql("SELECT setval('kazahana_last', %s)", id + (3600000 << 22))
        ids = [row[0] for row in self.sql("SELECT kazahana_next() FROM generate_series(1, 1000)")]
        self.assertGreater(ids[0], id + (3600000 << 22))
        self.check([ids], 1000)
        self.sql("SELECT setval('kazahana_last', %s)", id)  # the other tests are in the present

    def test_every_vector_of_the_layout_is_decoded_and_written(self):
        vectors = json.loads((ROOT / "tests/vectors/ids.json").read_text())
        seen = 0
        for v in vectors["ids"]:
            if v["layout"] != "kazahana":
                continue
            seen += 1
            time, node, sequence, _ = self.sql("SELECT (kazahana_decode(%s)).*", int(v["id"]))[0]
            self.assertEqual((round(time.timestamp() * 1000), node, sequence), (v["unix_ms"], v["node"], v["seq"]), v)
            low, high = self.sql("SELECT kazahana_min(kazahana_time(%s)), kazahana_max(kazahana_time(%s))",
                                 int(v["id"]), int(v["id"]))[0]
            self.assertTrue(low <= int(v["id"]) <= high)
        self.assertGreater(seen, 0)
        for v in vectors["text"]:
            number = int(v["id"])
            signed = number - (1 << 64) if number >> 63 else number
            self.assertEqual(self.sql("SELECT kazahana_text(%s)", signed)[0][0], v["base32"])

    def test_partitions_by_time_are_pruned(self):
        self.sql("CREATE TABLE events (id bigint PRIMARY KEY DEFAULT kazahana_next(), x int) PARTITION BY RANGE (id)")
        for month in range(1, 4):
            bounds = self.sql("SELECT kazahana_min(%s), kazahana_min(%s)", f"2026-0{month}-01Z", f"2026-0{month + 1}-01Z")
            self.sql(f"CREATE TABLE events_{month} PARTITION OF events FOR VALUES FROM (%s) TO (%s)", *bounds[0])
        plan = "\n".join(row[0] for row in self.sql(
            "EXPLAIN SELECT * FROM events WHERE id >= kazahana_min('2026-02-01Z') AND id < kazahana_min('2026-03-01Z')"))
        self.assertIn("events_2", plan)
        self.assertNotIn("events_1", plan)
        self.assertNotIn("events_3", plan)


if __name__ == "__main__":
    unittest.main()
