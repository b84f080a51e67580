"""A project that has only the field's own tests. test_django_suites.py says where the databases are."""

import os

SECRET_KEY = "for tests"
INSTALLED_APPS = ["django_field_suite"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SNOWFLAKE_ID = {"WORKER_ID": 5}

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3"},
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
if "DATABASE_PORT" in os.environ:
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["DATABASE_HOST"],
        "PORT": os.environ["DATABASE_PORT"],
        "NAME": "postgres",
        "USER": os.environ["DATABASE_USER"],
        "TEST": {"NAME": os.environ["DATABASE_NAME"]},
    }
