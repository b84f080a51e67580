"""Snowflake IDs: 63 bits that sort by time, for primary keys of type BIGINT.

    from snowflake_id import SnowflakeGenerator
    from snowflake_id.worker import EnvWorkerIdProvider

    generator = SnowflakeGenerator(worker_id_provider=EnvWorkerIdProvider("WORKER_ID"))
    generator.next_id()

An ID is 41 bits of milliseconds since 2024-01-01, 10 bits of worker and 12 bits of sequence. Two processes with the
same worker number make the same IDs sooner or later, and nothing can tell them. Where nobody can promise a number of
its own to every process (gunicorn's workers, containers that come and go), take leases instead of numbers:

    from snowflake_id.worker import LeasedWorkerIdProvider

    generator = SnowflakeGenerator(worker_id_provider=LeasedWorkerIdProvider("redis://localhost/0"))

For Django see snowflake_id.django_field. The work is done by the package kazahana, which has more to offer.
"""

from kazahana import __version__

from .generator import Snowflake, SnowflakeGenerator, decode

__all__ = ["Snowflake", "SnowflakeGenerator", "__version__", "decode"]
