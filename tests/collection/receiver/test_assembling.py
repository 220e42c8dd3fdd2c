"""Traces that come in pieces: assembled once, whole, whatever is killed on the way."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flywheel.collection.importers.otlp_spans import Item, Span, encode_item
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.receiver import assembling, span_store
from flywheel.collection.receiver.assembling import assemble
from flywheel.collection.receiver.span_erasure import erase_spans
from flywheel.collection.receiver.span_store import alone
from flywheel.collection.segments import Frame, closed_segments, read_segment, write_closed_segment
from tests.collection.importers.spans import TRACE, agent, chat, score, span

LIMITS = ReceiverSettings(trace_settle_s=10, trace_wait_s=900, trace_memory_s=3600)
CAME = 1_000_000.0


class Folders:
    """The folder of spans and that of the pool's segments."""

    def __init__(self, home: Path) -> None:
        self.spans, self.segments = home / "spans", home / "segments"
        self.spans.mkdir()
        self._files = 0

    def receive(self, *items: Item, at: float = CAME, tenant: str = "acme") -> None:
        self._files += 1
        path = self.spans / f"2026-{self._files}.segment"
        write_closed_segment(path, [encode_item(msgspec.structs.replace(item, tenant_id=tenant)) for item in items])
        os.utime(path, (at, at))

    def round(self, *, at: float) -> assembling.Round | None:
        return assemble(self.spans, self.segments, LIMITS, now=at)

    @property
    def logs(self) -> list[dict[str, Any]]:
        paths = closed_segments(self.segments) if self.segments.exists() else []
        found = (frame for path in paths for frame in read_segment(path))
        return [msgspec.json.decode(frame.payload) for frame in found if isinstance(frame, Frame)]

    @property
    def kinds(self) -> list[str]:
        return [log["log"] for log in self.logs]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def other_trace(held: Span) -> Span:
    return msgspec.structs.replace(held, trace_id="f" * 32)


def test_a_trace_in_several_requests_is_one_task_once_its_root_came_and_it_is_quiet(folders: Folders) -> None:
    folders.receive(chat(2))
    assert folders.round(at=CAME + 60) == assembling.Round(waiting=1)
    folders.receive(agent(), chat(3), at=CAME + 60)
    assert folders.round(at=CAME + 69) == assembling.Round(waiting=3)
    assert folders.round(at=CAME + 71) == assembling.Round(records=1, logs=1, waiting=0)
    (log,) = folders.logs
    assert (log["tenantId"], log["taskId"], log["tokensUsed"]) == ("acme", TRACE, 30)
    assert folders.round(at=CAME + 100) == assembling.Round(waiting=0)
    assert len(folders.logs) == 1


def test_a_trace_whose_root_never_comes_is_used_after_a_while(folders: Folders) -> None:
    folders.receive(agent(2, parent=1), chat(3, parent=2))
    folders.round(at=CAME + 899)
    assert folders.logs == []
    folders.round(at=CAME + 901)
    assert folders.kinds == ["execution"]


def test_tenants_share_no_trace(folders: Folders) -> None:
    folders.receive(agent(), tenant="acme")
    folders.receive(chat(2), tenant="globex")
    folders.round(at=CAME + 11)
    (log,) = folders.logs
    assert (log["tenantId"], log.get("tokensUsed")) == ("acme", None)


def test_late_spans_make_no_second_execution_and_late_evaluations_count(folders: Folders) -> None:
    folders.receive(agent(attributes={"flywheel.task.id": "t-1"}))
    folders.round(at=CAME + 11)
    folders.receive(chat(2, events=(score("overall", 0.7),)), at=CAME + 60)
    assert folders.round(at=CAME + 1_000) == assembling.Round(late=1, logs=1, waiting=0)
    assert [(log["log"], log["taskId"], log["agentId"]) for log in folders.logs if log["log"] == "evaluation"] == [
        ("evaluation", "t-1", "a")
    ]
    assert sorted(folders.kinds) == ["evaluation", "execution"]


def test_traces_that_say_nothing_of_tasks_are_counted_and_make_no_segment(folders: Folders) -> None:
    folders.receive(span(1, attributes={"http.method": "GET"}))
    assert folders.round(at=CAME + 11) == assembling.Round(ignored=1)
    assert not folders.segments.exists()


class Killed(BaseException):
    """The process dies here."""


STEPS = ("write_closed_segment", "remove_closed_segment", "publish")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("after", [False, True])
def test_a_round_that_is_killed_anywhere_is_finished_by_the_next(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, step: str, count: int, after: bool
) -> None:
    """Before or after the n-th time that the round writes a file, removes one, or gives logs to the pool."""
    folders.receive(agent(), chat(2))
    folders.receive(other_trace(chat(2)))
    real = getattr(span_store, step)
    calls = 0

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count + 1 and not after:
            raise Killed
        result = real(*arguments, **options)
        if calls == count + 1:
            raise Killed
        return result

    with monkeypatch.context() as patched:
        patched.setattr(span_store, step, dying)
        try:
            folders.round(at=CAME + 11)
        except Killed:
            pass
        else:
            assert calls <= count
    folders.receive(other_trace(agent()), at=CAME + 20)
    folders.round(at=CAME + 21)
    folders.round(at=CAME + 31)
    assert sorted(log["taskId"] for log in folders.logs) == sorted([TRACE, "f" * 32])
    assert [log["tokensUsed"] for log in folders.logs] == [15, 15]


def test_one_assembler_works_on_a_folder_at_a_time(folders: Folders) -> None:
    folders.receive(agent())
    with alone(folders.spans) as held:
        assert held
        assert folders.round(at=CAME + 11) is None
    assert folders.round(at=CAME + 11) is not None


def test_what_waits_of_a_tenant_can_be_erased_and_no_copy_stays(folders: Folders) -> None:
    folders.receive(agent(), tenant="acme")
    folders.receive(agent(), chat(2), tenant="globex")
    assert erase_spans(folders.spans, folders.segments, "globex") == 2
    assert erase_spans(folders.spans, folders.segments, "globex") == 0
    folders.round(at=CAME + 11)
    assert [log["tenantId"] for log in folders.logs] == ["acme"]
    assert not holds(folders, b"globex")
    assert not holds(folders, b'"execution"')  # what became a log is in the pool's segments alone


def holds(folders: Folders, text: bytes) -> bool:
    frames: Sequence[Any] = [frame for path in closed_segments(folders.spans) for frame in read_segment(path)]
    return any(text in frame.payload for frame in frames)
