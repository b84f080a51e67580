"""The sample from outside: pages, JSON, fixtures, migrations. WORKER_ID=1 python manage.py test"""

import io
import json
import tempfile

from django.core import serializers
from django.core.management import call_command
from django.db import connection
from django.forms import modelform_factory
from django.test import TestCase, override_settings

from snowflake_id import decode

from .models import Event, Invite, Participation, User

# A real hash takes half a second, on purpose.
quick_passwords = override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"])


class Models(TestCase):
    def setUp(self):
        self.ana = User.objects.create_user("ana")
        self.rui = User.objects.create_user("rui")
        self.event = Event.objects.create(name="Futebol no parque")

    def test_every_model_has_ids_in_the_order_of_creation(self):
        participation = Participation.objects.create(user=self.ana, event=self.event)
        invite = Invite.objects.create(event=self.event, invited_by=self.ana, invited_user=self.rui)
        ids = [self.ana.id, self.rui.id, self.event.id, participation.id, invite.id]
        self.assertEqual(sorted(set(ids)), ids)

    def test_columns_are_bigint(self):
        with connection.cursor() as cursor:
            for model, column in (
                (User, "id"), (Event, "id"), (Participation, "event_id"), (Participation, "user_id"),
                (Invite, "invited_by_id"), (User.groups.through, "user_id"),
            ):
                columns = connection.introspection.get_table_description(cursor, model._meta.db_table)
                kind = {info.name: info.type_code for info in columns}[column]
                self.assertIn(kind, ("bigint", 20), f"{model.__name__}.{column}")  # SQLite's name, PostgreSQL's number

    def test_relations_go_both_ways(self):
        Participation.objects.create(user=self.ana, event=self.event)
        Invite.objects.create(event=self.event, invited_by=self.ana, invited_user=self.rui)
        self.assertEqual(self.event.participation_set.get().user, self.ana)
        self.assertEqual(self.ana.sent_invites.get().invited_user, self.rui)
        self.assertEqual(self.rui.received_invites.get().event, self.event)
        self.event.delete()
        self.assertEqual(Participation.objects.count() + Invite.objects.count(), 0)

    @quick_passwords
    def test_users_have_permissions_groups_and_sessions(self):
        self.rui.set_password("segredo")
        self.rui.save()
        self.assertTrue(self.client.login(username="rui", password="segredo"))
        self.assertEqual(self.client.session["_auth_user_id"], str(self.rui.id))
        self.rui.groups.create(name="organisers")
        self.assertEqual(User.objects.filter(groups__name="organisers").get(), self.rui)

    def test_a_form_has_no_field_for_the_id(self):
        form = modelform_factory(Event, fields="__all__")({"name": "Vôlei", "id": "5"})
        self.assertEqual(list(form.fields), ["name"])
        self.assertNotEqual(form.save().id, 5)

    def test_models_and_migrations_agree(self):
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)


class Fixtures(TestCase):
    def everything(self):
        rows = [row for model in (User, Event, Participation, Invite) for row in model.objects.order_by("id")]
        return serializers.serialize("json", rows)

    def test_what_is_dumped_can_be_loaded(self):
        ana = User.objects.create_user("ana")
        event = Event.objects.create(name="Basquete")
        Participation.objects.create(user=ana, event=event)
        Invite.objects.create(event=event, invited_by=ana, invited_user=User.objects.create_user("rui"))
        before = self.everything()
        for form in ("json", "xml"):
            with self.subTest(form), tempfile.NamedTemporaryFile("w", suffix=f".{form}") as fixture:
                call_command("dumpdata", "games", format=form, stdout=fixture)
                fixture.flush()
                Event.objects.all().delete()
                User.objects.all().delete()
                call_command("loaddata", fixture.name, verbosity=0)
                self.assertEqual(self.everything(), before)

    def test_users_without_ids_in_the_fixture_get_new_ones(self):
        old = User.objects.create_user("ana")
        dumped = io.StringIO()
        call_command("dumpdata", "games.user", natural_primary=True, stdout=dumped)
        self.assertNotIn("pk", json.loads(dumped.getvalue())[0])
        User.objects.all().delete()
        for restored in serializers.deserialize("json", dumped.getvalue()):
            restored.save()
        self.assertGreater(User.objects.get(username="ana").id, old.id)


class Json(TestCase):
    def test_ids_are_texts_for_browsers(self):
        made = self.client.post("/events/", {"name": "Tênis"})
        self.assertEqual(made.status_code, 201)
        event = Event.objects.get()
        self.assertEqual(made.json(), {"id": str(event.id), "name": "Tênis"})
        self.assertEqual(self.client.get("/events/").json(), {"events": [{"id": str(event.id), "name": "Tênis"}]})

    def test_the_newest_event_comes_first(self):
        for name in ("a", "b", "c"):
            self.client.post("/events/", {"name": name})
        self.assertEqual([e["name"] for e in self.client.get("/events/").json()["events"]], ["c", "b", "a"])

    def test_an_id_says_when_it_was_made(self):
        event = Event.objects.create(name="Xadrez")
        created = self.client.get(f"/events/{event.id}/").json()["created"]
        self.assertEqual(created[:19], decode(event.id).time.isoformat()[:19])

    def test_an_id_from_the_browser_finds_its_row(self):
        event, user = Event.objects.create(name="Surfe"), User.objects.create_user("ana")
        made = self.client.post(f"/events/{event.id}/participations/", {"user": str(user.id)})
        self.assertEqual(made.status_code, 201)
        self.assertEqual(made.json()["user"], str(user.id))
        self.assertEqual(Participation.objects.get().user, user)

    def test_what_is_wrong_is_refused(self):
        event = Event.objects.create(name="Surfe")
        self.assertEqual(self.client.post("/events/", {"name": " "}).status_code, 400)
        self.assertEqual(self.client.post(f"/events/{event.id}/participations/", {"user": "ana"}).status_code, 400)
        self.assertEqual(self.client.post(f"/events/{event.id}/participations/", {"user": "1"}).status_code, 404)
        self.assertEqual(self.client.get("/events/1/").status_code, 404)


class Admin(TestCase):
    def setUp(self):
        self.root = User.objects.create_superuser("root")
        self.client.force_login(self.root)

    def test_an_event_is_added_and_changed_with_its_participations(self):
        forms = {"participation_set-TOTAL_FORMS": 1, "participation_set-INITIAL_FORMS": 0}
        added = self.client.post(
            "/admin/games/event/add/", {"name": "Handebol", "participation_set-0-user": self.root.id, **forms})
        self.assertRedirects(added, "/admin/games/event/")
        event, participation = Event.objects.get(), Participation.objects.get()
        self.assertEqual((participation.event, participation.user), (event, self.root))

        page = f"/admin/games/event/{event.id}/change/"
        self.assertContains(self.client.get(page), str(event.id))
        forms.update({"participation_set-INITIAL_FORMS": 1, "participation_set-0-id": participation.id,
                      "participation_set-0-event": event.id, "participation_set-0-user": self.root.id})
        self.assertRedirects(self.client.post(page, {"name": "Handebol de areia", **forms}), "/admin/games/event/")
        self.assertEqual(Event.objects.get().name, "Handebol de areia")
        self.assertEqual(Participation.objects.get(), participation)
        self.assertContains(self.client.get("/admin/games/event/"), str(event.id))

    def test_autocomplete_and_raw_ids_name_rows_by_their_ids(self):
        event = Event.objects.create(name="Capoeira")
        found = self.client.get("/admin/autocomplete/", {
            "term": "capo", "app_label": "games", "model_name": "participation", "field_name": "event"})
        self.assertEqual(found.json()["results"], [{"id": str(event.id), "text": "Capoeira"}])
        added = self.client.post("/admin/games/participation/add/", {"user": self.root.id, "event": event.id})
        self.assertRedirects(added, "/admin/games/participation/")
        self.assertEqual(Participation.objects.get().event, event)

    def test_a_row_is_deleted_with_what_hangs_on_it(self):
        event = Event.objects.create(name="Peteca")
        Participation.objects.create(user=self.root, event=event)
        self.client.post(f"/admin/games/event/{event.id}/delete/", {"post": "yes"})
        self.assertEqual((Event.objects.count(), Participation.objects.count()), (0, 0))

    @quick_passwords
    def test_a_user_is_added(self):
        self.client.post("/admin/games/user/add/", {
            "username": "rui", "password1": "um-segredo-longo", "password2": "um-segredo-longo",
            "usable_password": "true"})
        self.assertGreater(User.objects.get(username="rui").id, self.root.id)
