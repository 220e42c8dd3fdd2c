"""Statistics of agents, per task type and hour, for routing, reports and the points' historical performance."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from flywheel.pool.histograms import histogram
from flywheel.pool.intake import points_removed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_batches
from flywheel.pool.schemas import ANONYMIZED

if TYPE_CHECKING:
    import pyarrow as pa

MEASURED_COLUMNS = (
    "timestamp",
    "agent_id",
    "task_type",
    "complexity",
    "success",
    "overall_score",
    "latency_ms",
    "tokens_used",
    "total_reward",
)
# In a point's own JSON an unescaped key of this name is the execution's: within a text its quotes would be escaped.
TOOL_CALLED = r'"toolCallCount":[1-9]'


class Tally(Struct):
    """Sums over tasks."""

    tasks: int = 0
    successes: int = 0
    quality_sum: float = 0.0
    latency_ms_sum: float = 0.0
    tokens_sum: int = 0
    timed_tasks: int = 0

    def add(self, success: bool, score: float, latency_ms: float | None, tokens: int | None) -> None:
        """Count one more task. What was not measured adds nothing, and no task to a mean latency."""
        self.tasks += 1
        self.successes += success
        self.quality_sum += score
        self.latency_ms_sum += latency_ms or 0.0
        self.tokens_sum += tokens or 0
        self.timed_tasks += latency_ms is not None

    @property
    def mean_latency_ms(self) -> float | None:
        """Of the tasks that have a latency; None where none has."""
        return self.latency_ms_sum / self.timed_tasks if self.timed_tasks else None

    def merge(self, other: "Tally") -> None:
        """Count the other's tasks too, as far as they are told apart here."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class HourTally(Tally):
    """Sums over the tasks of an hour, with what alerts compare."""

    tool_tasks: int = 0
    reward_sum: float = 0.0
    reward_square_sum: float = 0.0

    def add_reward(self, reward: float, used_tools: bool) -> None:
        """What alerts compare of a task that was counted."""
        self.tool_tasks += used_tools
        self.reward_sum += reward
        self.reward_square_sum += reward**2


Measured = tuple[datetime, str, str, str]
"""What tasks are counted by: hour, agent, task type, complexity."""
Key = TypeVar("Key", bound=tuple[Any, ...])
Kind = TypeVar("Kind", bound=Tally)


class StatisticsReport(Struct, frozen=True, kw_only=True):
    """What the day's statistics hold. ``digest`` is of their rows."""

    day: date
    rows: int
    tasks: int
    successes: int
    tasks_by_agent: dict[str, int]
    digest: str


def refresh_statistics(pool: BenchmarkPool, day: date) -> StatisticsReport:
    """Count the day's points anew and replace its statistics in one transaction.

    Raises:
        PoolError: the lake cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"statistics:{day}") as connection:
        pool.share(connection, f"anonymization:{day}")
        if points_removed(connection, day):
            return report_of(connection, day)
        revision = connection.execute("SELECT anonymized_revision FROM days WHERE day = %s", (day,)).fetchone()
        tallies: dict[Measured, HourTally] = defaultdict(HourTally)
        latencies: dict[str, list[float]] = defaultdict(list)
        tokens: dict[str, list[float]] = defaultdict(list)
        points: Counter[str] = Counter()
        for *key, success, score, latency_ms, tokens_used, reward, used_tools in measured_rows(pool, day):
            hour, agent_id, task_type, complexity = key
            tally = tallies[hour, agent_id, task_type, complexity]
            tally.add(success, score, latency_ms, tokens_used)
            tally.add_reward(reward, used_tools)
            latencies[task_type] += [] if latency_ms is None else [latency_ms]
            tokens[task_type] += [] if tokens_used is None else [tokens_used]
            points[task_type] += 1
        write_tallies(connection, day, *hours_of(tallies))
        write_tallies(connection, day, *dates_of(tallies))
        write_profiles(connection, day, points, latencies, tokens)
        if revision:
            connection.execute("UPDATE days SET statistics_revision = %s WHERE day = %s", (revision[0], day))
        return report_of(connection, day)


def measured_rows(pool: BenchmarkPool, day: date) -> Iterator[tuple[Any, ...]]:
    """Of each of the day's anonymized points its hour, the other ``MEASURED_COLUMNS``, and whether it used tools.

    Points of earlier versions have no column that says so; their payload does.
    """
    import pyarrow.compute as pc

    unknown = 0
    for batch in read_batches(pool, ANONYMIZED, day, columns=(*MEASURED_COLUMNS, "tool_calls")):
        unknown += batch.column("tool_calls").null_count
        new = batch.filter(pc.is_valid(batch.column("tool_calls")))
        yield from measured(new, used_tools=pc.greater(new.column("tool_calls"), 0))
    if not unknown:
        return
    for batch in read_batches(pool, ANONYMIZED, day, columns=(*MEASURED_COLUMNS, "tool_calls", "payload")):
        old = batch.filter(pc.is_null(batch.column("tool_calls")))
        yield from measured(old, used_tools=pc.match_substring_regex(old.column("payload"), TOOL_CALLED))


def measured(batch: "pa.RecordBatch", *, used_tools: "pa.BooleanArray") -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, made column by column: as dictionaries they take three times as long."""
    import pyarrow.compute as pc

    timestamp, *others = (batch.column(name) for name in MEASURED_COLUMNS)
    hours = pc.floor_temporal(timestamp, unit="hour").dictionary_encode()  # few, and slow to make
    known = [hour.astimezone(UTC) for hour in hours.dictionary.to_pylist()]
    columns = ([known[index] for index in hours.indices.to_pylist()], *(column.to_pylist() for column in others))
    return zip(*columns, used_tools.to_pylist(), strict=True)


def report_of(connection: Connection[Any], day: date) -> StatisticsReport:
    """What the table holds of the day: what was written now, or what is kept of a day whose points are gone."""
    by_agent: Counter[str] = Counter()
    digest = blake2b(digest_size=16)
    rows = successes = 0
    for agent_id, *values in connection.execute(
        "SELECT agent_id, task_type, extract(epoch FROM hour)::bigint, tasks, successes, tokens_sum, tool_tasks,"
        " round(quality_sum::numeric, 9)::text, round(latency_ms_sum::numeric, 6)::text,"
        " round(reward_sum::numeric, 9)::text, round(reward_square_sum::numeric, 9)::text"
        " FROM agent_statistics WHERE day = %s ORDER BY agent_id, task_type, hour",
        (day,),
    ):
        digest.update(repr((agent_id, *values)).encode())
        rows += 1
        by_agent[agent_id] += values[2]
        successes += values[3]
    return StatisticsReport(
        day=day,
        rows=rows,
        tasks=by_agent.total(),
        successes=successes,
        tasks_by_agent=dict(by_agent),
        digest=digest.hexdigest(),
    )


def hours_of(tallies: dict[Measured, HourTally]) -> tuple[str, tuple[str, ...], dict[Any, HourTally]]:
    """The table of hours, its keys and its rows."""
    rows = rolled_up(tallies, HourTally, lambda hour, agent_id, task_type, _: (hour, agent_id, task_type))
    return "agent_statistics", ("hour", "agent_id", "task_type"), rows


def dates_of(tallies: dict[Measured, HourTally]) -> tuple[str, tuple[str, ...], dict[Any, Tally]]:
    """The table of daily roll-ups, its keys and its rows."""
    rows = rolled_up(tallies, Tally, lambda hour, agent_id, task_type, level: (agent_id, hour.date(), task_type, level))
    return "daily_statistics", ("agent_id", "date", "task_type", "complexity"), rows


def rolled_up(
    tallies: dict[Measured, HourTally], kind: type[Kind], key: Callable[[datetime, str, str, str], Key]
) -> dict[Key, Kind]:
    """The same tasks under coarser keys, sorted: what is read together is written together."""
    coarse: dict[Key, Kind] = defaultdict(kind)
    for measured, tally in tallies.items():
        coarse[key(*measured)].merge(tally)
    return dict(sorted(coarse.items()))


def write_tallies(
    connection: Connection[Any], day: date, table: str, keys: tuple[str, ...], tallies: dict[Any, Kind]
) -> None:
    """Replace the day's rows of a table of statistics."""
    name = sql.Identifier(table)
    connection.execute(sql.SQL("DELETE FROM {} WHERE day = %s").format(name), (day,))
    sums = next(iter(tallies.values()), Tally()).__struct_fields__
    columns = sql.SQL(", ").join(map(sql.Identifier, (*keys, "day", *sums)))
    with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(name, columns)) as copy:
        for key, tally in tallies.items():
            copy.write_row((*key, day, *msgspec.structs.astuple(tally)))


def write_profiles(
    connection: Connection[Any],
    day: date,
    points: Mapping[str, int],
    latencies: Mapping[str, list[float]],
    tokens: Mapping[str, list[float]],
) -> None:
    """Replace what the day says is usual for each task type."""
    connection.execute("DELETE FROM task_type_profiles WHERE day = %s", (day,))
    for task_type, count in points.items():
        measured = Jsonb(histogram(latencies[task_type])), Jsonb(histogram(tokens[task_type]))
        connection.execute(
            "INSERT INTO task_type_profiles (day, task_type, points, latency_ms, tokens) VALUES (%s, %s, %s, %s, %s)",
            (day, task_type, count, *measured),
        )
