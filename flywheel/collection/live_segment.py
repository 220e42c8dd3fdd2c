"""A segment while it is written: a locked, preallocated file, and how it is handed over to the pool.

Handing over is one atomic rename: the frames are written to a new file, compressed and synced, which then gets the
segment's final name; the old file goes after that. A kill between the two leaves both, of which the old one goes at
the next recovery. What was in a file whose sync failed is taken from memory to a new file in the same way: that
file's own sync says whether it is on disk. A failed sync is never repeated, because the kernel forgets what it could
not write and reports success the second time.
"""

import errno
import fcntl
import os
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

from flywheel.collection.compression import compress
from flywheel.collection.forks import DESCRIPTORS
from flywheel.collection.segments import (
    CLOSED_SUFFIX,
    MAGIC,
    OPEN_SUFFIX,
    remove_partial_segments,
    sync_folder,
    write_whole,
    written_bytes,
)

STEP_BYTES = 1024 * 1024  # preallocated at a time
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class LiveSegment:
    """One ``.open`` file and how far it is written and synced, in bytes. Its user makes sure of one thread at a time.

    Attributes:
        size: end of the last whole frame.
        synced: how much of that survives a power cut.
        failed: it must not be written any more.
    """

    def __init__(self, folder: Path, *, now: datetime, durable: bool, max_bytes: int = STEP_BYTES) -> None:
        """Create the file.

        Args:
            folder: is made where it does not exist.
            now: for its name.
            durable: room is written as zeros, so that a later sync has the data to write and nothing else.
            max_bytes: of a segment; room is made in steps no larger than it.

        Raises:
            OSError: it cannot be created; nothing is left of it.
        """
        self.descriptor, self.path = _create(folder, now)
        self.size = self.synced = self._allocated = 0
        self.failed = False
        self._durable = durable
        self._step = min(STEP_BYTES, max_bytes)
        self._preallocates = True
        try:
            self.write(MAGIC)
        except OSError:
            self.path.unlink(missing_ok=True)
            self.release()
            raise

    def write(self, data: bytes) -> None:
        """Append whole frames.

        Raises:
            OSError: nothing of them was written. Where it is not for want of room, ``failed`` is set.
        """
        end = self.size + len(data)
        try:
            if end > self._allocated:
                self._preallocate(end)
            _write_at(self.descriptor, data, self.size)
        except OSError as error:
            self.failed = error.errno not in NO_ROOM or not self._cut()
            raise
        self.size = end

    def sync(self) -> None:
        """Make what was written durable.

        Raises:
            OSError: it may not be; ``failed`` is set, and the next sync belongs to another file.
        """
        size = self.size
        try:
            os.fdatasync(self.descriptor) if sys.platform == "linux" else os.fsync(self.descriptor)
            if not self.synced:
                sync_folder(self.path.parent)
        except OSError:
            self.failed = True
            raise
        self.synced = size

    def forget_unsynced(self) -> None:
        """Leave out of the hand-over what no sync confirmed: its writers were told so and write it elsewhere."""
        self.size = self.synced
        self._cut()

    def hand_over(self) -> Path | None:
        """Give the frames to the pool under the segment's final name; None where there is none. The lock goes.

        Raises:
            OSError: there is no room, or the disk fails. The file remains for ``recover_segments``.
        """
        try:
            data = _read_at(self.descriptor, self.size)
            try:
                return _hand_over(data, self.path, self.descriptor)
            except OSError as error:
                if self.failed or error.errno not in NO_ROOM:
                    raise
                return self._rename()
        finally:
            self.release()

    def release(self) -> None:
        """Close the file as it is; whoever recovers may have it."""
        DESCRIPTORS.discard(self.descriptor)
        os.close(self.descriptor)

    def _rename(self) -> Path:
        """The hand-over that needs no room."""
        os.ftruncate(self.descriptor, self.size)
        os.fsync(self.descriptor)
        closed = self.path.with_suffix(CLOSED_SUFFIX)
        self.path.rename(closed)
        sync_folder(closed.parent)
        return closed

    def _preallocate(self, end: int) -> None:
        """Make room ahead. Where there is only room for the frames, or the file system cannot, there is none ahead."""
        ahead = end + self._step if self._preallocates else end
        try:
            if ahead > end and self._durable:
                _write_at(self.descriptor, bytes(ahead - self._allocated), self._allocated)
            elif ahead > end:
                os.posix_fallocate(self.descriptor, self._allocated, ahead - self._allocated)
        except (OSError, AttributeError):  # macOS has no posix_fallocate
            self._preallocates = False
            ahead = end
        self._allocated = ahead

    def _cut(self) -> bool:
        """Remove what lies behind the last whole frame: it could hold whole frames that were never acknowledged."""
        try:
            os.ftruncate(self.descriptor, self.size)
        except OSError:
            return False
        self._allocated = self.size
        return True


def recover_segments(folder: Path) -> list[Path]:
    """Hand over the ``.open`` segments whose writers are dead, and return them under their new names.

    A live writer holds the lock of its file, which dies with it: no process ids that could have been reused, and it
    holds for containers that share a folder. A segment without a frame is removed.

    Raises:
        OSError: there is no room, or the disk fails. What was not handed over yet remains as it is.
    """
    remove_partial_segments(folder)
    recovered = []
    for path in sorted(folder.glob(f"*{OPEN_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # its writer handed it over meanwhile
        try:
            if _lock(descriptor) and _is_at(descriptor, path):
                content = _read_at(descriptor, os.fstat(descriptor).st_size)
                # Of a file whose machine lost power even the first block may be missing, and later ones be there.
                data = written_bytes(MAGIC + content[len(MAGIC) :])
                closed = _hand_over(data, path, descriptor)
                recovered += [closed] if closed else []
        finally:
            os.close(descriptor)
    return recovered


def _hand_over(data: bytes, path: Path, descriptor: int) -> Path | None:
    closed: Path | None = path.with_suffix(CLOSED_SUFFIX)
    assert closed is not None
    if len(data) <= len(MAGIC):
        closed = None
    elif not closed.exists():  # else its writer was killed before it could remove the old file
        write_whole(closed, compress(data), modified_ns=os.fstat(descriptor).st_mtime_ns)
    path.unlink(missing_ok=True)
    return closed


def _create(folder: Path, now: datetime) -> tuple[int, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{os.getpid()}-{secrets.token_hex(4)}"
        path = folder / f"{name}{OPEN_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        DESCRIPTORS.add(descriptor)
        # A recovery that runs between open and lock takes the new file for a dead writer's; then try another name.
        if _lock(descriptor) and _is_at(descriptor, path):
            return descriptor, path
        DESCRIPTORS.discard(descriptor)
        os.close(descriptor)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of it, however often the kernel takes less than it was given."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        if not written:
            raise OSError(errno.EIO, "the kernel took no byte of a write")
        offset += written
        rest = rest[written:]


def _read_at(descriptor: int, size: int) -> bytes:
    pieces = []
    offset = 0
    while offset < size and (piece := os.pread(descriptor, size - offset, offset)):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


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
