"""The schema of PostgreSQL: up and down, and what an older version wrote is read by this one."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from flywheel.database import connect, downgrade, metadata, upgrade
from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.points import PointQuery
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS, VALIDATED, check_rows
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import place_hot, place_warm
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
NEXT_DAY = DAY + timedelta(days=1)
UNTOOLED: dict[str, Any] = {"toolCallCount": 0, "toolsUsed": []}
ADDED = ("warnings", "waived", "tool_calls")


@pytest.fixture
def old_revision(database_url: str) -> str:
    """The URL of a database as the first release left it."""
    downgrade(database_url, "0002_arbiter")
    return database_url


def test_the_migrations_make_what_the_tables_say(database_url: str) -> None:
    import flywheel.arbiter.audit_trail.tables
    import flywheel.arbiter.evaluation.judges.tables
    import flywheel.arbiter.tables
    import flywheel.collection.receiver.tables
    import flywheel.pool.access.tables
    import flywheel.pool.tables  # noqa: F401 - each registers its tables

    engine = connect(database_url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_every_step_goes_down_and_up_again(database_url: str) -> None:
    downgrade(database_url, "base")
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("alembic_version",)]
    upgrade(database_url)
    upgrade(database_url)


def test_rows_of_an_older_version_are_read(old_revision: str) -> None:
    with psycopg.connect(old_revision) as connection:
        connection.execute(
            "INSERT INTO hot_points (id, day, timestamp, tenant_id, task_id, task_type, complexity, agent_id, success,"
            " overall_score, total_reward, latency_ms, tokens_used, rl_ready, payload)"
            " VALUES ('p', %s, %s, 't', 't1', 'tool-calling', 'standard', 'a', true, 1, 1, 1, 1, true, '{}')",
            (DAY, NOON),
        )
        connection.execute(
            "INSERT INTO quarantine (id, day, task_id, gates, reasons, line) VALUES ('q', %s, 't1', %s, %s, %s)",
            (DAY, ["time"], ["late"], b"{}"),
        )
    upgrade(old_revision)
    with psycopg.connect(old_revision) as connection:
        assert connection.execute("SELECT warnings, waived, tool_calls FROM hot_points").fetchall() == [([], [], None)]
        assert connection.execute("SELECT gates, owner_key FROM quarantine").fetchall() == [(["time"], None)]


def test_hours_of_an_older_version_are_rolled_up_by_day_with_an_unknown_complexity(database_url: str) -> None:
    downgrade(database_url, "0007_erasures")
    with psycopg.connect(database_url) as connection:
        for hour, tasks in ((NOON, 3), (NOON + timedelta(hours=1), 4), (NOON + timedelta(days=1), 5)):
            connection.execute(
                "INSERT INTO agent_statistics VALUES (%s, 'a', 'research', %s, %s, 2, 1.5, 100, 10)", (hour, DAY, tasks)
            )
    upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT agent_id, date, task_type, complexity, day, tasks, successes, quality_sum, latency_ms_sum,"
            " tokens_sum FROM daily_statistics ORDER BY date"
        ).fetchall()
    assert rows == [
        ("a", DAY, "research", "unknown", DAY, 7, 4, 3.0, 200.0, 20),
        ("a", NEXT_DAY, "research", "unknown", DAY, 5, 2, 1.5, 100.0, 10),
    ]


def test_a_clean_day_of_an_older_version_counts_as_checked_as_it_was_placed(database_url: str) -> None:
    downgrade(database_url, "0011_hot_payload")
    days = [DAY + timedelta(days=number) for number in range(5)]
    violations = [0, 0, 2, None, 0]
    placed = {  # tier, revision, rows, digest
        days[0]: [("warm", 1, 2, "w"), ("cold", 1, 1, "c")],
        days[1]: [("warm", 1, 0, "w"), ("cold", 1, 1, "c")],
        days[2]: [("warm", 1, 2, "w")],
        days[3]: [("warm", 1, 2, "w")],
        days[4]: [("warm", 0, 2, "w")],
    }
    with psycopg.connect(database_url) as connection:
        for day, found in zip(days, violations, strict=True):
            connection.execute(
                "INSERT INTO days (day, revision, changed_at, anonymized_revision, privacy_violations)"
                " VALUES (%s, 1, %s, 1, %s)",
                (day, NOON, found),
            )
            for tier, revision, rows, digest in placed[day]:
                connection.execute(
                    "INSERT INTO tier_days VALUES (%s, %s, %s, %s, %s, %s)", (tier, day, revision, rows, digest, NOON)
                )
    upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        digests = connection.execute("SELECT verified_digest FROM days ORDER BY day").fetchall()
    assert digests == [("w",), ("c",), (None,), (None,), (None,)]


def test_days_of_an_older_version_with_lines_that_wait_run_once_more_where_their_logs_are_there(
    database_url: str,
) -> None:
    downgrade(database_url, "0014_tenant_salts")
    days = [DAY + timedelta(days=number) for number in range(3)]
    with psycopg.connect(database_url) as connection:
        for day, waiting, kept in zip(days, (2, 0, 2), (True, True, False), strict=True):
            connection.execute(
                "INSERT INTO days (day, revision, changed_at, validated_revision, waiting) VALUES (%s, 3, %s, 3, %s)",
                (day, NOON, waiting),
            )
            if kept:  # else retention removed them
                connection.execute(
                    "INSERT INTO tasks (task_key, tenant_key, first_at, routed, day, segments)"
                    " VALUES (%s, '', %s, true, %s, '{}')",
                    (str(day).encode(), NOON, day),
                )
    upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        revisions = connection.execute("SELECT revision FROM days ORDER BY day").fetchall()
    assert revisions == [(4,), (3,), (3,)]


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened


def tool_tasks(pool: BenchmarkPool) -> int:
    with pool.transaction() as connection:
        row = connection.execute("SELECT sum(tool_tasks) FROM agent_statistics WHERE day = %s", (DAY,)).fetchone()
    assert row is not None
    return int(row[0])


def test_partitions_of_an_older_version_are_read_checked_and_placed_beside_new_ones(pool: BenchmarkPool) -> None:
    """Nothing is rewritten: lists that a partition lacks are empty, its tool calls null and counted all the same."""
    old = {name: POINT_COLUMNS[name] for name in POINT_COLUMNS if name not in ADDED}
    logs = [*task_logs("t1"), *task_logs("idle", **UNTOOLED), *task_logs("t2", at=NOON + timedelta(days=1))]
    write_segment(pool.settings, "a", logs, written_at=NOON + timedelta(days=2))
    index_segments(pool, now=NOON + timedelta(days=2))
    validate_day(pool, DAY, now=NOON + timedelta(days=2))
    anonymize_day(pool, DAY)
    counted = refresh_statistics(pool, DAY)
    written = {table: list(read_rows(pool, table, DAY)) for table in (VALIDATED, ANONYMIZED)}
    for table, rows in written.items():
        older = [{name: row[name] for name in old} for row in rows]
        (pool.settings.home / "lake" / table).rename(pool.settings.home / "lake" / f"{table}.replaced")
        pool.replace(table, DAY, older, schema=arrow_schema(old))
    assert {row["tool_calls"] for row in written[VALIDATED]} == {0, 1}
    unknown = [row | {"tool_calls": None} for row in written[VALIDATED]]
    assert list(read_rows(pool, VALIDATED, DAY)) == unknown

    validate_day(pool, NEXT_DAY, now=NOON + timedelta(days=2))
    assert list(read_rows(pool, VALIDATED, DAY)) == unknown
    assert check_rows(pool, DAY).passed
    find_violations(pool, DAY)
    for place in (place_hot, place_warm):
        assert place(pool, DAY, now=NOON + timedelta(days=2)).rows == 2
    assert refresh_statistics(pool, DAY) == counted
    assert tool_tasks(pool) == 1
    with pool.transaction() as connection:
        assert connection.execute("SELECT tool_calls FROM hot_points").fetchall() == [(None,), (None,)]
    assert {row["tool_calls"] for row in pool.get_points(PointQuery(columns=("tool_calls",))).table().to_pylist()} == {
        None
    }
    assert len(list(read_rows(pool, VALIDATED, NEXT_DAY))) == 1
