"""The code blocks of the specification of Snowflake IDs for the project Onde Jogar, as they stand there: as the models
of an app they are migrated, and rows are made through them."""

import os
import tempfile
import unittest

import django_support as support

GENERATOR = '''
from snowflake_id import SnowflakeGenerator
from snowflake_id.worker import EnvWorkerIdProvider

generator = SnowflakeGenerator(
    worker_id_provider=EnvWorkerIdProvider("WORKER_ID")
)
'''

USER = '''
from django.contrib.auth.models import AbstractUser
from snowflake_id.django_field import DjangoSnowflakeIDField

class User(AbstractUser):
    id = DjangoSnowflakeIDField()
'''

EVENT = '''
from django.db import models
from snowflake_id.django_field import DjangoSnowflakeIDField

class Event(models.Model):
    id = DjangoSnowflakeIDField()
    name = models.CharField(max_length=255)
'''

PARTICIPATION = '''
from django.db import models
from snowflake_id.django_field import DjangoSnowflakeIDField

class Participation(models.Model):
    id = DjangoSnowflakeIDField()
    user = models.ForeignKey("User", on_delete=models.CASCADE)
    event = models.ForeignKey("Event", on_delete=models.CASCADE)
'''

INVITE = '''
from django.db import models
from snowflake_id.django_field import DjangoSnowflakeIDField

class Invite(models.Model):
    id = DjangoSnowflakeIDField()
    event = models.ForeignKey("Event", on_delete=models.CASCADE)
    invited_by = models.ForeignKey("User", on_delete=models.CASCADE, related_name="sent_invites")
    invited_user = models.ForeignKey("User", on_delete=models.CASCADE, related_name="received_invites")
'''

SETTINGS = '''
import os
SECRET_KEY = "for tests"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "onde"]
AUTH_USER_MODEL = "onde.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["ONDE_DATABASE"]}}
'''

USE = '''
import time
import django
django.setup()
from onde.generator import generator
from onde.models import Event, Invite, Participation, User

EPOCH_MS = 1704067200000  # 2024-01-01T00:00:00Z
begin_ms = time.time_ns() // 1000000

ana, rui = User.objects.create_user("ana"), User.objects.create_user("rui")
event = Event.objects.create(name="Futebol")
own = generator.next_id()
participation = Participation.objects.create(user=ana, event=event)
invite = Invite.objects.create(event=event, invited_by=ana, invited_user=rui)
events = Event.objects.bulk_create([Event(name=str(n)) for n in range(5000)])

end_ms = time.time_ns() // 1000000
ids = [ana.id, rui.id, event.id, own, participation.id, invite.id, *(event.id for event in events), generator.next_id()]
assert ids == sorted(set(ids)), "not strictly increasing"
for id in ids:
    assert 0 < id < 2**63
    assert begin_ms - 1000 <= (id >> 22) + EPOCH_MS <= end_ms + 1000
    assert id >> 12 & 1023 == 1
assert ana.sent_invites.get().invited_user == rui == event.invite_set.get().invited_user
assert Participation.objects.get(user_id=ana.id).event_id == event.id
print(len(ids), "IDs")
'''


@unittest.skipIf(support.missing_from_debian(), support.missing_from_debian())
class TheSpecificationsBlocks(unittest.TestCase):
    def passes(self, environment, *arguments):
        status, said = support.run(environment, *arguments)
        self.assertEqual(status, 0, said)
        return said

    def run_with(self, django):
        with tempfile.TemporaryDirectory() as folder:
            app = os.path.join(folder, "onde")
            os.mkdir(app)
            for name, text in (("__init__", ""), ("settings", SETTINGS), ("generator", GENERATOR), ("use", USE),
                               ("models", USER + EVENT + PARTICIPATION + INVITE)):
                with open(os.path.join(app, f"{name}.py"), "w", encoding="utf-8") as file:
                    file.write(text)
            environment = support.environment(
                django, WORKER_ID="1", DJANGO_SETTINGS_MODULE="onde.settings", ONDE_DATABASE=f"{folder}/db.sqlite3")
            environment["PYTHONPATH"] = os.pathsep.join([folder, environment["PYTHONPATH"]])
            self.passes(environment, "-m", "django", "makemigrations", "onde")
            self.passes(environment, "-m", "django", "migrate")
            self.passes(environment, "-m", "django", "makemigrations", "--check")
            self.assertEqual(self.passes(environment, "-m", "onde.use").strip(), "5007 IDs")

    def test_run_as_they_stand_with_debians_django(self):
        self.run_with(support.DEBIAN)

    def test_run_as_they_stand_with_the_newest_django(self):
        django, fault = support.newest_django()
        if fault:
            self.skipTest(fault)
        self.run_with(django)


if __name__ == "__main__":
    unittest.main()
