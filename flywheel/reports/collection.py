"""The report on collection (SPEC section 11): how much came, of whom, how good it is, how fast, how the pool grows."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import date, timedelta
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.arbiter.registry import AgentRegistry
from flywheel.errors import NotInPoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.quality import QualityReport, validate_quality
from flywheel.pool.statistics import Tally
from flywheel.pool.validation import fraction
from flywheel.reports.tallies import Cell, Key, grouped, read_tallies

INTAKE = """
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds)
FROM (
    SELECT extract(epoch FROM indexed_at - written_at)::double precision AS seconds FROM segments
    WHERE (written_at AT TIME ZONE 'UTC')::date BETWEEN %s AND %s
) AS taken
"""
READINGS = """
SELECT day, (SELECT sum(value::double precision) FROM jsonb_each_text(reading->'tier_bytes'))
FROM lake_readings WHERE day BETWEEN %s AND %s ORDER BY day
"""


class Coverage(Struct, frozen=True, kw_only=True):
    """Which of those that could have points have some. ``fraction`` is 0–1, and 1 where there is nothing to cover."""

    fraction: float
    present: tuple[str, ...]
    absent: tuple[str, ...]


class Intake(Struct, frozen=True, kw_only=True):
    """How long segments waited, from their last write until their lines were in the ledger. None where none came."""

    segments: int
    median_s: float | None
    p95_s: float | None


class CollectionReport(Struct, frozen=True, kw_only=True):
    """Collection over the UTC days from ``first`` to ``last``, both included. Counts are of points.

    ``quality`` has the shares of valid lines and points, violations and what failed the schema, against the targets;
    None where no day was validated. ``megabytes_per_day`` (10^6 bytes of all tiers) is between the first and the last
    day on which they were read; None where that is one day or none.
    """

    first: date
    last: date
    points: int
    points_per_day: float
    by_day: dict[date, int]
    by_agent: dict[str, int]
    by_task_type: dict[str, int]
    by_complexity: dict[str, int]
    agents: Coverage
    task_types: Coverage
    quality: QualityReport | None
    intake: Intake
    megabytes_per_day: float | None


def report_collection(pool: BenchmarkPool, first: date, last: date) -> CollectionReport:
    """Report on collection.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        tallies = read_tallies(connection, first, last)
        intake = intake_of(connection, first, last)
        growth = growth_of(connection, first, last)
    by_agent = counted(tallies, lambda cell: cell.agent_id)
    by_task_type = counted(tallies, lambda cell: cell.task_type)
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    by_day = dict.fromkeys(days, 0) | counted(tallies, lambda cell: cell.date)
    points = sum(by_day.values())
    active = [profile.id for profile in AgentRegistry(pool.engine).list(status="active")]
    return CollectionReport(
        first=first,
        last=last,
        points=points,
        points_per_day=points / len(days),
        by_day=by_day,
        by_agent=by_agent,
        by_task_type=by_task_type,
        by_complexity=counted(tallies, lambda cell: cell.complexity),
        agents=coverage_of(active, by_agent),
        task_types=coverage_of(pool.settings.task_types, by_task_type),
        quality=quality_of(pool, first, last),
        intake=intake,
        megabytes_per_day=growth,
    )


def counted(tallies: Mapping[Cell, Tally], by: Callable[[Cell], Key]) -> dict[Key, int]:
    """Tasks by a property, the most frequent first."""
    return dict(Counter({key: one.tasks for key, one in grouped(tallies, by).items()}).most_common())


def coverage_of(expected: Collection[str], counts: Mapping[str, int]) -> Coverage:
    """Which of those expected were counted."""
    present = tuple(sorted(name for name in expected if name in counts))
    absent = tuple(sorted(name for name in expected if name not in counts))
    return Coverage(fraction=fraction(len(present), len(expected)), present=present, absent=absent)


def quality_of(pool: BenchmarkPool, first: date, last: date) -> QualityReport | None:
    """The quality of the days, if any was validated."""
    try:
        return validate_quality(pool, first, last)
    except NotInPoolError:
        return None


def intake_of(connection: Connection[Any], first: date, last: date) -> Intake:
    """How long the segments waited that were written on these days."""
    row = connection.execute(INTAKE, (first, last)).fetchone()
    assert row is not None
    segments, median_s, p95_s = row
    return Intake(segments=segments, median_s=median_s, p95_s=p95_s)


def growth_of(connection: Connection[Any], first: date, last: date) -> float | None:
    """Megabytes that all tiers grew by a day, between the first and the last reading."""
    readings = connection.execute(READINGS, (first, last)).fetchall()
    if len(readings) < 2:
        return None
    (since, before), (until, after) = readings[0], readings[-1]
    days: int = (until - since).days
    return float(after - before) / 1e6 / days
