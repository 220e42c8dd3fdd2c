"""A database with an empty trail, and settings whose key signs it."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from flywheel.database import connect


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()
