"""Statistics of agents, per task type and hour, for routing, reports and the points' historical performance."""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct
from psycopg import Connection
from psycopg.types.json import Jsonb

from flywheel.pool.histograms import histogram
from flywheel.pool.intake import points_removed
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import Row, read_rows
from flywheel.pool.schemas import ANONYMIZED

MEASURED_COLUMNS = ("timestamp", "agent_id", "task_type", "success", "overall_score", "latency_ms", "tokens_used")


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


class AgentStatistics(Struct, frozen=True, kw_only=True):
    """What is known of an agent. Means are None where it did no task."""

    agent_id: str
    task_type: str | None
    tasks: int
    successes: int
    success_rate: float | None
    mean_quality: float | None
    mean_latency_ms: float | None
    tokens: int


class StatisticsReport(Struct, frozen=True, kw_only=True):
    """What a refresh wrote."""

    day: date
    rows: int
    tasks: int
    successes: int
    tasks_by_agent: dict[str, int]


def refresh_statistics(pool: BenchmarkPool, day: date) -> StatisticsReport:
    """Count the day's points anew and replace its statistics in one transaction.

    Raises:
        PoolError: the lake cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.exclusive(f"statistics:{day}") as connection:
        pool.share(connection, f"anonymization:{day}")
        if points_removed(connection, day):
            return kept(connection, day)
        revision = connection.execute("SELECT anonymized_revision FROM days WHERE day = %s", (day,)).fetchone()
        tallies: dict[tuple[datetime, str, str], Tally] = defaultdict(Tally)
        latencies: dict[str, list[float]] = defaultdict(list)
        tokens: dict[str, list[float]] = defaultdict(list)
        for row in read_rows(pool, ANONYMIZED, day, columns=MEASURED_COLUMNS):
            hour = row["timestamp"].astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            tallies[hour, row["agent_id"], row["task_type"]].add(row)
            latencies[row["task_type"]].append(row["latency_ms"])
            tokens[row["task_type"]].append(row["tokens_used"])
        write_tallies(connection, day, tallies)
        write_profiles(connection, day, latencies, tokens)
        if revision:
            connection.execute("UPDATE days SET statistics_revision = %s WHERE day = %s", (revision[0], day))
    by_agent: Counter[str] = Counter()
    for (_, agent_id, _), tally in tallies.items():
        by_agent[agent_id] += tally.tasks
    return StatisticsReport(
        day=day,
        rows=len(tallies),
        tasks=by_agent.total(),
        successes=sum(tally.successes for tally in tallies.values()),
        tasks_by_agent=dict(by_agent),
    )


def kept(connection: Connection[Any], day: date) -> StatisticsReport:
    """What is known of a day whose points retention removed."""
    rows = connection.execute(
        "SELECT agent_id, count(*), sum(tasks), sum(successes) FROM agent_statistics WHERE day = %s GROUP BY agent_id",
        (day,),
    ).fetchall()
    return StatisticsReport(
        day=day,
        rows=sum(row[1] for row in rows),
        tasks=sum(int(row[2]) for row in rows),
        successes=sum(int(row[3]) for row in rows),
        tasks_by_agent={row[0]: int(row[2]) for row in rows},
    )


def write_tallies(connection: Connection[Any], day: date, tallies: dict[tuple[datetime, str, str], Tally]) -> None:
    """Replace the day's rows of agent statistics."""
    connection.execute("DELETE FROM agent_statistics WHERE day = %s", (day,))
    columns = "hour, agent_id, task_type, day, tasks, successes, quality_sum, latency_ms_sum, tokens_sum"
    with connection.cursor().copy(f"COPY agent_statistics ({columns}) FROM STDIN") as copy:
        for (hour, agent_id, task_type), tally in tallies.items():
            sums = (tally.tasks, tally.successes, tally.quality_sum, tally.latency_ms_sum, tally.tokens_sum)
            copy.write_row((hour, agent_id, task_type, day, *sums))


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


def agent_statistics(
    pool: BenchmarkPool, agent_id: str, *, task_type: str | None = None, since: datetime | None = None
) -> AgentStatistics:
    """What is known of an agent, in one task type or all, in hours that start at or after ``since``.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        row = connection.execute(
            "SELECT coalesce(sum(tasks), 0), coalesce(sum(successes), 0), sum(quality_sum), sum(latency_ms_sum),"
            " coalesce(sum(tokens_sum), 0) FROM agent_statistics WHERE agent_id = %(agent)s"
            " AND (%(task_type)s::text IS NULL OR task_type = %(task_type)s)"
            " AND (%(since)s::timestamptz IS NULL OR hour >= %(since)s)",
            {"agent": agent_id, "task_type": task_type, "since": since},
        ).fetchone()
    assert row is not None
    tasks, successes, quality_sum, latency_ms_sum, tokens_sum = row
    return AgentStatistics(
        agent_id=agent_id,
        task_type=task_type,
        tasks=int(tasks),
        successes=int(successes),
        success_rate=int(successes) / int(tasks) if tasks else None,
        mean_quality=quality_sum / int(tasks) if tasks else None,
        mean_latency_ms=latency_ms_sum / int(tasks) if tasks else None,
        tokens=int(tokens_sum),
    )
