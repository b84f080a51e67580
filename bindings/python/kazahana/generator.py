"""The generator."""

from __future__ import annotations

import atexit
import json
import logging
import multiprocessing.util
import os
import re
import sys
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, Literal, Mapping, NamedTuple, NoReturn, Optional, TypeVar, Union

from . import _core
from .errors import InvalidError
from .layout import Layout, LayoutLike

LogFunction = Callable[[int, str], object]
"""Called with a level of the module logging (ERROR, WARNING or INFO) and one line, from any thread."""

Fallback = Literal["never", "fenced", "any"]
Backward = Literal["fail", "wait", "logical"]
ClockKind = Literal["precise", "coarse"]
SeqStart = Literal["zero", "random"]

_FALLBACK = ("never", "fenced", "any")
_BACKWARD = ("fail", "wait", "logical")
_CLOCK = ("precise", "coarse")
_SEQ_START = ("zero", "random")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO)
_NO_END = 2**63 - 1

_T = TypeVar("_T", bound="Generator")


class Stats(NamedTuple):
    """What a generator did and where it stands. In a forked child with leases of its own it counts from there."""

    ids_leased: int
    """From a lease or a fixed node."""
    ids_fenced: int
    """Fallback, as safe as a lease."""
    ids_unfenced: int
    """Fallback that promises nothing."""
    sequence_exhausted: int
    """Milliseconds whose slots were used up while more were wanted."""
    clock_backward: int
    """Steps of the clock backwards that were seen."""
    clock_backward_max_ms: int
    ahead_ms: int
    """By how much the last ID is ahead of the clock."""
    sleeps: int
    leases: int
    """Held now."""
    throughput_per_ms: int
    """What those allow."""
    leases_acquired: int
    leases_released: int
    acquire_failures: int
    acquire_failures_now: int
    """Since the last success."""
    lease_age_ms: int
    """Of the oldest in use."""
    last: int
    """The last ID that may have been given; 0 before the first."""
    window_end_unix_ms: Optional[int]
    """Until when IDs can be minted from what is held; None: without end."""
    unfenced: bool = False
    """IDs minted now promise nothing."""
    contended: bool = False
    """Another process on this host had the same `static:` or `env:` node when this one was opened."""


def _choice(name: str, value: str, choices: tuple[str, ...]) -> int:
    if value not in choices:
        raise InvalidError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return choices.index(value)


def _log_function(log: Union[LogFunction, logging.Logger, None]) -> Optional[Callable[[int, str], object]]:
    if log is None:
        return None
    if isinstance(log, logging.Logger):
        logger = log
        return lambda level, message: logger.log(_LEVELS[level], "%s", message)
    if not callable(log):
        raise InvalidError(f"log={log!r}: expected a logging.Logger or a function of a level and a text")
    function = log
    return lambda level, message: function(_LEVELS[level], message)


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without user, password and what may be a token."""
    shown = re.sub(r"//.*@", "//***@", url)
    return re.sub(r"([?&])(?!service=|lease=|prefix=|default=|state=|amnesia=)([^=&]*=)[^&]*", r"\1\2***", shown)


class Generator(_core.Generator):
    """Unique IDs that sort by time, from the source that a URL names.

        with Generator("redis://localhost/0") as generator:
            id = generator.next_id()

    Any number of threads may use it. After a fork the child takes a place of its own where the source has one, and
    gets ForkedError where it has not. close() gives back what it holds; so does the end of the program.
    """

    __slots__ = ("_url", "__weakref__")

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        layout: Optional[LayoutLike] = None,
        service: Optional[str] = None,
        throughput: Union[int, tuple[int, int]] = 256,
        fallback: Fallback = "fenced",
        backward: Backward = "wait",
        max_backward_ms: int = 5000,
        max_ahead_ms: int = 1000,
        clock: ClockKind = "precise",
        timeout_ms: int = 10000,
        renew_at: float = 0.9,
        retry_initial_ms: int = 1000,
        retry_max_ms: int = 60000,
        seq_start: SeqStart = "zero",
        meta: Union[Mapping[str, str], str, None] = None,
        log: Union[LogFunction, logging.Logger, None] = None,
    ) -> None:
        self._url = url
        least, most = throughput if isinstance(throughput, tuple) else (throughput, throughput)
        self._open(
            url,
            None if layout is None else str(layout),
            service,
            json.dumps(dict(meta), ensure_ascii=False) if isinstance(meta, Mapping) else meta,
            _log_function(log),
            _choice("fallback", fallback, _FALLBACK),
            _choice("backward", backward, _BACKWARD),
            _choice("clock", clock, _CLOCK),
            _choice("seq_start", seq_start, _SEQ_START),
            max_backward_ms,
            max_ahead_ms,
            timeout_ms,
            least,
            most,
            renew_at,
            retry_initial_ms,
            retry_max_ms,
        )
        _open_generators.add(self)
        _close_at_the_end_of_workers()
        if self.stats().contended:
            warnings.warn(
                f"another process on this host has the node of {self._url} too: both mint the same IDs. Give each a "
                "number of its own, or use a lease table (?lock=no silences this)",
                RuntimeWarning,
                stacklevel=2,
            )

    @property
    def layout(self) -> Layout:
        """Of the IDs that it mints."""
        return self._layout(Layout)

    def stats(self) -> Stats:
        stats = Stats._make(self._stats())
        return stats._replace(window_end_unix_ms=None) if stats.window_end_unix_ms == _NO_END else stats

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        source = "the embedded default" if self._url is None else without_secrets(self._url)
        return f"<kazahana.Generator of {source}, {'closed' if self.closed else self.layout}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a kazahana.Generator cannot be pickled or copied: two of the same would mint twins. Open one with the "
            "same URL in the other process"
        )


# Whoever forgets to close gives the leases back all the same, and no keeper calls a log function of an interpreter
# that has ended.
_open_generators: weakref.WeakSet[Generator] = weakref.WeakSet()


def _close_all() -> None:
    for generator in list(_open_generators):
        generator.close()
    _core.silence()


atexit.register(_close_all)


# Workers of multiprocessing, of process pools and of Celery (billiard) end without atexit; what they run at their end is
# a list of their own, which begins anew in each of them.
_arranged_in = 0


def _close_at_the_end_of_workers(_: object = None) -> None:
    global _arranged_in
    if _arranged_in == os.getpid():
        return
    _arranged_in = os.getpid()
    for name in ("multiprocessing.util", "billiard.util"):
        util = sys.modules.get(name)
        if util is not None:
            util.Finalize(None, _close_all, exitpriority=-100)
            util.register_after_fork(_close_all, _close_at_the_end_of_workers)
