"""A pool whose statistics a test writes down itself."""

from collections.abc import Iterator

import pytest

from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened
