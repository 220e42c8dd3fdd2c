"""Agents beside each other by week and month, and beside themselves."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.running.cached import CACHE
from flywheel.pool.pool import BenchmarkPool
from flywheel.reports.comparison import compare_agents, days_of
from tests.reports.statistics import count

MONDAY = date(2026, 3, 23)
SUNDAY = date(2026, 3, 29)


@pytest.mark.parametrize(
    ("period", "day", "days"),
    [
        ("week", SUNDAY, (MONDAY, SUNDAY)),
        ("week", MONDAY, (MONDAY, SUNDAY)),
        ("month", date(2026, 2, 11), (date(2026, 2, 1), date(2026, 2, 28))),
        ("month", date(2028, 2, 29), (date(2028, 2, 1), date(2028, 2, 29))),
        ("month", date(2026, 12, 31), (date(2026, 12, 1), date(2026, 12, 31))),
    ],
)
def test_a_week_is_isos_and_a_month_the_calendars(period: str, day: date, days: tuple[date, date]) -> None:
    assert days_of(period, day) == days  # type: ignore[arg-type]


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.sampled_from(["week", "month"]))
def test_every_day_is_in_one_period_and_periods_follow_one_another(day: date, period: str) -> None:
    first, last = days_of(period, day)  # type: ignore[arg-type]
    assert first <= day <= last
    assert days_of(period, first - timedelta(days=1))[1] == first - timedelta(days=1)  # type: ignore[arg-type]


def test_agents_are_compared_with_each_other_and_with_their_week_before(pool: BenchmarkPool) -> None:
    count(pool, MONDAY - timedelta(days=7), tasks=100, successes=50)
    count(pool, MONDAY - timedelta(days=8), tasks=900, successes=0)  # the week before that
    count(pool, MONDAY, tasks=60, successes=54)
    count(pool, SUNDAY, tasks=40, successes=36)
    count(pool, SUNDAY + timedelta(days=1), tasks=500, successes=0)
    count(pool, MONDAY, agent="agent-b", tasks=10, successes=10)
    count(pool, MONDAY - timedelta(days=1), agent="agent-c", tasks=10, successes=10)
    found = compare_agents(pool, "week", until=SUNDAY)
    assert (found.first, found.last, found.counted_until) == (MONDAY, SUNDAY, SUNDAY)
    assert [agent.agent_id for agent in found.agents] == ["agent-b", "agent-a"]
    newcomer, known = found.agents
    assert (newcomer.change, newcomer.verdict) == (None, "new")
    assert (known.figures.tasks, known.figures.success_rate, known.before.tasks) == (100, 0.9, 100)
    assert known.success_rate.low < 0.9 < known.success_rate.high
    assert known.change is not None
    assert known.change.value == pytest.approx(0.4)
    assert known.verdict == "better"


def test_a_change_that_chance_explains_is_called_that_and_a_fall_worse(pool: BenchmarkPool) -> None:
    for agent, before, after in (("agent-a", 80, 78), ("agent-b", 90, 40)):
        count(pool, date(2026, 2, 10), agent=agent, tasks=100, successes=before)
        count(pool, date(2026, 3, 10), agent=agent, tasks=100, successes=after)
    found = compare_agents(pool, "month", until=date(2026, 3, 20))
    assert found.counted_until == date(2026, 3, 20)
    assert {agent.agent_id: agent.verdict for agent in found.agents} == {
        "agent-a": "no more than chance",
        "agent-b": "worse",
    }


def test_the_cache_is_no_agent_that_others_are_compared_with(pool: BenchmarkPool) -> None:
    count(pool, MONDAY)
    count(pool, MONDAY, agent=CACHE, successes=10)
    assert [agent.agent_id for agent in compare_agents(pool, "week", until=SUNDAY).agents] == ["agent-a"]


def test_a_period_without_tasks_compares_nobody(pool: BenchmarkPool) -> None:
    assert compare_agents(pool, "month", until=SUNDAY).agents == ()
