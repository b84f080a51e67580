"""Where a process gets its worker number from.

A provider is any object with `get_worker_id()`, which returns a number from 0 to 1023 that no other process has, or
with a `source`, a URL that the package kazahana understands. These three are provided; one of your own may be as small
as

    class HostnameProvider:
        def get_worker_id(self):  # the pod web-7 of a StatefulSet is worker 7
            return socket.gethostname().rpartition("-")[2]
"""

from __future__ import annotations

import os

from .generator import check_number


class StaticWorkerIdProvider:
    """A number that is known: StaticWorkerIdProvider(7)."""

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id

    def get_worker_id(self) -> int:
        return self.worker_id


class EnvWorkerIdProvider:
    """A number from an environment variable, without any default: a process that was given none makes no IDs."""

    def __init__(self, name: str = "WORKER_ID") -> None:
        self.name = name
        self.source = f"env:{name}"

    def get_worker_id(self) -> int:
        """The number, if the library finds nothing wrong with it: else ValueError, as from the generator."""
        check_number(self.source)
        return int(os.environ[self.name])


class LeasedWorkerIdProvider:
    """No number at all: every process leases a place of its own, and so does every child that it forks.

    `source` says where the leases are kept: "sqlite:/path/leases.db" for the processes of one machine, "redis://..." or
    "http://..." (kazahana serve) for many. Any other source of the package kazahana will do too; for instance
    "env:WORKER_ID?state=/path" keeps the time of the last ID in a file, and refuses a second process on that file.
    """

    def __init__(self, source: str) -> None:
        self.source = source
