"""The collector stamps its tenant, counts what it drops, and never raises into the agent."""

import asyncio
import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.collection.collector import Collector
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.collection.writer import Durability
from flywheel.records import Execution, Feedback, Message, ToolCall, decode_log


def feedback(**changes: object) -> Feedback:
    values = {"task_id": "t1", "timestamp": datetime(2025, 3, 1, tzinfo=UTC), "source": "user", "name": "thumbs"}
    return Feedback(**{**values, "value": True, **changes})  # type: ignore[arg-type]


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
