"""What Prometheus reads is what the ledger says."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from math import inf
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from psycopg.types.json import Jsonb

from flywheel.arbiter.evaluation.judges.kept import KeptInDatabase
from flywheel.pool import lake_readings
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.halts import halt_on_violations
from flywheel.pool.health import ALARMS
from flywheel.pool.intake import index_segments
from flywheel.pool.lake_readings import LakeReading, read_lake, size_trend
from flywheel.pool.metrics import render_metrics
from flywheel.pool.overview import pool_counts
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.quarantine import list_quarantine, reject
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.tiers import aggregate_cold, place_hot, place_warm
from flywheel.pool.trends import tier_size
from flywheel.pool.validation import validate_day
from tests.pool.logs import NOON, task_logs, write_segment

DAY = date(2026, 3, 2)
LATER = NOON + timedelta(hours=6)
COUNTERS = {"flywheel_pool_batches", "flywheel_pool_halts", "flywheel_judge_findings"}


def fill(pool: BenchmarkPool, *, agent: str = "agent-a") -> None:
    """A day of four points, a task that fails its gate, a line that waits and one that is no JSON."""
    logs = [log for number in range(4) for log in task_logs(f"t{number}", agent=agent, success=number > 0)]
    broken = task_logs("t9", toolCallCount=5)
    write_segment(pool.settings, "a", [*logs, *broken, logs[0], task_logs("alone")[0], b"not json"])
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    anonymize_day(pool, DAY)
    clean = not halt_on_violations(pool, DAY, now=LATER).count
    for place in (place_hot, place_warm, aggregate_cold) if clean else ():
        place(pool, DAY, now=LATER)
    refresh_statistics(pool, DAY)


def parsed(pool: BenchmarkPool, *, now: datetime = LATER) -> dict[str, Metric]:
    text = render_metrics(pool, now=now).decode()
    return {metric.name: metric for metric in text_string_to_metric_families(text)}


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def test_the_metrics_match_the_ledger(pool: BenchmarkPool) -> None:
    fill(pool)
    found = {name: values(metric) for name, metric in parsed(pool).items()}
    counts = pool_counts(pool)
    lines = found["flywheel_pool_lines"]
    assert lines == {
        ("in_points",): counts["lines_in_points"],
        ("quarantined",): counts["quarantined"],
        ("duplicates",): counts["duplicates"],
        ("waiting",): counts["waiting"],
    }
    assert (sum(lines.values()), lines["duplicates",], lines["waiting",]) == (18, 1, 1)
    assert found["flywheel_pool_segment_lines"] == {(): 18}
    assert found["flywheel_pool_points"] == {("hot",): 4, ("warm",): 4, ("cold",): 4}
    assert found["flywheel_pool_tier_days"] == {("hot",): 1, ("warm",): 1, ("cold",): 1}
    assert found["flywheel_pool_gate_failed_lines"]["consistent",] == 3
    assert found["flywheel_pool_gate_failed_lines"]["time",] == 0
    assert found["flywheel_pool_gate_warned_points"]["plausible",] == 1
    assert found["flywheel_pool_quarantined_lines"] == {("pending",): 4, ("approved",): 0, ("rejected",): 0}
    assert found["flywheel_pool_waiting_tasks"] == {("<1h", "execution+evaluation"): 1}
    assert found["flywheel_pool_longest_wait_seconds"] == {(): 0}
    assert found["flywheel_pool_expired_tasks"] == {(): 0}
    assert found["flywheel_pool_watermark_timestamp_seconds"] == {(): LATER.timestamp()}
    assert found["flywheel_pool_watermark_observed_timestamp_seconds"] == {(): LATER.timestamp()}
    assert found["flywheel_pool_open_segments"] == {(): 0}
    assert found["flywheel_pool_lag_seconds"] == {(): 6 * 3600}
    assert found["flywheel_pool_stale_days"] == {(): 0}
    assert found["flywheel_pool_agent_success_ratio"] == {("agent-a", "tool-calling"): 0.75}
    assert found["flywheel_pool_tier_bytes"]["warm",] == tier_size(pool, "warm").tier_bytes > 0
    assert found["flywheel_pool_batch_points_missing"]["sft",] == 296
    assert found["flywheel_pool_next_batch_seconds"]["sft",] == pytest.approx(296 / (4 / 0.25) * 86_400)
    assert found["flywheel_pool_alerts_active"] == {(alarm.name, alarm.severity): 0 for alarm in ALARMS}


def test_a_halt_and_a_review_are_seen_at_once(pool: BenchmarkPool) -> None:
    fill(pool, agent="ann.lee@example.org")
    reject(pool, next(line.id for line in list_quarantine(pool) if line.task_id), note="a test", now=LATER)
    found = {name: values(metric) for name, metric in parsed(pool).items()}
    assert found["flywheel_pool_open_halts"] == {(): 1}
    assert found["flywheel_pool_halts"] == {(): 1}
    assert found["flywheel_pool_privacy_violations"] == {(): 4}
    assert found["flywheel_pool_alerts_active"]["privacy", "critical"] == 1
    assert found["flywheel_pool_quarantined_lines"]["rejected",] == 3


def test_what_judges_found_is_counted_over_all_processes(pool: BenchmarkPool) -> None:
    for _ in range(2):
        kept = KeptInDatabase(pool.engine, days=30)
        kept.count(Counter({("one", "safety", "score"): 3, ("one", "safety", "unreadable"): 1}))
    assert values(parsed(pool)["flywheel_judge_findings"]) == {
        ("safety", "one", "score"): 6,  # by the names of the labels: criterion, judge, outcome
        ("safety", "one", "unreadable"): 2,
    }


def test_waiting_tasks_are_counted_by_their_age_until_they_expire(pool: BenchmarkPool) -> None:
    fill(pool)
    for later, age in ((timedelta(days=2), "<3d"), (timedelta(days=6), "<7d"), (timedelta(days=7), ">=7d")):
        found = parsed(pool, now=LATER + later)
        assert values(found["flywheel_pool_waiting_tasks"]) == {(age, "execution+evaluation"): 1}
        assert values(found["flywheel_pool_longest_wait_seconds"]) == {(): later.total_seconds()}
    validate_day(pool, DAY, now=LATER + timedelta(days=7))
    found = parsed(pool, now=LATER + timedelta(days=7))
    assert values(found["flywheel_pool_expired_tasks"]) == {(): 1}
    assert values(found["flywheel_pool_gate_failed_lines"])["incomplete-expired",] == 1
    assert found["flywheel_pool_waiting_tasks"].samples == found["flywheel_pool_longest_wait_seconds"].samples == []


def test_an_empty_pool_has_metrics_and_no_lag(pool: BenchmarkPool) -> None:
    found = parsed(pool)
    assert "flywheel_pool_lag_seconds" not in {name for name, metric in found.items() if metric.samples}
    assert values(found["flywheel_pool_points"]) == {("hot",): 0, ("warm",): 0, ("cold",): 0}
    assert values(found["flywheel_pool_next_batch_seconds"])["sft",] == inf


def test_every_metric_says_what_it_is_and_only_what_never_falls_is_a_counter(pool: BenchmarkPool) -> None:
    fill(pool)
    found = parsed(pool)
    assert all(metric.documentation for metric in found.values())
    assert {name for name, metric in found.items() if metric.type == "counter"} == COUNTERS
    assert {metric.type for metric in found.values()} == {"counter", "gauge"}


def test_no_label_names_a_tenant_a_task_or_a_day(pool: BenchmarkPool) -> None:
    fill(pool)
    text = render_metrics(pool, now=LATER).decode()
    labels = {label for metric in parsed(pool).values() for sample in metric.samples for label in sample.labels}
    assert labels == {
        *("tier", "outcome", "gate", "state", "agent", "task_type", "alert", "severity", "phase", "kind"),
        *("missing", "age"),
    }
    assert "acme" not in text
    assert "2026-03" not in text


def test_a_lake_that_cannot_be_read_is_said_and_hides_nothing_else(pool: BenchmarkPool) -> None:
    fill(pool)
    for log in Path(pool.lake.table_url("data_points")).glob("_delta_log/*.json"):
        log.write_text("not a log")
    found = parsed(pool)
    assert values(found["flywheel_pool_lake_readable"]) == {(): 0}
    assert "flywheel_pool_batch_points_missing" not in found
    assert values(found["flywheel_pool_points"])["hot",] == 4


def test_an_agent_with_an_odd_name_is_read_back(pool: BenchmarkPool) -> None:
    fill(pool, agent='an "odd"\\agent\nof two lines')
    assert ('an "odd"\\agent\nof two lines', "tool-calling") in values(parsed(pool)["flywheel_pool_agent_tasks"])


def test_the_lake_is_asked_when_its_last_reading_is_old(pool: BenchmarkPool) -> None:
    def read_at(now: datetime) -> float:
        return values(parsed(pool, now=now)["flywheel_pool_lake_read_timestamp_seconds"])[()]

    fill(pool)
    read_lake(pool, now=LATER)
    assert read_at(LATER + timedelta(minutes=14)) == LATER.timestamp()
    again = LATER + timedelta(minutes=15)
    assert read_at(again) == again.timestamp()
    assert read_at(again + timedelta(minutes=1)) == again.timestamp()
    megabytes = size_trend(pool, "warm", DAY)
    assert megabytes == {DAY: tier_size(pool, "warm").tier_bytes / 1e6}


def test_one_scrape_asks_the_lake_and_the_others_serve_the_old_reading_with_its_age(
    pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pool)
    read_lake(pool, now=LATER)
    asking, go_on = threading.Event(), threading.Event()
    asked: list[datetime] = []

    def slowly(opened: BenchmarkPool, *, now: datetime) -> LakeReading:
        asked.append(now)
        asking.set()
        assert go_on.wait(60)
        return read_lake(opened, now=now)

    monkeypatch.setattr(lake_readings, "read_lake", slowly)
    later = LATER + timedelta(hours=1)

    def age() -> float:
        return values(parsed(pool, now=later)["flywheel_pool_lake_reading_age_seconds"])[()]

    with ThreadPoolExecutor(1) as scrapes:
        first = scrapes.submit(age)
        assert asking.wait(60)
        assert [age(), age()] == [3600, 3600]
        go_on.set()
        assert first.result() == 0
    assert age() == 0
    assert asked == [later]


def test_scrapes_of_a_pool_without_a_reading_wait_for_one(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[datetime] = []

    def counted(opened: BenchmarkPool, *, now: datetime) -> LakeReading:
        asked.append(now)
        return read_lake(opened, now=now)

    monkeypatch.setattr(lake_readings, "read_lake", counted)
    with ThreadPoolExecutor(4) as scrapes:
        found = list(scrapes.map(lambda _: parsed(pool), range(4)))
    assert [values(metrics["flywheel_pool_lake_readable"]) for metrics in found] == [{(): 1}] * 4
    assert len(asked) == 1


def test_training_batches_and_exports_are_counted_apart(pool: BenchmarkPool) -> None:
    with pool.transaction() as connection:
        for name, phases in {"b1": ("sft", "grpo"), "e1": ("sft",), "e2": ("curriculum",)}.items():
            counts = Jsonb({"points": dict.fromkeys(phases, 1)})
            connection.execute(
                "INSERT INTO batches (id, digest, created_at, first_at, last_at, criteria, distribution, quality)"
                " VALUES (%s, '', %s, %s, %s, '{}', %s, '{}')",
                (name, LATER, LATER, LATER, counts),
            )
    assert values(parsed(pool)["flywheel_pool_batches"]) == {("training",): 1, ("export",): 2}
