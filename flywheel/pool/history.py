"""What earlier days say about agents and task types: for the points' historical performance, and for what is usual."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flywheel.pool.histograms import merged, percentile
from flywheel.records import HistoricalPerformance

if TYPE_CHECKING:
    from psycopg import Connection

PROFILE_DAYS = 30  # what is usual is judged by the last month
PROFILE_MIN_POINTS = 100  # fewer say little about a 99th percentile


class History(Struct, frozen=True, kw_only=True):
    """What earlier days say: each agent's record per task type, and what is usual for a task type."""

    performance: dict[tuple[str, str], HistoricalPerformance]
    latency_ms_p99: dict[str, float]
    tokens_p99: dict[str, float]

    def of(self, agent_id: str, task_type: str) -> HistoricalPerformance:
        """The agent's record; an empty one where it has none."""
        return self.performance.get((agent_id, task_type), HistoricalPerformance())


def history_before(connection: "Connection[Any]", day: date) -> History:
    """What the days before this one say; never the day itself, so that running it again changes nothing."""
    performance = {
        (agent_id, task_type): HistoricalPerformance(
            agent_success_rate=int(successes) / int(tasks),
            agent_avg_quality=min(quality_sum / int(tasks), 1.0),
            agent_task_count=int(tasks),
        )
        for agent_id, task_type, tasks, successes, quality_sum in connection.execute(
            "SELECT agent_id, task_type, sum(tasks), sum(successes), sum(quality_sum) FROM agent_statistics"
            " WHERE day < %s GROUP BY agent_id, task_type",
            (day,),
        )
    }
    latencies: dict[str, list[dict[str, int]]] = defaultdict(list)
    tokens: dict[str, list[dict[str, int]]] = defaultdict(list)
    for task_type, latency_ms, token_counts in connection.execute(
        "SELECT task_type, latency_ms, tokens FROM task_type_profiles WHERE day < %s AND day >= %s",
        (day, day - timedelta(days=PROFILE_DAYS)),
    ):
        latencies[task_type].append(latency_ms)
        tokens[task_type].append(token_counts)
    return History(performance=performance, latency_ms_p99=usual(latencies), tokens_p99=usual(tokens))


def usual(histograms: dict[str, list[dict[str, int]]]) -> dict[str, float]:
    """The 99th percentile of each task type that has enough points."""
    totals: Iterable[tuple[str, dict[str, int]]] = ((name, merged(parts)) for name, parts in histograms.items())
    return {name: percentile(total, 0.99) for name, total in totals if sum(total.values()) >= PROFILE_MIN_POINTS}
