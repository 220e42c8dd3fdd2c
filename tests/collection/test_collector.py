"""The collector stamps its tenant, counts what it drops, and never raises into the agent."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flywheel.collection.collector import Collector
from flywheel.collection.segments import Frame, closed_segments, read_segment
from flywheel.records import Feedback, decode_log


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


def test_a_full_disk_is_counted_and_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Collector(tmp_path, "acme") as collector:
        collector.log_feedback(feedback(task_id="before"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            assert not collector.log_feedback(feedback(task_id="lost"))
        assert collector.log_feedback(feedback(task_id="after"))
        assert collector.drops == {"disk: ENOSPC": 1}
    assert [log.task_id for log in logged(tmp_path)] == ["before", "after"]  # type: ignore[attr-defined]


def test_half_a_frame_on_a_full_disk_leaves_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    room = [30]

    def nearly_full(descriptor: int, data: bytes, offset: int) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: room.pop()], offset)

    with Collector(tmp_path, "acme") as collector:
        collector.log_feedback(feedback(task_id="before"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", nearly_full)
            assert not collector.log_feedback(feedback(task_id="lost"))
        collector.log_feedback(feedback(task_id="after"))
    assert [log.task_id for log in logged(tmp_path)] == ["before", "after"]  # type: ignore[attr-defined]
    assert all(isinstance(item, Frame) for path in closed_segments(tmp_path) for item in read_segment(path))


def test_a_folder_that_cannot_be_made_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    collector = Collector(tmp_path / "file", "acme")
    assert not collector.log_feedback(feedback())
    collector.close()
    assert sum(collector.drops.values()) == 1


def test_text_that_is_not_unicode_is_counted(tmp_path: Path) -> None:
    with Collector(tmp_path, "acme") as collector:
        assert not collector.log_feedback(feedback(name="\ud800"))
    assert collector.drops == {"not encodable: UnicodeEncodeError": 1}
