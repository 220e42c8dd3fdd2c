"""A day's lines sorted by time into parts that fit into memory, on any number of cores.

A part is a slice of the day by when its tasks began, and holds whole tasks. Only where the lines lie is sorted: who
works on a part reads them from their segments, which nobody may replace meanwhile (``BenchmarkPool.keep_segments``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from struct import Struct as Layout
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
from msgspec import Struct

from flywheel.collection.segments import HEADER as FRAME_HEADER
from flywheel.collection.segments import OpenedSegment
from flywheel.errors import PoolError
from flywheel.pool.headers import read_header
from flywheel.pool.indexing import SegmentFrames

if TYPE_CHECKING:
    import numpy as np

TASKS_A_PART = 4_096
BYTES_A_PART = 32 << 20  # of lines; a process needs some ten times as much
MAX_PARTS = 500  # each is an open file; a day of more than two million tasks has larger parts
SIZE = Layout("<I")  # of a chunk
BUFFER_BYTES = 1 << 20
GAP_BYTES = 4_096  # between two lines that are read at once
SPREAD = 0x9E3779B97F4A7C15  # odd: a task and a tenant whose keys are alike do not cancel each other


class SegmentLine(Struct, frozen=True, array_like=True):
    """Where one line of a segment lies: ``size`` bytes from ``offset`` on.

    ``task_key`` is None for a stray line: one without a readable task or time.
    """

    offset: int
    size: int
    log: str
    task_id: str | None
    task_key: bytes | None
    tenant_key: bytes


class Chunk(Struct, frozen=True, array_like=True):
    """The lines of one segment that are of one part, in their order. ``arrived_at``: when the segment was taken in."""

    segment: str
    arrived_at: datetime
    lines: list[SegmentLine]


class RawLine(Struct, frozen=True, kw_only=True):
    """One line of a day. ``task_key`` is None for a stray line, ``owner_key`` where several tenants have the task.

    ``arrived_at``: when the pool took its segment in, by the pool's clock.
    """

    payload: bytes
    segment: str
    arrived_at: datetime
    log: str
    task_id: str | None
    task_key: bytes | None
    owner_key: bytes | None


class Owner(Struct, frozen=True, array_like=True):
    """Under which tenant the lines of a task that name this tenant, or none, are joined."""

    task_key: bytes
    tenant_key: bytes
    owner_key: bytes | None


class SegmentJob(Struct, frozen=True, kw_only=True):
    """A segment to be sorted. ``keys`` are the day's ``keys_of`` in order, uint64; ``parts`` of the same length.

    ``torn`` frames could not be read when the segment was taken in; ``count`` parts there are.
    """

    path: Path
    written_at: datetime
    arrived_at: datetime
    torn: int
    holds_strays: bool
    count: int
    keys: "np.ndarray[Any, Any]"
    parts: "np.ndarray[Any, Any]"


encode_chunk = msgspec.msgpack.Encoder().encode
decode_chunk = msgspec.msgpack.Decoder(Chunk).decode
encode_owners = msgspec.msgpack.Encoder().encode
decode_owners = msgspec.msgpack.Decoder(list[Owner]).decode


def count_of_parts(needed: int, *, processes: int) -> int:
    """How many parts a day that needs so many is sorted into: none of the processes works on a last one alone."""
    rounds = -(-needed // processes)
    return min(MAX_PARTS, needed if rounds == 1 else rounds * processes)


def keys_of(keys: Iterable[tuple[bytes, bytes]]) -> "np.ndarray[Any, Any]":
    """64 bits for each task key and tenant key, uint64: enough to sort by, not to tell two tasks apart for sure."""
    import numpy as np

    pairs = list(keys)
    tasks = np.frombuffer(b"".join(task[:8] for task, _ in pairs), np.uint64)
    tenants = np.frombuffer(b"".join(tenant[:8].ljust(8, b"\0") for _, tenant in pairs), np.uint64)
    return tasks ^ (tenants * np.uint64(SPREAD))


def sort_segment(job: SegmentJob) -> list[tuple[int, bytes]]:
    """The same as ``lines_by_part``, each part's lines encoded as a chunk that ``chunks_in`` reads."""
    name = job.path.name
    return [(part, framed(Chunk(name, job.arrived_at, some))) for part, some in lines_by_part(job).items()]


def framed(chunk: Chunk) -> bytes:
    """A chunk that others may follow."""
    encoded = encode_chunk(chunk)
    return SIZE.pack(len(encoded)) + encoded


def lines_by_part(job: SegmentJob) -> dict[int, list[SegmentLine]]:
    """The lines of a segment that may be the day's, for each part that has any; stray lines by their content.

    Raises:
        SegmentError: the segment cannot be read.
        PoolError: it was damaged after it was taken in.
    """
    lines: list[SegmentLine] = []
    sorted_lines: dict[int, list[SegmentLine]] = defaultdict(list)
    segment = SegmentFrames(job.path)
    for frame in segment:
        offset, payload = frame.offset + FRAME_HEADER.size, frame.payload
        header = read_header(payload, written_at=job.written_at)
        if header is not None:
            keys = (header.task_id, header.task_key, header.tenant_key)
            lines.append(SegmentLine(offset, len(payload), header.log_name, *keys))
        elif job.holds_strays:
            part = crc32(payload) % job.count
            sorted_lines[part].append(SegmentLine(offset, len(payload), "", None, None, b""))
    if segment.torn > job.torn:
        raise PoolError(
            f"segment {job.path} has {segment.torn:,} unreadable places, and had {job.torn:,} when it was taken in: "
            f"it was damaged since. Restore it from a backup; to go on without the lost lines, set torn of its row in "
            f"the table segments"
        )
    for part, line in zip(parts_of(lines, job), lines, strict=True):
        if part >= 0:
            sorted_lines[part].append(line)
    return sorted_lines


def parts_of(lines: list[SegmentLine], job: SegmentJob) -> list[int]:
    """The part of each line; -1 where it is another day's."""
    import numpy as np

    if not lines or not len(job.keys):
        return [-1] * len(lines)
    keys = keys_of((line.task_key or b"", line.tenant_key) for line in lines)
    places = np.minimum(np.searchsorted(job.keys, keys), len(job.keys) - 1)
    parts: list[int] = np.where(job.keys[places] == keys, job.parts[places].astype(np.int32), -1).tolist()
    return parts


@contextmanager
def gathered(
    sorted_segments: Iterable[list[tuple[int, bytes]]], *, parts: int, folder: Path
) -> Iterator[Iterator[bytes]]:
    """What ``sort_segment`` made of every segment, part by part: chunks that ``chunks_in`` reads, in order of arrival.

    Large parts wait in files without a name: nothing remains of them, also when the process is killed.

    Args:
        sorted_segments: in order of arrival.
        parts: at most ``MAX_PARTS``.
        folder: on a disk with room for the day, which ``/tmp`` often is not.

    Raises:
        PoolError: there is no room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(SpooledTemporaryFile(BUFFER_BYTES, dir=str(folder))) for _ in range(parts)]
        for segment in sorted_segments:
            try:
                for part, chunk in segment:
                    files[part].write(chunk)
            except OSError as error:
                raise PoolError(
                    f"where the day's lines lie cannot wait in {folder}: {error}. It needs some 80 bytes a line there; "
                    f"nothing was written, make room and run the day again"
                ) from error

        def contents() -> Iterator[bytes]:
            for file in files:
                file.seek(0)
                yield file.read()

        yield contents()


def chunks_in(content: bytes) -> Iterator[Chunk]:
    """The chunks of a part."""
    position = 0
    while position < len(content):
        (size,) = SIZE.unpack_from(content, position)
        position += SIZE.size
        yield decode_chunk(memoryview(content)[position : position + size])
        position += size


def payloads_of(path: Path, lines: Iterable[SegmentLine]) -> Iterator[bytes]:
    """What some lines of a segment say.

    Raises:
        PoolError: the segment is not what it was when its lines were sorted.
    """
    try:
        with OpenedSegment(path) as segment:
            for run in runs_of(lines):
                start = run[0].offset
                size = run[-1].offset + run[-1].size - start
                content = segment.read(size, start)
                if len(content) != size:
                    raise EOFError(f"it ends at {start + len(content):,}")
                yield from (content[line.offset - start : line.offset - start + line.size] for line in run)
    except (OSError, EOFError) as error:
        raise PoolError(f"segment {path} could be read a moment ago, and now cannot: {error}; run it again") from error


def runs_of(lines: Iterable[SegmentLine]) -> Iterator[list[SegmentLine]]:
    """The same lines, those together that lie so close that reading them at once is faster than one by one."""
    run: list[SegmentLine] = []
    for line in lines:
        if run and not (
            0 <= line.offset - run[-1].offset - run[-1].size <= GAP_BYTES
            and line.offset + line.size - run[0].offset <= BUFFER_BYTES
        ):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def owned_lines(content: bytes, owners: bytes, *, folder: Path) -> Iterator[RawLine]:
    """The lines of a part that are the day's for sure, each with its owner.

    Args:
        content: the part's chunks.
        owners: the part's ``Owner``s, encoded.
        folder: of the segments.

    Raises:
        PoolError: of a task that the ledger knows there is no line, or a segment cannot be read.
    """
    known: dict[tuple[bytes | None, bytes], bytes | None] = {
        (owner.task_key, owner.tenant_key): owner.owner_key for owner in decode_owners(owners)
    }
    seen: set[tuple[bytes | None, bytes]] = set()
    for chunk in chunks_in(content):
        lines = [line for line in chunk.lines if line.task_key is None or (line.task_key, line.tenant_key) in known]
        for line, payload in zip(lines, payloads_of(folder / chunk.segment, lines), strict=True):
            key = (line.task_key, line.tenant_key)
            seen.add(key)
            yield RawLine(
                payload=payload,
                segment=chunk.segment,
                arrived_at=chunk.arrived_at,
                log=line.log,
                task_id=line.task_id,
                task_key=line.task_key,
                owner_key=known.get(key),
            )
    if missing := len(known.keys() - seen):
        raise PoolError(
            f"of {missing:,} of {len(known):,} tasks no line was found in the segments that the ledger "
            f"names; a segment was changed since it was taken in. Restore it from a backup"
        )
