"""Daily roll-ups as a day's run writes them, without the day."""

from datetime import date
from typing import Any

from flywheel.pool.pool import BenchmarkPool


def count(
    pool: BenchmarkPool,
    day: date,
    *,
    agent: str = "agent-a",
    task_type: str = "research",
    complexity: str = "standard",
    tasks: int = 10,
    successes: int = 8,
    latency_ms: float | None = 400.0,
) -> None:
    """Tasks of an agent on a day, each with the quality 1 or 0; without a latency nobody took it."""
    row: tuple[Any, ...] = (agent, day, task_type, complexity, day, tasks, successes, float(successes))
    timed = 0 if latency_ms is None else tasks
    with pool.transaction() as connection:
        connection.execute(
            "INSERT INTO daily_statistics (agent_id, date, task_type, complexity, day, tasks, successes, quality_sum,"
            " latency_ms_sum, tokens_sum, timed_tasks) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (*row, (latency_ms or 0.0) * tasks, 100 * tasks, timed),
        )
