"""The daily report on an agent: figures, trends, what it can do by now, what it should learn and what it is good at."""

from datetime import UTC, date, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.running.cached import CACHE
from flywheel.pool.pool import BenchmarkPool
from flywheel.reports.feedback import COLUMNS, LEAST_TASKS, WINDOW_DAYS, FeedbackReport, digest_of, feedback_reports
from tests.reports.statistics import count

DAY = date(2026, 3, 28)


def report(pool: BenchmarkPool, agent: str = "agent-a", day: date = DAY) -> FeedbackReport:
    (found,) = [one for one in feedback_reports(pool, day) if one.agent_id == agent]
    return found


def test_a_pool_without_tasks_has_no_reports(pool: BenchmarkPool) -> None:
    assert feedback_reports(pool, DAY) == ()


def test_a_report_is_of_the_day_and_of_the_four_weeks_that_end_with_it(pool: BenchmarkPool) -> None:
    count(pool, DAY, tasks=10, successes=9)
    count(pool, DAY, complexity="complex", tasks=10, successes=5)
    count(pool, DAY - timedelta(days=WINDOW_DAYS - 1), tasks=20, successes=10)
    count(pool, DAY - timedelta(days=WINDOW_DAYS), tasks=500, successes=0)
    count(pool, DAY + timedelta(days=1), tasks=500, successes=0)
    found = report(pool)
    assert (found.today.tasks, found.today.success_rate) == (20, 0.7)
    assert (found.window.tasks, found.window.success_rate) == (40, 0.6)


def test_trends_are_of_success_quality_and_latency_each_with_its_test(pool: BenchmarkPool) -> None:
    for back in range(14):
        count(pool, DAY - timedelta(days=back), tasks=50, successes=45 - 2 * back, latency_ms=400 + 10 * back)
    trends = report(pool).trends
    assert {name: trend.direction for name, trend in trends.items()} == dict.fromkeys(
        ("success_rate", "quality", "latency_ms"), "improving"
    )
    assert trends["latency_ms"].change_per_day == pytest.approx(-10)
    assert trends["latency_ms"].test == "Mann-Kendall"
    assert {trend.days for trend in trends.values()} == {14}


def test_a_latency_that_nobody_took_is_no_latency_of_nothing(pool: BenchmarkPool) -> None:
    for back in range(14):
        count(pool, DAY - timedelta(days=back), latency_ms=None if back % 2 else 400.0)
    latency = report(pool).trends["latency_ms"]
    assert (latency.direction, latency.days) == (None, 7)
    assert report(pool).trends["success_rate"].direction == "stable"


def test_answers_of_the_cache_are_no_agents_work_and_nobody_is_measured_by_them(pool: BenchmarkPool) -> None:
    for agent, successes in (("agent-a", 60), ("agent-b", 60), (CACHE, 100)):
        count(pool, DAY, agent=agent, tasks=100, successes=successes)
    reports = feedback_reports(pool, DAY)
    assert [one.agent_id for one in reports] == ["agent-a", "agent-b"]
    assert [(one.training_needs, one.strengths) for one in reports] == [((), ())] * 2


def test_what_the_others_do_better_is_a_need_and_what_it_does_better_a_strength(pool: BenchmarkPool) -> None:
    for task_type, own, theirs in (("research", 30, 90), ("design", 95, 60), ("planning", 80, 79)):
        count(pool, DAY, task_type=task_type, tasks=100, successes=own)
        count(pool, DAY, agent="agent-b", task_type=task_type, tasks=60, successes=theirs * 60 // 100)
        count(pool, DAY, agent="agent-c", task_type=task_type, tasks=40, successes=theirs * 40 // 100)
    found = report(pool)
    (need,), (strength,) = found.training_needs, found.strengths
    assert (need.task_type, need.success_rate, need.others_success_rate) == ("research", 0.3, 0.9)
    assert need.lead.high < 0
    assert need.sentence.startswith("research: 30.0% of 100 tasks succeeded, of the others' 100 90.0% (-60.0 points, ")
    assert (strength.task_type, strength.tasks, strength.others_tasks) == ("design", 100, 100)


def test_few_tasks_or_no_others_are_not_compared(pool: BenchmarkPool) -> None:
    count(pool, DAY, tasks=LEAST_TASKS - 1, successes=0)
    count(pool, DAY, agent="agent-b", tasks=100, successes=100)
    count(pool, DAY, task_type="design", tasks=100, successes=0)
    found = report(pool)
    assert found.training_needs == found.strengths == ()


def test_measured_changes_of_the_day_are_told_with_their_rates(pool: BenchmarkPool) -> None:
    AgentRegistry(pool.engine).register(AgentProfile(id="agent-a", kind="reference"))
    sure = {"e_value": 60.0, "needed": 40.0}
    added = sure | {"tasks": 40, "successes": 36, "success_rate": 0.9, "null_hypothesis": "at most 0.7"}
    fell = sure | {
        "before": {"tasks": 60, "successes": 54, "success_rate": 0.9},
        "after": {"tasks": 40, "successes": 20, "success_rate": 0.5},
    }
    noon = datetime(2026, 3, 28, 12, tzinfo=UTC)
    rows = [
        ("task_types", "design", "added", noon, added),
        ("languages", "go", "degraded", noon, fell),
        ("languages", "rust", "degraded", noon - timedelta(days=1), fell),
    ]
    with pool.transaction() as connection:
        for field, name, kind, at, evidence in rows:
            connection.execute(
                "INSERT INTO capability_events (agent_id, field, name, kind, detected_at, evidence, seen_until)"
                " VALUES ('agent-a', %s, %s, %s, %s, %s, %s)",
                (field, name, kind, at, Jsonb(evidence), at),
            )
    changes = report(pool).capability_changes
    assert {(change.kind, change.name, change.before, change.after) for change in changes} == {
        ("added", "design", None, 0.9),
        ("degraded", "go", 0.9, 0.5),
    }
    assert any("0.900 of 60 tasks → 0.500 of 40" in change.sentence for change in changes)


def test_the_same_statistics_make_the_same_reports(pool: BenchmarkPool) -> None:
    count(pool, DAY)
    first = digest_of(feedback_reports(pool, DAY))
    assert digest_of(feedback_reports(pool, DAY)) == first
    count(pool, DAY, complexity="complex")
    assert digest_of(feedback_reports(pool, DAY)) != first


def test_the_column_schema_names_the_fields() -> None:
    assert tuple(COLUMNS) == FeedbackReport.__struct_fields__
