"""IDs as texts and bytes, external IDs, and the two monotonic generators."""

from __future__ import annotations

import os
import uuid
from datetime import datetime
from typing import Literal, NamedTuple, NoReturn, Optional, Sequence, Union

from . import _core
from .errors import InvalidError
from .layout import Instant, to_datetime, to_unix_ms

Form = Literal["decimal", "hex", "base32", "base62", "base64url"]
FORMS = ("decimal", "hex", "base32", "base62", "base64url")


def _form(form: str) -> int:
    if form not in FORMS:
        raise InvalidError(f"form {form!r}: expected one of {', '.join(map(repr, FORMS))}")
    return FORMS.index(form)


def to_text(id: int, form: Form = "decimal") -> str:
    """The ID as a text: decimal, hex (16 digits), base32 (13 characters, Crockford), base62 or base64url (11)."""
    return _core.to_text(id, _form(form))


def from_text(text: str, form: Form = "decimal") -> int:
    """The ID of a text. InvalidError names the character or the length that is wrong."""
    return _core.from_text(text, _form(form))


def to_bytes(id: int) -> bytes:
    """Eight bytes, big-endian, so that they sort like the number."""
    return _core.to_bytes(id)


def from_bytes(data: bytes) -> int:
    return _core.from_bytes(data)


class Key(NamedTuple):
    """A key of external IDs. The number, 0 to 3, is a part of every text made with it."""

    number: int
    secret: bytes
    """16 to 1024 bytes."""
    algorithm: str = "xtea"
    """Or `speck`."""

    def __repr__(self) -> str:
        return f"Key(number={self.number!r}, secret=..., algorithm={self.algorithm!r})"


def _key_line(number: int, secret: bytes, algorithm: str = "xtea") -> str:
    if not isinstance(secret, bytes):
        raise InvalidError(f"the secret of key {number} is {type(secret).__name__}: expected bytes")
    return f"{number} {algorithm} {secret.hex()}"


class ExternalIds(_core.ExternalIds):
    """IDs as 11 characters that hide order and time, and can be turned back.

        ExternalIds()                              a public mixer: hides the order from the eye only
        ExternalIds("/etc/kazahana/keys")          a key file: the first key encodes, all decode
        ExternalIds(keys=[Key(1, new), Key(0, old)])   the same from memory
    """

    __slots__ = ()

    def __new__(
        cls, key_file: Union[str, os.PathLike[str], None] = None, *, keys: Optional[Sequence[Key]] = None
    ) -> ExternalIds:
        if key_file is not None and keys is not None:
            raise InvalidError("both a key file and keys: give one of them")
        if key_file is not None:
            return super().__new__(cls, key_file)
        if keys is not None:
            return super().__new__(cls, keys="\n".join(_key_line(*key) for key in keys))
        return super().__new__(cls)

    def __reduce__(self) -> NoReturn:
        raise TypeError("kazahana.ExternalIds cannot be pickled: it would carry the secrets along")


class Mono(_core.Mono):
    """Strictly increasing nanoseconds: `Mono(last=the_last_value_ever_given).next()`. Between processes values may be
    equal: it is a clock, not a source of IDs."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kazahana.Mono cannot be pickled or copied: make one with last=")


class MonoUUIDParts(NamedTuple):
    node: int
    unix_ns: int

    @property
    def time(self) -> datetime:
        return to_datetime(self.unix_ns // 1_000_000)


class MonoUUID(_core.MonoUUID):
    """UUIDs of version 7 that carry a node (1 to 16777215) and the nanosecond, strictly increasing."""

    __slots__ = ()

    def __new__(cls, node: int, last: Union[uuid.UUID, str, None] = None) -> MonoUUID:
        """`last`: the last one that this node ever gave, to go on above it."""
        return super().__new__(cls, node, None if last is None else _uuid(last).bytes)

    def next(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.next_bytes())

    @staticmethod
    def parse(value: Union[uuid.UUID, str]) -> MonoUUIDParts:
        """Its node and time. InvalidError: not one of these, and why."""
        return MonoUUIDParts._make(_core.MonoUUID._parse(_uuid(value).bytes))

    @staticmethod
    def valid(value: Union[uuid.UUID, str]) -> bool:
        """Is it one of these?"""
        try:
            MonoUUID.parse(value)
        except InvalidError:
            return False
        return True

    @staticmethod
    def min(instant: Instant) -> uuid.UUID:
        """The smallest one of a millisecond, whatever its node: for range scans."""
        return uuid.UUID(bytes=_core.MonoUUID._min(to_unix_ms(instant) * 1_000_000))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a kazahana.MonoUUID cannot be pickled or copied: two of the same would give twins")


def _uuid(value: Union[uuid.UUID, str]) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a UUID: expected a uuid.UUID or a text")
    try:
        return uuid.UUID(value)
    except ValueError as error:
        raise InvalidError(f"{value!r} is not a UUID: {error}") from None
