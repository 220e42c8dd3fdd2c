"""A pool whose days are in the tiers of their ages, and the same points as plain Python sees them."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta

from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.filters import PointFilter
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import ANONYMIZED
from flywheel.pool.statistics import Tally, refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.validation import validate_day
from flywheel.records import DataPoint, decode_point
from tests.pool.logs import Log, task_logs, write_segment

FIRST_DAY = date(2026, 3, 2)
AGENTS = ("agent-a", "agent-b", "agent-c")
TYPES = ("tool-calling", "research", "planning")
COMPLEXITIES = ("trivial", "standard", "complex")
TENANTS = ("acme", "umbrella")


def noon(day: date) -> datetime:
    return datetime.combine(day, time(12), tzinfo=UTC)


def day_logs(day: date, tasks: int) -> list[Log]:
    """Logs that differ in everything a filter asks for, spread over the day."""
    logs: list[Log] = []
    for number in range(tasks):
        failed = number % 4 == 1
        logs += task_logs(
            f"{day}-{number}",
            at=datetime.combine(day, time(), tzinfo=UTC) + timedelta(minutes=97 * number % 1430),
            tenant=TENANTS[number % 2],
            agent=AGENTS[number % 3],
            taskType=TYPES[number // 2 % 3],
            complexity=COMPLEXITIES[number // 3 % 3],
            latencyMs=100.0 + number,
            success=not failed,
            overallScore=0.35 if failed else 0.55 + 0.03 * (number % 15),
        )
    return logs


def fill(pool: BenchmarkPool, days: Sequence[date], *, tasks: int = 24) -> None:
    """Days that are validated, anonymized and counted, each on its own day."""
    for day in days:
        write_segment(pool.settings, f"segment-{day}", day_logs(day, tasks), written_at=noon(day) + timedelta(days=1))
    index_segments(pool, now=noon(max(days)) + timedelta(days=1))
    for day in days:
        validate_day(pool, day, now=noon(day) + timedelta(days=1))
        anonymize_day(pool, day)
        find_violations(pool, day)
        refresh_statistics(pool, day)


def place_all(pool: BenchmarkPool, days: Sequence[date], *, now: datetime) -> None:
    """Each day in the tiers of its age."""
    for day in days:
        for place in (place_hot, place_warm, aggregate_cold):
            place(pool, day, now=now)


class Known(list[DataPoint]):
    """Points that a failing test need not print."""

    def __repr__(self) -> str:
        return f"{len(self)} points"


def all_points(pool: BenchmarkPool, days: Sequence[date]) -> list[DataPoint]:
    """Every point, also of days that have only aggregates in their tiers."""
    return Known(
        decode_point(row["payload"]) for day in days for row in read_rows(pool, ANONYMIZED, day, columns=("payload",))
    )


def agrees(point: DataPoint, where: PointFilter) -> bool:
    """The filter, word for word."""
    return all(
        (
            where.since is None or point.timestamp >= where.since,
            where.until is None or point.timestamp < where.until,
            not where.task_types or point.task.type in where.task_types,
            not where.complexities or point.task.complexity in where.complexities,
            not where.agents or point.routing.selected_agent_id in where.agents,
            not where.tenants or point.tenant_id in where.tenants,
            where.min_quality is None or point.evaluation.overall_score >= where.min_quality,
            where.success is None or point.execution.success == where.success,
            where.rl_ready is None or point.rl_ready == where.rl_ready,
        )
    )


KEYS: dict[str, Callable[[DataPoint], str]] = {
    "task_type": lambda point: point.task.type,
    "agent": lambda point: point.routing.selected_agent_id,
    "complexity": lambda point: point.task.complexity.value,
    "day": lambda point: str(point.timestamp.astimezone(UTC).date()),
}


def tallied(points: Sequence[DataPoint], *, by: str) -> dict[str, Tally]:
    """Sums by a property, one point after the other."""
    totals: dict[str, Tally] = {}
    for point in points:
        totals.setdefault(KEYS[by](point), Tally()).merge(
            Tally(
                1,
                int(point.execution.success),
                point.evaluation.overall_score,
                point.execution.latency_ms or 0,
                point.execution.tokens_used or 0,
                int(point.execution.latency_ms is not None),
            )
        )
    return totals
