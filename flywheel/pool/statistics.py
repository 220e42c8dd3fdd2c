"""Statistics of agents, per task type and hour, for routing, reports and the points' historical performance."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from flywheel.pool.histograms import histogram
from flywheel.pool.intake import points_removed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, read_batches
from flywheel.pool.schemas import ANONYMIZED

MEASURED_COLUMNS = (
    "timestamp",
    "agent_id",
    "task_type",
    "complexity",
    "success",
    "overall_score",
    "total_reward",
    "latency_ms",
    "tokens_used",
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

    def add(self, row: Row) -> None:
        """Count one more task."""
        self.tasks += 1
        self.successes += row["success"]
        self.quality_sum += row["overall_score"]
        self.latency_ms_sum += row["latency_ms"]
        self.tokens_sum += row["tokens_used"]

    def merge(self, other: "Tally") -> None:
        """Count the other's tasks too, as far as they are told apart here."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class HourTally(Tally):
    """Sums over the tasks of an hour, with what alerts compare."""

    tool_tasks: int = 0
    reward_sum: float = 0.0
    reward_square_sum: float = 0.0

    def add(self, row: Row) -> None:
        """Count one more task; the row also says whether it ``used_tools``."""
        super().add(row)
        self.tool_tasks += row["used_tools"]
        self.reward_sum += row["total_reward"]
        self.reward_square_sum += row["total_reward"] ** 2


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
        for row in measured_rows(pool, day):
            hour = row["timestamp"].astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            tallies[hour, row["agent_id"], row["task_type"], row["complexity"]].add(row)
            latencies[row["task_type"]].append(row["latency_ms"])
            tokens[row["task_type"]].append(row["tokens_used"])
        write_tallies(connection, day, *hours_of(tallies))
        write_tallies(connection, day, *dates_of(tallies))
        write_profiles(connection, day, latencies, tokens)
        if revision:
            connection.execute("UPDATE days SET statistics_revision = %s WHERE day = %s", (revision[0], day))
        return report_of(connection, day)


def measured_rows(pool: BenchmarkPool, day: date) -> Iterator[Row]:
    """The day's anonymized points by ``MEASURED_COLUMNS``, and whether they ``used_tools``.

    Points of earlier versions have no column that says so; their payload does.
    """
    import pyarrow.compute as pc

    unknown = 0
    for batch in read_batches(pool, ANONYMIZED, day, columns=(*MEASURED_COLUMNS, "tool_calls")):
        unknown += batch.column("tool_calls").null_count
        for row in batch.filter(pc.is_valid(batch.column("tool_calls"))).to_pylist():
            row["used_tools"] = row["tool_calls"] > 0
            yield row
    if not unknown:
        return
    for batch in read_batches(pool, ANONYMIZED, day, columns=(*MEASURED_COLUMNS, "tool_calls", "payload")):
        old = batch.filter(pc.is_null(batch.column("tool_calls")))
        used_tools = pc.match_substring_regex(old.column("payload"), TOOL_CALLED).to_pylist()
        for row, used in zip(old.select(list(MEASURED_COLUMNS)).to_pylist(), used_tools, strict=True):
            row["used_tools"] = used
            yield row


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
    connection: Connection[Any], day: date, latencies: dict[str, list[float]], tokens: dict[str, list[float]]
) -> None:
    """Replace what the day says is usual for each task type."""
    connection.execute("DELETE FROM task_type_profiles WHERE day = %s", (day,))
    for task_type, values in latencies.items():
        connection.execute(
            "INSERT INTO task_type_profiles (day, task_type, points, latency_ms, tokens) VALUES (%s, %s, %s, %s, %s)",
            (day, task_type, len(values), Jsonb(histogram(values)), Jsonb(histogram(tokens[task_type]))),
        )
