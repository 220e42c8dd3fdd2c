"""Group commit: requests that arrive together are synced together, so that throughput grows with concurrency."""

import errno
import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from flywheel.errors import RetryLaterError, SegmentError

logger = logging.getLogger(__name__)

GROUP_BYTES = 64 * 2**20
FREE_CHECK_S = 1.0


class BacklogError(RetryLaterError):
    """Raised when more waits for the disk than the receiver holds. Nothing was stored; send it again later."""


class DiskError(RetryLaterError):
    """Raised when the disk is full, fails or takes too long. Send it again; equal lines are one line to the pool."""

    wait_s = 10.0


class Writer(Protocol):
    """Where groups go: ``SegmentWriter``."""

    def append_all(self, payloads: Sequence[bytes]) -> None:
        """Write frames; on return they are durable."""

    def close(self) -> None:
        """Close the current segment."""


class Batch:
    """The payloads of one request, and who waits for them."""

    __slots__ = ("payloads", "size", "stored")

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.payloads = payloads
        self.size = sum(map(len, payloads))
        self.stored: Future[None] = Future()
        self.stored.set_running_or_notify_cancel()  # whoever stops to wait for it does not cancel it


class GroupCommitter:
    """One thread that writes what all requests hand in. Whatever has come while it synced goes into the next group.

    Args:
        writer: appends durably.
        folder: where the writer writes; its disk must keep ``min_free_bytes``.
        min_free_bytes: below it nothing is taken.
        max_waiting_bytes: what may wait; more is a backlog.
    """

    def __init__(self, writer: Writer, folder: Path, *, min_free_bytes: int, max_waiting_bytes: int) -> None:
        self._writer = writer
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._max_waiting_bytes = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting: deque[Batch] = deque()
        self._waiting_bytes = 0
        self._ended = False
        self._free_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name=f"commit-{folder.name}", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    @property
    def works(self) -> bool:
        """Whether the thread that writes is there."""
        return self._thread.is_alive()

    @property
    def waiting_bytes(self) -> int:
        """What has been handed in and is not durable yet."""
        with self._changed:
            return self._waiting_bytes

    def submit(self, payloads: Sequence[bytes]) -> "Future[None]":
        """Hand payloads in. The future is done when they are synced, or holds the ``DiskError``.

        Raises:
            BacklogError: too much waits.
            DiskError: the receiver is being stopped.
        """
        batch = Batch(payloads)
        with self._changed:
            if self._ended:
                raise DiskError("the receiver is being stopped; send it again to the next one")
            if self._waiting_bytes + batch.size > self._max_waiting_bytes and self._waiting_bytes:
                raise BacklogError(f"{self._waiting_bytes:,} bytes wait for the disk; send it again in a moment")
            self._waiting.append(batch)
            self._waiting_bytes += batch.size
            self._changed.notify()
        return batch.stored

    def stop(self) -> None:
        """Write what was handed in, close the segment, end the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def check_room(self) -> None:
        """See that the disk has room.

        Raises:
            DiskError: it has not, or cannot be asked.
        """
        if time.monotonic() - self._free_at < FREE_CHECK_S:
            return
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            raise DiskError(f"the folder of segments cannot be used: {error.strerror}") from error
        if free < self._min_free_bytes:
            raise DiskError(
                f"the receiver's disk has {free:,} bytes left and keeps {self._min_free_bytes:,} free; make room there"
            )
        self._free_at = time.monotonic()

    def _run(self) -> None:
        while group := self._next_group():
            self._write(group)
        self._writer.close()

    def _next_group(self) -> list[Batch]:
        """All that waits, up to a bound; nothing once the end has come."""
        group: list[Batch] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            while self._waiting and size < GROUP_BYTES:
                group.append(self._waiting.popleft())
                size += group[-1].size
        return group

    def _write(self, group: list[Batch]) -> None:
        failure: DiskError | None = None
        try:
            self.check_room()
            self._writer.append_all([payload for batch in group for payload in batch.payloads])
        except DiskError as error:
            failure = error
        except OSError as error:
            self._free_at = float("-inf")
            name = errno.errorcode.get(error.errno or 0, "unknown error")
            failure = DiskError(f"the receiver's disk does not take it ({name}); send it again later")
        except SegmentError as error:
            failure = DiskError(str(error))
        except Exception as error:  # those who wait are told, and the thread that writes for all others lives on
            logger.exception("requests were not stored")
            failure = DiskError(f"the receiver met an error of its own ({type(error).__name__}); send it again later")
        with self._changed:
            self._waiting_bytes -= sum(batch.size for batch in group)
        if failure is not None:
            logger.warning("%d requests were not stored: %s", len(group), failure)
        for batch in group:
            if failure is None:
                batch.stored.set_result(None)
            else:
                batch.stored.set_exception(failure)
