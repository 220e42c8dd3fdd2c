"""What waits to be assembled and is a tenant's, or of single tasks of it: counted, and erased."""

from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from flywheel.collection.folder_lock import in_turn
from flywheel.collection.importers.otlp_spans import Item, Span
from flywheel.collection.importers.otlp_trace import OWN
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.receiver.span_store import LOCK, State, TraceKey, lines_of, load, save, tidy
from flywheel.collection.segments import OPEN_SUFFIX
from flywheel.errors import SegmentError

TASK = f"{OWN}task.id"


class WaitingSpans(Struct, frozen=True, kw_only=True):
    """How many spans and events of a tenant wait, and how many more are in segments that a receiver still writes."""

    waiting: int = 0
    open_segments: int = 0
    open_lines: int = 0


def count_spans(spans: Path, tenant_id: str, *, tasks: Collection[str] | None = None) -> WaitingSpans:
    """Count what waits of a tenant; changes nothing.

    Raises:
        SegmentError: a file cannot be read.
    """
    if not spans.is_dir():
        return WaitingSpans()
    state = load(spans)
    still_open = [spans_in(path, tenant_id, tasks) for path in sorted(spans.glob(f"*{OPEN_SUFFIX}"))]
    return WaitingSpans(
        waiting=sum(len(state.traces[key]) for key in traces_of(state, tenant_id, tasks)),
        open_segments=sum(map(bool, still_open)),
        open_lines=sum(still_open),
    )


def erase_spans(
    spans: Path, segments: Path, tenant_id: str, *, tasks: Collection[str] | None = None, patience_s: float = 60.0
) -> int:
    """Remove what waits of a tenant, or of tasks of it. Returns how many spans and events that were.

    What a receiver still writes is left alone; it closes its segment in seconds.

    Raises:
        SegmentError: an assembler works on the folder for longer than ``patience_s``, or a file cannot be read.
        OSError: a file cannot be written.
    """
    if not spans.is_dir():
        return 0
    with in_turn(spans / LOCK, patience_s=patience_s):
        recover_segments(spans)
        state = load(spans)
        tidy(spans, segments, state)
        theirs = traces_of(state, tenant_id, tasks)
        finished = [
            key
            for key, done in state.finished.items()
            if key[0] == tenant_id and (tasks is None or done.task_id in tasks)
        ]
        if not theirs and not finished:
            return 0
        for key in finished:
            del state.finished[key]
        found = sum(len(state.traces.pop(key)) for key in theirs)
        save(spans, state)
        return found


def traces_of(state: State, tenant_id: str, tasks: Collection[str] | None) -> list[TraceKey]:
    """The traces that wait and are of a tenant, or of these tasks of it."""
    return [
        key
        for key, items in state.traces.items()
        if key[0] == tenant_id and (tasks is None or is_of_tasks((item for _, item in items), tasks))
    ]


def is_of_tasks(items: Iterable[Item], tasks: Collection[str]) -> bool:
    """Whether the items of one trace are of one of these tasks: any of them says so, or none says which it is.

    More is not asked of them: what waits may lack the span that decides, and may be what cannot be assembled.
    """
    held = list(items)
    stated = {str(of[TASK]) for item in held for of in attributes_of(item) if of.get(TASK)}
    return not (stated or {held[0].trace_id}).isdisjoint(tasks)


def attributes_of(item: Item) -> tuple[dict[str, object], ...]:
    """Where an item can state its task."""
    return item.resource, item.attributes if isinstance(item, Span) else item.event.attributes


def spans_in(path: Path, tenant_id: str, tasks: Collection[str] | None) -> int:
    """How many spans and events of a tenant are in a segment that a receiver may still write."""
    state = State()
    try:
        for line in lines_of(path):
            state.add(0.0, line)
    except SegmentError:
        if path.exists():
            raise
        return 0  # it was closed meanwhile
    return sum(len(state.traces[key]) for key in traces_of(state, tenant_id, tasks))
