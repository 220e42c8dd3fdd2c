"""The collector stamps its tenant, counts what it drops, and never raises into the agent."""

import asyncio
import errno
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from flywheel.collection.collector import Collector, edge_of, without_identifiers
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.collection.writer import Durability
from flywheel.records import (
    Caws,
    Evaluation,
    Execution,
    Feedback,
    Log,
    Message,
    RubricScores,
    ToolCall,
    decode_log,
    encode,
)
from tests.collection.importers.imports import SHARED, logs_of, request


def feedback(**changes: object) -> Feedback:
    values = {"task_id": "t1", "timestamp": datetime(2025, 3, 1, tzinfo=UTC), "source": "user", "name": "thumbs"}
    return Feedback(**{**values, "value": True, **changes})  # type: ignore[arg-type]


def evaluation(**changes: Any) -> Evaluation:
    scores = RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1)
    return Evaluation(
        task_id="t1",
        agent_id="a",
        timestamp=datetime(2025, 3, 1, tzinfo=UTC),
        quality_gates=(),
        rubric_scores=scores,
        overall_score=1.0,
        caws_compliant=True,
        budget_compliant=True,
        passed_all_mandatory=True,
        **changes,
    )


def logged(folder: Path) -> list[object]:
    items = [item for path in closed_segments(folder) for item in read_segment(path)]
    return [decode_log(item.payload) for item in items if isinstance(item, Frame)]


def test_every_log_carries_the_collectors_tenant(tmp_path: Path) -> None:
    with Collector(tmp_path, "acme") as collector:
        assert collector.log_feedback(feedback())
        assert collector.log_feedback(feedback(tenant_id="somebody else"))
    assert logged(tmp_path) == [feedback(tenant_id="acme")] * 2
    assert collector.drops == {}


def test_a_full_disk_is_not_raised_and_what_waited_is_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Collector(tmp_path, "acme") as collector:
        assert collector.log_feedback(feedback(task_id="before"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            assert not collector.log_feedback(feedback(task_id="late"))
            assert collector.waiting == 1
    assert [log.task_id for log in logged(tmp_path)] == ["before", "late"]  # type: ignore[attr-defined]
    assert (collector.drops, collector.waiting) == ({}, 0)


def test_a_folder_that_cannot_be_made_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    collector = Collector(tmp_path / "file", "acme")
    assert not collector.log_feedback(feedback())
    collector.close()
    assert collector.drops == {"EEXIST": 1}


def test_secrets_and_identifiers_leave_a_log_before_it_is_written(tmp_path: Path) -> None:
    secret = feedback(
        name="mail", value="write to jane.doe@example.org, key AKIAIOSFODNN7EXAMPLE", task_id="a@b.example"
    )
    with Collector(tmp_path, "acme") as collector:
        collector.log_feedback(secret)
    [log] = logged(tmp_path)
    assert "jane.doe" not in log.value  # type: ignore[attr-defined]
    assert "AKIAIOSFODNN7EXAMPLE" not in log.value  # type: ignore[attr-defined]
    assert "write to" in log.value  # type: ignore[attr-defined]
    assert log.task_id == "a@b.example"  # type: ignore[attr-defined]  # by it the pool joins


def test_secrets_leave_conversations_and_lists_too(tmp_path: Path) -> None:
    said = "write to jane.doe@example.org, key AKIAIOSFODNN7EXAMPLE"
    call = ToolCall(name="send", arguments=f'{{"text": "{said}"}}')
    execution = Execution(
        task_id="t1",
        agent_id="a",
        timestamp=datetime(2025, 3, 1, tzinfo=UTC),
        success=True,
        tool_call_count=1,
        messages=(Message(role="user", content=said), Message(role="assistant", tool_calls=(call,))),
    )
    with Collector(tmp_path, "acme") as collector:
        collector.log_execution(execution)
    [log] = logged(tmp_path)
    assert "jane.doe" not in str(log)
    assert "AKIAIOSFODNN7EXAMPLE" not in str(log)
    assert [message.role for message in log.messages] == ["user", "assistant"]  # type: ignore[attr-defined]


def test_the_ids_and_signatures_of_a_verdict_stay_whatever_leaves_the_rest_of_it(tmp_path: Path) -> None:
    signature = "ed25519:" + "4111111111111111" * 2 + ":" + "5105105105105100" * 8
    caws = Caws(verdict_id="4111111111111111" * 2, arbiter_signature=signature, waivers_used=("by jane@example.org",))
    mistaken = Caws(verdict_id="4111 1111 1111 1111")  # of another form: looked into like any text
    with Collector(tmp_path, "acme") as collector:
        for verdict in (caws, structs.replace(caws, waivers_used=()), mistaken):
            collector.log_evaluation(evaluation(caws=verdict))
    with_waiver, without, other = (log.caws for log in logged(tmp_path) if isinstance(log, Evaluation))
    assert with_waiver == structs.replace(caws, waivers_used=("by [EMAIL_ADDRESS_1]",))
    assert without == structs.replace(caws, waivers_used=())
    assert other == Caws(verdict_id="[CREDIT_CARD_1]")


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real traces are not in {SHARED}")
def test_real_logs_are_written_as_if_each_was_looked_into_by_way_of_its_json(tmp_path: Path) -> None:
    real = logs_of(SHARED / "trajectories" / "tau-bench-v1", tmp_path / "imported", request(constant=1.0))
    found: list[Log] = [*real.routing, *real.executions, *real.evaluations]
    logs = [structs.replace(log, tenant_id="acme") for log in found]
    edge = edge_of(None)
    expected = [decode_log(without_identifiers(encode(log), edge)) for log in logs]
    with Collector(tmp_path / "collected", "acme") as collector:
        assert all(map(collector.log, logs))
    assert logged(tmp_path / "collected") == expected
    as_they_were = sum(log == written for log, written in zip(logs, expected, strict=True))
    assert 0 < as_they_were < len(logs) == 300


def test_removing_can_be_switched_off(tmp_path: Path) -> None:
    with Collector(tmp_path, "acme", remove_identifiers=False) as collector:
        collector.log_feedback(feedback(value="jane.doe@example.org"))
    [log] = logged(tmp_path)
    assert log.value == "jane.doe@example.org"  # type: ignore[attr-defined]


def test_types_of_the_teams_own_leave_too(tmp_path: Path) -> None:
    from flywheel.pool.anonymization.detection import detection_of
    from flywheel.pool.anonymization.own_types import OwnType

    own = detection_of((OwnType(name="CUSTOMER", pattern=r"KD-\d{6}"),))
    with Collector(tmp_path, "acme", detection=own) as collector:
        collector.log_feedback(feedback(value="customer KD-123456 called"))
    [log] = logged(tmp_path)
    assert log.value == "customer [CUSTOMER_1] called"  # type: ignore[attr-defined]


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_coroutines_log_without_stopping_the_event_loop(tmp_path: Path, durability: Durability) -> None:
    async def service(collector: Collector) -> list[bool]:
        return await asyncio.gather(*(collector.log_async(feedback(task_id=f"t{n}")) for n in range(20)))

    with Collector(tmp_path, "acme", durability=durability) as collector:
        assert asyncio.run(service(collector)) == [True] * 20
    assert {log.task_id for log in logged(tmp_path)} == {f"t{n}" for n in range(20)}  # type: ignore[attr-defined]


def test_text_that_is_not_unicode_is_counted(tmp_path: Path) -> None:
    with Collector(tmp_path, "acme") as collector:
        assert not collector.log_feedback(feedback(name="\ud800"))
    assert collector.drops == {"not encodable: UnicodeEncodeError": 1}
