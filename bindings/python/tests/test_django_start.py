"""What is wrong with WORKER_ID is told when a process starts, not when the first row is inserted; and what becomes of a
number when a process forks. The sample project is the one that starts."""

import concurrent.futures
import os
import unittest

import django_support as support
from services import free_port

MANAGE = support.SAMPLE / "manage.py"
WSGI = ("-c", "import onde_jogar.wsgi")
WRONG = {
    None: "WORKER_ID is not set: give every process a number of its own (0..1023)",
    "seven": 'WORKER_ID "seven" is not a node number (0..1023)',
    "1024": "WORKER_ID 1024 does not fit in 10 bits (0..1023)",
}

# Numbers of forked children. The parent has loaded the models; `use` says whether it has made an ID, too.
FORK = """
import os, sys
import django
django.setup()
from snowflake_id import decode
from snowflake_id.django_settings import get_generator

use, number = sys.argv[1:]
if use == "used":
    get_generator().next_id()
if os.fork() == 0:
    os.environ["WORKER_ID"] = number
    try:
        print("child", decode(get_generator().next_id()).worker_id, flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(0)
os.wait()
print("parent", decode(get_generator().next_id()).worker_id)
"""


def start(number, *arguments, **more):
    environment = support.environment(**more) if number is None else support.environment(WORKER_ID=number, **more)
    return support.run(environment, *arguments)


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
class Start(unittest.TestCase):
    def every_number(self, *arguments):
        """(the message that is due, status, what was said) for each wrong number."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda number: start(number, *arguments), WRONG))
        return [(message, *answer) for message, answer in zip(WRONG.values(), answers)]

    def test_a_server_does_not_come_up(self):
        for message, status, said in self.every_number(*WSGI):
            self.assertEqual(status, 1, said)
            self.assertIn(f"django.core.exceptions.ImproperlyConfigured: SNOWFLAKE_ID: {message}", said)

    def test_the_system_check_fails(self):
        for message, status, said in self.every_number(MANAGE, "check"):
            self.assertEqual(status, 1, said)
            self.assertIn(f"(snowflake_id.E001) SNOWFLAKE_ID: {message}", said)
            self.assertIn("--skip-checks", said)

    def test_so_do_migrate_and_runserver(self):
        for command in (("migrate",), ("runserver", "--noreload", f"127.0.0.1:{free_port()}")):
            status, said = start(None, MANAGE, *command)
            self.assertEqual(status, 1, said)
            self.assertIn("snowflake_id.E001", said)

    def test_gunicorn_gives_up(self):
        for options in ((), ("--preload",)):
            status, said = start(None, "-m", "gunicorn", "--bind", f"127.0.0.1:{free_port()}", *options,
                                 "onde_jogar.wsgi")
            self.assertNotEqual(status, 0, said)
            self.assertIn(WRONG[None], said)

    def test_with_a_number_all_is_well(self):
        for command in (WSGI, (MANAGE, "check")):
            status, said = start("7", *command)
            self.assertEqual(status, 0, said)

    def test_commands_that_create_nothing_need_no_number(self):
        for command in (("collectstatic", "--noinput", "--dry-run"), ("makemigrations", "--check", "--skip-checks"),
                        ("sqlmigrate", "games", "0001", "--skip-checks")):
            status, said = start(None, MANAGE, *command)
            self.assertEqual(status, 0, said)

    def test_without_one_the_first_insert_of_a_command_fails_and_says_why(self):
        status, said = start(None, MANAGE, "shell", "-c", "from games.models import Event; Event.objects.create()")
        self.assertEqual(status, 1)
        self.assertIn(f"ImproperlyConfigured: SNOWFLAKE_ID: {WRONG[None]}", said)

    def test_leases_need_no_number_and_are_not_taken_before_they_are_wanted(self):
        path = os.path.join(support.folder(), "untouched.db")
        for command in (WSGI, (MANAGE, "check")):
            status, said = start(None, *command, SNOWFLAKE_SOURCE=f"sqlite:{path}")
            self.assertEqual(status, 0, said)
        self.assertFalse(os.path.exists(path))


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
class Fork(unittest.TestCase):
    def fork(self, use, number, **more):
        status, said = start("7", "-c", FORK, use, number, **more)
        self.assertEqual(status, 0, said)
        return said.splitlines()

    def test_a_number_that_was_read_before_the_fork_is_not_the_childs(self):
        for use in ("unused", "used"):
            child, parent = self.fork(use, "7")
            self.assertRegex(child, "^ForkedError: env:WORKER_ID is the number of the process that this one was forked")
            self.assertIn('SNOWFLAKE_ID = {"SOURCE": ...}', child)
            self.assertEqual(parent, "parent 7")

    def test_a_child_may_be_given_another_number(self):
        for use in ("unused", "used"):
            self.assertEqual(self.fork(use, "8"), ["child 8", "parent 7"])

    def test_leases_are_each_processs_own(self):
        path = os.path.join(support.folder(), "forked.db")
        for use in ("unused", "used"):
            child, parent = self.fork(use, "7", SNOWFLAKE_SOURCE=f"sqlite:{path}")
            self.assertRegex(child, r"^child \d+$")
            self.assertRegex(parent, r"^parent \d+$")
            self.assertNotEqual(child.split()[1], parent.split()[1])


if __name__ == "__main__":
    unittest.main()
