"""The writer of segments: any number of threads append, a thread of its own syncs, rotates and hands over."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from flywheel.collection.forks import begin_in_children
from flywheel.collection.group_commit import GroupCommit
from flywheel.collection.live_segment import LiveSegment, recover_segments
from flywheel.collection.segments import encode_frames

Durability = Literal["process", "machine"]
LOGGER = logging.getLogger("flywheel.collection")
SYNC_INTERVAL_S = 1.0
RECOVERY_INTERVAL_S = 60.0
MAX_SEALED = 16  # segments that wait to be handed over, each an open file


class SegmentWriter:
    """Appends to a segment of its own; one writer a file, any number of writers and processes a folder.

    Safe for threads; a forked child goes on with a segment of its own. A background thread syncs what was written
    every second, closes a segment that is older than ``max_age_s`` or larger than ``max_bytes``, and hands closed ones
    over. It never ends an agent's process and never raises; what it cannot do it logs and does later.

    Args:
        folder: of the segments; made at the first append.
        clock: the time, for names and ages. Ages go by the monotonic clock too, so that a clock set back stops nothing.
        durability: ``process``: what was appended survives the death of this process, and a power cut if that comes
            more than a second later. ``machine``: it survives both.
        max_bytes: of a segment before it is closed.
        max_age_s: of a segment before it is closed.
        patience_s: how long an append waits for those of other threads; None waits.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime],
        durability: Durability = "process",
        max_bytes: int = 16 * 1024 * 1024,
        max_age_s: float = 300.0,
        patience_s: float | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._durability = durability
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._patience_s = -1 if patience_s is None else patience_s
        self.begin()
        begin_in_children(self)

    def begin(self) -> None:
        """Take the state of a new writer, also in a forked child."""
        self._lock = threading.Lock()  # of the current segment; held for one write
        self._housekeeping = threading.Lock()  # of syncing and handing over; held for as long as the disk takes
        patience_s = None if self._patience_s < 0 else self._patience_s
        self._groups = GroupCommit(patience_s=patience_s)
        self._segment: LiveSegment | None = None
        self._opened_at, self._opened_s = datetime.min, 0.0
        self._sealed: list[LiveSegment] = []
        self._left_behind_s: float | None = None
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def append(self, payload: bytes) -> None:
        """Write one frame. When this returns it is as durable as was chosen.

        Raises:
            SegmentError: the payload is too large.
            OSError: it was not written, or may not be durable. It will not be read, unless the machine fails too.
            TimeoutError: others took longer than the writer's patience; an ``OSError``. It may be read later.
        """
        self.append_all((payload,))

    def append_all(self, payloads: Sequence[bytes]) -> None:
        """Write frames to one segment, in their order: all or none. When this returns they are durable as chosen.

        Raises:
            SegmentError: a payload is too large.
            OSError: as of ``append``.
            TimeoutError: as of ``append``.
        """
        data = encode_frames(payloads)
        if data and self._durability == "machine":
            self._groups.commit(data, self._write)
        elif data:
            self._write(data)

    def tick(self) -> None:
        """What the background thread does every second: sync, close by age, hand over closed segments.

        Needed only where somebody wants it done now. It does not raise.
        """
        with self._housekeeping:
            with self._lock:
                if self._segment is not None and self._is_old():
                    self._seal()
                segment = self._segment
            # Where appends sync, nobody else may: the kernel tells one sync of an error, and that must be theirs.
            if self._durability == "process" and segment is not None and segment.size > segment.synced:
                self._sync(segment)
            self._hand_over()

    def close(self) -> None:
        """Hand the current segment over, so that the pool sees it. The next append opens another.

        It does not raise: a segment that cannot be handed over stays on disk and is recovered later.
        """
        with self._housekeeping:
            self._hand_over()
            with self._lock:
                self._seal()
            self._hand_over()

    @property
    def _busy(self) -> bool:
        return self._segment is not None or bool(self._sealed) or self._left_behind_s is not None

    def _write(self, data: bytes) -> None:
        if not self._lock.acquire(timeout=self._patience_s):
            raise TimeoutError(f"another write to {self._folder} took longer than {self._patience_s} s")
        try:
            segment = self._current()
            try:
                segment.write(data)
                if self._durability == "machine":
                    segment.sync()
            except OSError:
                if segment.failed:
                    self._seal()
                raise
        finally:
            self._lock.release()

    def _current(self) -> LiveSegment:
        if self._segment is not None and (self._segment.size >= self._max_bytes or self._is_old()):
            self._seal()
        if self._segment is None:
            self._opened_at, self._opened_s = self._clock(), time.monotonic()
            durable = self._durability == "machine"
            self._segment = LiveSegment(self._folder, now=self._opened_at, durable=durable, max_bytes=self._max_bytes)
            self._start_thread()
        return self._segment

    def _is_old(self) -> bool:
        by_clock_s = abs((self._clock() - self._opened_at).total_seconds())
        return max(by_clock_s, time.monotonic() - self._opened_s) >= self._max_age_s

    def _seal(self) -> None:
        """From here on nobody writes to the current segment."""
        if self._segment is None:
            return
        if len(self._sealed) < MAX_SEALED:
            self._sealed.append(self._segment)
        else:  # the disk is slower than the agents: open files are bounded, and recovery hands this one over
            self._segment.release()
            self._left_behind_s = time.monotonic()
        self._segment = None
        self._wake.set()

    def _sync(self, segment: LiveSegment) -> None:
        try:
            segment.sync()
        except OSError as error:
            LOGGER.warning("syncing %s failed: %s; another segment was opened", segment.path, error)
            with self._lock:
                if self._segment is segment:
                    self._seal()

    def _hand_over(self) -> None:
        while self._sealed:
            segment = self._sealed.pop(0)
            if segment.failed and self._durability == "machine":
                segment.forget_unsynced()
            try:
                segment.hand_over()
            except Exception as error:  # noqa: BLE001 - whatever it is, the file stays, and the next segment's turn comes
                LOGGER.warning("%s cannot be handed over yet: %r; it stays and is recovered later", segment.path, error)
                self._left_behind_s = time.monotonic()
        if self._left_behind_s is not None and time.monotonic() - self._left_behind_s >= RECOVERY_INTERVAL_S:
            self._recover()

    def _recover(self) -> None:
        try:
            recover_segments(self._folder)
            self._left_behind_s = None
        except OSError:
            self._left_behind_s = time.monotonic()

    def _start_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._wake.set()
            return
        arguments = (weakref.ref(self), self._wake)
        self._thread = threading.Thread(target=_keep_house, args=arguments, name="flywheel-segments", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is ending: what is written now is recovered by the next reader
            self._thread = None
        weakref.finalize(self, self._wake.set).atexit = False


def _keep_house(reference: "weakref.ref[SegmentWriter]", wake: threading.Event) -> None:
    """The background thread; it ends with its writer, and sleeps while that has nothing open."""
    busy = True
    while True:
        wake.wait(SYNC_INTERVAL_S if busy else None)
        wake.clear()
        writer = reference()
        if writer is None:
            return
        try:
            writer.tick()
        except Exception:  # whatever it was: what could not be done waits for the next second, and logging goes on
            LOGGER.exception("keeping house in %s failed", writer._folder)
        busy = writer._busy
        del writer
