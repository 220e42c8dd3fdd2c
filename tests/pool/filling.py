"""A pool with points of one day, on their way through every stage up to the warm tier."""

from datetime import date, timedelta
from typing import Any

from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tiers import place_warm
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=1)


def fill(pool: BenchmarkPool, name: str, logs: list[Log], *, check: bool = True) -> None:
    write_segment(pool.settings, name, logs)
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    anonymize_day(pool, DAY)
    find_violations(pool, DAY)
    place_warm(pool, DAY, now=LATER)
    if not check:
        anonymize_day(pool, DAY)  # its points are made anew, and nobody looked at them since


def some_tasks(count: int, *, prefix: str = "t") -> list[Log]:
    """Tasks a minute apart: every third is research, every fourth failed."""
    logs: list[Log] = []
    for number in range(count):
        at = NOON + timedelta(minutes=number)
        task_type = "research" if number % 3 == 0 else "tool-calling"
        worked: dict[str, Any] = {} if number % 4 else {"success": False, "overallScore": 0.3}
        logs += task_logs(f"{prefix}{number}", at=at, taskType=task_type, **worked)
    return logs
