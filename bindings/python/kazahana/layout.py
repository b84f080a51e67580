"""Layouts: how an ID's bits are divided, and what an ID says by one."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, Optional, Union

from . import _core
from .errors import InvalidError

Instant = Union[datetime, int, str]
"""A point of time: an aware datetime, Unix milliseconds, or a text such as `2026-01-01` or `2026-01-01T12:00:00Z`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_unix_ms(instant: Instant) -> int:
    """Unix milliseconds, rounded down."""
    if isinstance(instant, datetime):
        if instant.utcoffset() is None:
            raise InvalidError(f"{instant!r} has no time zone: say datetime(..., tzinfo=timezone.utc)")
        return (instant - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(instant, str):
        return _core.time_parse(instant)
    return instant


def to_datetime(unix_ms: int) -> datetime:
    """An aware datetime in UTC. InvalidError past the year 9999, where datetime ends."""
    try:
        return _EPOCH + timedelta(milliseconds=unix_ms)
    except OverflowError:
        raise InvalidError(f"{unix_ms} ms since 1970 is more than a datetime can hold") from None


class Parts(NamedTuple):
    """What an ID contains."""

    unix_ms: int
    node: int
    seq: int
    fallback: bool
    """Minted in the fallback half: the lease table could not be reached, or nobody was asked."""

    @property
    def time(self) -> datetime:
        return to_datetime(self.unix_ms)


class LayoutFacts(NamedTuple):
    """What a layout can hold, and how long it lasts."""

    reserved_bits: int
    nodes: int
    leasable_nodes: int
    """Those that a lease table hands out."""
    ids_per_step: int
    """For each node in each step of the time field."""
    first_unix_ms: int
    last_unix_ms: int
    """The last instant that the time field can show."""
    turns_negative: bool
    """Do IDs become negative as signed 64-bit integers?"""
    negative_unix_ms: Optional[int]
    """From when on."""

    @property
    def first_time(self) -> datetime:
        return to_datetime(self.first_unix_ms)

    @property
    def last_time(self) -> datetime:
        return to_datetime(self.last_unix_ms)


class Layout(_core.Layout):
    """How an ID's bits are divided: `Layout("snowflake")`, `Layout("41-14-8@2026-01-01")`. Immutable."""

    __slots__ = ()

    @staticmethod
    def presets() -> dict[str, Layout]:
        """Those that have a name, the default first."""
        return {name: Layout(name) for name in _core.Layout._preset_names()}

    @property
    def epoch_ms(self) -> int:
        """Unix milliseconds of the time field's zero."""
        return self._fields()[0]

    @property
    def unit_ms(self) -> int:
        """What one step of the time field is."""
        return self._fields()[1]

    @property
    def time_bits(self) -> int:
        return self._fields()[2]

    @property
    def node_bits(self) -> int:
        return self._fields()[3]

    @property
    def seq_bits(self) -> int:
        return self._fields()[4]

    @property
    def has_fallback(self) -> bool:
        """Is the upper half of the nodes the fallback namespace, also when decoding?"""
        return self._fields()[5]

    @property
    def node_lowest(self) -> bool:
        """Does the sequence stand above the node?"""
        return self._fields()[6]

    @property
    def decode_only(self) -> bool:
        """Can it be read, but not minted?"""
        return self._fields()[7]

    @property
    def name(self) -> str:
        """The preset's, or an empty text."""
        return self._fields()[8]

    def decode(self, id: int) -> Parts:
        """What the ID contains. InvalidError: it has bits that this layout has not."""
        return Parts._make(self._decode(id))

    def min_id(self, instant: Instant) -> int:
        """The smallest ID of a millisecond, for `WHERE id BETWEEN`."""
        return self._min_id(to_unix_ms(instant))

    def max_id(self, instant: Instant) -> int:
        """The largest ID of a millisecond."""
        return self._max_id(to_unix_ms(instant))

    def describe(self) -> LayoutFacts:
        return LayoutFacts._make(self._facts())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Layout({self.name or str(self)!r})"

    def __reduce__(self) -> Any:
        return Layout, (str(self),)


LayoutLike = Union[Layout, str]


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Layout:
    return Layout(text)


def layout_of(layout: LayoutLike) -> Layout:
    """Texts are read once, not for every ID."""
    return layout if isinstance(layout, Layout) else _parsed(layout)


def decode(id: int, layout: LayoutLike = "kazahana") -> Parts:
    """What an ID contains by a layout."""
    return layout_of(layout).decode(id)
