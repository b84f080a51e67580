"""DjangoSnowflakeIDField by what a project does with it."""

import copy
import json
import pickle
import threading
from datetime import datetime, timedelta, timezone

import django
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, IntegrityError, connection, migrations, models, transaction
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter
from django.forms import modelform_factory
from django.http import JsonResponse
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings

import kazahana
from snowflake_id import SnowflakeGenerator, decode
from snowflake_id.django_field import DjangoSnowflakeIDField
from snowflake_id.django_json import SnowflakeJSONEncoder
from snowflake_id.django_settings import get_generator
from snowflake_id.worker import StaticWorkerIdProvider

from .models import Arena, Court, Match, Place, Sport, Ticket, Typed


class Saving(TestCase):
    def test_an_object_has_its_id_once_it_is_saved(self):
        place = Place(name="a")
        self.assertIsNone(place.id)
        self.assertTrue(place._state.adding)
        place.save()
        self.assertEqual(decode(place.id).worker_id, 5)
        self.assertFalse(place._state.adding)
        self.assertEqual(Place.objects.get().id, place.id)

    def test_a_new_object_takes_one_insert_and_a_known_one_takes_one_update(self):
        place = Place(name="a")
        with self.assertNumQueries(1):
            place.save()
        before, place.name = place.id, "b"
        with self.assertNumQueries(1):
            place.save()
        self.assertEqual((place.id, Place.objects.get().name), (before, "b"))

    def test_a_chosen_id_is_kept(self):
        Place(id=7, name="a").save()
        Place.objects.create(id=8, name="b")
        Place.objects.create(pk="9", name="c")
        self.assertEqual(list(Place.objects.order_by("id").values_list("id", flat=True)), [7, 8, 9])

    def test_a_new_object_never_replaces_a_row(self):
        Place.objects.create(id=7, name="first")
        for options in ({}, {"force_insert": True}):
            with self.assertRaises(IntegrityError), transaction.atomic():
                Place(id=7, name="second").save(**options)
        self.assertEqual(Place.objects.get().name, "first")

    def test_an_id_that_was_made_never_replaces_a_row_even_if_it_were_made_twice(self):
        taken = Place.objects.create(name="first")

        class Twin:
            def next_id(self):
                return taken.id

        import snowflake_id.django_settings as process

        generator, process._generator = process._generator, Twin()
        try:
            for write in (Place(name="second").save, lambda: Place.objects.bulk_create([Place(name="second")])):
                with self.assertRaises(IntegrityError), transaction.atomic():
                    write()
            again = Place.objects.get()
            again.pk, again.name = None, "copy"
            with self.assertRaises(IntegrityError), transaction.atomic():
                again.save()
        finally:
            process._generator = generator
        self.assertEqual(Place.objects.get().name, "first")

    def test_a_copy_without_its_id_is_a_row_of_its_own(self):
        place = Place.objects.create(name="a")
        first = place.id
        place.pk, place.name = None, "b"
        with self.assertNumQueries(1):
            place.save()
        self.assertGreater(place.id, first)
        self.assertEqual(Place.objects.count(), 2)

    def test_a_forced_update_finds_no_row_for_a_new_id(self):
        if django.VERSION < (5,):
            self.skipTest("before Django 5 force_update is passed over for keys that have a default")
        with self.assertRaises(DatabaseError), transaction.atomic():
            Place(name="a").save(force_update=True)
        self.assertEqual(Place.objects.count(), 0)

    def test_only_some_fields_are_updated(self):
        place = Place.objects.create(name="a")
        place.name = "b"
        place.save(update_fields=["name"])
        self.assertEqual(Place.objects.get(id=place.id).name, "b")

    def test_get_or_create_and_update_or_create(self):
        made, created = Place.objects.get_or_create(name="a")
        same, again = Place.objects.get_or_create(name="a")
        self.assertEqual((created, again, made.id), (True, False, same.id))
        changed, created = Place.objects.update_or_create(id=made.id, defaults={"name": "b"})
        self.assertEqual((created, changed.id, Place.objects.get().name), (False, made.id, "b"))
        other, created = Place.objects.update_or_create(name="c")
        self.assertTrue(created)
        self.assertGreater(other.id, made.id)

    def test_full_clean_asks_for_no_id(self):
        place = Place(name="a")
        place.full_clean()
        place.save()


class InBulk(TestCase):
    def test_every_object_gets_an_id_in_order_with_one_insert(self):
        places = [Place(name=str(number)) for number in range(100)]
        with self.assertNumQueries(1):
            made = Place.objects.bulk_create(places)
        ids = [place.id for place in made]
        self.assertEqual(sorted(set(ids)), ids)
        self.assertEqual(list(Place.objects.order_by("id").values_list("id", flat=True)), ids)
        self.assertFalse(any(place._state.adding for place in made))

    def test_batches_and_chosen_ids_may_be_mixed(self):
        Place.objects.bulk_create([Place(name=str(n), id=n + 1 if n % 2 else None) for n in range(25)], batch_size=10)
        self.assertEqual(Place.objects.filter(id__lte=25).count(), 12)
        self.assertEqual(Place.objects.filter(id__gt=25).count(), 13)

    def test_conflicts_can_be_ignored(self):
        Place.objects.create(name="a")
        Place.objects.bulk_create([Place(name="a"), Place(name="b")], ignore_conflicts=True)
        self.assertEqual(sorted(Place.objects.values_list("name", flat=True)), ["a", "b"])

    def test_a_conflict_that_becomes_an_update_leaves_the_rows_id(self):
        if django.VERSION < (4, 1):
            self.skipTest("before Django 4.1 there is no update_conflicts")
        court = Court.objects.create(place=Place.objects.create(name="a"))
        Court.objects.bulk_create([Court(id=court.id, place=Place.objects.create(name="b"))], update_conflicts=True,
                                  unique_fields=["id"], update_fields=["place"])
        self.assertEqual(Court.objects.get().place.name, "b")
        first = Place.objects.get(name="a").id
        Place.objects.bulk_create([Place(name="a"), Place(name="c")], update_conflicts=True, unique_fields=["name"],
                                  update_fields=["name"])
        self.assertEqual(Place.objects.get(name="a").id, first)
        self.assertEqual(Place.objects.count(), 3)

    def test_children_can_be_linked_before_anything_is_read_back(self):
        places = Place.objects.bulk_create([Place(name="a"), Place(name="b")])
        Court.objects.bulk_create([Court(place=place) for place in places])
        self.assertEqual(Court.objects.filter(place__name="b").count(), 1)

    def test_bulk_update_and_in_bulk(self):
        places = Place.objects.bulk_create([Place(name="a"), Place(name="b")])
        for place in places:
            place.name *= 2
        Place.objects.bulk_update(places, ["name"])
        self.assertEqual(Place.objects.in_bulk()[places[1].id].name, "bb")


class Relations(TestCase):
    def test_keys_of_others_are_bigint(self):
        for field in (Court._meta.get_field("place"), Court._meta.get_field("twin"), Arena._meta.pk,
                      Court.sports.through._meta.get_field("court")):
            self.assertEqual(field.db_type(connection), "bigint")
        self.assertEqual(Place._meta.pk.db_type(connection), "bigint")

    def test_foreign_one_to_one_and_many_to_many(self):
        court = Court.objects.create(place=Place.objects.create(name="a"))
        twin = Court.objects.create(place=court.place, twin=court)
        sport = Sport.objects.create()
        twin.sports.add(sport)
        self.assertEqual(court.court, twin)
        self.assertEqual(sport.court_set.get(), twin)
        self.assertEqual(Place.objects.get(court__sports=sport), court.place)

    def test_an_inheriting_model_has_its_parents_id(self):
        arena = Arena.objects.create(name="a", seats=10)
        self.assertEqual(arena.pk, Place.objects.get().id)
        arena.seats = 20
        arena.save()
        self.assertEqual((Arena.objects.get().seats, Place.objects.count()), (20, 1))

    def test_an_abstract_model_lends_the_field(self):
        self.assertGreater(Match.objects.create().id, 0)


class Beside(TestCase):
    """The field as an ordinary column, and one that people fill in."""

    def test_a_column_that_is_not_the_key_gets_an_id_too(self):
        ticket = Ticket.objects.create()
        self.assertEqual(decode(ticket.number).worker_id, 5)
        ticket.price = 3
        ticket.save()
        self.assertEqual(Ticket.objects.get(pk=ticket.pk).number, ticket.number)
        made = Ticket.objects.bulk_create([Ticket(), Ticket(number=12)])
        self.assertEqual(made[1].number, 12)
        self.assertGreater(made[0].number, ticket.number)

    def test_an_editable_one_may_be_left_blank(self):
        form_class = modelform_factory(Typed, fields="__all__")
        form = form_class()
        self.assertEqual((list(form.fields), form["id"].value()), (["id"], None))
        self.assertEqual(form_class({"id": "42"}).save().id, 42)
        self.assertGreater(form_class({"id": ""}).save().id, 42)


class TwoDatabases(TestCase):
    databases = ["default", "other"]

    def test_one_generator_serves_both(self):
        ids = [Place.objects.using(name).create(name=str(n)).id for n in range(10) for name in ("default", "other")]
        self.assertEqual(sorted(set(ids)), ids)

    def test_a_row_keeps_its_id_in_the_other(self):
        place = Place.objects.create(name="a")
        place.save(using="other")
        self.assertEqual(Place.objects.using("other").get().id, place.id)


class Values(TestCase):
    def test_texts_find_rows(self):
        place = Place.objects.create(name="a")
        self.assertEqual(Place.objects.get(id=str(place.id)), place)

    def test_a_span_of_time_is_a_span_of_ids(self):
        layout, place = kazahana.Layout("snowflake"), Place.objects.create(name="a")
        made = decode(place.id).time
        self.assertEqual(Place.objects.get(id__range=(layout.min_id(made), layout.max_id(made))), place)
        self.assertFalse(Place.objects.filter(id__lt=layout.min_id(made)).exists())
        self.assertLess(abs(datetime.now(timezone.utc) - made), timedelta(minutes=10))

    def test_objects_are_copied_and_pickled_with_their_ids(self):
        place = Place.objects.create(name="a")
        self.assertEqual(pickle.loads(pickle.dumps(place)).id, place.id)
        self.assertEqual(copy.deepcopy(place).id, place.id)
        self.assertIsNone(pickle.loads(pickle.dumps(Place())).id)

    def test_json_has_texts_where_javascript_would_round(self):
        large, small = 2**53, 2**53 - 1
        data = {"id": large, "few": small, "flag": True, "list": [large, {"a": (-large, 1.5)}], "none": None}
        expected = {"id": str(large), "few": small, "flag": True, "list": [str(large), {"a": [str(-large), 1.5]}],
                    "none": None}
        self.assertEqual(json.loads(JsonResponse(data, encoder=SnowflakeJSONEncoder).content), expected)
        self.assertEqual("".join(SnowflakeJSONEncoder().iterencode(large)), f'"{large}"')
        self.assertEqual(json.dumps({"at": datetime(2026, 1, 1)}, cls=SnowflakeJSONEncoder),
                         '{"at": "2026-01-01T00:00:00"}')


class Migrations(SimpleTestCase):
    def test_a_migration_knows_nothing_of_the_generator(self):
        for field, text in (
            (DjangoSnowflakeIDField(), "DjangoSnowflakeIDField()"),
            (DjangoSnowflakeIDField(primary_key=False), "DjangoSnowflakeIDField(primary_key=False)"),
            (DjangoSnowflakeIDField(editable=True), "DjangoSnowflakeIDField(editable=True)"),
            (DjangoSnowflakeIDField("n", db_column="x"), "DjangoSnowflakeIDField(db_column='x', verbose_name='n')"),
        ):
            written, imports = MigrationWriter.serialize(field)
            self.assertEqual(written, "snowflake_id.django_field." + text)
            self.assertEqual(imports, {"import snowflake_id.django_field"})
            again = field.clone()
            self.assertEqual(again.deconstruct(), field.deconstruct())
            self.assertEqual((again.primary_key, again.editable), (field.primary_key, field.editable))

    def test_a_default_of_ones_own_is_refused(self):
        with self.assertRaisesMessage(TypeError, "takes no default"):
            DjangoSnowflakeIDField(default=1)


class Schema(TransactionTestCase):
    """What migrations do to tables."""

    def migrate(self, state, *operations):
        for operation in operations:
            before, state = state, state.clone()
            operation.state_forwards("django_field_suite", state)
            with connection.schema_editor() as editor:
                operation.database_forwards("django_field_suite", editor, before, state)
        return state

    def test_a_data_migration_makes_ids(self):
        name = migrations.CreateModel("Made", [("id", DjangoSnowflakeIDField()), ("n", models.IntegerField())])
        state = self.migrate(ProjectState(), name, migrations.RunPython(
            lambda apps, editor: apps.get_model("django_field_suite", "Made").objects.create(n=1)))
        made = state.apps.get_model("django_field_suite", "Made").objects.get()
        self.assertEqual(decode(made.id).worker_id, 5)
        self.migrate(state, migrations.DeleteModel("Made"))

    def test_a_table_moves_from_counted_keys_to_snowflakes(self):
        """The foreign keys that point to it go along."""
        state = self.migrate(
            ProjectState(),
            migrations.CreateModel("Moved", [("id", models.AutoField(primary_key=True))]),
            migrations.CreateModel("Guest", [
                ("id", models.AutoField(primary_key=True)),
                ("moved", models.ForeignKey("django_field_suite.Moved", models.CASCADE))]))
        old = state.apps.get_model("django_field_suite", "Moved").objects.create()
        state.apps.get_model("django_field_suite", "Guest").objects.create(moved=old)
        state = self.migrate(state, migrations.AlterField("Moved", "id", DjangoSnowflakeIDField()))
        new = state.apps.get_model("django_field_suite", "Moved").objects.create()
        guests = state.apps.get_model("django_field_suite", "Guest").objects
        guests.create(moved=new)
        self.assertEqual(list(guests.order_by("id").values_list("moved_id", flat=True)), [old.id, new.id])
        self.assertGreater(new.id, 2**53)
        self.migrate(state, migrations.DeleteModel("Guest"), migrations.DeleteModel("Moved"))


class Settings(SimpleTestCase):
    def test_threads_share_one_generator(self):
        with override_settings(SNOWFLAKE_ID={"WORKER_ID": 6}):
            ids, gate = [], threading.Barrier(8)

            def work():
                gate.wait(60)
                generator = get_generator()
                ids.append([generator.next_id() for _ in range(2000)])

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len({id for some in ids for id in some}), 16000)
            self.assertEqual({decode(id).worker_id for some in ids for id in some}, {6})

    def test_a_generator_of_ones_own_with_the_same_number_is_the_same(self):
        with override_settings(SNOWFLAKE_ID={"WORKER_ID": 8}), SnowflakeGenerator(StaticWorkerIdProvider(8)) as own:
            ids = [generator.next_id() for _ in range(100) for generator in (own, get_generator())]
            self.assertEqual(sorted(set(ids)), ids)

    def test_a_number_may_be_a_text(self):
        with override_settings(SNOWFLAKE_ID={"WORKER_ID": "11"}):
            self.assertEqual(decode(get_generator().next_id()).worker_id, 11)

    def test_what_is_wrong_is_named(self):
        for settings, message in (
            ({"WORKER_ID": 1024}, "node 1024 does not fit in 10 bits (0..1023)"),
            ({"WORKER_ID": -1}, 'node "-1" is not a node number (0..1023)'),
            ({"WORKER_ID": None}, 'node "None" is not a node number (0..1023)'),
            ({"WORKER_ID": "seven"}, 'node "seven" is not a node number (0..1023)'),
            ({"SOURCE": "env:KAZAHANA_NO_SUCH_NUMBER"}, "KAZAHANA_NO_SUCH_NUMBER is not set"),
            ({"SOURCE": "static:7?stat=/x"}, "stat"),
            ({"SOURCE": None}, "SOURCE is None: expected a URL"),
            ({"SOURCE": "localhost"}, "SOURCE is 'localhost': expected a URL"),
            ({"SOURCE": "memory:"}, "SOURCE is 'memory:', which every process has to itself"),
            ({"SOURCE": "standalone:"}, "SOURCE is 'standalone:', which every process has to itself"),
            ({"worker_id": 1}, "SNOWFLAKE_ID has no setting 'worker_id': expected WORKER_ID or SOURCE"),
            ({"WORKER_ID": 1, "SOURCE": "memory:"}, "SNOWFLAKE_ID has WORKER_ID and SOURCE"),
            (7, "SNOWFLAKE_ID is 7: expected a dict"),
        ):
            with self.subTest(settings=settings), override_settings(SNOWFLAKE_ID=settings):
                found = [error for error in run_checks() if error.id == "snowflake_id.E001"]
                self.assertEqual(len(found), 1)
                self.assertIn(message, found[0].msg)
                with self.assertRaisesMessage(ImproperlyConfigured, message):
                    get_generator()

    def test_a_source_that_does_not_exist_is_known_when_the_first_id_is_wanted(self):
        with override_settings(SNOWFLAKE_ID={"SOURCE": "carrier-pigeon:home"}):
            self.assertEqual(run_checks(), [])
            with self.assertRaisesMessage(ImproperlyConfigured, "carrier-pigeon"):
                get_generator()
