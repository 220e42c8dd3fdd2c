"""How commands reach the database of services that run elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from flywheel.pool.pool import BenchmarkPool
    from flywheel.settings import Settings


def connected(settings: "Settings") -> "Settings":
    """Settings with the URL of the running database: the configured one, else that of this home's services.

    Raises:
        NotRunningError: none is configured and no services run.
    """
    if settings.database_url:
        return settings
    from flywheel.services.endpoints import attach, with_database

    return with_database(settings, attach(settings).database_url)


@contextmanager
def engine_of(settings: "Settings") -> "Iterator[Engine]":
    """An engine of the running database."""
    from flywheel.database import connect

    engine = connect(connected(settings).database_url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def pool_of(settings: "Settings") -> "Iterator[BenchmarkPool]":
    """The benchmark data pool of the running database."""
    from flywheel.pool.pool import BenchmarkPool

    with BenchmarkPool.open(connected(settings)) as pool:
        yield pool
