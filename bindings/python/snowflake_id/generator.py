"""SnowflakeGenerator, and how to take an ID apart."""

from __future__ import annotations

import os
import threading
import weakref
from datetime import datetime
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

import kazahana

LAYOUT = "snowflake"  # 41-10-12@2024-01-01

FORKED = (
    "{source} is the number of the process that this one was forked from, and both would make the same IDs. Give every "
    "process a number of its own (set it before the generator is made), or take leases instead of numbers: "
    "LeasedWorkerIdProvider(\"sqlite:/path/leases.db\"), in Django SNOWFLAKE_ID = {{\"SOURCE\": ...}}"
)


class Snowflake(NamedTuple):
    """The parts of an ID."""

    time: datetime
    worker_id: int
    sequence: int


def decode(snowflake: Union[int, str]) -> Snowflake:
    """Takes an ID apart: decode(7277771434402209792).time says when it was made. Digits in a text will do, too."""
    parts = kazahana.decode(int(snowflake), LAYOUT)
    return Snowflake(parts.time, parts.node, parts.seq)


# The library refuses a second generator on one number, since the two would repeat each other. A program and Django's
# field may well name the same number, so generators of one process that name the same source are one. A child of fork
# is another process: it starts with none, and cannot have a number that its parent had open.
_shared: weakref.WeakValueDictionary[Any, kazahana.Generator] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_renew_lock)


def source_of(provider: Any) -> str:
    """The URL of a provider's source. A number is one too; whether it is a good one is for the library to say."""
    if hasattr(provider, "source"):
        return str(provider.source)
    if hasattr(provider, "get_worker_id"):
        return f"static:{provider.get_worker_id()}"
    raise TypeError(f"{provider!r} is no provider of worker numbers: expected StaticWorkerIdProvider(7) or its like")


def is_number(source: str) -> bool:
    """Or does it take leases?"""
    return source.startswith(("static:", "env:"))


def place_of(source: str) -> str:
    """The source with the environment read: env:WORKER_ID and static:7 may be the same number."""
    kind, _, rest = source.partition(":")
    name, mark, parameters = rest.partition("?")
    return f"static:{os.environ[name]}{mark}{parameters}" if kind == "env" and name in os.environ else source


def check_number(source: str) -> None:
    """Nothing, if the library finds nothing wrong with it; else its exception."""
    with _lock:
        try:
            kazahana.Generator(source, layout=LAYOUT).close()
        except kazahana.InUseError:
            pass  # by this very process: so it is a good one


def _open(source: str, options: Dict[str, Any]) -> kazahana.Generator:
    pid, place = os.getpid(), place_of(source)
    meta = options.get("meta")
    same = {**options, "meta": tuple(meta.items())} if isinstance(meta, Mapping) else options
    key = (pid, place, tuple(sorted(same.items())))
    with _lock:
        if is_number(source) and any(owner != pid and held == place for owner, held, _ in list(_shared)):
            raise kazahana.ForkedError(FORKED.format(source=source))
        core = _shared.get(key)
        if core is None:
            core = _shared[key] = kazahana.Generator(source, layout=LAYOUT, **options)
        return core


class SnowflakeGenerator:
    """Makes IDs, each larger than the one before, on any number of threads.

    Without a provider the number is that of the environment variable WORKER_ID. One that is missing, no number or not
    within 0..1023 is a ValueError here, before anything could go wrong. The options are those of kazahana.Generator,
    such as timeout_ms.

    In a child of fork a leased generator takes a lease of its own; one with a number raises kazahana.ForkedError, and
    so does a new one with that number, as long as the child has the old one.
    """

    def __init__(self, worker_id_provider: Optional[Any] = None, **options: Any) -> None:
        self.source = "env:WORKER_ID" if worker_id_provider is None else source_of(worker_id_provider)
        self._core: Optional[kazahana.Generator] = _open(self.source, options)

    def _opened(self) -> kazahana.Generator:
        if self._core is None:
            raise ValueError("this generator is closed")
        return self._core

    def next_id(self) -> int:
        """The next ID. After 4096 in a millisecond it waits for the next one."""
        try:
            return self._opened().next_id()
        except kazahana.ForkedError as error:
            raise kazahana.ForkedError(FORKED.format(source=self.source)) from error

    def next_ids(self, count: int) -> List[int]:
        """So many IDs, in increasing order."""
        try:
            return self._opened().next_ids(count)
        except kazahana.ForkedError as error:
            raise kazahana.ForkedError(FORKED.format(source=self.source)) from error

    @staticmethod
    def decode(snowflake: Union[int, str]) -> Snowflake:
        """Takes any snowflake ID apart, not only this generator's."""
        return decode(snowflake)

    def stats(self) -> Any:
        """How many IDs, leases, waits: see kazahana.Generator.stats."""
        return self._opened().stats()

    def close(self) -> None:
        """No IDs come after that. A lease is given back, unless another generator of this process uses it still."""
        self._core = None

    def __enter__(self) -> SnowflakeGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
