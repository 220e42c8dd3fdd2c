"""Append-only segment files: where logs are durable before anything else happens to them.

A segment is the header ``MAGIC`` and frames; a frame is marker, payload length and CRC-32 (little-endian, 4 bytes
each) and the payload, one log as a JSON line. The file is ``NAME.open`` while its writer lives, who holds an advisory
lock on it, and ``NAME.segment`` once it will not change any more.

A frame is handed to the kernel by one ``write``: it survives the death of its process, not a power cut. What a dying
process leaves behind can only be a torn last frame; the reader skips and reports it, as it does bit rot.
"""

import fcntl
import os
import secrets
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from flywheel.errors import NotASegmentError, SegmentError

MAGIC = b"FLYSEG01"
MARKER = b"\xf1\x79\xf1\x79"  # not UTF-8, so no JSON payload contains it: the reader finds the next frame by it
HEADER = struct.Struct("<4sII")
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
OPEN_SUFFIX = ".open"
CLOSED_SUFFIX = ".segment"


class Frame(Struct, frozen=True, kw_only=True):
    """One payload and where its frame starts in the file."""

    offset: int
    payload: bytes


class Damage(Struct, frozen=True, kw_only=True):
    """Bytes of a segment that hold no readable frame. A torn tail is what a killed writer leaves."""

    offset: int
    size: int
    kind: Literal["corrupt", "torn-tail"]


def encode_frame(payload: bytes) -> bytes:
    """The payload with its frame around it.

    Raises:
        SegmentError: the payload is larger than ``MAX_PAYLOAD_BYTES``.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise SegmentError(f"a log of {len(payload):,} bytes is larger than the {MAX_PAYLOAD_BYTES:,} a frame may hold")
    return HEADER.pack(MARKER, len(payload), zlib.crc32(payload)) + payload


def read_segment(path: Path) -> Iterator[Frame | Damage]:
    """All frames of a segment in order, and the damage between them.

    Raises:
        SegmentError: the file cannot be read.
        NotASegmentError: it does not start as a segment.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SegmentError(f"segment {path} cannot be read: {error}") from error
    if not MAGIC.startswith(data[: len(MAGIC)]):
        raise NotASegmentError(f"{path} is not a segment: it starts with {data[:8]!r}, not {MAGIC!r}")
    offset = len(MAGIC)
    while offset < len(data):
        payload = _payload_at(data, offset)
        if payload is not None:
            yield Frame(offset=offset, payload=payload)
            offset += HEADER.size + len(payload)
            continue
        following = _next_frame(data, offset + 1)
        kind: Literal["corrupt", "torn-tail"] = "torn-tail" if following is None else "corrupt"
        end = len(data) if following is None else following
        yield Damage(offset=offset, size=end - offset, kind=kind)
        offset = end


def _payload_at(data: bytes, offset: int) -> bytes | None:
    if offset + HEADER.size > len(data):
        return None
    marker, length, checksum = HEADER.unpack_from(data, offset)
    start = offset + HEADER.size
    if marker != MARKER or length > MAX_PAYLOAD_BYTES or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if zlib.crc32(payload) == checksum else None


def _next_frame(data: bytes, start: int) -> int | None:
    while (start := data.find(MARKER, start)) >= 0:
        if _payload_at(data, start) is not None:
            return start
        start += 1
    return None


def closed_segments(folder: Path) -> list[Path]:
    """The segments of a folder that will not change any more, by name."""
    return sorted(folder.glob(f"*{CLOSED_SUFFIX}"))


def write_closed_segment(path: Path, payloads: Iterable[bytes]) -> int:
    """Write a whole segment at once; it appears under its name complete or not at all. Returns its size in bytes."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            size = file.write(MAGIC)
            size += sum(file.write(encode_frame(payload)) for payload in payloads)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return size


def remove_closed_segment(path: Path) -> None:
    """Delete a segment for good; one that is gone already is no error."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        _sync_folder(path.parent)


def recover_segments(folder: Path) -> list[Path]:
    """Close the ``.open`` segments whose writers are dead, and return them under their new names.

    A live writer holds the lock of its file, which dies with it: no process ids that could have been reused, and it
    holds for containers that share a folder. A segment without a frame is removed.
    """
    recovered = []
    for path in sorted(folder.glob(f"*{OPEN_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # its writer closed it meanwhile
        try:
            if _lock(descriptor) and _is_at(descriptor, path):
                closed = _close_segment(descriptor, path)
                recovered += [closed] if closed else []
        finally:
            os.close(descriptor)
    return recovered


class SegmentWriter:
    """Appends to the folder's newest segment of its own; one writer a file, any number of writers a folder.

    Safe for threads. A segment is closed when it reaches ``max_bytes``, at the first append after ``max_age_s``, and
    by ``close``. After a fork the child must make a writer of its own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime],
        max_bytes: int = 16 * 1024 * 1024,
        max_age_s: float = 300.0,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._path = folder
        self._size = 0
        self._opened_at = datetime.min.replace(tzinfo=UTC)

    def append(self, payload: bytes) -> None:
        """Write one frame. When this returns, the frame survives the death of the process.

        Raises:
            SegmentError: the payload is too large.
            OSError: it was not written, for example because the disk is full. Nothing of it stays in the file.
        """
        frame = encode_frame(payload)
        with self._lock:
            if self._descriptor is not None and self._is_full():
                self._close()
            if self._descriptor is None:
                self._open()
            self._write(frame)

    def close(self) -> None:
        """Close the current segment, so that the pool sees it. The next append opens another."""
        with self._lock:
            if self._descriptor is not None:
                self._close()

    def _is_full(self) -> bool:
        age_s = (self._clock() - self._opened_at).total_seconds()
        return self._size >= self._max_bytes or age_s >= self._max_age_s

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            now = self._clock()
            name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{os.getpid()}-{secrets.token_hex(4)}"
            path = self._folder / f"{name}{OPEN_SUFFIX}"
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            # A recovery that runs between open and lock takes the new file for a dead writer's; then try another name.
            if _lock(descriptor) and _is_at(descriptor, path):
                break
            os.close(descriptor)
        self._descriptor, self._path, self._size, self._opened_at = descriptor, path, 0, now
        self._write(MAGIC)

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                raise OSError(f"{written} of {len(data)} bytes were written to {self._path}")
        except OSError:
            if self._size == 0:
                self._close()  # not even the header fits: a file without it is none of ours
            else:
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _close(self) -> None:
        assert self._descriptor is not None
        descriptor, self._descriptor = self._descriptor, None
        try:
            _close_segment(descriptor, self._path)
        finally:
            os.close(descriptor)


def _close_segment(descriptor: int, path: Path) -> Path | None:
    """Give a locked ``.open`` file its final name, or remove it where it holds no frame."""
    if os.fstat(descriptor).st_size <= len(MAGIC):
        path.unlink()
        return None
    os.fsync(descriptor)
    closed = path.with_suffix(CLOSED_SUFFIX)
    path.rename(closed)
    _sync_folder(path.parent)
    return closed


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
