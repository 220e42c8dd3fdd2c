"""Logs that were imported may lack what nobody measured, if they say so; nothing fills it in."""

from typing import Any

import msgspec
import pytest

from flywheel.collection.completion import Completed, Terms, complete
from flywheel.collection.importers.interface import Run
from flywheel.collection.ingest import Request, ingest
from flywheel.collection.mapping import Mapping
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.intake import index_segments, stale_days
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import VALIDATED, check_rows
from flywheel.pool.statistics import refresh_statistics
from flywheel.pool.validation import validate_day
from flywheel.records import Message, decode_log, decode_point, encode
from tests.collection.importers.imports import SHARED
from tests.pool.logs import NOON, evaluation, execution, routing, task_logs
from tests.pool.test_validation import DAY, LATER, quarantined, validated

MESSAGES = (Message(role="user", content="2 + 2?"), Message(role="assistant", content="4"))


def imported(key: str, **fields: Any) -> list[bytes]:
    """The logs of an imported run."""
    run = Run(key=key, agent_id="agent-a", started_at=NOON, messages=MESSAGES, reward=1.0, success=True)
    for name, value in fields.items():
        setattr(run, name, value)
    completed = complete(run, Terms(format="test", tenant_id="acme"))
    assert isinstance(completed, Completed)
    return [encode(log) for log in completed.logs]


def test_an_imported_point_without_latency_and_tokens_is_valid_and_says_so(pool: BenchmarkPool) -> None:
    report = validated(pool, imported("a"))
    (row,) = read_rows(pool, VALIDATED, DAY)
    point = decode_point(row["payload"])
    assert (report.points, report.warnings) == (1, {"measured": 1})
    assert (row["latency_ms"], row["tokens_used"], row["rl_ready"]) == (None, None, False)
    assert (point.execution.latency_ms, point.provenance.warnings) == (None, ("measured",))
    assert point.provenance.imported is not msgspec.UNSET
    assert {"latencyMs", "tokensUsed"} <= set(point.provenance.imported.absent)
    assert any(rule.startswith("rubric-of-reward") for rule in point.provenance.imported.rules)
    assert check_rows(pool, DAY).passed


@pytest.mark.parametrize("name", ["latencyMs", "tokensUsed"])
def test_a_log_of_an_arbiter_is_not_complete_without_them(pool: BenchmarkPool, name: str) -> None:
    executed = execution("t1")
    del executed[name]
    validated(pool, [routing("t1"), executed, evaluation("t1")])
    (bad,) = (row for row in quarantined(pool) if row["gates"] == ["complete"])
    assert name in bad["reasons"][0]


def test_an_imported_log_is_not_complete_without_what_it_does_not_call_absent(pool: BenchmarkPool) -> None:
    executed = execution("t1", imported={"format": "test", "absent": ["tokensUsed"]})
    del executed["latencyMs"]
    validated(pool, [routing("t1"), executed, evaluation("t1")])
    assert [row["gates"] for row in quarantined(pool)].count(["complete"]) == 1


def test_a_mean_latency_is_of_the_points_that_have_one(pool: BenchmarkPool) -> None:
    validated(pool, [*imported("a"), *imported("b", latency_ms=300.0, tokens_used=7), *imported("c", latency_ms=100.0)])
    anonymize_day(pool, DAY)
    assert refresh_statistics(pool, DAY).tasks == 3
    with pool.transaction() as connection:
        sums = connection.execute(
            "SELECT tasks, timed_tasks, latency_ms_sum, tokens_sum FROM daily_statistics"
        ).fetchall()
    assert sums == [(3, 2, 400.0, 7)]


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real traces are not in {SHARED}")
@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("trajectories/agentdojo/slack.none.jsonl.gz", 357),
        ("trajectories/tau2/sierra/gpt-4.1_airline_default_gpt-4.1_1trials.json.gz", 20),
        ("trajectories/tau-bench-v1/gpt-4o-airline.json.gz", 100),
    ],
)
def test_real_traces_come_out_of_the_pool_as_valid_points(pool: BenchmarkPool, path: str, runs: int) -> None:
    asked = Request(tenant_id="acme", mapping=Mapping(timestamp=NOON))
    assert ingest([str(SHARED / path)], pool.settings.segments_dir, asked).points == runs
    index_segments(pool, now=LATER)
    reports = [validate_day(pool, stale.day, now=LATER) for stale in stale_days(pool)]
    assert (sum(report.points for report in reports), quarantined(pool)) == (runs, [])
    assert all(check_rows(pool, report.day).passed for report in reports)


def test_logs_of_arbiters_are_encoded_as_they_were() -> None:
    for log in task_logs("t1"):
        assert b"imported" not in encode(decode_log(msgspec.json.encode(log)))
