"""Fixtures that every test may use: a real PostgreSQL, and settings of an empty installation."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest
from psycopg import sql

from flywheel.database import upgrade, url_with
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings

# Each of two workers with threads for the whole machine: they wait for each other's, and burn the time of all. What a
# test starts inherits it, but for training processes, which are told by their settings. Said before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test is timed: an example may wait for what is compiled at first use, and for a machine with other work.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

TEMPLATE = "flywheel_template"
MEMORY, ROOM = Path("/dev/shm"), 2 * 1024**3
"""Where PostgreSQL has its files if there is such a place with so many bytes free: each of a thousand tests makes a
database, which is 300 files, and on a disk that takes longer than the test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that may take long first, so that two workers end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder for PostgreSQL, which for root runs as another user: pytest closes its own folders to all others
    whenever it starts, also below the feet of a server that another test run has there."""
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def quick_folder(open_folder: Path) -> Iterator[Path]:
    """The same in memory, where there is room."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        yield open_folder
        return
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server(quick_folder: Path) -> Iterator[str]:
    """URL of a server of this test run, with a migrated template database in it."""
    server = EmbeddedPostgres(quick_folder / "data")
    url = server.start()
    try:
        with psycopg.connect(url_with(url, driver=""), autocommit=True) as connection:
            # Nothing of it outlives this run: a power cut may have it.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("ALTER SYSTEM SET max_wal_size = '256MB'")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        upgrade(url_with(url, driver="", database=TEMPLATE))
        yield url
    finally:
        server.stop()


@pytest.fixture
def database_url(postgres_server: str) -> Iterator[str]:
    """URL of a fresh, migrated database of this test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url_with(postgres_server, driver=""), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
        )
        yield url_with(postgres_server, driver="", database=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    """Settings of an empty installation with the smoke profile."""
    return Settings.load(profile="smoke", home=tmp_path / "home", database_url=database_url)
