"""Append-only segment files: where logs are durable before anything else happens to them.

A segment is the header ``MAGIC`` and frames; a frame is marker, payload length and CRC-32 (little-endian, 4 bytes
each) and the payload, one log as a JSON line. The file is ``NAME.open`` while its writer lives, who holds an advisory
lock on it, and ``NAME.segment`` once it will not change any more; then it may be compressed
(``flywheel.collection.compression``), which changes no offset.

The file of a living writer is longer than what was written: zeros follow, which are no frame and no damage. What a
dying process or machine leaves behind are torn frames, which the reader skips and reports, as it does bit rot.
"""

import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from flywheel.collection.compression import BLOCK_BYTES, COMPRESSED_MAGIC, BlockReader, compress, decompress
from flywheel.errors import NotASegmentError, SegmentError

MAGIC = b"FLYSEG01"
MARKER = b"\xf1\x79\xf1\x79"  # not UTF-8, so no JSON payload contains it: the reader finds the next frame by it
HEADER = struct.Struct("<4sII")
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
OPEN_SUFFIX = ".open"
CLOSED_SUFFIX = ".segment"
PARTIAL_AFTER_S = 3600.0  # an unfinished file that nobody wrote to for so long was left by a killed process


class Frame(Struct, frozen=True, kw_only=True):
    """One payload and where its frame starts in the file."""

    offset: int
    payload: bytes


class Damage(Struct, frozen=True, kw_only=True):
    """Bytes of a segment that hold no readable frame. A torn tail is what a killed writer leaves."""

    offset: int
    size: int
    kind: Literal["corrupt", "torn-tail"]


def encode_frames(payloads: Iterable[bytes], *, start: bytes = b"") -> bytes:
    """The payloads behind one another and behind ``start``, each with its frame around it. Raises as ``framed``."""
    return b"".join(chain((start,), chain.from_iterable(map(framed, payloads))))


def framed(payload: bytes) -> tuple[bytes, bytes]:
    """A frame in its two pieces: its header, and the payload itself, which is copied once where frames are joined.

    Raises:
        SegmentError: the payload is empty or larger than ``MAX_PAYLOAD_BYTES``.
    """
    if not payload:  # a marker before zeros, as a power cut can leave it, would read as its frame
        raise SegmentError("a log of no bytes cannot be framed")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise SegmentError(f"a log of {len(payload):,} bytes is larger than the {MAX_PAYLOAD_BYTES:,} a frame may hold")
    return HEADER.pack(MARKER, len(payload), zlib.crc32(payload)), payload


def read_segment(path: Path) -> Iterator[Frame | Damage]:
    """All frames of a segment in order, and the damage between them.

    Raises:
        SegmentError: the file cannot be read.
        NotASegmentError: it does not start as a segment.
    """
    data = segment_bytes(path)
    if not MAGIC.startswith(bytes(data[: len(MAGIC)])):
        raise NotASegmentError(f"{path} is not a segment: it starts with {bytes(data[:8])!r}, not {MAGIC!r}")
    offset = len(MAGIC)
    while offset < len(data):
        payload = _payload_at(data, offset)
        if payload is not None:
            yield Frame(offset=offset, payload=payload)
            offset += HEADER.size + len(payload)
            continue
        following = _next_frame(data, offset + 1)
        if following is not None:
            yield Damage(offset=offset, size=following - offset, kind="corrupt")
        elif end := _end_of_zeros(data, offset):
            yield Damage(offset=offset, size=end - offset, kind="torn-tail")
        offset = len(data) if following is None else following


def segment_bytes(path: Path) -> bytes | bytearray:
    """The bytes of a segment in its uncompressed form. Of a file that is none, what is in it.

    Raises:
        SegmentError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SegmentError(f"segment {path} cannot be read: {error}") from error
    return decompress(content, start=MAGIC) if content.startswith(COMPRESSED_MAGIC) else content


def written_bytes(data: bytes) -> bytes:
    """The bytes of a segment without the zeros of its preallocated tail."""
    offset = len(MAGIC)
    while (payload := _payload_at(data, offset)) is not None:
        offset += HEADER.size + len(payload)
    while (following := _next_frame(data, offset)) is not None:  # behind damage
        offset = following
        while (payload := _payload_at(data, offset)) is not None:
            offset += HEADER.size + len(payload)
    return data[: _end_of_zeros(data, offset) or offset]


class OpenedSegment:
    """A closed segment of which single lines are read, by their offsets. Use it as a context manager.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._blocks: BlockReader | None = None
        self._held: tuple[int, bytes] = (-1, b"")  # lines are read in their order: one block is enough
        if os.pread(self._file.fileno(), len(COMPRESSED_MAGIC), 0) == COMPRESSED_MAGIC:
            with self._file:
                self._blocks = BlockReader(self._file.readall())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, size: int, offset: int) -> bytes:
        """``size`` bytes from ``offset`` on, or fewer where the segment ends."""
        if self._blocks is None:
            return os.pread(self._file.fileno(), size, offset)
        end = min(offset + size, self._blocks.size)
        first, last = offset // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        data = (
            b"".join(self._block(number) for number in range(first, last + 1)) if last > first else self._block(first)
        )
        start = offset - first * BLOCK_BYTES
        return data[start : start + end - offset]

    def _block(self, number: int) -> bytes:
        if self._held[0] != number:
            assert self._blocks is not None
            self._held = (number, self._blocks.read(number))
        return self._held[1]


def _payload_at(data: bytes | bytearray, offset: int) -> bytes | None:
    if offset + HEADER.size > len(data):
        return None
    marker, length, checksum = HEADER.unpack_from(data, offset)
    start = offset + HEADER.size
    if marker != MARKER or not 0 < length <= MAX_PAYLOAD_BYTES or start + length > len(data):
        return None
    payload = bytes(data[start : start + length])
    return payload if zlib.crc32(payload) == checksum else None


def _end_of_zeros(data: bytes | bytearray, start: int) -> int | None:
    """Where the bytes from ``start`` on are zeros alone; None where all of them are."""
    rest = data[start:].rstrip(b"\0")
    return start + len(rest) if rest else None


def _next_frame(data: bytes | bytearray, start: int) -> int | None:
    while (start := data.find(MARKER, start)) >= 0:
        if _payload_at(data, start) is not None:
            return start
        start += 1
    return None


def closed_segments(folder: Path) -> list[Path]:
    """The segments of a folder that will not change any more, by name."""
    return sorted(folder.glob(f"*{CLOSED_SUFFIX}"))


def write_closed_segment(path: Path, payloads: Iterable[bytes], *, compressed: bool = True) -> int:
    """Write a whole segment at once; it appears under its name complete or not at all. Returns its size in bytes.

    Raises:
        SegmentError: a payload is too large.
        OSError: it could not be written.
    """
    data = encode_frames(payloads, start=MAGIC)
    return write_whole(path, compress(data) if compressed else (data,))


def write_whole(path: Path, pieces: Iterable[bytes], *, modified_ns: int | None = None) -> int:
    """Write a file durably at once, by another name first; ``modified_ns`` is its time. Returns its size in bytes."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb", opener=_private) as file:
            size = sum(file.write(piece) for piece in pieces)
            file.flush()
            if modified_ns is not None:
                os.utime(file.fileno(), ns=(modified_ns, modified_ns))
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)
    return size


def remove_partial_segments(folder: Path) -> None:
    """Remove what killed writers of whole segments left half written: nothing reads it, and it may be anybody's."""
    for path in folder.glob(f"*{CLOSED_SUFFIX}.*.partial"):
        try:
            if time.time() - path.stat().st_mtime > PARTIAL_AFTER_S:
                path.unlink()
        except FileNotFoundError:
            continue  # it was finished, or another process removed it


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def remove_closed_segment(path: Path) -> None:
    """Delete a segment for good; one that is gone already is no error."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what happened to a folder's names durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
