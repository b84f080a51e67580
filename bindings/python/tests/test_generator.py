"""Minting: order, waiting, closing, options, logging."""

import copy
import gc
import inspect
import itertools
import logging
import os
import pathlib
import pickle
import re
import signal
import sys
import threading
import time
import unittest
import weakref

import kazahana
from helpers import LIMIT_S, InFolder, run_script, start_script, wait_until
from kazahana import Generator, _core
from services import Redis

ROOMY = "41-2-20@2026-01-01"  # never waits at Python's pace
NARROW = "41-21-1@2026-01-01"  # two IDs a millisecond: waits at every third


def with_deadline(test):
    """A thread that hangs must not hang the test."""
    thread = threading.Thread(target=test, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if thread.is_alive():
        raise AssertionError("it hangs")


class Minting(unittest.TestCase):
    def test_ids_only_grow_and_carry_the_node_and_the_time(self):
        with Generator("static:1", layout=ROOMY) as generator:
            before = time.time_ns() // 1_000_000
            ids = [generator.next_id() for _ in range(10_000)]
            after = time.time_ns() // 1_000_000
            self.assertEqual(ids, sorted(set(ids)))
            for id in (ids[0], ids[-1]):
                parts = kazahana.decode(id, generator.layout)
                self.assertEqual(parts.node, 1)
                self.assertTrue(before - 1 <= parts.unix_ms <= after)

    def test_the_ways_to_mint_go_on_from_each_other(self):
        with Generator("static:1", layout=ROOMY) as generator:
            ids = [generator.next_id(), *generator.next_ids(5), next(generator), *itertools.islice(generator, 3),
                   generator.next_id()]
            self.assertEqual(len(ids), 11)
            self.assertEqual(ids, sorted(set(ids)))

    def test_a_batch_waits_for_as_many_milliseconds_as_it_needs(self):
        with Generator("static:1", layout=NARROW) as generator:
            ids = generator.next_ids(50)
            self.assertEqual(ids, sorted(set(ids)))
            first, last = (kazahana.decode(ids[place], NARROW).unix_ms for place in (0, -1))
            self.assertGreaterEqual(last - first, 24)
            self.assertEqual(generator.next_ids(0), [])

    def test_the_timeout_is_for_the_whole_of_a_batch(self):
        for layout in (NARROW, "41-17-5@2026-01-01"):
            with Generator("static:1", layout=layout, timeout_ms=50) as generator:
                with self.assertRaisesRegex(kazahana.TimeoutError, "50 ms"):
                    generator.next_ids(1_000_000)
                generator.next_id()

    def test_large_batches_are_minted_in_pieces(self):
        for layout in (ROOMY, "41-14-8@2026-01-01"):
            with Generator("static:1", layout=layout, timeout_ms=-1) as generator:
                ids = [*generator.next_ids(20_000), *generator.next_ids(31), *generator.next_ids(33)]
                self.assertEqual(ids, sorted(set(ids)))
                self.assertEqual(len(ids), 20_064)

    def test_a_batch_of_a_wrong_size_is_refused(self):
        with Generator("static:1") as generator:
            with self.assertRaisesRegex(kazahana.InvalidError, "-1 IDs"):
                generator.next_ids(-1)
            with self.assertRaises(TypeError):
                generator.next_ids("3")

    def test_trying_never_sleeps_and_gives_none_instead(self):
        with Generator("static:1", layout=NARROW) as generator:
            ids = [generator.try_next_id() for _ in range(10_000)]
            self.assertIn(None, ids)
            given = [id for id in ids if id is not None]
            self.assertEqual(given, sorted(set(given)))
            self.assertEqual(generator.stats().sleeps, 0)

    def test_with_a_timeout_of_0_nothing_sleeps(self):
        with Generator("static:1", layout=NARROW, timeout_ms=0) as generator:
            with self.assertRaises(kazahana.AgainError):
                generator.next_ids(10_000)

    def test_ids_of_64_bits_are_unsigned(self):
        with Generator("static:1", layout="41-11-12@1970-01-01") as generator:
            self.assertGreater(generator.next_id(), 2**63)

    def test_threads_share_a_generator_and_get_ids_of_their_own(self):
        lists = [[] for _ in range(8)]
        with Generator("static:1", layout="41-14-8@2026-01-01") as generator:
            def work(ids):
                for _ in range(300):
                    ids.append(generator.next_id())
                    ids.extend(generator.next_ids(3))

            threads = [threading.Thread(target=work, args=(ids,)) for ids in lists]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for ids in lists:
            self.assertEqual(ids, sorted(ids))
        together = [id for ids in lists for id in ids]
        self.assertEqual(len(together), 8 * 300 * 4)
        self.assertEqual(len(set(together)), len(together))


class Waiting(InFolder):
    """On a lease that is over, with a table that cannot be used: the only long wait that needs no clock."""

    def starved(self, **options):
        """A generator that has nothing to give any more."""
        generator = Generator(self.lease_file(lease="100ms"), fallback="never", retry_initial_ms=10, retry_max_ms=50,
                              **options)
        self.addCleanup(generator.close)
        self.table = [self.path(name) for name in os.listdir(self.folder)]
        for file in self.table:
            os.rename(file, file + ".away")
        os.mkdir(self.path("leases.db"))

        def is_starved():
            try:
                generator.try_next_id()
                return False
            except kazahana.LeaseAcquisitionError:
                return True

        wait_until(is_starved, "the end of the lease")
        return generator

    def bring_table_back(self):
        os.rmdir(self.path("leases.db"))
        for file in self.table:
            os.rename(file + ".away", file)

    def test_a_wait_ends_with_the_timeout_and_the_cause(self):
        generator = self.starved(timeout_ms=500)
        started = time.monotonic()
        with self.assertRaises(kazahana.LeaseAcquisitionError) as caught:
            generator.next_id()
        self.assertGreaterEqual(time.monotonic() - started, 0.35)
        self.assertEqual(caught.exception.cause, "KZ_STORE")

    def test_a_wait_lets_other_threads_run_and_ends_with_the_next_lease(self):
        generator = self.starved(timeout_ms=-1)
        ids = []
        thread = threading.Thread(target=lambda: ids.append(generator.next_id()), daemon=True)
        thread.start()
        wait_until(lambda: generator.stats().sleeps > 2, "a wait")
        self.assertEqual(ids, [])
        self.bring_table_back()
        thread.join(LIMIT_S)
        self.assertEqual(len(ids), 1)

    def test_closing_ends_the_waits_of_other_threads(self):
        generator = self.starved(timeout_ms=-1)
        refused = []

        def work():
            try:
                generator.next_id()
            except kazahana.InvalidError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: generator.stats().sleeps > 5, "a wait")
        with_deadline(generator.close)
        for thread in threads:
            thread.join(LIMIT_S)
        self.assertEqual(refused, ["this generator is closed"] * 3)

    def test_a_handled_signal_is_handled_while_waiting(self):
        generator = self.starved(timeout_ms=-1)

        def handle(number, frame):
            raise KeyboardInterrupt

        previous = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, previous)
        sleeps = generator.stats().sleeps

        def interrupt():
            wait_until(lambda: generator.stats().sleeps > sleeps + 2, "a wait")
            os.kill(os.getpid(), signal.SIGUSR1)

        helper = threading.Thread(target=interrupt, daemon=True)
        helper.start()
        with self.assertRaises(KeyboardInterrupt):
            generator.next_id()
        helper.join(LIMIT_S)


class Interrupted(unittest.TestCase):
    def interrupt(self, script):
        """Ctrl-C once the script has said that it waits, in the call on its last line."""
        process = start_script(script)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertRegex(err, rf"line {script.count(chr(10))}, in <module>")

    def test_ctrl_c_ends_the_wait_for_the_first_lease(self):
        self.interrupt("""import kazahana
def log(level, line):
    print("waiting", flush=True)
kazahana.Generator("redis://127.0.0.1:1/0", timeout_ms=-1, log=log)
""")

    def test_ctrl_c_ends_a_long_batch(self):
        self.interrupt(f"""import kazahana, threading
generator = kazahana.Generator("static:1", layout="{NARROW}", timeout_ms=-1)
def tell():
    while generator.stats().sleeps < 5:
        pass
    print("waiting", flush=True)
threading.Thread(target=tell, daemon=True).start()
generator.next_ids(10_000_000)
""")


class Closing(InFolder):
    def test_a_closed_generator_refuses_and_may_be_closed_again(self):
        generator = Generator("static:1")
        self.assertFalse(generator.closed)
        generator.close()
        generator.close()
        self.assertTrue(generator.closed)
        for call in (generator.next_id, generator.try_next_id, generator.stats, lambda: generator.next_ids(0),
                     lambda: generator.layout, lambda: next(generator)):
            with self.assertRaisesRegex(kazahana.InvalidError, "closed"):
                call()

    def test_closing_gives_the_place_back(self):
        with Generator("static:9"):
            pass
        with Generator("static:9") as again:
            again.next_id()

    def test_a_forgotten_generator_is_closed_when_it_is_collected(self):
        generator = Generator("static:9")
        gone = weakref.ref(generator)
        del generator
        gc.collect()
        self.assertIsNone(gone())
        Generator("static:9").close()

    def test_a_generator_that_its_log_function_knows_is_collected(self):
        def open_one():
            known = []
            generator = Generator("static:9", log=lambda level, line: known)
            known.append(generator)
            return weakref.ref(generator)

        gone = open_one()
        gc.collect()
        self.assertIsNone(gone())

    def test_a_generator_cannot_be_opened_twice_or_copied(self):
        with Generator("static:1") as generator:
            with self.assertRaisesRegex(kazahana.InvalidError, "open already"):
                generator.__init__("static:2")
            for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "twins"):
                    duplicate(generator)

    def test_a_generator_that_is_opened_while_it_is_being_opened_keeps_the_first(self):
        generator = Generator.__new__(Generator)
        with self.assertRaisesRegex(kazahana.InvalidError, "open already"):
            generator.__init__("standalone:", log=lambda level, line: generator.__init__("static:9"))
        generator.next_id()
        with self.assertRaises(kazahana.InUseError):
            Generator("static:9")
        generator.close()
        Generator("static:9").close()

    def test_the_end_of_the_program_gives_leases_back(self):
        # A daemon thread's frame outlives the interpreter, and with it all that it holds.
        script = """
import os, sys, threading, kazahana
generator = kazahana.Generator(sys.argv[1], layout=sys.argv[2])
threading.Thread(target=lambda held: threading.Event().wait(), args=(generator,), daemon=True).start()
generator.next_id()
if sys.argv[3] == "abruptly":
    os._exit(0)
"""
        one_node = "41-1-21@2026-01-01"
        run_script(script, self.lease_file(), one_node, "orderly")
        run_script(script, self.lease_file(), one_node, "abruptly")
        with self.assertRaises(kazahana.LeaseAcquisitionError) as caught:
            Generator(self.lease_file(), layout=one_node)
        self.assertEqual(caught.exception.cause, "KZ_NO_FREE_NODE")

    def test_a_program_ends_while_daemon_threads_mint_and_wait_and_log(self):
        script = """
import sys, threading, kazahana
generator = kazahana.Generator(sys.argv[1], log=lambda level, line: None)
waiting = kazahana.Generator("static:1", layout="41-22-0@2026-01-01")
def mint(generator):
    while True:
        generator.next_id()
for each in (generator, generator, waiting):
    threading.Thread(target=mint, args=(each,), daemon=True).start()
while waiting.stats().sleeps < 3 or generator.stats().ids_leased < 1000:
    pass
print("done")
"""
        for _ in range(3):
            self.assertEqual(run_script(script, self.lease_file()), "done\n")


class Options(InFolder):
    def test_the_defaults_are_those_of_the_library(self):
        theirs = _core.Generator._defaults()
        ours = {name: parameter.default for name, parameter in inspect.signature(Generator).parameters.items()
                if name not in ("url", "layout", "service", "meta", "log")}
        ours["throughput_min_per_ms"] = ours["throughput_max_per_ms"] = ours.pop("throughput")
        for name, choices in (("fallback", kazahana.generator._FALLBACK), ("backward", kazahana.generator._BACKWARD),
                              ("clock", kazahana.generator._CLOCK), ("seq_start", kazahana.generator._SEQ_START)):
            ours[name] = choices.index(ours[name])
        self.assertEqual(theirs.pop("service"), "default")
        self.assertEqual(ours, theirs)

    def test_the_names_of_choices_are_in_the_librarys_order(self):
        header = pathlib.Path(os.environ["KZ_ROOT"], "include", "kazahana.h").read_text(encoding="utf-8")
        for prefix, choices in (("KZ_FALLBACK", kazahana.generator._FALLBACK),
                                ("KZ_BACKWARD", kazahana.generator._BACKWARD),
                                ("KZ_CLOCK", kazahana.generator._CLOCK), ("KZ_SEQ", kazahana.generator._SEQ_START)):
            for number, choice in enumerate(choices):
                self.assertRegex(header, rf"{prefix}_{choice.upper()} =\s+{number}\b")

    def test_stats_have_everything_that_the_library_counts(self):
        header = pathlib.Path(os.environ["KZ_ROOT"], "include", "kazahana.h").read_text(encoding="utf-8")
        body = re.search(r"typedef struct kz_stats \{\n(.*?)\n\} kz_stats;", header, re.DOTALL)[1]
        names = re.findall(r"^ +(?:uint64_t|int64_t|kz_id|bool) (\w+);", body, re.MULTILINE)
        self.assertEqual(tuple(names), kazahana.Stats._fields)
        with Generator("static:1", layout=ROOMY) as generator:
            ids = generator.next_ids(1000)
            stats = generator.stats()
        self.assertEqual((stats.ids_leased, stats.leases, stats.window_end_unix_ms), (1000, 1, None))
        self.assertGreaterEqual(stats.last, ids[-1])

    def test_a_lease_has_an_end(self):
        with Generator(self.lease_file(lease="10min")) as generator:
            generator.next_id()
            stats = generator.stats()
            self.assertGreater(stats.window_end_unix_ms, time.time() * 1000)
            self.assertEqual((stats.leases, stats.leases_acquired, stats.throughput_per_ms), (1, 1, 256))

    def test_wrong_choices_and_numbers_are_named(self):
        for name, value in (("fallback", "maybe"), ("backward", "forward"), ("clock", "wall"), ("seq_start", "one"),
                            ("throughput", 0), ("throughput", (9, 3)), ("throughput", 2**40), ("renew_at", 7.5),
                            ("max_ahead_ms", -3), ("retry_initial_ms", 0), ("meta", "x" * 300), ("layout", "nope"),
                            ("service", "s" * 100), ("log", 5)):
            with self.assertRaises(kazahana.InvalidError, msg=(name, value)):
                Generator("memory:", **{name: value})

    def test_options_reach_the_library(self):
        url = self.lease_file()
        with Generator(url, service="orders", layout="41-10-12@2024-01-01", throughput=(5000, 9000),
                       meta={"who": "é"}, seq_start="random", clock="coarse") as generator:
            self.assertEqual(generator.layout, kazahana.Layout("snowflake"))
            generator.next_id()
            self.assertGreaterEqual(generator.stats().throughput_per_ms, 5000)
        with self.assertRaises(kazahana.MismatchError):
            Generator(url, service="orders", layout="tsid")

    def test_a_layout_may_be_a_text_or_a_layout(self):
        for layout in ("tsid", kazahana.Layout("tsid")):
            with Generator("static:1000", layout=layout) as generator:
                self.assertEqual(generator.layout.name, "tsid")

    def test_the_node_comes_from_the_environment_of_this_process(self):
        os.environ["KZ_PYTHON_NODE"] = "17"
        self.addCleanup(os.environ.pop, "KZ_PYTHON_NODE")
        with Generator("env:KZ_PYTHON_NODE") as generator:
            self.assertEqual(kazahana.decode(generator.next_id()).node, 17)

    def test_a_repr_tells_no_secrets(self):
        for url, shown in (("redis://user:pa@ss@host:1/0?prefix=p", "redis://***@host:1/0?prefix=p"),
                           ("http://host?token=abc&service=s", "http://host?token=***&service=s"),
                           ("http://host?token-file=/f&x=y", "http://host?token-file=***&x=***"),
                           ("static:7", "static:7")):
            self.assertEqual(kazahana.generator.without_secrets(url), shown)
        with Generator("static:7") as generator:
            self.assertEqual(repr(generator), "<kazahana.Generator of static:7, 41-14-8@2026-01-01>")
        self.assertEqual(repr(generator), "<kazahana.Generator of static:7, closed>")


class Logging(InFolder):
    def test_a_logger_gets_the_librarys_lines(self):
        logger = logging.getLogger("kazahana.tests")
        with self.assertLogs(logger, logging.WARNING) as logged:
            Generator("standalone:", log=logger).close()
        self.assertIn("unfenced", logged.output[0])

    def test_a_function_gets_a_level_and_a_line_also_from_the_keepers_thread(self):
        lines = []
        redis = Redis(self.folder).start()
        self.addCleanup(redis.kill)
        with Generator(f"{redis.url}?lease=100ms", retry_initial_ms=10, retry_max_ms=20,
                       log=lambda level, line: lines.append((level, line, threading.get_ident()))):
            redis.kill()
            wait_until(lambda: [line for line in lines if "trying again" in line[1]], "a line about the lost Redis")
        level, _, thread = next(line for line in lines if "trying again" in line[1])
        self.assertEqual(level, logging.ERROR)
        self.assertNotEqual(thread, threading.get_ident())

    def test_a_function_that_fails_harms_nobody(self):
        unraisable = []
        previous, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            with Generator("standalone:", log=lambda level, line: 1 / 0) as generator:
                generator.next_id()
        finally:
            sys.unraisablehook = previous
        self.assertEqual([entry.exc_type for entry in unraisable], [ZeroDivisionError])

    def test_closing_lets_the_function_go(self):
        class Function:
            def __call__(self, level, line):
                pass

        function = Function()
        gone = weakref.ref(function)
        generator = Generator("standalone:", log=function)
        del function
        self.assertIsNotNone(gone())
        generator.close()
        gc.collect()
        self.assertIsNone(gone())

    def test_a_function_may_close_its_generator_and_drop_the_last_reference(self):
        for last_words in ("generator.close()", "del generator"):
            script = f"""
import sys, threading, kazahana
sys.path.append({os.path.dirname(__file__)!r})
from services import Redis
called = threading.Event()
def log(level, line):
    global generator
    if not called.is_set():
        {last_words}
        called.set()
redis = Redis(sys.argv[1]).start()
generator = kazahana.Generator(redis.url + "?lease=100ms", retry_initial_ms=10, retry_max_ms=20, log=log)
redis.kill()
if not called.wait({LIMIT_S}):
    sys.exit("no line came")
"""
            folder = self.path(last_words.split()[0].replace(".", "-"))
            os.mkdir(folder)
            run_script(script, folder)


if __name__ == "__main__":
    unittest.main()
