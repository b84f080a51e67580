"""Unique 64-bit IDs that sort by time, from any number of machines.

    import kazahana

    with kazahana.Generator("redis://localhost/0") as generator:
        print(generator.next_id())
"""

from . import _core
from .errors import (
    AgainError,
    BeforeEpochError,
    ClockBackwardError,
    ConflictError,
    Error,
    ForbiddenError,
    ForkedError,
    InUseError,
    InvalidError,
    LeaseAcquisitionError,
    LostError,
    MismatchError,
    NoFreeNodeError,
    NoMemoryError,
    NoProviderError,
    NotFoundError,
    OperatingSystemError,
    OverflowError,
    StateError,
    StoreError,
    TimeoutError,
    UnavailableError,
    UnknownKeyError,
    UnsupportedError,
)
from .generator import Generator, LogFunction, Stats
from .layout import Instant, Layout, LayoutFacts, LayoutLike, Parts, decode
from .values import (
    ExternalIds,
    Key,
    Mono,
    MonoUUID,
    MonoUUIDParts,
    from_bytes,
    from_text,
    to_bytes,
    to_text,
)

version: str = _core.VERSION
__version__ = version

__all__ = [
    "AgainError",
    "BeforeEpochError",
    "ClockBackwardError",
    "ConflictError",
    "Error",
    "ExternalIds",
    "ForbiddenError",
    "ForkedError",
    "Generator",
    "InUseError",
    "Instant",
    "InvalidError",
    "Key",
    "Layout",
    "LayoutFacts",
    "LayoutLike",
    "LeaseAcquisitionError",
    "LogFunction",
    "LostError",
    "MismatchError",
    "Mono",
    "MonoUUID",
    "MonoUUIDParts",
    "NoFreeNodeError",
    "NoMemoryError",
    "NoProviderError",
    "NotFoundError",
    "OperatingSystemError",
    "OverflowError",
    "Parts",
    "StateError",
    "Stats",
    "StoreError",
    "TimeoutError",
    "UnavailableError",
    "UnknownKeyError",
    "UnsupportedError",
    "decode",
    "from_bytes",
    "from_text",
    "to_bytes",
    "to_text",
    "version",
]
