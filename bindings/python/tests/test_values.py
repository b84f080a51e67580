"""Layouts, texts, bytes, external IDs and the monotonic generators, against the vectors that all parts share."""

import itertools
import json
import os
import pathlib
import pickle
import unittest
import uuid
from datetime import datetime, timedelta, timezone

import kazahana
from helpers import InFolder
from kazahana import ExternalIds, Key, Layout, Mono, MonoUUID

VECTORS = json.loads(pathlib.Path(os.environ["KZ_ROOT"], "tests", "vectors", "ids.json").read_text(encoding="utf-8"))


class Layouts(unittest.TestCase):
    def test_the_presets_are_those_of_the_vectors(self):
        presets = Layout.presets()
        self.assertEqual(next(iter(presets)), "kazahana")
        for name, fields in VECTORS["layouts"].items():
            for field, value in fields.items():
                self.assertEqual(getattr(presets[name], field), value, (name, field))

    def test_ids_of_the_vectors_come_apart_as_they_should(self):
        self.assertGreater(len(VECTORS["ids"]), 0)
        for case in VECTORS["ids"]:
            if case["layout"] in Layout.presets():
                parts = kazahana.decode(int(case["id"]), case["layout"])
                self.assertEqual((parts.unix_ms, parts.node, parts.seq),
                                 (case["unix_ms"], case["node"], case["seq"]), case)

    def test_the_bounds_of_an_instant_enclose_its_ids_and_no_others(self):
        layout = Layout("41-10-12@2024-01-01")
        moment = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=timezone.utc)
        least, most = layout.min_id(moment), layout.max_id(moment)
        self.assertEqual(layout.decode(least), (1777863721999, 0, 0, False))
        self.assertEqual(layout.decode(most), (1777863721999, 1023, 4095, False))
        self.assertEqual(layout.decode(most).time, moment.replace(microsecond=999_000))
        self.assertEqual(layout.min_id(moment + timedelta(milliseconds=1)), most + 1)

    def test_an_instant_is_a_datetime_of_any_zone_a_number_or_a_text(self):
        layout = Layout("snowflake")
        tokyo = timezone(timedelta(hours=9))
        for same in (datetime(2026, 1, 1, 9, tzinfo=tokyo), 1767225600000, "2026-01-01", "2026-01-01T00:00:00Z"):
            self.assertEqual(layout.min_id(same), layout.min_id(datetime(2026, 1, 1, tzinfo=timezone.utc)))

    def test_a_datetime_without_a_zone_is_refused(self):
        with self.assertRaisesRegex(kazahana.InvalidError, "time zone"):
            Layout().min_id(datetime(2026, 1, 1))

    def test_an_instant_outside_of_the_layouts_life_is_refused(self):
        with self.assertRaises(kazahana.InvalidError):
            Layout().min_id("1999-01-01")

    def test_a_time_beyond_datetime_is_told_in_milliseconds_only(self):
        parts = Layout("mastodon").decode(2**64 - 1)
        self.assertEqual(parts.unix_ms, 2**48 - 1)
        with self.assertRaisesRegex(kazahana.InvalidError, "datetime"):
            parts.time

    def test_a_layout_is_a_value(self):
        self.assertEqual(Layout("41-10-12@2024-01-01"), Layout("snowflake"))
        self.assertEqual(len({Layout("41-10-12@2024-01-01"), Layout("snowflake")}), 1)
        self.assertNotEqual(Layout("snowflake"), Layout("tsid"))
        self.assertNotEqual(Layout("snowflake"), "snowflake")
        self.assertEqual(repr(Layout("41-10-12@2024-01-01")), "Layout('snowflake')")
        self.assertEqual(str(Layout("snowflake")), "41-10-12@2024-01-01")
        self.assertEqual(pickle.loads(pickle.dumps(Layout("tsid"))), Layout("tsid"))

    def test_a_layout_is_described(self):
        facts = Layout("tsid").describe()
        self.assertEqual((facts.nodes, facts.ids_per_step, facts.reserved_bits), (1024, 4096, 0))
        self.assertEqual(facts.first_time, datetime(2020, 1, 1, tzinfo=timezone.utc))
        self.assertTrue(facts.turns_negative)
        self.assertEqual(facts.negative_unix_ms, facts.first_unix_ms + 2**41)
        self.assertIsNone(Layout("snowflake").describe().negative_unix_ms)

    def test_sonyflake_says_what_is_special_about_it(self):
        layout = Layout("sonyflake")
        self.assertEqual((layout.unit_ms, layout.node_lowest, layout.decode_only, layout.has_fallback),
                         (10, True, True, False))

    def test_bad_layouts_and_ids_are_named(self):
        with self.assertRaisesRegex(kazahana.InvalidError, "60-60-60"):
            Layout("60-60-60@2024-01-01")
        for number in (-1, 2**64):
            with self.assertRaisesRegex(kazahana.InvalidError, str(number)):
                kazahana.decode(number)
        with self.assertRaises(TypeError):
            kazahana.decode("1")
        with self.assertRaises(kazahana.InvalidError):
            kazahana.decode(2**63, "snowflake")


class Texts(unittest.TestCase):
    forms = {"decimal": "81985529216486895", "hex": "0123456789abcdef", "base32": "028T5CY4TQKFF",
             "base64url": "ASNFZ4mrze8"}

    def test_every_form_is_written_and_read(self):
        for form, text in self.forms.items():
            self.assertEqual(kazahana.to_text(0x0123456789ABCDEF, form), text)
            self.assertEqual(kazahana.from_text(text, form), 0x0123456789ABCDEF)
        for number in (0, 1, 2**63, 2**64 - 1):
            for form in (*self.forms, "base62"):
                self.assertEqual(kazahana.from_text(kazahana.to_text(number, form), form), number)

    def test_what_is_wrong_is_named(self):
        with self.assertRaisesRegex(kazahana.InvalidError, "base99"):
            kazahana.to_text(1, "base99")
        with self.assertRaises(kazahana.InvalidError):
            kazahana.from_text("12x")
        with self.assertRaises(kazahana.InvalidError):
            kazahana.to_text(-1)

    def test_bytes_are_big_endian(self):
        self.assertEqual(kazahana.to_bytes(0x0123456789ABCDEF).hex(), "0123456789abcdef")
        self.assertEqual(kazahana.from_bytes(bytes.fromhex("ffffffffffffffff")), 2**64 - 1)
        with self.assertRaisesRegex(kazahana.InvalidError, "7 bytes"):
            kazahana.from_bytes(b"1234567")


class External(InFolder):
    def test_without_keys_the_mixer_is_used(self):
        ids = ExternalIds()
        self.assertEqual(kazahana.from_text(ids.encode(1), "base64url"), 0x3C02AA47758292BD)
        self.assertEqual(ids.decode(ids.encode(2**64 - 1)), 2**64 - 1)

    def test_typed_texts_are_those_of_the_vectors(self):
        for vector in VECTORS["external_typed"]:
            keys = None
            if "algorithm" in vector:
                keys = [Key(vector["key_number"], bytes.fromhex(vector["secret_hex"]), vector["algorithm"])]
            ids = ExternalIds(keys=keys)
            self.assertEqual(ids.encode_typed(vector["type"], int(vector["id"])), vector["external"])
            self.assertEqual(ids.decode_typed(vector["type"], vector["external"]), int(vector["id"]))
            with self.assertRaisesRegex(kazahana.InvalidError, "begins with other_"):
                ids.decode_typed("other", vector["external"])
        tsid = 38352658567418872
        ids = ExternalIds(keys=[Key(0, b"0123456789abcdef")])
        self.assertEqual(ids.decode_typed("post", ids.encode_typed("post", tsid), "tsid"), tsid)
        with self.assertRaisesRegex(kazahana.InvalidError, "not a type"):
            ids.encode_typed("Post", 1)

    def test_keys_can_be_changed_while_old_texts_still_read(self):
        old, new = Key(0, b"0123456789abcdef"), Key(1, b"fedcba9876543210", "speck")
        text = ExternalIds(keys=[old]).encode(42)
        both = ExternalIds(keys=[new, old])
        self.assertEqual(both.decode(text), 42)
        self.assertNotEqual(both.encode(42), text)
        with self.assertRaises(kazahana.UnknownKeyError):
            ExternalIds(keys=[old]).decode(both.encode(42))

    def test_a_key_file_and_keys_from_memory_are_the_same(self):
        path = pathlib.Path(self.path("keys"))
        path.write_text("# the key\n2 xtea " + b"0123456789abcdef".hex() + "\n", encoding="utf-8")
        from_memory = ExternalIds(keys=[Key(2, b"0123456789abcdef")])
        for name in (path, str(path)):
            self.assertEqual(ExternalIds(name).encode(7), from_memory.encode(7))

    def test_what_is_wrong_is_named(self):
        with self.assertRaises(kazahana.OperatingSystemError):
            ExternalIds(self.path("missing"))
        with self.assertRaises(kazahana.InvalidError):
            ExternalIds(keys=[Key(4, b"0123456789abcdef")])
        with self.assertRaisesRegex(kazahana.InvalidError, "expected bytes"):
            ExternalIds(keys=[Key(0, "0123456789abcdef")])
        with self.assertRaises(kazahana.InvalidError):
            ExternalIds(self.path("keys"), keys=[Key(0, b"0123456789abcdef")])
        for text in ("", "short", "ASNFZ4mrze8x", "ASNFZ4mr+e8"):
            with self.assertRaises(kazahana.InvalidError):
                ExternalIds().decode(text)

    def test_secrets_do_not_travel(self):
        with self.assertRaises(TypeError):
            pickle.dumps(ExternalIds())
        self.assertEqual(repr(Key(1, b"0123456789abcdef")), "Key(number=1, secret=..., algorithm='xtea')")


class Monotonic(unittest.TestCase):
    def test_nanoseconds_only_grow(self):
        values = list(itertools.islice(Mono(), 10_000))
        self.assertEqual(values, sorted(set(values)))

    def test_they_go_on_above_a_last_value_that_is_ahead_of_the_clock(self):
        self.assertEqual(Mono(last=2**62).next(), 2**62 + 1)
        with self.assertRaises(kazahana.InvalidError):
            Mono(-1)
        with self.assertRaises(kazahana.OverflowError):
            Mono(2**63 - 1).next()

    def test_uuids_are_of_version_7_carry_the_node_and_only_grow(self):
        generator = MonoUUID(77)
        values = [generator.next() for _ in range(1000)]
        self.assertEqual(values, sorted(set(values)))
        self.assertEqual({(value.version, value.variant) for value in values}, {(7, uuid.RFC_4122)})
        self.assertEqual({MonoUUID.parse(value).node for value in values}, {77})
        age = datetime.now(timezone.utc) - MonoUUID.parse(values[0]).time
        self.assertLess(abs(age), timedelta(hours=1))

    def test_uuids_resume_from_the_last_one(self):
        last = MonoUUID(5).next()
        ahead = MonoUUID.min("2200-01-01")
        for given in (last, str(last)):
            self.assertGreater(MonoUUID(5, given).next(), last)
        with self.assertRaises(kazahana.InvalidError):
            MonoUUID(6, last)
        self.assertGreater(ahead, last)

    def test_uuids_of_others_are_told_apart(self):
        self.assertTrue(MonoUUID.valid(MonoUUID(5).next()))
        for other in (uuid.uuid4(), "00000000-0000-7000-8000-000000000000", "nonsense"):
            self.assertFalse(MonoUUID.valid(other))
        for node in (0, 2**24):
            with self.assertRaisesRegex(kazahana.InvalidError, str(node)):
                MonoUUID(node)
        with self.assertRaisesRegex(TypeError, "5 is not a UUID"):
            MonoUUID.valid(5)

    def test_neither_is_copied(self):
        for thing in (Mono(), MonoUUID(1)):
            with self.assertRaises(TypeError):
                pickle.dumps(thing)


if __name__ == "__main__":
    unittest.main()
