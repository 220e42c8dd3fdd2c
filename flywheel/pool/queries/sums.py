"""Sums over tasks by one of their properties, from each of the pool's sources: statistics, points, aggregates."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace
from psycopg import Connection, sql

from flywheel.pool.filters import PointFilter
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.queries.conditions import Comparison, arrow_of, conditions, sql_of
from flywheel.pool.queries.moved import Moved
from flywheel.pool.queries.plan import ONE_DAY, Plan
from flywheel.pool.rows import arrow_schema
from flywheel.pool.schemas import COLD, POINT_COLUMNS
from flywheel.pool.statistics import Tally

if TYPE_CHECKING:
    import pyarrow as pa

By = Literal["task_type", "agent", "complexity", "day"]
Sums = dict[str, Tally]
"""Tallies by the value of a property."""
PROPERTIES = {"task_type": "task_type", "agent": "agent_id", "complexity": "complexity"}
MEASURED = ("success", "overall_score", "latency_ms", "tokens_used")


class Span:
    """A range of time: ``since`` included, ``until`` not. Without them it is all that can be in the pool."""

    def __init__(self, since: datetime | None, until: datetime | None) -> None:
        self.since = since or datetime(1, 1, 1, tzinfo=UTC)
        self.until = max(self.since, until or datetime(9999, 12, 31, tzinfo=UTC))

    def holds(self, day: date) -> bool:
        """Whether the whole UTC day is within."""
        return self.since <= midnight(day) and midnight(day + ONE_DAY) <= self.until

    def touches(self, day: date) -> bool:
        """Whether some of the UTC day is within."""
        return max(midnight(day), self.since) < min(midnight(day + ONE_DAY), self.until)

    def whole_days(self) -> tuple[date, date]:
        """The first whole day within and the day after the last; none are if they are in the wrong order."""
        first = self.since.astimezone(UTC).date()
        if midnight(first) < self.since:
            first += ONE_DAY
        return first, self.until.astimezone(UTC).date()

    def edges(self) -> "list[Span]":
        """What is left of it before and after its whole days."""
        first, end = self.whole_days()
        if first >= end:
            return [self] if self.since < self.until else []
        parts = [Span(self.since, midnight(first)), Span(midnight(end), self.until)]
        return [part for part in parts if part.since < part.until]


def midnight(day: date) -> datetime:
    """The first moment of a UTC day."""
    return datetime.combine(day, time(), tzinfo=UTC)


def add(total: Sums, part: Sums) -> None:
    """Count the part's tasks too."""
    for name, tally in part.items():
        total.setdefault(name, Tally()).merge(tally)


def statistics_sums(
    connection: "Connection[Any]", where: PointFilter, span: Span, *, by: By, whole_days_only: bool
) -> Sums:
    """From the roll-ups of whole days and, at the ends of the span, from the hours, which know no complexity.

    Args:
        connection: one consistent view.
        where: task types, agents and complexities.
        span: of whole hours.
        by: the property.
        whole_days_only: leave the ends out.
    """
    found = list(conditions(replace(where, since=None, until=None)))
    values = [value for _, _, value in found]
    first, end = span.whole_days()
    edges = [] if whole_days_only else span.edges()
    tables = ("daily_statistics",) * (first < end) + ("agent_statistics",) * len(edges)
    if not tables:
        return {}
    bounds = [(first, end)] * (first < end) + [(edge.since, edge.until) for edge in edges]
    statement = statement_of(tables, by, tuple((column, comparison) for column, comparison, _ in found))
    totals: Sums = {}
    for name, *sums in connection.execute(statement, [value for pair in bounds for value in (*pair, *values)]):
        add(totals, {str(name): tally_of(sums)})
    return totals


@cache
def statement_of(tables: tuple[str, ...], by: By, asked: tuple[tuple[str, Comparison], ...]) -> bytes:
    """Sums of tables of statistics, each between two bounds of its own and under conditions on these columns."""
    condition, _ = sql_of((column, comparison, None) for column, comparison in asked)
    sums = sql.SQL(", ").join(map(summed, Tally.__struct_fields__))
    parts = []
    for table in tables:
        time, day = ("date", "date") if table == "daily_statistics" else ("hour", "(hour AT TIME ZONE 'UTC')::date")
        name = sql.SQL(day) if by == "day" else sql.Identifier(PROPERTIES[by])
        parts.append(
            sql.SQL("SELECT {0}, {1} FROM {2} WHERE {3} >= %s AND {3} < %s AND {4} GROUP BY 1").format(
                name, sums, sql.Identifier(table), sql.Identifier(time), condition
            )
        )
    return sql.SQL(" UNION ALL ").join(parts).as_bytes()


def summed(column: str) -> sql.Composable:
    """The sum of a column of statistics. Rows of earlier versions do not say how many tasks have a latency: all."""
    values = sql.SQL("coalesce(timed_tasks, tasks)") if column == "timed_tasks" else sql.Identifier(column)
    return sql.SQL("sum({})").format(values)


def tally_of(sums: Sequence[Any]) -> Tally:
    """A tally of columns as PostgreSQL sums them."""
    tasks, successes, quality_sum, latency_ms_sum, tokens_sum, timed_tasks = sums
    return Tally(
        int(tasks),
        int(successes),
        float(quality_sum),
        float(latency_ms_sum or 0),
        int(tokens_sum or 0),
        int(timed_tasks),
    )


def point_sums(
    pool: BenchmarkPool,
    connection: "Connection[Any]",
    plan: Plan,
    where: PointFilter,
    span: Span,
    *,
    by: By,
    days: frozenset[date],
) -> Sums:
    """From single points of these days, in whichever tier the plan reads them.

    Raises:
        PoolError: the lake cannot be read.
    """
    found = list(conditions(replace(where, since=span.since, until=span.until)))
    totals = hot_sums(connection, [day for day in plan.hot if day in days], found, by=by)
    warm = [day for day in plan.warm if day in days]
    if plan.warm_table is not None and warm:
        moved = Moved(pool, connection, plan)
        columns = ("id", "timestamp", *MEASURED, *(() if by == "day" else (PROPERTIES[by],)))
        schema = arrow_schema({name: POINT_COLUMNS[name] for name in columns})
        for batch in plan.warm_table.read(warm, schema=schema, condition=arrow_of(found)):
            add(totals, batch_sums(moved.passing(batch), by=by))
    return totals


def hot_sums(connection: "Connection[Any]", days: list[date], found: list[Any], *, by: By) -> Sums:
    """From the hot tier."""
    if not days:
        return {}
    condition, values = sql_of(found)
    name = sql.SQL("(timestamp AT TIME ZONE 'UTC')::date") if by == "day" else sql.Identifier(PROPERTIES[by])
    rows = connection.execute(
        sql.SQL(
            "SELECT {}, count(*), count(*) FILTER (WHERE success), sum(overall_score), sum(latency_ms),"
            " sum(tokens_used), count(latency_ms) FROM hot_points WHERE day = ANY(%s) AND {} GROUP BY 1"
        ).format(name, condition),
        [days, *values],
    )
    return {str(value): tally_of(sums) for value, *sums in rows}


def batch_sums(batch: "pa.RecordBatch", *, by: By) -> Sums:
    """Of a record batch of points."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(batch):
        return {}
    name = pc.cast(batch.column("timestamp"), pa.date32()) if by == "day" else batch.column(PROPERTIES[by])
    table = pa.table({"name": name, **{column: batch.column(column) for column in MEASURED}})
    rows = table.group_by("name").aggregate(
        [([], "count_all"), *((column, "sum") for column in MEASURED), ("latency_ms", "count")]
    )
    return {
        str(row["name"]): tally_of(
            [row["count_all"], *(row[f"{column}_sum"] for column in MEASURED), row["latency_ms_count"]]
        )
        for row in rows.to_pylist()
    }


def aggregate_sums(pool: BenchmarkPool, where: PointFilter, *, by: By, days: Sequence[date]) -> Sums:
    """From the cold tier's aggregates of whole days. The filter is of task types, agents and tenants.

    Raises:
        PoolError: the lake cannot be read.
    """
    wanted = {"task_type": where.task_types, "agent_id": where.agents, "tenant_id": where.tenants}
    name = "day" if by == "day" else PROPERTIES[by]
    totals: Sums = defaultdict(Tally)
    columns = ("day", *wanted, "tasks", "successes", "mean_quality", "mean_latency_ms", "tokens")
    for batch in pool.lake.read(COLD, columns=columns, partitions=[str(day) for day in days]):
        for row in batch.to_pylist():
            if all(not values or row[column] in values for column, values in wanted.items()):
                tasks, latency_ms = row["tasks"], row["mean_latency_ms"]
                timed = 0 if latency_ms is None else tasks  # how many of them had a latency is not kept this long
                sums = (tasks, row["successes"], row["mean_quality"] * tasks, (latency_ms or 0) * tasks)
                totals[str(row[name])].merge(tally_of([*sums, row["tokens"], timed]))
    return dict(totals)
