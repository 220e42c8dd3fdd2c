from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.filters import PointFilter
from flywheel.pool.histograms import GROWTH, histogram, merged, percentile
from flywheel.pool.history import history_before
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, read_rows
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(days=3)


def counted(pool: BenchmarkPool, name: str, logs: list[Log], *, day: date = DAY) -> None:
    write_segment(pool.settings, name, logs)
    index_segments(pool, now=LATER)
    validate_day(pool, day, now=LATER)
    anonymize_day(pool, day)
    refresh_statistics(pool, day)


def some_logs(count: int) -> list[Log]:
    logs: list[Log] = []
    for number in range(count):
        failed: dict[str, Any] = {"success": False, "overallScore": 0.35} if number % 4 == 0 else {}
        task_type = "research" if number % 2 else "tool-calling"
        at = NOON + timedelta(minutes=30 * number)
        logs += task_logs(f"t{number}", at=at, taskType=task_type, latencyMs=100.0 + number, **failed)
    return logs


def test_statistics_are_sums_over_the_points_of_an_agent(pool: BenchmarkPool) -> None:
    counted(pool, "a", [*some_logs(8), *task_logs("other", agent="agent-b")])
    found = pool.get_agent_statistics("agent-a")
    assert (found.tasks, found.successes, found.success_rate) == (8, 6, 0.75)
    assert found.mean_quality == pytest.approx((6 * 0.95 + 2 * 0.35) / 8)
    assert found.mean_latency_ms == pytest.approx(103.5)
    assert found.tokens == 8 * 90


def test_statistics_can_be_asked_by_task_type_and_time(pool: BenchmarkPool) -> None:
    counted(pool, "a", some_logs(8))
    assert pool.get_agent_statistics("agent-a", PointFilter(task_types=("research",))).success_rate == 1.0
    assert pool.get_agent_statistics("agent-a", PointFilter(since=NOON + timedelta(hours=2))).tasks == 4
    unknown = pool.get_agent_statistics("nobody")
    assert (unknown.tasks, unknown.success_rate, unknown.mean_quality) == (0, None, None)


def test_counting_a_day_again_replaces_it(pool: BenchmarkPool) -> None:
    counted(pool, "a", some_logs(8))
    before = pool.get_agent_statistics("agent-a")
    report = refresh_statistics(pool, DAY)
    assert pool.get_agent_statistics("agent-a") == before
    assert (report.tasks, report.successes, report.tasks_by_agent) == (8, 6, {"agent-a": 8})
    assert report.rows == 8


def test_tool_calls_are_counted_as_the_payload_says_also_where_some_rows_do_not(pool: BenchmarkPool) -> None:
    """A day of half the rows from an earlier version counts the same, to the digest."""
    idle: dict[str, Any] = {"toolCallCount": 0, "toolsUsed": []}
    talk = [{"role": "user", "content": '{"toolCallCount":7}'}, {"role": "assistant", "content": "done"}]
    logs = [log for n in range(6) for log in task_logs(f"t{n}", **(idle if n % 3 else {}), messages=talk)]
    counted(pool, "a", logs)
    report = refresh_statistics(pool, DAY)
    rows = list(read_rows(pool, ANONYMIZED, DAY))
    assert sum(row["tool_calls"] > 0 for row in rows) == 2
    older = [row | {"tool_calls": None} if number % 2 else row for number, row in enumerate(rows)]
    pool.replace(ANONYMIZED, DAY, older, schema=arrow_schema(POINT_COLUMNS))
    assert refresh_statistics(pool, DAY) == report
    with pool.transaction() as connection:
        assert connection.execute("SELECT sum(tool_tasks) FROM agent_statistics").fetchone() == (2,)


def test_history_is_of_days_before_and_says_what_is_usual_where_enough_is_known(pool: BenchmarkPool) -> None:
    logs = [log for number in range(120) for log in task_logs(f"t{number}", latencyMs=10.0 * (number + 1))]
    counted(pool, "a", [*logs, *task_logs("r1", taskType="research")])
    with pool.transaction() as connection:
        same_day = history_before(connection, DAY)
        next_day = history_before(connection, DAY + timedelta(days=1))
        much_later = history_before(connection, DAY + timedelta(days=40))
    assert same_day.performance == {}
    assert next_day.of("agent-a", "tool-calling").agent_task_count == 120
    assert next_day.of("agent-a", "design").agent_task_count == 0
    assert set(next_day.latency_ms_p99) == {"tool-calling"}
    assert 1190 <= next_day.latency_ms_p99["tool-calling"] <= 1190 * GROWTH
    assert much_later.latency_ms_p99 == {}


positive = st.lists(st.floats(1, 1e9), min_size=1, max_size=200)


@given(values=positive, share=st.floats(0.01, 1))
def test_a_percentile_is_at_most_five_percent_above_the_exact_one(values: list[float], share: float) -> None:
    exact = next(value for rank, value in enumerate(sorted(values), 1) if rank >= share * len(values))
    assert exact * (1 - 1e-9) <= percentile(histogram(values), share) <= exact * GROWTH * (1 + 1e-9)


@given(days=st.lists(positive, min_size=1, max_size=5))
def test_histograms_of_days_add_up_to_that_of_all_values(days: list[list[float]]) -> None:
    assert merged(histogram(day) for day in days) == histogram(value for day in days for value in day)


def test_an_empty_histogram_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile({}, 0.99)


def test_tool_use_and_rewards_are_counted_and_a_text_about_tools_is_none(pool: BenchmarkPool) -> None:
    said = [{"role": "user", "content": 'say {"toolCallCount":7}'}, {"role": "assistant", "content": "no"}]
    untooled: dict[str, Any] = {"toolCallCount": 0, "toolsUsed": [], "tokensUsed": 50, "messages": said}
    many: dict[str, Any] = {"toolCallCount": 12, "toolsUsed": [{"toolName": "a", "callCount": 12, "successRate": 1}]}
    counted(pool, "a", [*task_logs("t1"), *task_logs("t2", **untooled), *task_logs("t3", overallScore=0.5, **many)])
    with pool.transaction() as connection:
        row = connection.execute("SELECT tasks, tool_tasks, reward_sum, reward_square_sum FROM agent_statistics")
        assert row.fetchone() == (3, 2, pytest.approx(2.4), pytest.approx(2 * 0.95**2 + 0.25))


def test_the_digest_is_of_what_the_statistics_hold(pool: BenchmarkPool) -> None:
    counted(pool, "a", some_logs(4))
    first = refresh_statistics(pool, DAY).digest
    assert refresh_statistics(pool, DAY).digest == first
    counted(pool, "b", task_logs("another"))
    assert refresh_statistics(pool, DAY).digest != first
