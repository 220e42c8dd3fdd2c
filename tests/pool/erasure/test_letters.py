"""What waits or was kept aside is as raw as on the day it was logged: erasure and retention reach it."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from flywheel.collection.dead_letters import FOLDER, list_dead_letters, write_dead_letter
from flywheel.collection.importers.otlp_spans import Item, LooseEvent, Span, SpanEvent, encode_item
from flywheel.collection.receiver.span_store import load
from flywheel.collection.segments import Frame, closed_segments, read_segment, write_closed_segment
from flywheel.collection.writer import SegmentWriter
from flywheel.pool.erasure import erase_tenant, find_tenant
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.retention import Expired, enforce_retention, find_expired
from tests.pool.erasure.two_tenants import ERASED, LATER, OTHER
from tests.pool.logs import NOON, execution, lines_of, routing

TRACE, NEXT = "a" * 32, "b" * 32


def span(tenant: str, trace: str = TRACE, *, task: str = "", number: int = 1) -> Span:
    stated = {"flywheel.task.id": task} if task else {}
    return Span(trace_id=trace, span_id=f"{number:016x}", tenant_id=tenant, attributes=stated)


def event(tenant: str, trace: str = TRACE) -> LooseEvent:
    return LooseEvent(trace_id=trace, event=SpanEvent(name="gen_ai.evaluation.result"), tenant_id=tenant)


def payloads(folder: Path) -> list[bytes]:
    return [f.payload for path in closed_segments(folder) for f in read_segment(path) if isinstance(f, Frame)]


def lines(*items: Item) -> list[bytes]:
    return [encode_item(item) for item in items]


@pytest.fixture
def kept(pool: BenchmarkPool) -> BenchmarkPool:
    """Spans of two tenants that wait, and dead letters of logs and of spans of both."""
    settings = pool.settings
    settings.spans_dir.mkdir(parents=True)
    write_closed_segment(settings.spans_dir / "1.segment", lines(span(ERASED), event(ERASED), span(OTHER)))
    write_closed_segment(settings.spans_dir / "2.segment", lines(span(ERASED, NEXT, task="t-2", number=2)))
    logs = [routing("t-1", tenant=ERASED), execution("t-2") | {"tenantId": ERASED}, routing("o", tenant=OTHER)]
    write_dead_letter(settings.dead_letters_dir, lines_of([*logs, b"broken"]), reason="EIO", now=NOON)
    write_dead_letter(settings.dead_letters_dir, lines_of(logs[:1]), reason="ENOSPC", now=NOON)
    aside = settings.spans_dir / FOLDER
    write_dead_letter(aside, lines(span(ERASED, NEXT, task="t-2"), span(OTHER)), reason="KeyError", now=NOON)
    unreadable = b'{"otlp": "profile", "tenantId": "' + ERASED.encode() + b'", "traceId": "t-2"}'
    write_dead_letter(aside, [unreadable], reason="unreadable", now=NOON)
    return pool


def folders(pool: BenchmarkPool) -> tuple[Path, ...]:
    return pool.settings.spans_dir, pool.settings.dead_letters_dir, pool.settings.spans_dir / FOLDER


def test_a_dry_run_counts_what_waits_and_what_was_kept_aside_and_changes_nothing(kept: BenchmarkPool) -> None:
    before = [{path: path.read_bytes() for path in closed_segments(folder)} for folder in folders(kept)]
    found = find_tenant(kept, ERASED, now=LATER).removed
    assert (found["waiting_spans"], found["dead_letters"]) == (3, 5)
    one = find_tenant(kept, ERASED, now=LATER, tasks=["t-2"]).removed
    assert (one["waiting_spans"], one["dead_letters"]) == (1, 3)
    assert [{path: path.read_bytes() for path in closed_segments(folder)} for folder in folders(kept)] == before


def test_nothing_of_the_tenant_waits_or_is_kept_aside_afterwards(kept: BenchmarkPool) -> None:
    announced = find_tenant(kept, ERASED, now=LATER).removed
    assert erase_tenant(kept, ERASED, now=LATER).removed == announced
    waiting, logs, aside = map(payloads, folders(kept))
    assert not [line for line in (*waiting, *logs, *aside) if ERASED.encode() in line]
    assert load(kept.settings.spans_dir).waiting == 1
    assert logs == lines_of([routing("o", tenant=OTHER), b"broken"])
    assert aside == lines(span(OTHER))
    (letter,) = list_dead_letters(kept.settings.dead_letters_dir)  # the one of which nothing was left is gone
    assert letter.reason == "EIO"
    assert set(find_tenant(kept, ERASED, now=LATER).removed.values()) == {0}


def test_of_single_tasks_no_other_line_goes(kept: BenchmarkPool) -> None:
    erase_tenant(kept, ERASED, now=LATER, tasks=["t-2"])
    assert load(kept.settings.spans_dir).waiting == 3
    assert len(payloads(kept.settings.dead_letters_dir)) == 4
    assert payloads(kept.settings.spans_dir / FOLDER) == lines(span(OTHER))
    trace = erase_tenant(kept, ERASED, now=LATER, tasks=[TRACE])  # that of a trace which states no other
    assert trace.removed["waiting_spans"] == 2


def test_spans_that_a_receiver_still_writes_are_counted_as_open(kept: BenchmarkPool) -> None:
    with SegmentWriter(kept.settings.spans_dir, clock=lambda: NOON) as writer:
        writer.append_all(lines(span(ERASED), span(OTHER)))
        report = erase_tenant(kept, ERASED, now=LATER)
        assert (report.open_segments, report.open_lines) == (1, 1)
    assert erase_tenant(kept, ERASED, now=LATER).removed["waiting_spans"] == 1
    assert find_tenant(kept, ERASED, now=LATER).open_lines == 0


def test_dead_letters_that_nobody_brought_back_go_after_their_days(kept: BenchmarkPool) -> None:
    days = kept.settings.collection.dead_letter_days
    letters = closed_segments(kept.settings.dead_letters_dir)
    old, young = sorted(letters, key=lambda path: path.stem.partition(".")[2])
    for path, age in ((old, days + 1), (young, days)):
        at = (LATER - timedelta(days=age)).timestamp()
        os.utime(path, (at, at))
    for path in closed_segments(kept.settings.spans_dir / FOLDER):
        at = (LATER - timedelta(days=days + 2)).timestamp()
        os.utime(path, (at, at))
    day = LATER.date() - timedelta(days=days + 1)
    expected = (
        Expired(store="dead-letters", day=day - timedelta(days=1), rows=3),
        Expired(store="dead-letters", day=day, rows=4),
    )
    assert find_expired(kept, now=LATER) == expected
    assert enforce_retention(kept, now=LATER).removed == expected
    assert closed_segments(kept.settings.dead_letters_dir) == [young]
    assert closed_segments(kept.settings.spans_dir / FOLDER) == []
    assert find_expired(kept, now=LATER) == ()
    strange = kept.settings.dead_letters_dir / "strange.segment"
    strange.write_bytes(b"no segment")
    os.utime(strange, (at, at))
    (found,) = enforce_retention(kept, now=LATER).removed
    assert (found.store, found.rows, strange.exists()) == ("dead-letters", 0, False)
