"""The pool at a glance: what became of all lines, and of each day's."""

from datetime import date, datetime
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.watermark import Completeness, Watermark, completeness, read_watermark


class DayOverview(Struct, frozen=True, kw_only=True):
    """One day in the ledger. Counts of lines, but for ``points`` and ``waiting_tasks``; see ``completeness``.

    Rows per tier are None where it was never placed.
    """

    day: date
    lines: int
    points: int
    lines_in_points: int
    quarantined: int
    duplicates: int
    waiting: int
    validated_at: datetime | None
    privacy_violations: int | None
    hot: int | None
    warm: int | None
    cold: int | None
    waiting_tasks: int
    completeness: Completeness


class DayState(Struct, frozen=True, kw_only=True):
    """How far a day is, and by which watermark; see ``flywheel.pool.watermark``. None: nobody looked for segments."""

    completeness: Completeness
    watermark: datetime | None
    watermark_held_by: str | None


def day_state(pool: BenchmarkPool, day: date) -> DayState:
    """How far a day is now; one that the ledger does not know has no lines.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        mark = read_watermark(connection)
        row = connection.execute(
            "SELECT revision > validated_revision, EXISTS (SELECT FROM waiting_tasks WHERE day = %(day)s) FROM days"
            " WHERE day = %(day)s",
            {"day": day},
        ).fetchone()
    stale, waiting = row or (False, False)
    lateness = pool.settings.joining.allowed_lateness
    return DayState(
        completeness=completeness(day, mark, allowed_lateness=lateness, stale=stale, waiting=waiting),
        watermark=None if mark is None else mark.at,
        watermark_held_by=None if mark is None else mark.held_by,
    )


def pool_counts(pool: BenchmarkPool) -> dict[str, int]:
    """What became of all lines that were validated: ``lines`` is the sum of the last four; ``points`` counts tasks.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return counts_of(connection)


def counts_of(connection: Connection[Any]) -> dict[str, int]:
    """The same within a transaction."""
    names = ("lines", "points", "lines_in_points", "quarantined", "duplicates", "waiting")
    row = connection.execute(
        "SELECT coalesce(sum(lines), 0), coalesce(sum(points), 0), coalesce(sum(lines_in_points), 0),"
        " coalesce(sum(quarantined), 0), coalesce(sum(duplicates), 0), coalesce(sum(waiting), 0) FROM days"
    ).fetchone()
    assert row is not None
    return {name: int(value) for name, value in zip(names, row, strict=True)}


def list_days(pool: BenchmarkPool) -> tuple[DayOverview, ...]:
    """Every day the pool knows, newest first.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        rows = connection.execute(DAYS).fetchall()
        with pool.as_service(connection):  # of days that are shown whole, whoever asks
            mark = read_watermark(connection)
            progress = connection.execute(PROGRESS, {"days": [row[0] for row in rows]})
            states = {day: (tasks, stale) for day, tasks, stale in progress}
    lateness = pool.settings.joining.allowed_lateness
    return tuple(
        DayOverview(
            **dict(zip(COUNTED, row, strict=True)),
            waiting_tasks=tasks,
            completeness=completeness(row[0], mark, allowed_lateness=lateness, stale=bool(stale), waiting=tasks > 0),
        )
        for row in rows
        for tasks, stale in [states.get(row[0], (0, False))]
    )


def pool_watermark(pool: BenchmarkPool) -> Watermark | None:
    """Up to when all that collectors wrote was taken in; None before anybody looked for segments.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return read_watermark(connection)


COUNTED = DayOverview.__struct_fields__[:-2]
DAYS = """
SELECT day, lines, points, lines_in_points, quarantined, duplicates, waiting, validated_at, privacy_violations,
    (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'hot'),
    (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'warm'),
    (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'cold')
FROM days ORDER BY day DESC
"""
PROGRESS = """
SELECT day, (SELECT count(*) FROM waiting_tasks WHERE waiting_tasks.day = days.day), revision > validated_revision
FROM days WHERE day = ANY(%(days)s)
"""
