"""The one generator that Django's models share in a process, as settings.SNOWFLAKE_ID describes it.

    SNOWFLAKE_ID = {"WORKER_ID": 7}                       a number that no other process has
    SNOWFLAKE_ID = {"SOURCE": "redis://localhost/0"}      leases: every process gets a place of its own
    (no such setting)                                     the number is in the environment variable WORKER_ID

What is wrong with it is known at start: the system check snowflake_id.E001 tells management commands, and whatever
else loads the models (a WSGI or ASGI server, a task queue, a script) is stopped by ImproperlyConfigured. The generator
itself is opened when the first ID is wanted: importing models should not talk to a network, and servers fork later.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import FrameType
from typing import Any, Iterator, Optional, Tuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

import kazahana

from .generator import FORKED, SnowflakeGenerator, check_number, is_number, place_of
from .worker import LeasedWorkerIdProvider

_lock = threading.Lock()
_generator: Optional[SnowflakeGenerator] = None
_claim: Optional[Tuple[int, str]] = None  # which process has read its number, and which number: no child may use it too

_MISCONFIGURED = (kazahana.InvalidError, kazahana.UnsupportedError, kazahana.MismatchError, kazahana.InUseError)


def get_generator() -> SnowflakeGenerator:
    """The generator of this process, opened now if this is the first use. A server that would rather not start without
    its leases calls this in each worker when that begins (gunicorn: post_worker_init)."""
    global _generator
    if _generator is None:
        with _lock:
            if _generator is None:
                source = check()
                _claim_number(source)
                with _named():
                    _generator = SnowflakeGenerator(LeasedWorkerIdProvider(source))
    return _generator


def check() -> str:
    """The source that the settings name. ImproperlyConfigured if they are wrong, as far as can be told without asking a
    lease table."""
    source = _source()
    if is_number(source):
        with _named():
            check_number(_without_state(source))
    return source


def check_at_start() -> None:
    """For whatever loads the models, except management commands: those run the system checks if they want to know, and
    some of them, such as collectstatic, work where nobody has a number."""
    if _claim is None and not _in_management_command():
        _claim_number(check())


def _source() -> str:
    chosen = getattr(settings, "SNOWFLAKE_ID", {})
    if not isinstance(chosen, dict):
        raise ImproperlyConfigured(f"SNOWFLAKE_ID is {chosen!r}: expected a dict with WORKER_ID or SOURCE")
    for key in chosen:
        if key not in ("WORKER_ID", "SOURCE"):
            raise ImproperlyConfigured(f"SNOWFLAKE_ID has no setting {key!r}: expected WORKER_ID or SOURCE")
    if len(chosen) > 1:
        raise ImproperlyConfigured("SNOWFLAKE_ID has WORKER_ID and SOURCE: a worker has a number or takes leases")
    if "WORKER_ID" in chosen:
        return f"static:{chosen['WORKER_ID']}"
    source = chosen.get("SOURCE", "env:WORKER_ID")
    if not isinstance(source, str) or ":" not in source:
        raise ImproperlyConfigured(f"SNOWFLAKE_ID: SOURCE is {source!r}: expected a URL such as redis://localhost/0")
    if source.startswith(("memory:", "standalone:")):
        raise ImproperlyConfigured(
            f"SNOWFLAKE_ID: SOURCE is {source!r}, which every process has to itself, so two of them make the same IDs: "
            "expected a table that they share, such as sqlite:/path/leases.db"
        )
    return source


def _without_state(source: str) -> str:
    """Whoever makes IDs has locked the state file: a mere look at the number must not get in the way."""
    number, _, query = source.partition("?")
    kept = "&".join(parameter for parameter in query.split("&") if not parameter.startswith("state="))
    return f"{number}?{kept}" if kept else number


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """What the library says is wrong, as Django says it."""
    try:
        yield
    except _MISCONFIGURED as error:
        raise ImproperlyConfigured(f"SNOWFLAKE_ID: {error}") from error


def _claim_number(source: str) -> None:
    """A number that was read before a fork is every child's, so it is nobody's. gunicorn --preload, uwsgi without
    lazy-apps and Celery's pool come by here; workers that load the models by themselves cannot be told apart."""
    global _claim
    if is_number(source):
        claim = (os.getpid(), place_of(source))
        if _claim and _claim[0] != claim[0] and _claim[1] == claim[1]:
            raise kazahana.ForkedError(FORKED.format(source=source))
        _claim = claim


def _in_management_command() -> bool:
    frame: Optional[FrameType] = sys._getframe()
    while frame:
        if frame.f_globals.get("__name__") == "django.core.management":
            return True
        frame = frame.f_back
    return False


def _forget(**changed: Any) -> None:
    """For tests that change the setting."""
    global _generator, _claim
    if changed["setting"] == "SNOWFLAKE_ID":
        _generator = _claim = None


def _start_anew_in_a_child() -> None:
    """A leased generator goes on with a lease of its own. A number may have been changed after the fork."""
    global _lock, _generator
    _lock = threading.Lock()  # another thread of the parent may have held it
    if _generator and is_number(_generator.source):
        _generator = None


setting_changed.connect(_forget)
os.register_at_fork(after_in_child=_start_anew_in_a_child)
