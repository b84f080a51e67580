"""A primary key for Django's models, made in the process and not by the database.

    class Event(models.Model):
        id = DjangoSnowflakeIDField()
        name = models.CharField(max_length=255)

The column is a BIGINT. An object has no ID until it is saved, as with AutoField: save(), create() and bulk_create()
give it one just before the INSERT, and signals of pre_save see none yet. An ID that you set yourself is kept. A new
object is always inserted, never written over a row that is there: a key that exists already is an IntegrityError.

settings.SNOWFLAKE_ID says where the worker number comes from (see snowflake_id.django_settings); without it, it is the
environment variable WORKER_ID.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from . import django_settings


class _MadeWhenSaved:
    """Stands where a field has its default. Django then knows that a new object needs no search for its row."""

    def __repr__(self) -> str:
        return "made when saved"


class DjangoSnowflakeIDField(models.BigIntegerField):
    """A BIGINT primary key with a snowflake ID. Takes what BigIntegerField takes, except for a default."""

    description = "Snowflake ID"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "default" in kwargs:
            raise TypeError("DjangoSnowflakeIDField makes its values itself: it takes no default")
        kwargs.setdefault("primary_key", True)
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)
        if self.primary_key:
            self.default = _MadeWhenSaved()

    def deconstruct(self) -> Tuple[str, str, Sequence[Any], Dict[str, Any]]:
        """For migrations: only what differs from this field's own defaults, and nothing of the generator."""
        name, path, args, kwargs = super().deconstruct()
        for option, usual in (("primary_key", True), ("editable", False)):
            kwargs.pop(option, None)
            if getattr(self, option) != usual:
                kwargs[option] = not usual
        kwargs.pop("default", None)
        return name, path, args, kwargs

    def contribute_to_class(self, cls: type, name: str, **kwargs: Any) -> None:
        super().contribute_to_class(cls, name, **kwargs)
        django_settings.check_at_start()

    def get_default(self) -> None:
        """A new object has no ID yet."""

    def get_pk_value_on_save(self, instance: models.Model) -> int:
        """For a primary key that is still None, in save() and bulk_create(). Such an object has no row, whatever was
        done with it before, so it is inserted: an ID that was made here never looks for a row to overwrite."""
        instance._state.adding = True
        return django_settings.get_generator().next_id()

    def pre_save(self, instance: models.Model, add: bool) -> Any:
        """For a column that is not the primary key: that one has its value by now."""
        value = super().pre_save(instance, add)
        if value is None and add:
            value = django_settings.get_generator().next_id()
            setattr(instance, self.attname, value)
        return value


@checks.register()
def check_settings(app_configs: Optional[Sequence[Any]] = None, **kwargs: Any) -> List[checks.CheckMessage]:
    """snowflake_id.E001: no IDs can be made with these settings."""
    try:
        django_settings.check()
    except ImproperlyConfigured as error:
        hint = (
            'Where nobody hands out numbers, take leases: SNOWFLAKE_ID = {"SOURCE": "sqlite:/path/leases.db"}. '
            "A command that creates no rows needs none of this: run it with --skip-checks."
        )
        return [checks.Error(str(error), hint=hint, id="snowflake_id.E001")]
    return []
