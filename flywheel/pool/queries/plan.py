"""From which tier each day's points are read: chosen in one consistent reading, each day from exactly one.

The hot tier where it holds the day, else the lake; where one of them was placed from newer logs, that one. Days that
only have aggregates are said, not left out in silence, and so are days whose points are not in their tiers yet.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.warm import WarmTable
from flywheel.records import utc_day

ONE_DAY = timedelta(days=1)
DAYS = """
SELECT coalesce(placed.day, days.day) AS day, hot, hot_revision, warm, warm_revision, cold,
    coalesce(days.revision, 0), coalesce(days.points, 0) > 0 AND days.points_removed_at IS NULL
FROM (
    SELECT day,
        coalesce(max(rows) FILTER (WHERE tier = 'hot'), 0) AS hot,
        max(revision) FILTER (WHERE tier = 'hot') AS hot_revision,
        coalesce(max(rows) FILTER (WHERE tier = 'warm'), 0) AS warm,
        max(revision) FILTER (WHERE tier = 'warm') AS warm_revision,
        coalesce(max(rows) FILTER (WHERE tier = 'cold'), 0) AS cold
    FROM tier_days GROUP BY day
) AS placed
FULL JOIN days ON days.day = placed.day
WHERE coalesce(placed.day, days.day) <= %s
ORDER BY day
"""


class DayRange(Struct, frozen=True):
    """Consecutive UTC days, both ends included."""

    first: date
    last: date


class Coverage(Struct, frozen=True, kw_only=True):
    """Which days of the asked range are read from where, and which cannot be.

    ``aggregates_only`` days are too old for single points. ``unplaced`` days have points that no tier holds yet, and
    ``out_of_date`` ones are answered as they were before their last logs: their run is due, under way or failed.
    """

    hot: tuple[DayRange, ...] = ()
    warm: tuple[DayRange, ...] = ()
    aggregates_only: tuple[DayRange, ...] = ()
    unplaced: tuple[DayRange, ...] = ()
    out_of_date: tuple[DayRange, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """The days by where their points are read. Days before the range are among them: clocks of arbiters differ."""

    hot: tuple[date, ...]
    warm: tuple[date, ...]
    aggregates_only: tuple[date, ...]
    unplaced: tuple[date, ...]
    out_of_date: frozenset[date]
    coverage: Coverage
    warm_table: WarmTable | None


@contextmanager
def snapshot(pool: BenchmarkPool) -> "Iterator[Connection[Any]]":
    """A transaction that only reads, and sees one moment of PostgreSQL throughout.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection


def planned(pool: BenchmarkPool, connection: "Connection[Any]", where: PointFilter) -> Plan:
    """Choose a tier for each day. The lake is opened after the ledger was read: a day that has left one tier by the
    ledger is in the next.

    Raises:
        PoolError: the lake cannot be read.
    """
    first = utc_day(where.since) if where.since else date.min
    last = last_day(where.until)
    hot: list[date] = []
    warm: list[date] = []
    cold: list[date] = []
    unplaced: list[date] = []
    late: list[date] = []
    with pool.as_service(connection):
        rows = connection.execute(DAYS, (last,)).fetchall()
    for day, hot_rows, hot_of, warm_rows, warm_of, cold_rows, revision, has_points in rows:
        made_from = max(hot_of if hot_rows else -1, warm_of if warm_rows else -1)
        if made_from < 0:
            (cold if cold_rows else unplaced if has_points else []).append(day)
            continue
        (hot if hot_rows and hot_of == made_from else warm).append(day)
        if made_from < revision:
            late.append(day)
    table = WarmTable.open(pool.lake) if warm else None
    present = table.days if table else frozenset()
    gone = [day for day in warm if day not in present]  # retention emptied them since the ledger was read
    warm = [day for day in warm if day in present]
    cold = sorted([*cold, *gone])

    def within(days: Iterable[date]) -> tuple[DayRange, ...]:
        return ranges(day for day in days if day >= first)

    return Plan(
        hot=tuple(hot),
        warm=tuple(warm),
        aggregates_only=tuple(cold),
        unplaced=tuple(unplaced),
        out_of_date=frozenset(late),
        coverage=Coverage(
            hot=within(hot),
            warm=within(warm),
            aggregates_only=within(cold),
            unplaced=within(unplaced),
            out_of_date=within(late),
        ),
        warm_table=table,
    )


def last_day(until: datetime | None) -> date:
    """The last UTC day with a moment before ``until``. A point's partition is never later than its timestamp."""
    return utc_day(until - timedelta(microseconds=1)) if until else date.max


def ranges(days: Iterable[date]) -> tuple[DayRange, ...]:
    """Days in order as ranges of consecutive ones."""
    found: list[DayRange] = []
    for day in days:
        if found and day - found[-1].last == ONE_DAY:
            found[-1] = DayRange(found[-1].first, day)
        else:
            found.append(DayRange(day, day))
    return tuple(found)
