"""Spans become logs when their trace is whole: what waits is on disk, and each step can be killed and done again.

Spans are acknowledged into segments of a folder of their own (``spans``), one line a span. One assembler a folder works
at a time, whichever receiver holds the lock. Each round reads the closed segments and decides which traces are
complete: the root has come and nothing else for ``trace_settle_s``, or nothing has come for ``trace_wait_s``. It then
writes one file, the *state*: the spans that still wait, the traces that are finished, and the logs of those that are
complete now. Its appearance under its name is the moment the round counts. Only then are the files it replaces removed
and its logs written to the pool's segments, under a name that is a digest of them: a round that is killed is finished
by the next one, and no log is written twice.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.collection.importers.otlp_records import logs_of_late_items, logs_of_trace, task_of
from flywheel.collection.importers.otlp_spans import Item, decode_item, encode_item
from flywheel.collection.importers.otlp_trace import is_root
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.receiver.counters import Counters
from flywheel.collection.segments import (
    CLOSED_SUFFIX,
    Frame,
    closed_segments,
    read_segment,
    remove_closed_segment,
    write_closed_segment,
)
from flywheel.errors import SegmentError

logger = logging.getLogger(__name__)

LOCK = "assembler.lock"
STATE_PREFIX = "state-"
SHARE_OF_TIME = 20  # a round that takes a second is followed by at least so many without one

TraceKey = tuple[str, str]


class Waiting(Struct, tag_field="state", tag="waiting", rename="camel"):
    """A span or event that waits, and when it came (seconds since 1970)."""

    at: float
    item: msgspec.Raw


class Finished(Struct, tag_field="state", tag="finished", rename="camel"):
    """A trace that became logs, and when; what late evaluations of it are of."""

    at: float
    tenant_id: str
    trace_id: str
    task_id: str
    agent_id: str | None = None


class Written(Struct, tag_field="state", tag="logs", rename="camel"):
    """A log that the round of this state makes."""

    log: msgspec.Raw


class Replaces(Struct, tag_field="state", tag="replaces", rename="camel"):
    """The files whose content is in this state."""

    names: list[str]


decode_state = msgspec.json.Decoder(Waiting | Finished | Written | Replaces).decode
encode = msgspec.json.encode


class State:
    """What an assembler knows between two rounds."""

    def __init__(self) -> None:
        self.traces: dict[TraceKey, list[tuple[float, Item]]] = {}
        self.finished: dict[TraceKey, Finished] = {}
        self.logs: list[bytes] = []
        self.sources: list[Path] = []

    def add(self, at: float, item: Item) -> None:
        """One more span or event."""
        self.traces.setdefault((item.tenant_id, item.trace_id), []).append((at, item))

    @property
    def waiting(self) -> int:
        """How many spans and events wait."""
        return sum(map(len, self.traces.values()))


class Round(Struct, frozen=True):
    """What a round did."""

    records: int = 0
    ignored: int = 0
    late: int = 0
    logs: int = 0
    waiting: int = 0


class Assembler:
    """Runs rounds in a thread of its own while it holds the folder's lock."""

    def __init__(
        self,
        spans: Path,
        segments: Path,
        limits: ReceiverSettings,
        *,
        clock: Callable[[], datetime],
        counters: Counters,
    ) -> None:
        self._spans = spans
        self._segments = segments
        self._limits = limits
        self._clock = clock
        self._counters = counters
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="assemble-traces", daemon=True)

    def start(self) -> None:
        """Begin; a receiver that does not get the lock tries again each round."""
        self._spans.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs. What waits is on disk for the next receiver."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_s = self._limits.trace_settle_s / 2
        while not self._ended.wait(pause_s):
            began = time.monotonic()
            try:
                done = assemble(self._spans, self._segments, self._limits, now=self._clock().timestamp())
            except (OSError, SegmentError) as error:
                logger.warning("traces were not assembled, their spans stay and wait: %s", error)
            else:
                self._count(done)
            pause_s = max(self._limits.trace_settle_s / 2, SHARE_OF_TIME * (time.monotonic() - began))

    def _count(self, done: Round | None) -> None:
        if done is None:
            return
        self._counters.waiting_spans.set(done.waiting)
        for outcome in ("records", "ignored", "late"):
            self._counters.traces.labels(outcome).inc(getattr(done, outcome))


def assemble(spans: Path, segments: Path, limits: ReceiverSettings, *, now: float) -> Round | None:
    """One round; None where another assembler works on the folder.

    Raises:
        OSError: a file cannot be written or removed. Nothing is lost; the next round goes on.
        SegmentError: a file cannot be read.
    """
    with exclusively(spans) as held:
        if not held:
            return None
        recover_segments(spans)
        state = load(spans)
        settle(spans, segments, state)  # what a round that was killed after it counted had left
        ready = [key for key, items in state.traces.items() if is_complete(items, limits, now=now)]
        expired = [key for key, done in state.finished.items() if now - done.at > limits.trace_memory_s]
        if not ready and not expired and len(state.sources) < 2:
            return Round(waiting=state.waiting)
        done = finish(state, ready, now=now)
        for key in expired:
            if key not in ready:
                del state.finished[key]
        save(spans, state)
        settle(spans, segments, state)
        return msgspec.structs.replace(done, waiting=state.waiting)


def settle(spans: Path, segments: Path, state: State) -> None:
    """Write the logs of a round to the pool's segments, then keep no copy of them: what is erased there is gone."""
    if state.logs:
        publish(segments, state.logs)
        state.logs = []
        save(spans, state)


def erase_spans(spans: Path, segments: Path, tenant_id: str, *, patience_s: float = 60.0) -> int:
    """Remove what waits of a tenant. Returns how many spans and events that were; open segments close in seconds.

    Raises:
        SegmentError: an assembler works on the folder for longer than ``patience_s``, or a file cannot be read.
        OSError: a file cannot be written.
    """
    deadline = time.monotonic() + patience_s
    while spans.is_dir():
        with exclusively(spans) as held:
            if held:
                return erase_held(spans, segments, tenant_id)
        if time.monotonic() > deadline:
            raise SegmentError(f"an assembler has worked on {spans} for {patience_s:.0f} s; run this again later")
        time.sleep(0.1)
    return 0


def erase_held(spans: Path, segments: Path, tenant_id: str) -> int:
    """The same, while the folder's lock is held."""
    recover_segments(spans)
    state = load(spans)
    settle(spans, segments, state)
    theirs = [key for key in state.traces if key[0] == tenant_id]
    finished = [key for key in state.finished if key[0] == tenant_id]
    if not theirs and not finished:
        return 0
    for key in finished:
        del state.finished[key]
    found = sum(len(state.traces.pop(key)) for key in theirs)
    save(spans, state)
    return found


def is_complete(items: list[tuple[float, Item]], limits: ReceiverSettings, *, now: float) -> bool:
    """Whether a trace can be used: it has its root and came to rest, or has waited long enough."""
    quiet_s = now - max(at for at, _ in items)
    if quiet_s > limits.trace_wait_s:
        return True
    return quiet_s > limits.trace_settle_s and any(is_root(item) for _, item in items)


def finish(state: State, ready: list[TraceKey], *, now: float) -> Round:
    """Make logs of complete traces, and remember them as finished."""
    outcomes = {"records": 0, "ignored": 0, "late": 0}
    for key in ready:
        items = [item for _, item in state.traces.pop(key)]
        before = state.finished.get(key)
        task_id, agent_id = (before.task_id, before.agent_id) if before else task_of(items)
        logs = logs_of_late_items(items, task_id=task_id, agent_id=agent_id) if before else logs_of_trace(items)
        outcomes["late" if before else "records" if logs else "ignored"] += 1
        state.finished[key] = Finished(now, *key, task_id, agent_id)
        state.logs += [encode({**log, "tenantId": key[0]}) for log in logs]
    return Round(**outcomes, logs=len(state.logs))


def load(spans: Path) -> State:
    """What waits in a folder: the state, and what came since. Files that a state replaces are removed first.

    Raises:
        SegmentError: a file cannot be read.
    """
    state = State()
    paths = closed_segments(spans)
    states = [path for path in paths if path.name.startswith(STATE_PREFIX)]
    replaced: set[str] = set()
    for path in states:
        for frame in frames(path):
            entry = decode_state(frame.payload)
            if isinstance(entry, Replaces):
                replaced.update(entry.names)
    for path in paths:
        if path.name in replaced:
            remove_closed_segment(path)
            continue
        state.sources.append(path)
        if path in states:
            load_state(path, state)
        else:
            at = path.stat().st_mtime
            for frame in frames(path):
                state.add(at, decode_item(frame.payload))
    return state


def load_state(path: Path, state: State) -> None:
    """Read a state file."""
    for frame in frames(path):
        entry = decode_state(frame.payload)
        if isinstance(entry, Waiting):
            state.add(entry.at, decode_item(entry.item))
        elif isinstance(entry, Finished):
            state.finished[entry.tenant_id, entry.trace_id] = entry
        elif isinstance(entry, Written):
            state.logs.append(bytes(entry.log))


def save(spans: Path, state: State) -> None:
    """Let a new state take the place of all files that were read."""
    payloads = [encode(Replaces([path.name for path in state.sources]))]
    for items in state.traces.values():
        payloads += [encode(Waiting(at, msgspec.Raw(encode_item(item)))) for at, item in items]
    payloads += map(encode, state.finished.values())
    payloads += [encode(Written(msgspec.Raw(log))) for log in state.logs]
    number = 1 + max((number_of(path) for path in state.sources), default=0)
    path = spans / f"{STATE_PREFIX}{number:012d}{CLOSED_SUFFIX}"
    write_closed_segment(path, payloads)
    for source in state.sources:
        remove_closed_segment(source)
    state.sources = [path]


def number_of(path: Path) -> int:
    """The number of a state file; 0 for others."""
    return int(path.stem.removeprefix(STATE_PREFIX)) if path.name.startswith(STATE_PREFIX) else 0


def publish(segments: Path, logs: list[bytes]) -> None:
    """Write logs as a segment of the pool, once: its name says what is in it."""
    if not logs:
        return
    segments.mkdir(parents=True, exist_ok=True)
    digest = blake2b(digest_size=20)
    for log in logs:
        digest.update(len(log).to_bytes(8) + log)
    path = segments / f"otlp-{digest.hexdigest()}{CLOSED_SUFFIX}"
    if not path.exists():
        write_closed_segment(path, logs)


def frames(path: Path) -> Iterator[Frame]:
    """The readable frames of a file; damage, which only a failing disk leaves here, is logged."""
    for found in read_segment(path):
        if isinstance(found, Frame):
            yield found
        else:
            logger.warning("%d bytes of %s at %d cannot be read: %s", found.size, path, found.offset, found.kind)


@contextmanager
def exclusively(spans: Path) -> Iterator[bool]:
    """Hold the folder's lock, if nobody does. The kernel lets go of it when its process ends."""
    descriptor = os.open(spans / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
