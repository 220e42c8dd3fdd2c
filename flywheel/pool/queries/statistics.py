"""Statistics of one agent, of all, and of the pool as a whole, over all tiers, nothing counted twice.

Task types, agents, complexities and times are answered from the statistics that each day's run wrote: roll-ups of whole
days, hours at the ends. Tenants, quality, outcome and readiness are answered from single points. Days without the one
or the other are answered from the cold tier's aggregates where these know enough; all others are named.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs
from psycopg import Connection

from flywheel.pool.filters import PointFilter
from flywheel.pool.overview import counts_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.conditions import checked
from flywheel.pool.queries.frames import frame_of, table_of
from flywheel.pool.queries.plan import DayRange, last_day, planned, ranges, snapshot
from flywheel.pool.queries.sums import By, Span, Sums, add, aggregate_sums, point_sums, statistics_sums
from flywheel.pool.statistics import Tally
from flywheel.pool.tenant_salts import of_same_tenants
from flywheel.pool.watermark import Watermark, read_watermark
from flywheel.records import utc_day

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

EVERYTHING = PointFilter()
HOUR = timedelta(hours=1)
# Whether a day is counted is asked of the next counted day at or after it: by equality alone PostgreSQL expects to meet
# a row of the day soon wherever it starts, and reads the table from its start for each day.
UNSETTLED = """
SELECT found.day, next.day IS DISTINCT FROM found.day AS uncounted, late
FROM (
    SELECT coalesce(days.day, tiers.day) AS day, coalesce(revision > statistics_revision, false) AS late
    FROM (SELECT day, revision, statistics_revision FROM days WHERE points > 0 AND points_removed_at IS NULL) AS days
    FULL JOIN (SELECT DISTINCT day FROM tier_days WHERE rows > 0) AS tiers USING (day)
) AS found
LEFT JOIN LATERAL (
    SELECT day FROM daily_statistics WHERE daily_statistics.day >= found.day ORDER BY daily_statistics.day LIMIT 1
) AS next ON true
WHERE found.day BETWEEN %s AND %s AND (late OR next.day IS DISTINCT FROM found.day)
ORDER BY found.day
"""
BATCHES = """
SELECT count(*) FROM batches
WHERE first_at >= coalesce(%s::timestamptz, '-infinity') AND last_at < coalesce(%s::timestamptz, 'infinity')
"""


class Figures(Struct, frozen=True, kw_only=True):
    """What is known of some tasks. Rates and means are None where there are none; rates and quality are 0–1."""

    tasks: int
    successes: int
    success_rate: float | None
    mean_quality: float | None
    mean_latency_ms: float | None
    tokens: int


class StatisticsCoverage(Struct, frozen=True, kw_only=True):
    """What an answer covers: from ``since`` to before ``until``, None where it has no end.

    Days are answered from statistics of whole hours, or else ``from_points`` or ``from_aggregates``. ``left_out`` days
    cannot be answered as asked, ``unplaced`` ones have points that are neither counted nor placed yet, and those
    ``out_of_date`` are answered as they were before their last logs. All that collectors wrote before ``watermark``
    has been taken in; None where nobody looked.
    """

    since: datetime | None = None
    until: datetime | None = None
    watermark: datetime | None = None
    from_points: tuple[DayRange, ...] = ()
    from_aggregates: tuple[DayRange, ...] = ()
    left_out: tuple[DayRange, ...] = ()
    unplaced: tuple[DayRange, ...] = ()
    out_of_date: tuple[DayRange, ...] = ()


class AgentAnswer(Figures, frozen=True, kw_only=True):
    """The figures of an agent: over all that was asked, and per task type."""

    agent_id: str
    by_task_type: dict[str, Figures]
    coverage: StatisticsCoverage

    def table(self) -> "pa.Table":
        """The figures per task type as Arrow, a row each; its schema's metadata holds the coverage."""
        return table_of("task_type", self.by_task_type, Figures, self.coverage)

    def frame(self) -> "pd.DataFrame":
        """The same as a pandas frame; ``attrs["coverage"]`` says what it covers."""
        return frame_of(self.table())


class SystemAnswer(Struct, frozen=True, kw_only=True):
    """The figures of all agents: over all that was asked, and by one property."""

    by: By
    total: Figures
    groups: dict[str, Figures]
    coverage: StatisticsCoverage

    def table(self) -> "pa.Table":
        """The figures of the groups as Arrow, a row each; its schema's metadata holds the coverage."""
        return table_of(self.by, self.groups, Figures, self.coverage)

    def frame(self) -> "pd.DataFrame":
        """The same as a pandas frame; ``attrs["coverage"]`` says what it covers."""
        return frame_of(self.table())


class TierTotals(Struct, frozen=True, kw_only=True):
    """What a tier holds by the ledger; the cold one's rows are aggregates."""

    days: int
    rows: int
    first_day: date | None
    last_day: date | None


class PoolStatistics(Struct, frozen=True, kw_only=True):
    """The pool as a whole: what became of all lines, what each tier holds, and who did how well.

    ``counts`` are of lines, but for ``points``. ``watermark`` is None before anybody looked for segments.
    """

    watermark: Watermark | None
    counts: dict[str, int]
    first_day: date | None
    last_day: date | None
    tiers: dict[str, TierTotals]
    agents: int
    batches: int
    total: Figures
    by_task_type: dict[str, Figures]
    coverage: StatisticsCoverage


def get_agent_statistics(pool: BenchmarkPool, agent_id: str, where: PointFilter = EVERYTHING) -> AgentAnswer:
    """What is known of an agent, filtered by anything but agents.

    Raises:
        QueryError: the filter cannot be asked.
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    with snapshot(pool) as connection:
        sums, coverage = counted(pool, connection, checked(structs.replace(where, agents=(agent_id,))), by="task_type")
    return AgentAnswer(agent_id=agent_id, by_task_type=grouped(sums), coverage=coverage, **fields_of(total_of(sums)))


def get_system_statistics(pool: BenchmarkPool, by: By = "task_type", where: PointFilter = EVERYTHING) -> SystemAnswer:
    """What is known of all agents, by task type, agent, complexity or UTC day.

    Raises:
        QueryError: the filter cannot be asked.
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    with snapshot(pool) as connection:
        sums, coverage = counted(pool, connection, checked(where), by=by)
    return SystemAnswer(by=by, total=figures_of(total_of(sums)), groups=grouped(sums), coverage=coverage)


def get_statistics(pool: BenchmarkPool, where: PointFilter = EVERYTHING) -> PoolStatistics:
    """The pool as a whole, at one moment. Of the filter only the times count; a principal is shown its own days.

    Raises:
        PoolError: the lake cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    with snapshot(pool) as connection:
        times = PointFilter(since=where.since, until=where.until)
        sums, coverage = counted(pool, connection, checked(times), by="task_type")
        row = connection.execute(
            "SELECT min(day), max(day), (SELECT count(DISTINCT agent_id) FROM daily_statistics) FROM days"
            " WHERE points > 0"
        ).fetchone()
        assert row is not None
        with pool.as_service(connection):
            mark = read_watermark(connection)
            batches = connection.execute(BATCHES, (where.since, where.until)).fetchone()
        assert batches is not None
        tiers = {
            tier: TierTotals(days=days, rows=int(rows), first_day=first, last_day=last)
            for tier, days, rows, first, last in connection.execute(
                "SELECT tier, count(*), sum(rows), min(day), max(day) FROM tier_days WHERE rows > 0 GROUP BY tier"
            )
        }
        counts = counts_of(connection)
    nothing = TierTotals(days=0, rows=0, first_day=None, last_day=None)
    first_day, newest_day, agents = row
    return PoolStatistics(
        watermark=mark,
        counts=counts,
        first_day=first_day,
        last_day=newest_day,
        tiers={tier: tiers.get(tier, nothing) for tier in ("hot", "warm", "cold")},
        agents=agents,
        batches=batches[0],
        total=figures_of(total_of(sums)),
        by_task_type=grouped(sums),
        coverage=coverage,
    )


def counted(
    pool: BenchmarkPool, connection: "Connection[Any]", where: PointFilter, *, by: By
) -> tuple[Sums, StatisticsCoverage]:
    """Sums by a property, and what they cover."""
    if where.tenants or judges_points(where):
        sums, coverage = counted_by_points(pool, connection, of_same_tenants(pool, connection, where), by=by)
    else:
        hours = structs.replace(where, since=next_hour(where.since), until=next_hour(where.until))
        sums, coverage = counted_by_statistics(pool, connection, hours, by=by)
    with pool.as_service(connection):
        mark = read_watermark(connection)
    return sums, structs.replace(coverage, watermark=None if mark is None else mark.at)


def counted_by_statistics(
    pool: BenchmarkPool, connection: "Connection[Any]", where: PointFilter, *, by: By
) -> tuple[Sums, StatisticsCoverage]:
    """From statistics, and what they lack from points and aggregates. The filter's times are whole hours."""
    span = Span(where.since, where.until)
    first = utc_day(where.since) if where.since else date.min
    with pool.as_service(connection):
        unsettled = connection.execute(UNSETTLED, (first, last_day(where.until))).fetchall()
    uncounted = frozenset(day for day, is_uncounted, _ in unsettled if is_uncounted)
    coverage = StatisticsCoverage(
        since=where.since,
        until=where.until,
        out_of_date=ranges(day for day, is_uncounted, late in unsettled if late and not is_uncounted),
    )
    # Hours are not kept by complexity: the ends of the span come from single points.
    edges = span.edges() if by == "complexity" or where.complexities else []
    sums = statistics_sums(connection, where, span, by=by, whole_days_only=bool(edges))
    if not uncounted and not edges:
        return sums, coverage
    plan = planned(pool, connection, where)
    with_points = frozenset((*plan.hot, *plan.warm))
    add(sums, point_sums(pool, connection, plan, where, span, by=by, days=with_points & uncounted))
    for edge in edges:
        add(sums, point_sums(pool, connection, plan, where, edge, by=by, days=with_points - uncounted))

    def lacking(days: Iterable[date]) -> list[date]:
        at_edges = {day for day in days if any(edge.touches(day) for edge in edges)}
        return sorted(at_edges | {day for day in days if day in uncounted and span.touches(day)})

    old = lacking(plan.aggregates_only)
    known = [day for day in old if span.holds(day) and knows_aggregates(where, by=by)]
    add(sums, aggregate_sums(pool, where, by=by, days=known))
    return sums, structs.replace(
        coverage,
        from_points=ranges(lacking(with_points)),
        from_aggregates=ranges(known),
        left_out=ranges(day for day in old if day not in known),
        unplaced=ranges(lacking(plan.unplaced)),
    )


def counted_by_points(
    pool: BenchmarkPool, connection: "Connection[Any]", where: PointFilter, *, by: By
) -> tuple[Sums, StatisticsCoverage]:
    """From single points, and from aggregates of days that have none any more."""
    span = Span(where.since, where.until)
    plan = planned(pool, connection, where)
    days = frozenset((*plan.hot, *plan.warm))
    sums = point_sums(pool, connection, plan, where, span, by=by, days=days)
    old = [day for day in plan.aggregates_only if span.touches(day)]
    known = [day for day in old if span.holds(day) and knows_aggregates(where, by=by)]
    add(sums, aggregate_sums(pool, where, by=by, days=known))
    return sums, StatisticsCoverage(
        since=where.since,
        until=where.until,
        from_points=ranges(sorted(day for day in days if span.touches(day))),
        from_aggregates=ranges(known),
        left_out=ranges(day for day in old if day not in known),
        unplaced=plan.coverage.unplaced,
        out_of_date=plan.coverage.out_of_date,
    )


def judges_points(where: PointFilter) -> bool:
    """Whether the filter asks what only a single point can answer."""
    return any(value is not None for value in (where.min_quality, where.success, where.rl_ready))


def knows_aggregates(where: PointFilter, *, by: By) -> bool:
    """Whether aggregates per agent, task type and tenant can answer it."""
    return by != "complexity" and not where.complexities and not judges_points(where)


def next_hour(instant: datetime | None) -> datetime | None:
    """The first full hour at or after a moment."""
    if instant is None:
        return None
    hour = instant.replace(minute=0, second=0, microsecond=0)
    return hour if hour == instant else hour + HOUR


def grouped(sums: Sums) -> dict[str, Figures]:
    """Figures by name, sorted."""
    return {name: figures_of(sums[name]) for name in sorted(sums)}


def total_of(sums: Sums) -> Tally:
    """All of them together."""
    total = Tally()
    for tally in sums.values():
        total.merge(tally)
    return total


def figures_of(tally: Tally) -> Figures:
    """Rates and means of sums."""
    return Figures(**fields_of(tally))


def fields_of(tally: Tally) -> dict[str, Any]:
    """The fields of ``Figures``."""
    tasks = tally.tasks
    return {
        "tasks": tasks,
        "successes": tally.successes,
        "success_rate": tally.successes / tasks if tasks else None,
        "mean_quality": tally.quality_sum / tasks if tasks else None,
        "mean_latency_ms": tally.mean_latency_ms,
        "tokens": tally.tokens_sum,
    }
