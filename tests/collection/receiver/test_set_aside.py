"""A trace that nobody foresaw costs no other: it is kept where it is found, counted, and can be brought back."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flywheel.collection.dead_letters import FOLDER, list_dead_letters, retry_dead_letters
from flywheel.collection.importers.otlp_records import logs_of_trace
from flywheel.collection.importers.otlp_spans import Item
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.receiver import assembling, span_store
from flywheel.collection.receiver.assembling import Assembler, Round
from flywheel.collection.receiver.counters import Counters
from flywheel.collection.receiver.span_erasure import erase_spans
from flywheel.collection.segments import write_closed_segment
from flywheel.errors import ServiceError
from tests.collection.importers.spans import TRACE, agent, chat
from tests.collection.receiver.test_assembling import CAME, Folders, Killed, other_trace


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def poisoned(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Assembling with a fault that one trace meets."""
    if items[0].trace_id == TRACE:
        raise KeyError("nobody foresaw this")
    return logs_of_trace(items)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(assembling, "logs_of_trace", poisoned)
    return monkeypatch


def test_a_trace_that_cannot_be_assembled_is_set_aside_and_the_others_go_on(
    folders: Folders, faulty: pytest.MonkeyPatch
) -> None:
    folders.receive(agent(), chat(2))
    folders.receive(other_trace(agent()))
    assert folders.round(at=CAME + 11) == Round(records=1, logs=1, waiting=0, set_aside=("KeyError",))
    assert [log["taskId"] for log in folders.logs] == ["f" * 32]
    (letter,) = list_dead_letters(folders.spans / FOLDER)
    assert (letter.reason, letter.logs) == ("KeyError", 2)
    assert folders.round(at=CAME + 12) == Round()


def test_what_was_set_aside_is_assembled_once_it_is_brought_back(folders: Folders, faulty: pytest.MonkeyPatch) -> None:
    folders.receive(agent(), chat(2))
    folders.round(at=CAME + 11)
    faulty.undo()
    assert retry_dead_letters(folders.spans / FOLDER, folders.spans) == 1
    assert list_dead_letters(folders.spans / FOLDER) == []
    now = max(path.stat().st_mtime for path in folders.spans.glob("trace-*"))
    assert folders.round(at=now + 11) == Round(records=1, logs=1)
    assert [log["tokensUsed"] for log in folders.logs] == [15]


def test_a_line_that_is_no_span_is_set_aside_wherever_it_is_met(folders: Folders) -> None:
    """Such as an older program finds of a newer one."""
    folders.receive(agent())
    write_closed_segment(folders.spans / "later.segment", [b'{"otlp": "profile", "traceId": 1}', b"\xff"])
    write_closed_segment(
        folders.spans / "state-000000000001.segment", [b'{"state":"replaces","names":[]}', b'{"state":7}']
    )
    done = folders.round(at=CAME + 11)
    assert done is not None
    assert (done.records, done.set_aside) == (1, ("unreadable",) * 3)
    assert len(list_dead_letters(folders.spans / FOLDER)) == 3
    assert folders.round(at=CAME + 12) == Round()


def test_an_erasure_sets_aside_what_is_no_span_so_that_it_is_found_there(folders: Folders) -> None:
    """Also where no assembler runs that would set it aside later, when the dead letters were looked through."""
    write_closed_segment(folders.spans / "later.segment", [b'{"otlp": "profile", "tenantId": "globex"}'])
    assert erase_spans(folders.spans, folders.segments, "globex") == 0
    (letter,) = list_dead_letters(folders.spans / FOLDER)
    assert (letter.reason, letter.logs) == ("unreadable", 1)
    assert not (folders.spans / "later.segment").exists()


def test_a_file_that_is_no_segment_stays_where_it_is_and_stops_no_other(folders: Folders) -> None:
    strange = folders.spans / "0.segment"
    strange.write_bytes(b"not a segment at all")
    folders.receive(agent())
    assert folders.round(at=CAME + 11) == Round(records=1, logs=1)
    assert strange.exists()


@pytest.mark.parametrize("step", ["write_named_dead_letter", "write_closed_segment"])
@pytest.mark.parametrize("after", [False, True])
def test_a_round_that_is_killed_while_it_sets_aside_keeps_the_trace_once(
    folders: Folders, faulty: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    folders.receive(agent(), chat(2))
    real = getattr(span_store, step)

    def dying(*arguments: Any, **options: Any) -> None:
        if after:
            real(*arguments, **options)
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(span_store, step, dying)
        with pytest.raises(Killed):
            folders.round(at=CAME + 11)
    folders.round(at=CAME + 12)
    (letter,) = list_dead_letters(folders.spans / FOLDER)
    assert letter.logs == 2
    assert folders.round(at=CAME + 13) == Round()


class Running:
    """An assembler in its thread, over a folder of spans."""

    def __init__(self, home: Path, **limits: float) -> None:
        self.counters = Counters()
        self.rounds = threading.Semaphore(0)
        self.assembler = Assembler(
            home / "spans",
            home / "segments",
            ReceiverSettings(**{"trace_settle_s": 0.02, **limits}),
            clock=lambda: datetime.fromtimestamp(CAME, UTC),
            counters=self.counters,
        )

    def failed(self, reason: str) -> float:
        return (
            self.counters.registry.get_sample_value("flywheel_failed_assembling_rounds_total", {"reason": reason})
            or 0.0
        )


def test_a_round_that_fails_as_nobody_foresaw_is_counted_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(tmp_path)

    def failing(*_: Any, **__: Any) -> Round:
        running.rounds.release()
        raise ZeroDivisionError

    monkeypatch.setattr(assembling, "assemble", failing)
    running.assembler.start()
    for _ in range(3):
        assert running.rounds.acquire(timeout=20)
    running.assembler.check()  # it lives, and has not failed for long
    running.assembler.stop()
    assert running.failed("ZeroDivisionError") >= 2


def test_an_assembler_that_has_failed_for_long_does_not_count_as_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(tmp_path, trace_wait_s=0.01)

    def failing(*_: Any, **__: Any) -> Round:
        running.rounds.release()
        raise OSError("the disk is away")

    monkeypatch.setattr(assembling, "assemble", failing)
    running.assembler.start()
    for _ in range(6):
        assert running.rounds.acquire(timeout=20)
    with pytest.raises(ServiceError, match="no trace could be assembled"):
        running.assembler.check()
    running.assembler.stop()
    assert running.failed("OSError") >= 5
