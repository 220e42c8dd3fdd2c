from datetime import date, timedelta
from typing import Any

import pytest

from flywheel.pool.anonymization.day import anonymize_day, find_violations
from flywheel.pool.batches import make_batch
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine, release
from flywheel.pool.raw import collect_day
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.trends import (
    batch_outlook,
    days_until,
    gate_trend,
    phase_outlook,
    success_trend,
    tier_size,
    tier_trend,
    volume_trend,
)
from flywheel.pool.validation import last_report, validate_day
from flywheel.settings import BatchSettings, PhaseThreshold
from tests.pool.logs import NOON, Log, task_logs, write_segment

DAY = date(2026, 3, 2)
NEXT = DAY + timedelta(days=1)
LATER = NOON + timedelta(days=2)
CRITERIA = BatchSettings(
    sft=PhaseThreshold(points=20, quality=0.8, max_age_days=90),
    grpo=PhaseThreshold(points=20, quality=0.5, max_age_days=90),
)


def fill(pool: BenchmarkPool, name: str, logs: list[Log], *, day: date = DAY) -> None:
    write_segment(pool.settings, name, logs, written_at=LATER)
    index_segments(pool, now=LATER)
    validate_day(pool, day, now=LATER)
    anonymize_day(pool, day)
    find_violations(pool, day)
    for place in (place_hot, place_warm, aggregate_cold):
        place(pool, day, now=LATER)
    refresh_statistics(pool, day)


def tasks(prefix: str, count: int, *, days: int = 0, **fields: Any) -> list[Log]:
    at = NOON + timedelta(days=days)
    return [
        log
        for number in range(count)
        for log in task_logs(f"{prefix}{number}", at=at + timedelta(minutes=number), **fields)
    ]


def test_a_trend_has_thirty_days_and_ends_with_its_own() -> None:
    days = days_until(DAY)
    assert (len(days), days[0], days[-1]) == (30, date(2026, 2, 1), DAY)


def test_the_volume_of_the_day_is_the_one_just_counted(pool: BenchmarkPool) -> None:
    fill(pool, "a", tasks("t", 4))
    write_segment(pool.settings, "b", tasks("u", 2, days=1), written_at=LATER)
    index_segments(pool, now=LATER)
    trend = volume_trend(pool, collect_day(pool, NEXT))
    assert (trend[DAY], trend[NEXT], sum(trend.values()), len(trend)) == (12, 6, 18, 30)


def test_gates_are_counted_in_tasks_and_a_released_one_holds(pool: BenchmarkPool) -> None:
    broken = tasks("broken", 2, toolCallCount=5)
    incomplete: Log = {"log": "routing", "taskId": "incomplete", "timestamp": NOON.isoformat()}
    fill(pool, "a", [*tasks("t", 7), *tasks("odd", 1, overallScore=0.4), *broken, incomplete])
    trend = gate_trend(pool, last_report(pool, DAY))
    assert trend.failed_tasks == {"consistent": 2, "complete": 1, "plausible": 1}
    assert trend.passed["consistent"] == pytest.approx(9 / 11)
    assert trend.passed["plausible"] == pytest.approx(7 / 8)
    assert (trend.passed["time"], "privacy" in trend.passed) == (1.0, False)
    assert trend.clean == {DAY: pytest.approx(8 / 11)}

    release(pool, list_quarantine(pool, gate="consistent")[0].id, note="they count retries", now=LATER)
    validate_day(pool, DAY, now=LATER)
    assert gate_trend(pool, last_report(pool, DAY)).passed["consistent"] == pytest.approx(10 / 11)


def test_a_day_without_a_judged_task_has_no_rates(pool: BenchmarkPool) -> None:
    report = validate_day(pool, DAY, now=LATER)
    trend = gate_trend(pool, report)
    assert (trend.passed, trend.failed_tasks, trend.clean) == ({}, {}, {})


def test_success_is_shown_by_agent_and_day_the_busiest_first(pool: BenchmarkPool) -> None:
    fill(pool, "a", [*tasks("a", 1, agent="agent-a"), *tasks("b", 2, agent="agent-b")])
    fill(pool, "b", tasks("c", 2, days=1, agent="agent-b", success=False, overallScore=0.2), day=NEXT)
    assert success_trend(pool, NEXT) == {"agent-b": {DAY: 1.0, NEXT: 0.0}, "agent-a": {DAY: 1.0}}
    assert list(success_trend(pool, NEXT)) == ["agent-b", "agent-a"]


def test_a_tier_has_rows_days_and_bytes_of_its_present_version(pool: BenchmarkPool) -> None:
    assert tier_size(pool, "warm").tier_bytes == 0
    fill(pool, "a", tasks("t", 5))
    fill(pool, "b", tasks("u", 3, days=1), day=NEXT)
    files = (pool.settings.home / "lake" / "data_points").glob("day=*/*.parquet")
    size = tier_size(pool, "warm")
    assert (size.tier_rows, size.tier_days) == (8, 2)
    assert size.tier_bytes == sum(file.stat().st_size for file in files)
    place_warm(pool, DAY, now=LATER)  # the version before stays on disk and is not counted
    assert tier_size(pool, "warm").tier_bytes == pytest.approx(size.tier_bytes, abs=200)
    assert tier_size(pool, "hot").tier_bytes > 0
    trend = tier_trend(pool, "cold", NEXT)
    assert (trend[DAY], trend[NEXT], len(trend)) == (1, 1, 30)


def test_a_phase_has_its_points_in_time_at_once_or_never() -> None:
    week = timedelta(days=7)
    assert phase_outlook("sft", points=10, before=3, needed=20, time=week).days == 10.0
    assert phase_outlook("sft", points=20, before=20, needed=20, time=week).days == 0.0
    assert phase_outlook("sft", points=10, before=10, needed=20, time=week).days is None


def test_the_outlook_counts_new_tasks_only(pool: BenchmarkPool) -> None:
    pool = type(pool)(pool.engine, pool.lake, pool.settings.model_copy(update={"batch": CRITERIA}))
    fill(pool, "a", tasks("t", 6))
    outlook = batch_outlook(pool, now=LATER)
    sft, grpo = outlook.phases
    assert (sft.phase, sft.points, sft.needed) == ("sft", 6, 20)
    assert sft.per_day == pytest.approx(6 / 2)  # the first of them came two days ago
    assert sft.days == pytest.approx(14 / 3)
    assert batch_outlook(pool, now=NOON + timedelta(days=7)).phases[0].per_day == pytest.approx(6 / 7)
    assert (grpo.points, grpo.days, outlook.days) == (0, None, None)
    assert outlook.missing[0] == "6 of 20 new points with quality ≥ 0.8 for SFT"
    again = [log | {"source": "bench:t0"} if log["log"] == "routing" else log for log in tasks("again", 5, days=1)]
    fill(pool, "b", again, day=NEXT)
    assert batch_outlook(pool, now=LATER).phases[0].points == 6
    assert batch_outlook(pool, now=LATER + timedelta(days=8)).days is None


def test_twenty_points_a_day_are_twenty_a_day_in_a_young_pool_and_after_a_batch(pool: BenchmarkPool) -> None:
    small = PhaseThreshold(points=8, quality=0.5, max_age_days=90, task_types=1, agents=1)
    criteria = BatchSettings(sft=small, grpo=small.model_copy(update={"quality": 0.0}))  # there failures count
    pool = type(pool)(pool.engine, pool.lake, pool.settings.model_copy(update={"batch": criteria}))
    day = NOON + timedelta(days=1)
    failed: dict[str, Any] = {"success": False, "overallScore": 0.3}
    fill(pool, "a", [*tasks("good", 10), *tasks("bad", 10, **failed)])
    assert [phase.per_day for phase in batch_outlook(pool, now=day).phases] == pytest.approx([10, 10], rel=0.01)
    make_batch(pool, "b1", now=day)
    assert [phase.per_day for phase in batch_outlook(pool, now=day).phases] == [0, 0]
    fill(pool, "b", [*tasks("more", 10, days=1), *tasks("worse", 10, days=1, **failed)], day=NEXT)
    outlook = batch_outlook(pool, now=day + timedelta(days=1))
    assert [phase.points for phase in outlook.phases] == [10, 20]  # GRPO may use SFT's
    assert [phase.per_day for phase in outlook.phases] == pytest.approx([10, 10], rel=0.01)
