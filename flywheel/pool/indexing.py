"""What is in a segment: its tasks and their times, read without decoding whole logs."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from flywheel.collection.segments import Damage, Frame, read_segment
from flywheel.errors import NotASegmentError
from flywheel.pool.headers import read_header


class Seen(Struct):
    """What a segment says about one task under one tenant key."""

    first_at: datetime
    routed: bool


class SegmentIndex(Struct):
    """What is in a segment, without its lines."""

    lines: int = 0
    size: int = 0
    stray_lines: int = 0
    tasks: dict[tuple[bytes, bytes], Seen] = {}

    def add(self, line: bytes, *, written_at: datetime) -> None:
        """Account for one more line."""
        self.lines += 1
        self.size += len(line)
        header = read_header(line, written_at=written_at)
        if header is None:
            self.stray_lines += 1
            return
        key, routed = (header.task_key, header.tenant_key), header.log == "routing"
        seen = self.tasks.get(key)
        if seen is None:
            self.tasks[key] = Seen(header.timestamp, routed)
            return
        seen.first_at = min(seen.first_at, header.timestamp)
        seen.routed = seen.routed or routed


def index_lines(lines: Iterator[bytes], *, written_at: datetime) -> SegmentIndex:
    """The index of a segment's lines."""
    index = SegmentIndex()
    for line in lines:
        index.add(line, written_at=written_at)
    return index


class IndexedSegment(Struct, frozen=True, kw_only=True):
    """A segment's index, before it is entered into the ledger; ``torn`` counts frames that could not be read."""

    name: str
    written_at: datetime
    index: SegmentIndex
    torn: int


class SegmentFrames:
    """The whole frames of a segment. After iterating, ``torn`` counts those that could not be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0

    def __iter__(self) -> Iterator[Frame]:
        self.torn = 0
        for frame in read_segment(self.path):
            if isinstance(frame, Damage):
                self.torn += 1
            else:
                yield frame


def read_index(path: Path) -> IndexedSegment:
    """What is in a segment.

    Raises:
        SegmentError: it cannot be read.
    """
    written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    frames = SegmentFrames(path)
    try:
        index = index_lines((frame.payload for frame in frames), written_at=written_at)
    except NotASegmentError:  # its first bytes are not a segment's: nothing in it can be read, and the others can
        index, frames.torn = SegmentIndex(), 1
    return IndexedSegment(name=path.name, written_at=written_at, index=index, torn=frames.torn)
