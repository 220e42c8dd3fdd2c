"""The HTTP service over a pool whose days are in the tiers of their ages."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.api.callers import api_token
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.pool.queries.conftest import filled, module_settings
from tests.pool.queries.points import FIRST_DAY, noon, place_all

__all__ = ["filled", "module_settings"]

DAYS = tuple(FIRST_DAY + timedelta(days=number) for number in (0, 60, 88, 91))
NOW = noon(DAYS[-1])


@pytest.fixture(scope="module")
def placed(filled: BenchmarkPool) -> BenchmarkPool:
    """The first day has only aggregates, the next one is in the lake, the others are hot."""
    place_all(filled, DAYS, now=NOW)
    return filled


@pytest.fixture(scope="module")
def client(placed: BenchmarkPool, module_settings: Settings) -> Iterator[TestClient]:
    """A client with the installation's token."""
    headers = {"Authorization": f"Bearer {api_token(module_settings).decode()}"}
    with TestClient(create_app(module_settings), headers=headers) as opened:
        yield opened
