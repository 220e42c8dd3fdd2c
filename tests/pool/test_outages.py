"""PostgreSQL is killed while the pool works: nothing is lost, nothing is there twice, and the next run goes on."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flywheel.database import upgrade, url_with
from flywheel.errors import DatabaseError
from flywheel.pool import binary_copy, hot_store, validation
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.intake import index_segments
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tiers import place_hot
from flywheel.pool.validation import validate_day
from flywheel.services.postgres import EmbeddedPostgres
from flywheel.settings import Settings
from tests.pool.logs import NOON, task_logs, write_segment

DAY = NOON.date()
LATER = NOON + timedelta(hours=1)
TASKS = 30


def kill_backends(url: str) -> None:
    """As the kernel does when memory runs out: PostgreSQL drops every connection and recovers from its log."""
    query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with psycopg.connect(url) as connection:
        pids = [row[0] for row in connection.execute(query)]
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):  # the server ends all others once one was killed
            os.kill(pid, signal.SIGKILL)


def wait_for(url: str) -> None:
    """Until the server takes connections again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def mortal() -> Iterator[str]:
    """URL of a server of the test's own, which it may kill."""
    with tempfile.TemporaryDirectory(prefix="flywheel-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user where this one is root
        server = EmbeddedPostgres(Path(folder) / "postgres")
        url = url_with(server.start(), driver="")
        upgrade(url)
        yield url
        server.stop()


@pytest.fixture
def pool(mortal: str, tmp_path: Path) -> Iterator[BenchmarkPool]:
    settings = Settings.load(profile="smoke", home=tmp_path / "home", database_url=mortal)
    write_segment(settings, "a", [*(log for n in range(TASKS) for log in task_logs(f"t{n}")), b"broken"])
    with BenchmarkPool.open(settings) as opened:
        index_segments(opened, now=NOON)
        yield opened


def hot_points(pool: BenchmarkPool) -> int:
    with pool.transaction() as connection:
        row = connection.execute("SELECT count(*) FROM hot_points").fetchone()
    assert row is not None
    return int(row[0])


def dying(work: Callable[..., Any], mortal: str) -> Callable[..., Any]:
    """The same function; the server is killed right before it."""

    def killed(*arguments: Any, **options: Any) -> Any:
        kill_backends(mortal)
        return work(*arguments, **options)

    return killed


def test_a_server_killed_while_points_are_copied_leaves_the_hot_tier_as_it_was(
    pool: BenchmarkPool, mortal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate_day(pool, DAY, now=LATER)
    anonymize_day(pool, DAY)
    find_violations(pool, DAY)
    with monkeypatch.context() as patched:
        killer = dying(binary_copy.binary_rows, mortal)  # within COPY, before its first row
        patched.setattr(hot_store, "binary_rows", killer)
        with pytest.raises(DatabaseError, match="PostgreSQL cannot be used"):
            place_hot(pool, DAY, now=LATER)
    wait_for(mortal)
    assert hot_points(pool) == 0
    assert (place_hot(pool, DAY, now=LATER).rows, hot_points(pool)) == (TASKS, TASKS)


def test_a_server_killed_while_a_day_is_validated_leaves_the_day_stale_and_the_next_run_whole(
    pool: BenchmarkPool, mortal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(validation, "copy_rejected", dying(validation.copy_rejected, mortal))
        with pytest.raises(DatabaseError, match="PostgreSQL cannot be used"):
            validate_day(pool, DAY, now=LATER)
    wait_for(mortal)
    assert pool_counts(pool)["lines"] == 0
    report = validate_day(pool, DAY, now=LATER)
    assert report.outcome == {"in points": 3 * TASKS, "quarantined": 1, "duplicates": 0, "waiting": 0}
    assert validate_day(pool, DAY, now=LATER) == report
