"""snowflake_id without Django: the generator, its providers, and what a fork does to it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone
from unittest import mock

import kazahana
import snowflake_id.generator
from snowflake_id import SnowflakeGenerator, decode
from snowflake_id.worker import EnvWorkerIdProvider, LeasedWorkerIdProvider, StaticWorkerIdProvider

EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)


def worker_id(value):
    """The environment with this WORKER_ID, or without any."""
    kept = {name: text for name, text in os.environ.items() if name != "WORKER_ID"}
    return mock.patch.dict(os.environ, kept if value is None else {**kept, "WORKER_ID": value}, clear=True)


def in_child(work):
    """What `work` returns in a forked child, as a text. A child that hangs ends itself."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(120)
            os.close(reading)
            os.write(writing, str(work()).encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    os.waitpid(pid, 0)
    return text


class Ids(unittest.TestCase):
    def test_the_specifications_first_block_runs_as_it_stands(self):
        block = """
from snowflake_id import SnowflakeGenerator
from snowflake_id.worker import EnvWorkerIdProvider

generator = SnowflakeGenerator(
    worker_id_provider=EnvWorkerIdProvider("WORKER_ID")
)
"""
        names = {}
        with worker_id("1"):
            exec(block, names)
        id = names["generator"].next_id()
        self.assertEqual(id >> 12 & 1023, 1)

    def test_an_id_is_41_bits_of_time_10_of_worker_and_12_of_sequence(self):
        with SnowflakeGenerator(StaticWorkerIdProvider(1023)) as generator:
            before = datetime.now(timezone.utc)
            id = generator.next_id()
            after = datetime.now(timezone.utc)
        made = EPOCH + timedelta(milliseconds=id >> 22)
        self.assertLessEqual(before - timedelta(seconds=1), made)
        self.assertLessEqual(made, after + timedelta(seconds=1))
        self.assertEqual((id >> 12) & 1023, 1023)
        self.assertLess(id, 2**63)
        self.assertEqual(decode(id), (made, 1023, id & 4095))
        self.assertEqual(generator.decode(str(id)), decode(id))

    def test_ids_increase_past_the_4096_of_a_millisecond(self):
        with SnowflakeGenerator(StaticWorkerIdProvider(2)) as generator:
            ids = generator.next_ids(10000) + [generator.next_id()]
            self.assertEqual(sorted(set(ids)), ids)
            self.assertEqual(generator.stats().ids_leased, 10001)

    def test_threads_get_no_twins(self):
        ids = []
        with SnowflakeGenerator(StaticWorkerIdProvider(3)) as generator:
            threads = [threading.Thread(target=lambda: ids.append([generator.next_id() for _ in range(5000)]))
                       for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len({id for some in ids for id in some}), 40000)

    def test_what_is_no_snowflake_cannot_be_taken_apart(self):
        for wrong in (-1, 2**63, "", "seven"):
            with self.subTest(wrong), self.assertRaises(ValueError):
                decode(wrong)


class Numbers(unittest.TestCase):
    def test_a_wrong_worker_id_is_told_when_the_generator_is_made(self):
        for value, message in (
            (None, "WORKER_ID is not set"),
            ("", 'WORKER_ID "" is not a node number (0..1023)'),
            ("seven", 'WORKER_ID "seven" is not a node number (0..1023)'),
            (" 7", 'WORKER_ID " 7" is not a node number (0..1023)'),
            ("-1", 'WORKER_ID "-1" is not a node number (0..1023)'),
            ("1024", "WORKER_ID 1024 does not fit in 10 bits (0..1023)"),
        ):
            with self.subTest(value), worker_id(value):
                for make in (lambda: SnowflakeGenerator(worker_id_provider=EnvWorkerIdProvider("WORKER_ID")),
                             SnowflakeGenerator, EnvWorkerIdProvider().get_worker_id):
                    with self.assertRaises(ValueError) as caught:
                        make()
                    self.assertIn(message, str(caught.exception))

    def test_every_number_from_0_to_1023_will_do(self):
        for number in (0, 1023):
            with worker_id(str(number)), SnowflakeGenerator() as generator:
                self.assertEqual(decode(generator.next_id()).worker_id, number)
                self.assertEqual(EnvWorkerIdProvider().get_worker_id(), number)

    def test_the_variable_may_have_another_name(self):
        with mock.patch.dict(os.environ, POD_INDEX="44"), SnowflakeGenerator(EnvWorkerIdProvider("POD_INDEX")) as own:
            self.assertEqual(decode(own.next_id()).worker_id, 44)

    def test_any_object_with_get_worker_id_will_do(self):
        class FromHostname:
            def get_worker_id(self):
                return "web-45".rpartition("-")[2]

        with SnowflakeGenerator(FromHostname()) as generator:
            self.assertEqual(decode(generator.next_id()).worker_id, 45)

    def test_what_it_returns_must_be_a_number(self):
        for wrong in (None, 1024, -1, 1.5, "a"):
            provider = mock.Mock(spec=["get_worker_id"])
            provider.get_worker_id.return_value = wrong
            with self.subTest(wrong), self.assertRaises(ValueError):
                SnowflakeGenerator(provider)

    def test_what_is_no_provider_is_named(self):
        with self.assertRaisesRegex(TypeError, "7 is no provider.*StaticWorkerIdProvider"):
            SnowflakeGenerator(7)

    def test_a_second_process_on_one_state_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, worker_id("46"):
            source = LeasedWorkerIdProvider(f"env:WORKER_ID?state={folder}/state")
            with SnowflakeGenerator(source) as generator:
                generator.next_id()
                program = ("from snowflake_id import SnowflakeGenerator as G; from snowflake_id.worker import *; "
                           f"G(LeasedWorkerIdProvider({source.source!r}))")
                other = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(other.returncode, 1)
                self.assertIn(f"process {os.getpid()}", other.stderr)


class Sharing(unittest.TestCase):
    """The library refuses a second generator on one number in one process."""

    def test_generators_with_the_same_number_are_one(self):
        with worker_id("50"):
            generators = [SnowflakeGenerator(), SnowflakeGenerator(StaticWorkerIdProvider(50)),
                          SnowflakeGenerator(EnvWorkerIdProvider("WORKER_ID"))]
        ids = [generator.next_id() for _ in range(100) for generator in generators]
        self.assertEqual(sorted(set(ids)), ids)

    def test_one_may_be_closed_and_the_other_goes_on(self):
        first, second = SnowflakeGenerator(StaticWorkerIdProvider(51)), SnowflakeGenerator(StaticWorkerIdProvider(51))
        first.close()
        first.close()
        second.next_id()
        with self.assertRaisesRegex(ValueError, "closed"):
            first.next_id()

    def test_a_number_that_is_closed_and_opened_again_goes_on_where_it_was(self):
        ids = []
        for _ in range(500):
            with SnowflakeGenerator(StaticWorkerIdProvider(55)) as generator:
                ids.append(generator.next_id())
            ids.append(SnowflakeGenerator(StaticWorkerIdProvider(55)).next_id())
        self.assertEqual(sorted(set(ids)), ids)

    def test_a_number_that_somebody_else_has_here_is_refused(self):
        with kazahana.Generator("static:56", layout="snowflake"):
            with self.assertRaises(kazahana.InUseError):
                SnowflakeGenerator(StaticWorkerIdProvider(56))
        SnowflakeGenerator(StaticWorkerIdProvider(56)).next_id()

    def test_a_number_that_is_closed_may_be_had_by_somebody_else_here(self):
        with SnowflakeGenerator(StaticWorkerIdProvider(59)) as generator:
            last = generator.next_id()
        with kazahana.Generator("static:59", layout="snowflake") as other:
            self.assertGreater(other.next_id(), last)

    def test_the_options_are_those_of_the_library(self):
        options = {"meta": {"who": "ana"}, "timeout_ms": 60000, "throughput": (100, 200)}
        provider = LeasedWorkerIdProvider("memory:?service=snowflake")
        first, second = SnowflakeGenerator(provider, **options), SnowflakeGenerator(provider, **options)
        self.assertEqual(len({decode(each.next_id()).worker_id for each in (first, second)}), 1)

    def test_a_leased_place_is_given_back_by_the_last_one_that_closes(self):
        with tempfile.TemporaryDirectory() as folder:
            provider = LeasedWorkerIdProvider(f"sqlite:{folder}/leases.db")
            first, second = SnowflakeGenerator(provider), SnowflakeGenerator(provider)
            numbers = {decode(each.next_id()).worker_id for each in (first, second)}
            self.assertEqual(len(numbers), 1)
            first.close()
            second.next_id()
            second.close()
            with SnowflakeGenerator(provider) as third:
                self.assertNotIn(decode(third.next_id()).worker_id, numbers)
                self.assertEqual(third.stats().leases_acquired, 1)

    def test_defaults_of_two_variables_are_two_numbers(self):
        sources = [f"env:KAZAHANA_NO_SUCH_{name}?default={name}" for name in (57, 58)]
        numbers = [decode(SnowflakeGenerator(LeasedWorkerIdProvider(source)).next_id()).worker_id for source in sources]
        self.assertEqual(numbers, [57, 58])

    def test_threads_that_open_at_once_share(self):
        gate, generators = threading.Barrier(8), []

        def work():
            gate.wait(60)
            generators.append(SnowflakeGenerator(StaticWorkerIdProvider(52)))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(generators), 8)

    def test_an_environment_that_changed_is_another_number(self):
        with worker_id("53"):
            first = SnowflakeGenerator()
        with worker_id("54"):
            second = SnowflakeGenerator()
        self.assertEqual([decode(each.next_id()).worker_id for each in (first, second)], [53, 54])


class Forks(unittest.TestCase):
    def test_a_child_is_told_that_the_number_is_its_parents(self):
        generator = SnowflakeGenerator(StaticWorkerIdProvider(60))
        generator.next_id()
        for call in (generator.next_id, lambda: generator.next_ids(2)):
            told = in_child(call)
            self.assertRegex(told, "^ForkedError: static:60 is the number of the process that this one was forked from")
            self.assertIn("LeasedWorkerIdProvider", told)
        generator.next_id()

    def test_a_child_cannot_open_the_number_that_its_parent_has_open(self):
        generator = SnowflakeGenerator(StaticWorkerIdProvider(64))
        with worker_id("64"):
            for make in (SnowflakeGenerator, lambda: SnowflakeGenerator(StaticWorkerIdProvider(64), timeout_ms=1)):
                self.assertRegex(in_child(lambda: make().next_id()), "^ForkedError: (env:WORKER_ID|static:64) is the")
        generator.close()
        told = in_child(lambda: decode(SnowflakeGenerator(StaticWorkerIdProvider(64)).next_id()).worker_id)
        self.assertEqual(told, "64")

    def test_a_child_may_have_a_number_of_its_own(self):
        generator = SnowflakeGenerator(StaticWorkerIdProvider(61))
        generator.next_id()
        told = in_child(lambda: decode(SnowflakeGenerator(StaticWorkerIdProvider(62)).next_id()).worker_id)
        self.assertEqual(told, "62")

    def test_a_leased_generator_goes_on_in_every_child(self):
        with tempfile.TemporaryDirectory() as folder:
            with SnowflakeGenerator(LeasedWorkerIdProvider(f"sqlite:{folder}/leases.db")) as generator:
                numbers = [decode(generator.next_id()).worker_id]
                for _ in range(3):
                    told = in_child(lambda: (generator.next_id(), generator.close())[0])
                    numbers.append(decode(told).worker_id)
                numbers.append(decode(generator.next_id()).worker_id)
        self.assertEqual(numbers[0], numbers[-1])
        self.assertEqual(len(set(numbers)), 4)

    def test_a_child_opens_one_although_the_parent_was_just_opening_one(self):
        held, free = threading.Event(), threading.Event()

        def hold():
            with snowflake_id.generator._lock:
                held.set()
                free.wait(120)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        try:
            started = time.monotonic()
            told = in_child(lambda: decode(SnowflakeGenerator(StaticWorkerIdProvider(63)).next_id()).worker_id)
        finally:
            free.set()
            thread.join()
        self.assertEqual(told, "63", f"after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    unittest.main()
