from django.db import models

from snowflake_id.django_field import DjangoSnowflakeIDField


class Place(models.Model):
    id = DjangoSnowflakeIDField()
    name = models.CharField(max_length=50, unique=True)


class Court(models.Model):
    id = DjangoSnowflakeIDField()
    place = models.ForeignKey(Place, on_delete=models.CASCADE)
    twin = models.OneToOneField("self", null=True, on_delete=models.CASCADE)
    sports = models.ManyToManyField("Sport")


class Sport(models.Model):
    id = DjangoSnowflakeIDField()


class Arena(Place):
    """A table of its own, whose key is that of its place."""

    seats = models.IntegerField(default=0)


class Dated(models.Model):
    id = DjangoSnowflakeIDField()

    class Meta:
        abstract = True


class Match(Dated):
    pass


class Ticket(models.Model):
    """The database makes the key; the snowflake is a number beside it."""

    number = DjangoSnowflakeIDField(primary_key=False, unique=True)
    price = models.IntegerField(default=0)


class Typed(models.Model):
    id = DjangoSnowflakeIDField(editable=True, blank=True, verbose_name="registration number")
