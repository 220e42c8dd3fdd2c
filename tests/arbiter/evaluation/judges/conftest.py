"""Endpoints of judges, a database for what they say, and settings without one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from flywheel.database import connect
from flywheel.settings import Settings
from tests.arbiter.evaluation.judges.endpoint import JudgeEndpoint, Rule, serving

Serve = Callable[[Rule], JudgeEndpoint]


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts an endpoint that replies by a rule."""
    with ExitStack() as stack:
        yield lambda rule: stack.enter_context(serving(rule))


@pytest.fixture
def bare(tmp_path: Path) -> Settings:
    """Settings of an installation without a database."""
    return Settings.load(profile="smoke", home=tmp_path / "home")
