"""The report on collection: volume, validity, coverage, mix, intake and growth."""

from datetime import UTC, date, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.reports.collection import report_collection
from tests.pool.logs import NOON, task_logs, write_segment
from tests.reports.statistics import count

FIRST, LAST = date(2026, 3, 1), date(2026, 3, 4)


def test_points_are_counted_by_day_agent_type_and_complexity(pool: BenchmarkPool) -> None:
    count(pool, FIRST, tasks=10)
    count(pool, LAST, agent="agent-b", task_type="design", complexity="complex", tasks=30)
    count(pool, LAST + timedelta(days=1), tasks=500)
    found = report_collection(pool, FIRST, LAST)
    assert (found.points, found.points_per_day) == (40, 10.0)
    assert found.by_day == {FIRST: 10, date(2026, 3, 2): 0, date(2026, 3, 3): 0, LAST: 30}
    assert list(found.by_agent.items()) == [("agent-b", 30), ("agent-a", 10)]
    assert found.by_task_type == {"design": 30, "research": 10}
    assert found.by_complexity == {"complex": 30, "standard": 10}


def test_active_agents_and_configured_types_without_points_are_named(pool: BenchmarkPool) -> None:
    registry = AgentRegistry(pool.engine)
    for agent in ("agent-a", "agent-b", "agent-off"):
        registry.register(AgentProfile(id=agent, kind="reference"))
    registry.set_status("agent-off", "disabled")
    count(pool, FIRST)
    found = report_collection(pool, FIRST, LAST)
    assert (found.agents.fraction, found.agents.present, found.agents.absent) == (0.5, ("agent-a",), ("agent-b",))
    assert found.task_types.present == ("research",)
    assert set(found.task_types.absent) == set(pool.settings.task_types) - {"research"}


def test_quality_is_of_the_validated_days_and_absent_without_any(pool: BenchmarkPool) -> None:
    assert report_collection(pool, FIRST, LAST).quality is None
    write_segment(pool.settings, "a", [*task_logs("t1"), b"no log"], written_at=NOON)
    index_segments(pool, now=NOON + timedelta(seconds=90))
    validate_day(pool, NOON.date(), now=NOON + timedelta(days=1))
    found = report_collection(pool, FIRST, LAST)
    assert found.quality is not None
    assert (found.quality.lines, found.quality.quarantined, found.quality.pass_rate) == (4, 1, 0.75)


def test_the_wait_for_intake_is_from_a_segments_last_write_to_the_ledger(pool: BenchmarkPool) -> None:
    assert report_collection(pool, FIRST, LAST).intake.median_s is None
    for number, seconds in enumerate((10, 20, 60)):
        write_segment(pool.settings, f"s{number}", task_logs(f"t{number}"), written_at=NOON)
        index_segments(pool, now=NOON + timedelta(seconds=seconds))
    intake = report_collection(pool, FIRST, LAST).intake
    assert intake.segments == 3
    assert intake.median_s == pytest.approx(20)
    assert intake.p95_s == pytest.approx(56)


def test_growth_is_between_the_first_and_the_last_reading_of_the_lake(pool: BenchmarkPool) -> None:
    with pool.transaction() as connection:
        for day, megabytes in ((1, 10), (2, 11), (4, 25)):
            at = datetime(2026, 3, day, 12, tzinfo=UTC)
            reading = {"tier_bytes": {"hot": megabytes * 1e6, "warm": megabytes * 1e6, "cold": 1e6}}
            connection.execute("INSERT INTO lake_readings VALUES (%s, %s, %s)", (at.date(), at, Jsonb(reading)))
    assert report_collection(pool, FIRST, LAST).megabytes_per_day == pytest.approx(10.0)
    assert report_collection(pool, FIRST, FIRST).megabytes_per_day is None
