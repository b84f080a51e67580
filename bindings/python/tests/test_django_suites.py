"""Two suites of Django tests, the field's and the sample project's, on SQLite and PostgreSQL, with Debian's Django and
with the newest."""

import unittest

from services import Postgres

import django_support as support


class Suites:
    django = None
    name = None

    def passes(self, *command, **more):
        status, said = support.run(support.environment(self.django, **more), *command)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"Ran [1-9]\d* tests")
        return said

    def sample(self, **more):
        self.passes(support.SAMPLE / "manage.py", "test", "games", "--noinput", WORKER_ID="1", **more)

    def field(self, **more):
        self.passes("-m", "django", "test", "django_field_suite.suite", "--noinput",
                    DJANGO_SETTINGS_MODULE="django_field_suite.settings", **more)

    def test_it_is_the_django_that_was_meant(self):
        status, said = support.run(support.environment(self.django), "-c", "import django; print(django.__file__)")
        self.assertEqual((status, said.strip()), (0, str(self.django / "django" / "__init__.py")))

    def test_the_field_on_sqlite(self):
        self.field()

    @unittest.skipIf(Postgres.missing(), Postgres.missing())
    def test_the_field_on_postgresql(self):
        self.field(database=f"field_{self.name}")

    def test_the_sample_on_sqlite(self):
        self.sample()

    @unittest.skipIf(Postgres.missing(), Postgres.missing())
    def test_the_sample_on_postgresql(self):
        self.sample(database=f"sample_{self.name}")


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
class WithDebiansDjango(Suites, unittest.TestCase):
    name = "debian"
    django = support.DEBIAN


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
class WithTheNewestDjango(Suites, unittest.TestCase):
    name = "newest"

    @classmethod
    def setUpClass(cls):
        cls.django, fault = support.newest_django()
        if fault:
            raise unittest.SkipTest(fault)
