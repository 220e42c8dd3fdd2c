"""A day's lines sorted by time into parts that fit into memory: every segment is read once, on any number of cores.

A part is a slice of the day by when its tasks began, and holds whole tasks.
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

from flywheel.errors import PoolError
from flywheel.pool.headers import read_header
from flywheel.pool.indexing import SegmentLines

if TYPE_CHECKING:
    import numpy as np

TASKS_A_PART = 4_096
BYTES_A_PART = 32 << 20  # of lines; a process needs some ten times as much
MAX_PARTS = 500  # each is an open file; a day of more than two million tasks has larger parts
SIZES = Layout("<II")  # of a chunk as it is and as it was
BUFFER_BYTES = 1 << 20
SPREAD = 0x9E3779B97F4A7C15  # odd: a task and a tenant whose keys are alike do not cancel each other


class SegmentLine(Struct, frozen=True, array_like=True):
    """One line of a segment. ``task_key`` is None for a stray line: one without a readable task or time."""

    payload: bytes
    segment: str
    log: str
    task_id: str | None
    task_key: bytes | None
    tenant_key: bytes


class RawLine(Struct, frozen=True, kw_only=True):
    """One line of a day. ``task_key`` is None for a stray line, ``owner_key`` where several tenants have the task."""

    payload: bytes
    segment: str
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
    torn: int
    holds_strays: bool
    count: int
    keys: "np.ndarray[Any, Any]"
    parts: "np.ndarray[Any, Any]"


encode_lines = msgspec.msgpack.Encoder().encode
decode_lines = msgspec.msgpack.Decoder(list[SegmentLine]).decode
encode_owners = msgspec.msgpack.Encoder().encode
decode_owners = msgspec.msgpack.Decoder(list[Owner]).decode


def keys_of(keys: Iterable[tuple[bytes, bytes]]) -> "np.ndarray[Any, Any]":
    """64 bits for each task key and tenant key, uint64: enough to sort by, not to tell two tasks apart for sure."""
    import numpy as np

    pairs = list(keys)
    tasks = np.frombuffer(b"".join(task[:8] for task, _ in pairs), np.uint64)
    tenants = np.frombuffer(b"".join(tenant[:8].ljust(8, b"\0") for _, tenant in pairs), np.uint64)
    return tasks ^ (tenants * np.uint64(SPREAD))


def sort_segment(job: SegmentJob) -> list[tuple[int, bytes]]:
    """The same as ``lines_by_part``, each part's lines encoded as a chunk that ``lines_in`` reads."""
    return [(part, encode_chunk(some)) for part, some in lines_by_part(job).items()]


def encode_chunk(lines: list[SegmentLine]) -> bytes:
    """Lines in a third of their room: between processes and on disk their bytes cost more than compressing them."""
    import pyarrow as pa

    encoded = encode_lines(lines)
    compressed: bytes = pa.compress(encoded, codec="lz4", asbytes=True)
    return SIZES.pack(len(compressed), len(encoded)) + compressed


def lines_by_part(job: SegmentJob) -> dict[int, list[SegmentLine]]:
    """The lines of a segment that may be the day's, for each part that has any; stray lines by their content.

    Raises:
        SegmentError: the segment cannot be read.
        PoolError: it was damaged after it was taken in.
    """
    lines: list[SegmentLine] = []
    sorted_lines: dict[int, list[SegmentLine]] = defaultdict(list)
    segment = SegmentLines(job.path)
    for payload in segment:
        header = read_header(payload, written_at=job.written_at)
        if header is not None:
            keys = (header.task_id, header.task_key, header.tenant_key)
            lines.append(SegmentLine(payload, job.path.name, header.log_name, *keys))
        elif job.holds_strays:
            sorted_lines[crc32(payload) % job.count].append(SegmentLine(payload, job.path.name, "", None, None, b""))
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
    """What ``sort_segment`` made of every segment, part by part: chunks that ``lines_in`` reads, in order of arrival.

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
                    f"the day's lines cannot wait in {folder}: {error}. They need as much room there as they have in "
                    f"their segments; nothing was written, make room and run the day again"
                ) from error

        def contents() -> Iterator[bytes]:
            for file in files:
                file.seek(0)
                yield file.read()

        yield contents()


def lines_in(chunks: bytes) -> Iterator[SegmentLine]:
    """The lines of a part."""
    import pyarrow as pa

    position = 0
    while position < len(chunks):
        size, encoded_size = SIZES.unpack_from(chunks, position)
        position += SIZES.size
        yield from decode_lines(
            pa.decompress(memoryview(chunks)[position : position + size], encoded_size, codec="lz4")
        )
        position += size


def owned_lines(chunks: bytes, owners: bytes) -> Iterator[RawLine]:
    """The lines of a part that are the day's for sure, each with its owner.

    Raises:
        PoolError: of a task that the ledger knows there is no line.
    """
    known = {(owner.task_key, owner.tenant_key): owner.owner_key for owner in decode_owners(owners)}
    seen: set[tuple[bytes, bytes]] = set()
    for line in lines_in(chunks):
        if line.task_key is None:
            yield raw_line(line, owner_key=None)
            continue
        key = (line.task_key, line.tenant_key)
        if key in known:
            seen.add(key)
            yield raw_line(line, owner_key=known[key])
    if len(seen) < len(known):
        raise PoolError(
            f"of {len(known) - len(seen):,} of {len(known):,} tasks no line was found in the segments that the ledger "
            f"names; a segment was changed since it was taken in. Restore it from a backup"
        )


def raw_line(line: SegmentLine, *, owner_key: bytes | None) -> RawLine:
    """A segment's line as a day's."""
    return RawLine(
        payload=line.payload,
        segment=line.segment,
        log=line.log,
        task_id=line.task_id,
        task_key=line.task_key,
        owner_key=owner_key,
    )
