"""Settings of a sample. What would differ between machines comes from the environment:

    WORKER_ID          the number of this process, 0..1023 ...
    SNOWFLAKE_SOURCE   ... or where its leases come from, and then no number is needed
    DATABASE_HOST      PostgreSQL there, with DATABASE_PORT, _NAME, _USER and _PASSWORD ...
    DATABASE_FILE      ... else SQLite in this file, by default db.sqlite3 beside manage.py
    SECRET_KEY         for anything but a look at it
"""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

# Without SNOWFLAKE_ID the number is in WORKER_ID, and a server without one does not start.
if "SNOWFLAKE_SOURCE" in os.environ:
    SNOWFLAKE_ID = {"SOURCE": os.environ["SNOWFLAKE_SOURCE"]}

SECRET_KEY = os.environ.get("SECRET_KEY", "not a secret: this is a sample")
DEBUG = "SECRET_KEY" not in os.environ
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "games",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "onde_jogar.urls"
WSGI_APPLICATION = "onde_jogar.wsgi.application"
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "static"
USE_TZ = True

AUTH_USER_MODEL = "games.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if "DATABASE_HOST" in os.environ:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ["DATABASE_HOST"],
            "PORT": os.environ.get("DATABASE_PORT", "5432"),
            "NAME": os.environ.get("DATABASE_NAME", "onde_jogar"),
            "USER": os.environ.get("DATABASE_USER", "onde_jogar"),
            "PASSWORD": os.environ.get("DATABASE_PASSWORD", ""),
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("DATABASE_FILE", BASE_DIR / "db.sqlite3"),
        }
    }
