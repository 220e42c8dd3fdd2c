"""What of a tenant lies beside the segments: spans that wait, logs that were not delivered, traces that were set aside.

Dead letters hold logs as they were before anything was anonymized. What a log among them belongs to is told as in a
segment; a span says its tenant, and its task as far as it or its trace states one. They are looked through before the
segments are: what is brought back meanwhile is found there.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.collection.dead_letters import FOLDER, letters_alone
from flywheel.collection.importers.otlp_spans import Item, decode_item
from flywheel.collection.receiver.span_erasure import count_spans, erase_spans, is_of_tasks
from flywheel.collection.segments import Frame, closed_segments, remove_closed_segment, write_closed_segment
from flywheel.errors import SegmentError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.tenant_lines import Searched, TenantLines, frames_of, mentions, search, tenant_lines
from flywheel.pool.tenants import Tenant

Search = Callable[[Path], Searched]


class LetterCounts(Struct, frozen=True, kw_only=True):
    """How much of a tenant waits or was kept aside. ``open_…``: in segments of spans that a receiver still writes."""

    dead_letters: int
    waiting_spans: int
    open_segments: int
    open_lines: int


def count_letters(pool: BenchmarkPool, wanted: Tenant) -> LetterCounts:
    """Count what waits of a tenant and what was kept aside; changes nothing.

    Raises:
        SegmentError: a file cannot be read.
        DatabaseError: PostgreSQL cannot be used.
    """
    spans = count_spans(pool.settings.spans_dir, wanted.id, tasks=wanted.tasks)
    found = [found_in(path, look) for folder, look in folders(pool, wanted) for path in closed_segments(folder)]
    return LetterCounts(
        dead_letters=sum(one.removed for one in found if one),
        waiting_spans=spans.waiting,
        open_segments=spans.open_segments,
        open_lines=spans.open_lines,
    )


def erase_letters(pool: BenchmarkPool, wanted: Tenant) -> None:
    """Remove what waits of a tenant and what was kept aside. Nobody brings dead letters back meanwhile.

    Raises:
        SegmentError: a file cannot be read, or somebody works on a folder for too long; run it again.
        OSError: a file cannot be written.
        DatabaseError: PostgreSQL cannot be used.
    """
    erase_spans(pool.settings.spans_dir, pool.settings.segments_dir, wanted.id, tasks=wanted.tasks)
    for folder, look in folders(pool, wanted):
        with letters_alone(folder) as there:
            for path in closed_segments(folder) if there else ():
                searched = look(path)
                if searched.removed or searched.damaged:
                    keep(path, searched.kept)


def folders(pool: BenchmarkPool, wanted: Tenant) -> Iterator[tuple[Path, Search]]:
    """The folders of dead letters, and how one of them is searched."""
    with pool.transaction() as connection:
        lines = tenant_lines(connection, wanted)
    yield pool.settings.dead_letters_dir, partial(search_logs, lines)
    yield pool.settings.spans_dir / FOLDER, partial(search_spans, wanted)


def found_in(path: Path, look: Search) -> Searched | None:
    """What is in a dead letter; None where it was brought back meanwhile."""
    try:
        return look(path)
    except (SegmentError, FileNotFoundError):
        if path.exists():
            raise
        return None


def search_logs(lines: TenantLines, path: Path) -> Searched:
    """A dead letter of logs."""
    return search(path, lines, written_at=datetime.fromtimestamp(path.stat().st_mtime, UTC))


def search_spans(wanted: Tenant, path: Path) -> Searched:
    """A dead letter of spans. A line that is none is the tenant's where it names it, and of a task where it names both.

    Bytes of which nothing can be read go with its lines.
    """
    frames = list(frames_of(path))
    payloads = [frame.payload for frame in frames if isinstance(frame, Frame)]
    theirs = set(items_of(wanted, payloads))
    kept = [payload for number, payload in enumerate(payloads) if number not in theirs]
    return Searched(kept=kept, removed=len(theirs), damaged=bool(theirs) and len(payloads) < len(frames))


def items_of(wanted: Tenant, payloads: Iterable[bytes]) -> Iterator[int]:
    """The places of those lines that are a tenant's, or of tasks of it."""
    traces: dict[str, list[tuple[int, Item]]] = defaultdict(list)
    for number, payload in enumerate(payloads):
        try:
            item = decode_item(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            named = mentions(payload, wanted.id)
            if named and (wanted.tasks is None or any(mentions(payload, task) for task in wanted.tasks)):
                yield number
            continue
        if item.tenant_id == wanted.id:
            traces[item.trace_id].append((number, item))
    for items in traces.values():
        if wanted.tasks is None or is_of_tasks((item for _, item in items), wanted.tasks):
            yield from (number for number, _ in items)


def keep(path: Path, lines: list[bytes]) -> None:
    """Let a dead letter hold these lines alone, at the time that it has; one without any goes."""
    if not lines:
        remove_closed_segment(path)
        return
    modified = path.stat().st_mtime_ns
    write_closed_segment(path, lines)
    os.utime(path, ns=(modified, modified))
