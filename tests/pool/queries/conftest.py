"""A pool of four days that a whole module asks: filling it is what takes time."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from flywheel.database import url_with
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.conftest import TEMPLATE
from tests.pool.queries.points import FIRST_DAY, fill

DAYS = tuple(FIRST_DAY + timedelta(days=number) for number in (0, 60, 88, 91))


@pytest.fixture(scope="module")
def module_settings(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an installation of this module."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url_with(postgres_server, driver=""), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
        )
        yield Settings.load(
            profile="smoke",
            home=tmp_path_factory.mktemp("home"),
            database_url=url_with(postgres_server, driver="", database=name),
        )
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def filled(module_settings: Settings) -> Iterator[BenchmarkPool]:
    """Four days of 24 points each, counted, in no tier yet."""
    with BenchmarkPool.open(module_settings) as opened:
        fill(opened, DAYS)
        yield opened
