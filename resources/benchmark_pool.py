"""The benchmark data pool: PostgreSQL and the lake behind one object of the domain."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings


class BenchmarkPoolResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the pool that the environment's settings describe."""

    @contextmanager
    def open(self) -> Iterator[BenchmarkPool]:
        """The pool, closed at the end of the block."""
        with BenchmarkPool.open(Settings.load()) as pool:
            yield pool
