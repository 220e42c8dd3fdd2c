"""The pool at a glance: what became of all lines, and of each day's."""

from datetime import date, datetime
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.pool import BenchmarkPool


class DayOverview(Struct, frozen=True, kw_only=True):
    """One day in the ledger. Counts of lines, but for ``points``; rows per tier are None where it was never placed."""

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
        rows = connection.execute(
            "SELECT day, lines, points, lines_in_points, quarantined, duplicates, waiting, validated_at,"
            " privacy_violations,"
            " (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'hot'),"
            " (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'warm'),"
            " (SELECT rows FROM tier_days WHERE tier_days.day = days.day AND tier = 'cold')"
            " FROM days ORDER BY day DESC"
        ).fetchall()
    return tuple(DayOverview(**dict(zip(DayOverview.__struct_fields__, row, strict=True))) for row in rows)
