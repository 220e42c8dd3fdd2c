"""A pool that holds two tenants."""

from collections.abc import Iterator

import pytest

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.pool.erasure.two_tenants import CRITERIA, fill


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings.model_copy(update={"batch": CRITERIA})) as opened:
        yield opened


@pytest.fixture
def filled(pool: BenchmarkPool) -> BenchmarkPool:
    fill(pool)
    return pool
