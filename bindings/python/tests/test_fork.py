"""Forks of every kind: each process gets IDs of its own, or is told that it cannot."""

import concurrent.futures
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import kazahana
from helpers import LIMIT_S, InFolder, wait_until
from kazahana import Generator, MonoUUID
from services import Redis

SYSTEM_PYTHON = "/usr/bin/python3"


def in_child(work):
    """What `work` returns in a forked child, or the name of the exception it raised there."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        try:
            try:
                answer = work()
            except kazahana.Error as error:
                answer = type(error).__name__
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise AssertionError(f"the child ended with status {status}")
    return json.loads(answer)


def patient(url):
    """A child starts a thread and opens the table anew: that may take a while."""
    return Generator(url, timeout_ms=LIMIT_S * 1000)


def mint(url, count):
    with patient(url) as generator:
        return generator.next_ids(count)


INHERITED = None


def mint_inherited(_):
    return INHERITED.next_id()


class Workers(InFolder):
    """What worker processes leave behind: they end without running what atexit has."""

    def leases(self, path):
        lines = subprocess.run([os.environ["KZ_BUILD"] + "/kazahana", "leases", "--json", "--from", f"sqlite:{path}"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        return len(lines)

    def check_workers(self, context):
        global INHERITED
        path = self.path("workers.db")
        with patient(f"sqlite:{path}") as INHERITED:
            INHERITED.next_id()
            before = self.leases(path)
            with context.Pool(3, maxtasksperchild=2) as pool:
                ids = pool.map(mint_inherited, range(24), chunksize=1)
                pool.close()
                pool.join()
            self.assertEqual(len(set(ids)), 24)
            process = context.Process(target=mint_inherited, args=(0,))
            process.start()
            process.join()
            self.assertEqual(process.exitcode, 0)
            self.assertEqual(self.leases(path), before)

    @unittest.skipUnless("KZ_BUILD" in os.environ, "KZ_BUILD does not name Meson's build directory")
    def test_workers_of_a_pool_give_back_what_they_took(self):
        self.check_workers(multiprocessing.get_context("fork"))

    @unittest.skipUnless("KZ_BUILD" in os.environ, "KZ_BUILD does not name Meson's build directory")
    def test_workers_of_an_executor_do_too(self):
        global INHERITED
        path = self.path("executor.db")
        with patient(f"sqlite:{path}") as INHERITED:
            INHERITED.next_id()
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
                ids = list(executor.map(mint_inherited, range(12)))
            self.assertEqual(len(set(ids)), 12)
            self.assertEqual(self.leases(path), 1)


class SameNumber(unittest.TestCase):
    def test_two_processes_with_one_number_are_warned(self):
        script = "import kazahana, sys, warnings; warnings.simplefilter('error'); " \
            "ids = kazahana.Generator(sys.argv[1], layout=sys.argv[2])"
        environment = {key: value for key, value in os.environ.items() if key != "KAZAHANA_LOCK"}
        number = os.getpid() % 1024
        layout = f"41-10-12@{1_500_000_000_000 + os.getpid()}"
        holder = subprocess.Popen(
            [sys.executable, "-c", script + "; print('open', flush=True); sys.stdin.read()", f"static:{number}", layout],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        with holder:
            self.assertEqual(holder.stdout.readline(), "open\n")

            def second(url):
                return subprocess.run([sys.executable, "-c", script, url, layout], stderr=subprocess.PIPE, text=True,
                                      env=environment, check=False).stderr
            self.assertIn("RuntimeWarning: another process on this host", second(f"static:{number}"))
            self.assertEqual(second(f"static:{number}?lock=no"), "")
            self.assertIn("InUseError", second(f"static:{number}?lock=refuse"))
            holder.stdin.close()


class Fork(InFolder):
    def assert_all_differ(self, lists):
        for ids in lists:
            self.assertEqual(ids, sorted(ids))
        together = [id for ids in lists for id in ids]
        self.assertEqual(len(set(together)), len(together))

    def assert_a_child_gets_a_lease_of_its_own(self, url):
        with patient(url) as generator:
            lists = [generator.next_ids(500)]
            lists += [in_child(lambda: generator.next_ids(500)) for _ in range(2)]
            lists += [generator.next_ids(500)]
            nodes = {generator.layout.decode(ids[0]).node for ids in lists}
            self.assertEqual(len(nodes), 3)
        self.assert_all_differ(lists)

    def test_a_child_gets_a_lease_of_its_own_from_a_file(self):
        self.assert_a_child_gets_a_lease_of_its_own(self.lease_file())

    def test_a_child_gets_a_lease_of_its_own_from_redis(self):
        with Redis(self.folder) as redis:
            self.assert_a_child_gets_a_lease_of_its_own(redis.url)

    def test_a_child_waits_for_its_lease_also_when_it_only_tries(self):
        with patient(self.lease_file()) as generator:
            ids = generator.next_ids(5)
            ids.append(in_child(lambda: wait_until(generator.try_next_id, "an ID in the child")))
        self.assertEqual(len(set(ids)), 6)

    def test_a_child_is_told_where_the_source_has_no_other_place(self):
        for url in ("static:1", "memory:", "standalone:"):
            with Generator(url) as generator:
                generator.next_id()
                for call in (generator.next_id, generator.try_next_id, lambda: generator.next_ids(3), generator.stats):
                    self.assertEqual(in_child(call), "ForkedError", url)
                generator.next_id()

    def test_a_child_may_close_what_it_inherited_and_open_its_own(self):
        with Generator("static:1") as generator:
            generator.next_id()

            def work():
                generator.close()
                return mint("static:2", 3)

            self.assertEqual(len(in_child(work)), 3)
            generator.next_id()

    def test_a_fork_during_another_threads_wait_leaves_nothing_behind(self):
        with Generator("static:1", layout="41-22-0@2026-01-01") as generator:
            stop = threading.Event()

            def work():
                while not stop.is_set():
                    generator.next_id()

            thread = threading.Thread(target=work)
            thread.start()
            wait_until(lambda: generator.stats().sleeps > 10, "a wait")
            try:
                # The child's copy still counts a call that no thread of the child will ever end.
                for _ in range(20):
                    self.assertEqual(in_child(lambda: generator.close() or "closed"), "closed")
            finally:
                stop.set()
                thread.join()

    def test_forks_while_a_keeper_writes_to_its_log_function(self):
        with Redis(self.folder) as redis:
            lines = []
            with Generator(f"{redis.url}?lease=100ms", retry_initial_ms=1, retry_max_ms=1,
                           log=lambda level, line: lines.append(line)), \
                    patient(self.lease_file(lease="100ms")) as steady:
                redis.kill()
                wait_until(lambda: lines, "a line")
                ids = [in_child(steady.next_id) for _ in range(10)]
                self.assertEqual(len(set(ids)), 10)

    def test_uuids_of_a_node_are_not_given_by_its_children(self):
        generator = MonoUUID(5)
        generator.next()
        self.assertEqual(in_child(lambda: str(generator.next())), "ForkedError")
        self.assertTrue(MonoUUID.valid(in_child(lambda: str(MonoUUID(6).next()))))
        generator.next()

    def test_multiprocessing_by_fork_spawn_and_forkserver(self):
        parents = patient(self.lease_file())
        self.addCleanup(parents.close)
        for method in ("fork", "spawn", "forkserver"):
            lists = [parents.next_ids(100)]
            context = multiprocessing.get_context(method)
            with context.Pool(2) as pool:
                lists += pool.starmap(mint, [(self.lease_file(), 200)] * 4)
            lists += [parents.next_ids(100)]
            self.assert_all_differ(lists)

    def test_a_generator_is_not_handed_to_a_spawned_process(self):
        with Generator("static:1") as generator:
            process = multiprocessing.get_context("spawn").Process(target=print, args=(generator,))
            with self.assertRaisesRegex(TypeError, "twins"):
                process.start()


class Gunicorn(InFolder):
    """A real prefork server whose application is loaded before it forks."""

    def ask(self):
        with contextlib.closing(http.client.HTTPConnection("localhost")) as link:
            link.sock = socket.socket(socket.AF_UNIX)
            link.sock.settimeout(LIMIT_S)
            link.sock.connect(self.path("socket"))
            link.request("GET", "/")
            return json.loads(link.getresponse().read())

    def is_up(self):
        try:
            return self.ask()
        except OSError:
            return False

    @unittest.skipUnless(subprocess.run([SYSTEM_PYTHON, "-c", "import gunicorn"], stderr=subprocess.DEVNULL,
                                        check=False).returncode == 0, "gunicorn is not installed")
    def test_preloaded_workers_mint_ids_of_their_own(self):
        pathlib.Path(self.path("application.py")).write_text(f"""
import json, os, time, kazahana
generator = kazahana.Generator({self.lease_file()!r}, timeout_ms={LIMIT_S * 1000})
generator.next_ids(10)
def application(environ, start_response):
    time.sleep(0.05)  # so that requests at the same time are not all for one worker
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), generator.next_ids(100)]).encode()]
""", encoding="utf-8")
        site = pathlib.Path(kazahana.__file__).parents[1]
        with open(self.path("log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [SYSTEM_PYTHON, "-m", "gunicorn", "--preload", "--workers", "3", "--bind",
                 f"unix:{self.path('socket')}", "application:application"],
                cwd=self.folder, env={**os.environ, "PYTHONPATH": f"{site}:{self.folder}"}, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        wait_until(lambda: server.poll() is not None or self.is_up(), "the server")
        if server.poll() is not None:
            self.fail(pathlib.Path(self.path("log")).read_text(encoding="utf-8"))
        by_worker = {}
        deadline = time.monotonic() + LIMIT_S
        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            while len(by_worker) < 2 and time.monotonic() < deadline:
                for answer in [clients.submit(self.ask) for _ in range(6)]:
                    pid, ids = answer.result()
                    by_worker.setdefault(pid, []).append(ids)
        self.assertGreaterEqual(len(by_worker), 2)
        self.assertNotIn(server.pid, by_worker)
        ids = [id for answers in by_worker.values() for answer in answers for id in answer]
        self.assertEqual(len(set(ids)), len(ids))


if __name__ == "__main__":
    unittest.main()
