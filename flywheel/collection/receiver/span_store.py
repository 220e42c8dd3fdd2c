"""What waits to be assembled, on disk: segments of spans as they came, and the state that takes their place.

The state is one file: the spans that still wait, the traces that are finished, and the logs that the round which wrote
it makes. A line or trace that nothing can be made of is *set aside*: kept as a dead letter below the folder, where
``flywheel collection status`` shows it and ``flywheel collection retry`` brings it back from.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.collection.compression import COMPRESSED_MAGIC
from flywheel.collection.dead_letters import FOLDER, write_named_dead_letter
from flywheel.collection.folder_lock import exclusively
from flywheel.collection.importers.otlp_spans import Item, decode_item, encode_item
from flywheel.collection.segments import (
    CLOSED_SUFFIX,
    MAGIC,
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
UNREADABLE = "unreadable"

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


class SetAside(Struct, frozen=True):
    """Lines that nothing can be made of, and the name of the error."""

    reason: str
    lines: list[bytes]


decode_state = msgspec.json.Decoder(Waiting | Finished | Written | Replaces).decode
encode = msgspec.json.encode


class State:
    """What an assembler knows between two rounds."""

    def __init__(self) -> None:
        self.traces: dict[TraceKey, list[tuple[float, Item]]] = {}
        self.finished: dict[TraceKey, Finished] = {}
        self.logs: list[bytes] = []
        self.set_aside: list[SetAside] = []
        self.sources: list[Path] = []
        self.replaced: list[Path] = []

    def add(self, at: float, line: bytes | msgspec.Raw) -> None:
        """One more span or event; a line that is none is set aside."""
        try:
            item = decode_item(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.set_aside.append(SetAside(UNREADABLE, [bytes(line)]))
            return
        self.traces.setdefault((item.tenant_id, item.trace_id), []).append((at, item))

    def add_entry(self, line: bytes) -> None:
        """One line of a state."""
        try:
            entry = decode_state(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.set_aside.append(SetAside(UNREADABLE, [line]))
            return
        if isinstance(entry, Waiting):
            self.add(entry.at, entry.item)
        elif isinstance(entry, Finished):
            self.finished[entry.tenant_id, entry.trace_id] = entry
        elif isinstance(entry, Written):
            self.logs.append(bytes(entry.log))

    @property
    def waiting(self) -> int:
        """How many spans and events wait."""
        return sum(map(len, self.traces.values()))


def alone(spans: Path) -> AbstractContextManager[bool]:
    """Whether this process is the one that works on a folder of spans, for as long as the context lasts."""
    return exclusively(spans / LOCK)


def load(spans: Path) -> State:
    """What waits in a folder: the state, and what came since. Changes nothing.

    Raises:
        SegmentError: a file cannot be read.
    """
    state = State()
    paths = [path for path in closed_segments(spans) if is_segment(path)]
    lines = {path: list(lines_of(path)) for path in paths if path.name.startswith(STATE_PREFIX)}
    replaced = {name for entries in lines.values() for name in replaced_by(entries)}
    for path in paths:
        if path.name in replaced:
            state.replaced.append(path)
            continue
        state.sources.append(path)
        for entry in lines.get(path, ()):
            state.add_entry(entry)
        if path not in lines:
            at = path.stat().st_mtime
            for line in lines_of(path):
                state.add(at, line)
    return state


def is_segment(path: Path) -> bool:
    """Whether a file begins as a segment does. One that does not stays where it is, and stops no other.

    Raises:
        SegmentError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise SegmentError(f"segment {path} cannot be read: {error}") from error
    if MAGIC.startswith(start) or start == COMPRESSED_MAGIC:
        return True
    logger.error("%s is no segment: it starts with %r; what is in it does not become logs", path, start)
    return False


def replaced_by(entries: Iterable[bytes]) -> list[str]:
    """The names of the files that a state takes the place of; they are its first line."""
    first = next(iter(entries), b"{}")
    try:
        entry = decode_state(first)
    except msgspec.MsgspecError:
        return []
    return entry.names if isinstance(entry, Replaces) else []


def tidy(spans: Path, segments: Path, state: State) -> None:
    """Finish what a round that was killed had begun: files that a state took the place of go, its logs are written."""
    for path in state.replaced:
        remove_closed_segment(path)
    state.replaced = []
    settle(spans, segments, state)


def save(spans: Path, state: State) -> None:
    """Let a new state take the place of all files that were read. What is set aside is kept first."""
    for refused in state.set_aside:
        kept = write_named_dead_letter(
            spans / FOLDER, f"trace-{digest_of(refused.lines)}", refused.lines, reason=refused.reason
        )
        logger.error("%d lines of spans were set aside (%s): %s", len(refused.lines), refused.reason, kept)
    state.set_aside = []
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


def settle(spans: Path, segments: Path, state: State) -> None:
    """Write the logs of a round to the pool's segments, then keep no copy of them: what is erased there is gone."""
    if state.logs:
        publish(segments, state.logs)
        state.logs = []
        save(spans, state)


def publish(segments: Path, logs: list[bytes]) -> None:
    """Write logs as a segment of the pool, once: its name says what is in it."""
    if not logs:
        return
    segments.mkdir(parents=True, exist_ok=True)
    path = segments / f"otlp-{digest_of(logs)}{CLOSED_SUFFIX}"
    if not path.exists():
        write_closed_segment(path, logs)


def digest_of(lines: Iterable[bytes]) -> str:
    """A name for what these lines say."""
    digest = blake2b(digest_size=20)
    for line in lines:
        digest.update(len(line).to_bytes(8) + line)
    return digest.hexdigest()


def number_of(path: Path) -> int:
    """The number of a state file; 0 for others."""
    return int(path.stem.removeprefix(STATE_PREFIX)) if path.name.startswith(STATE_PREFIX) else 0


def lines_of(path: Path) -> Iterator[bytes]:
    """The readable lines of a file; damage, which only a failing disk leaves here, is logged."""
    for found in read_segment(path):
        if isinstance(found, Frame):
            yield found.payload
        else:
            logger.warning("%d bytes of %s at %d cannot be read: %s", found.size, path, found.offset, found.kind)
