"""Delivery: what the writer cannot take now waits in bounded memory, is tried again, and is kept or counted.

While nothing waits, a log goes to the writer in the agent's own thread. From the first failure on, logs only join the
queue, which takes no disk; a thread empties it. So a disk that fails or hangs costs each thread of the agent at most
the one write it is in.
"""

import errno
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from flywheel.collection.dead_letters import write_dead_letter
from flywheel.collection.forks import begin_in_children
from flywheel.collection.segments import MAX_PAYLOAD_BYTES
from flywheel.collection.writer import SegmentWriter

LOGGER = logging.getLogger("flywheel.collection")
RETRY_S = 1.0
DELIVERIES = 3
BATCH_BYTES = 1024 * 1024


class _Waiting:
    __slots__ = ("failures", "payload")

    def __init__(self, payload: bytes, failures: int) -> None:
        self.payload, self.failures = payload, failures


class Delivery:
    """Hands payloads to a writer; one that fails ``DELIVERIES`` times goes to the dead letters.

    Args:
        writer: of segments.
        dead_letters: folder for what cannot be delivered; best on another disk.
        clock: the time, for names.
        max_bytes: of what waits. Payloads beyond are dropped and counted.
        retry_s: between two attempts.
    """

    def __init__(
        self,
        writer: SegmentWriter,
        *,
        dead_letters: Path,
        clock: Callable[[], datetime],
        max_bytes: int = 16 * 1024 * 1024,
        retry_s: float = RETRY_S,
    ) -> None:
        self._writer = writer
        self._dead_letters = dead_letters
        self._clock = clock
        self._max_bytes = max_bytes
        self._retry_s = retry_s
        self.begin()
        begin_in_children(self)

    def begin(self) -> None:
        """Take the state of a new one, also in a forked child: what waits is its parent's to deliver."""
        self._lock = threading.Lock()
        self._delivering = threading.Lock()
        self._stop = threading.Event()
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._reason = ""
        self._failing_since_s: float | None = None
        self._late: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._drops: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """Payloads that wait for another attempt."""
        return len(self._waiting)

    @property
    def drops(self) -> dict[str, int]:
        """Logs that were lost, by reason."""
        with self._lock:
            return dict(self._drops)

    def send(self, payload: bytes) -> bool:
        """Whether the payload was written. If not, it waits, or was dropped. Never raises."""
        failures = 0
        if len(payload) > MAX_PAYLOAD_BYTES:
            self.drop("too large")
            return False
        if not self._waiting:
            try:
                self._writer.append(payload)
                return True
            except OSError as error:
                failures = 1
                self._note(error)
        self._wait(_Waiting(payload, failures))
        return False

    def drop(self, reason: str, count: int = 1) -> None:
        """Count logs that are lost."""
        with self._lock:
            self._drops[reason] += count

    def close(self) -> None:
        """Try once more; what is left goes to the dead letters, or is dropped and counted."""
        self._stop.set()
        with self._delivering:
            while self._waiting and self._deliver_batch(last=True):
                pass
            with self._lock:
                left, self._bytes = len(self._waiting), 0
                self._waiting.clear()
                self._drops.update({self._reason: left} if left else {})
                self._late.update({"dropped": left} if left else {})
            self._say_it_works()
        self._stop = threading.Event()

    def _wait(self, one: _Waiting) -> None:
        with self._lock:
            if self._bytes + len(one.payload) > self._max_bytes:
                self._drops[self._reason or "overload"] += 1
                self._late["dropped"] += 1
                return
            self._waiting.append(one)
            self._bytes += len(one.payload)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flywheel-delivery", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is ending; ``close`` tries once more
                    self._thread = None

    def _note(self, error: OSError) -> None:
        """Say it once, when it begins."""
        with self._lock:
            self._reason = reason_of(error)
            begins = self._failing_since_s is None
            if begins:
                self._failing_since_s = time.monotonic()
        if begins:
            LOGGER.warning("logs cannot be written now: %s; they wait in memory and are tried again", error)

    def _run(self) -> None:
        """The thread: it lives while something waits."""
        while True:
            self._stop.wait(self._retry_s)
            with self._delivering:
                while self._waiting and self._deliver_batch(last=False):
                    pass
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        break
                if self._stop.is_set():
                    with self._lock:
                        self._thread = None
                    return
        self._say_it_works()

    def _deliver_batch(self, *, last: bool) -> bool:
        """Deliver what waits longest, or give it up; whether it is worth going on."""
        batch = self._batch()
        try:
            self._writer.append_all([one.payload for one in batch])
        except OSError as error:
            self._note(error)
            for one in batch:
                one.failures += 1
            # From the front alone: threads that failed side by side may stand behind one that came after them.
            given_up = batch if last else list(takewhile(lambda one: one.failures >= DELIVERIES, batch))
            return bool(given_up) and self._give_up(given_up)
        self._leave(batch, "delivered late")
        return True

    def _batch(self) -> list[_Waiting]:
        """The first of the queue."""
        batch: list[_Waiting] = []
        size = 0
        with self._lock:
            for one in self._waiting:
                size += len(one.payload)
                if batch and size > BATCH_BYTES:
                    break
                batch.append(one)
        return batch

    def _give_up(self, batch: list[_Waiting]) -> bool:
        try:
            write_dead_letter(
                self._dead_letters, [one.payload for one in batch], reason=self._reason, now=self._clock()
            )
        except OSError:
            return False  # they wait on, until memory for them ends
        self._leave(batch, "kept as dead letters")
        return True

    def _leave(self, batch: list[_Waiting], how: str) -> None:
        with self._lock:
            for one in batch:
                self._waiting.popleft()
                self._bytes -= len(one.payload)
            self._late[how] += len(batch)

    def _say_it_works(self) -> None:
        with self._lock:
            if self._failing_since_s is None:
                return
            seconds = time.monotonic() - self._failing_since_s
            told = ", ".join(f"{count:,} {how}" for how, count in sorted(self._late.items()))
            self._failing_since_s, reason = None, self._reason
            self._late.clear()
        LOGGER.warning("after %.1f s no log waits any more (%s): %s", seconds, reason, told or "none was lost")


def reason_of(error: OSError) -> str:
    """An error in one word, for counting."""
    if isinstance(error, TimeoutError):
        return "overload"
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
