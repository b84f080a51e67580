from django.contrib.auth.models import AbstractUser
from django.db import models

from snowflake_id.django_field import DjangoSnowflakeIDField


class User(AbstractUser):
    id = DjangoSnowflakeIDField()


class Event(models.Model):
    id = DjangoSnowflakeIDField()
    name = models.CharField(max_length=255)

    def __str__(self):
        return self.name


class Participation(models.Model):
    id = DjangoSnowflakeIDField()
    user = models.ForeignKey("User", on_delete=models.CASCADE)
    event = models.ForeignKey("Event", on_delete=models.CASCADE)


class Invite(models.Model):
    id = DjangoSnowflakeIDField()
    event = models.ForeignKey("Event", on_delete=models.CASCADE)
    invited_by = models.ForeignKey("User", on_delete=models.CASCADE, related_name="sent_invites")
    invited_user = models.ForeignKey("User", on_delete=models.CASCADE, related_name="received_invites")
