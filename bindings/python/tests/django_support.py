"""What the tests of Django share: which Djangos there are, a PostgreSQL, and how to run a program with them.

Django runs in processes of its own, with the Python of these tests and so with the packages that are installed there.
"""

import atexit
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from services import LOOPBACK, Postgres

ROOT = pathlib.Path(os.environ.get("KZ_ROOT") or pathlib.Path(__file__).resolve().parents[3])
SAMPLE = ROOT / "examples" / "django-onde-jogar"
TESTS = pathlib.Path(__file__).resolve().parent
DEBIAN = pathlib.Path("/usr/lib/python3/dist-packages")
PATIENCE_S = 500


@functools.lru_cache(maxsize=None)
def folder():
    """One for all files of a run. PostgreSQL, which is another user if we are root, must be able to enter."""
    made = tempfile.mkdtemp(prefix="kz-django-")
    os.chmod(made, 0o755)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def missing_from_debian():
    """Why Debian's packages cannot be used, or None."""
    for package in ("django", "psycopg2", "gunicorn"):
        if not (DEBIAN / package).is_dir():
            return f"Debian's python3-django, python3-psycopg2 or gunicorn is not installed: no {DEBIAN / package}"
    return None


@functools.lru_cache(maxsize=None)
def newest_django():
    """The directory of the newest Django that pip finds for this Python, and None; or None, and why there is none. It
    is kept beside the build."""
    target = pathlib.Path(os.environ.get("KZ_DIST") or pathlib.Path(folder()) / "dist").parent / "newest-django"
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target, None
        environment = {name: value for name, value in os.environ.items() if name != "PIP_NO_INDEX"}
        environment.pop("PYTHONPATH", None)
        unfinished = f"{target}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            pip = subprocess.run(
                ["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--timeout", "10", "--retries", "1",
                 "--disable-pip-version-check", "--ignore-installed", "--target", unfinished, "django"],
                env=environment, capture_output=True, text=True, timeout=120, check=False)
            fault = pip.stderr.strip().splitlines()[-1:] if pip.returncode else []
        except subprocess.TimeoutExpired:
            fault = ["no answer within two minutes"]
        if fault:
            return None, f"the newest Django cannot be fetched: {fault[0]}"
        os.rename(unfinished, target)
        return target, None


@functools.lru_cache(maxsize=None)
def postgres():
    """A PostgreSQL that may forget everything: what is tested is not its disk."""
    server = Postgres(folder(), "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=60")
    server.start()
    atexit.register(server.kill)
    return server


def environment(django=DEBIAN, database=None, **more):
    """For a program that uses this Django: on the PostgreSQL database of that name, or else on SQLite."""
    names = ("PATH", "HOME", "LANG", "KZ_DIST", "KZ_ROOT", "KAZAHANA_LOCK")
    kept = {name: value for name, value in os.environ.items() if name in names}
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = [django, SAMPLE, TESTS, *inherited, DEBIAN]
    kept.update(PYTHONPATH=os.pathsep.join(map(str, paths)), PYTHONDONTWRITEBYTECODE="1", PYTHONIOENCODING="utf-8",
                DJANGO_SETTINGS_MODULE="onde_jogar.settings", DATABASE_FILE=os.path.join(folder(), "db.sqlite3"))
    if database:
        kept.update(DATABASE_HOST=LOOPBACK, DATABASE_PORT=str(postgres().port), DATABASE_USER="postgres",
                    DATABASE_NAME=database)
    kept.update(more)
    return kept


def run(environment, *arguments):
    """Runs Python with these arguments; gives its status and all that it said."""
    done = subprocess.run([sys.executable, *map(str, arguments)], env=environment, cwd=folder(), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=PATIENCE_S)
    return done.returncode, done.stdout
