"""What can go wrong: one exception for each status of the library."""

from __future__ import annotations

import builtins
from typing import Optional


class Error(Exception):
    """Everything that the library refuses. The message names the value at fault and the way out."""

    status: str = "KZ_UNKNOWN"
    """The library's name for it, such as `KZ_TIMEOUT`."""
    cause: Optional[str] = None
    """The status that led to this one, where the library knows it."""


class AgainError(Error):
    """There is no ID without waiting, and timeout_ms is 0."""

    status = "KZ_AGAIN"


class TimeoutError(Error, builtins.TimeoutError):
    """There was no ID within timeout_ms."""

    status = "KZ_TIMEOUT"


class InvalidError(Error, ValueError):
    """A value that cannot be; also any use of a closed generator."""

    status = "KZ_INVALID"


class UnsupportedError(Error):
    """No such kind of source in this build, or a layout that can only be decoded."""

    status = "KZ_UNSUPPORTED"


class ClockBackwardError(Error):
    """The clock is behind the last ID by more than the policy waits for."""

    status = "KZ_CLOCK_BACKWARD"
    backward_ms: int = 0
    """By how much."""
    limit_ms: int = 0
    """What would have been waited for."""


class BeforeEpochError(Error):
    """The clock is before the layout's epoch."""

    status = "KZ_BEFORE_EPOCH"


class OverflowError(Error, builtins.OverflowError):
    """The layout's time field has run out."""

    status = "KZ_OVERFLOW"


class ForkedError(Error):
    """Made by the parent process, and its source has no other place for this one: make one here."""

    status = "KZ_FORKED"


class InUseError(Error):
    """Another generator has that fixed node or that state file."""

    status = "KZ_IN_USE"


class StateError(Error):
    """The state file is damaged, belongs to another node or layout, or cannot be written."""

    status = "KZ_STATE"


class LeaseAcquisitionError(Error):
    """No lease, and no fallback allowed. `cause` is the status of the last attempt, such as `KZ_UNAVAILABLE`."""

    status = "KZ_LEASE_ACQUISITION"


class NoProviderError(Error):
    """No source configured, and no fallback allowed."""

    status = "KZ_NO_PROVIDER"


class UnknownKeyError(Error, ValueError):
    """An external ID that was made with a key that is not loaded."""

    status = "KZ_UNKNOWN_KEY"


class NoMemoryError(Error, MemoryError):
    """Out of memory."""

    status = "KZ_NO_MEMORY"


class OperatingSystemError(Error, OSError):
    """The operating system refused."""

    status = "KZ_SYSTEM"


class UnavailableError(Error):
    """The source does not answer."""

    status = "KZ_UNAVAILABLE"


class NoFreeNodeError(Error):
    """All machine IDs are out."""

    status = "KZ_NO_FREE_NODE"


class NotFoundError(Error):
    """No such lease."""

    status = "KZ_NOT_FOUND"


class ForbiddenError(Error):
    """Wrong signature, or not allowed."""

    status = "KZ_FORBIDDEN"


class ConflictError(Error):
    """The same request with other arguments."""

    status = "KZ_CONFLICT"


class MismatchError(Error):
    """The service has another layout."""

    status = "KZ_MISMATCH"


class StoreError(Error):
    """The store can be reached, but not used as a lease table."""

    status = "KZ_STORE"


class LostError(Error):
    """What was held at the source is not ours any more. The keeper asks for another lease by itself."""

    status = "KZ_LOST"


BY_STATUS: dict[str, type[Error]] = {error.status: error for error in Error.__subclasses__()}


def from_library(status: str, message: str, cause: str, backward_ms: int, limit_ms: int) -> Error:
    """The exception for what the library reported."""
    error = BY_STATUS.get(status, Error)(message)
    error.status = status
    if cause != "KZ_OK":
        error.cause = cause
    if isinstance(error, ClockBackwardError):
        error.backward_ms, error.limit_ms = backward_ms, limit_ms
    return error
