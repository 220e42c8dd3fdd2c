"""A collector over an empty folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flywheel.collection import Collector


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """It writes what it is given, so that tests find it again."""
    with Collector(tmp_path, "acme", remove_identifiers=False) as made:
        yield made
