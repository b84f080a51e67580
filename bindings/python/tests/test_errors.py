"""Every status of the library is an exception with the library's words."""

import builtins
import pickle
import unittest

import kazahana
from kazahana import _core, errors


class Errors(unittest.TestCase):
    def test_every_status_but_ok_has_an_exception_of_its_own(self):
        names = [name for name, _, _ in _core.STATUSES]
        self.assertEqual(names[0], "KZ_OK")
        self.assertEqual(set(names[1:]), set(errors.BY_STATUS))
        self.assertEqual(len(set(errors.BY_STATUS.values())), len(errors.BY_STATUS))

    def test_every_exception_is_public_and_says_its_status(self):
        for name, _, text in _core.STATUSES[1:]:
            kind = errors.BY_STATUS[name]
            self.assertIs(getattr(kazahana, kind.__name__), kind)
            self.assertIn(kind.__name__, kazahana.__all__)
            error = errors.from_library(name, text, "KZ_OK", 0, 0)
            self.assertIs(type(error), kind)
            self.assertIsInstance(error, kazahana.Error)
            self.assertEqual((error.status, error.cause, str(error)), (name, None, text))

    def test_every_exception_survives_pickling(self):
        for name, _, text in _core.STATUSES[1:]:
            error = pickle.loads(pickle.dumps(errors.from_library(name, text, "KZ_UNAVAILABLE", 7, 5)))
            self.assertIs(type(error), errors.BY_STATUS[name])
            self.assertEqual((error.status, error.cause, str(error)), (name, "KZ_UNAVAILABLE", text))

    def test_those_with_a_builtin_cousin_are_caught_as_it(self):
        for kind, cousin in [(kazahana.TimeoutError, builtins.TimeoutError), (kazahana.InvalidError, ValueError),
                             (kazahana.OverflowError, builtins.OverflowError), (kazahana.NoMemoryError, MemoryError),
                             (kazahana.OperatingSystemError, OSError), (kazahana.UnknownKeyError, ValueError)]:
            self.assertTrue(issubclass(kind, cousin))

    def test_a_status_of_a_later_library_is_a_plain_error(self):
        error = errors.from_library("KZ_UNKNOWN", "something new", "KZ_OK", 0, 0)
        self.assertIs(type(error), kazahana.Error)

    def test_a_clock_that_went_back_says_by_how_much(self):
        error = errors.from_library("KZ_CLOCK_BACKWARD", "the clock went back", "KZ_OK", 7000, 5000)
        self.assertEqual((error.backward_ms, error.limit_ms), (7000, 5000))

    def test_a_wrong_url_is_an_invalid_value_that_is_named(self):
        with self.assertRaisesRegex(kazahana.InvalidError, "nonsense"):
            kazahana.Generator("nonsense")

    def test_a_message_that_is_cut_off_within_a_character_is_told_all_the_same(self):
        for url in ("static:" + "é" * 300, "static:x" + "é" * 300):
            with self.assertRaisesRegex(kazahana.InvalidError, "é"):
                kazahana.Generator(url)

    def test_no_lease_names_its_cause(self):
        with self.assertRaises(kazahana.LeaseAcquisitionError) as caught:
            kazahana.Generator("redis://127.0.0.1:1/0", timeout_ms=100)
        self.assertEqual(caught.exception.cause, "KZ_UNAVAILABLE")

    def test_standalone_without_fallback_has_no_provider(self):
        with self.assertRaises(kazahana.NoProviderError):
            kazahana.Generator("standalone:", fallback="never")

    def test_the_same_fixed_node_twice_is_in_use(self):
        with kazahana.Generator("static:3"), self.assertRaises(kazahana.InUseError):
            kazahana.Generator("static:3")

    def test_a_layout_that_has_run_out_overflows(self):
        with self.assertRaises(kazahana.OverflowError):
            kazahana.Generator("static:1", layout="8-10-12@2020-01-01").next_id()

    def test_a_clock_before_the_epoch_is_refused(self):
        with self.assertRaises(kazahana.BeforeEpochError):
            kazahana.Generator("static:1", layout="41-10-12@2200-01-01").next_id()

    def test_a_layout_that_can_only_be_read_is_unsupported(self):
        with self.assertRaises(kazahana.UnsupportedError):
            kazahana.Generator("static:1", layout="sonyflake")


if __name__ == "__main__":
    unittest.main()
