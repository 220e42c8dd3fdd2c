"""The receiver: what comes over the network, judged, bounded and durable before it is acknowledged.

It knows no protocol: ``flywheel.api.receiving`` speaks HTTP to it, ``flywheel.api.otlp_grpc`` gRPC. Any number of
receivers may share a home: each writes segments of its own, keys and named requests are in PostgreSQL.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from flywheel.collection.dead_letters import FOLDER as DEAD_LETTERS
from flywheel.collection.receiver.admission import Admitted
from flywheel.collection.receiver.assembling import Assembler
from flywheel.collection.receiver.committing import BacklogError, GroupCommitter
from flywheel.collection.receiver.counters import Counters
from flywheel.collection.receiver.idempotency import IdempotentRequests
from flywheel.collection.receiver.keys import Holder, KeyRing
from flywheel.collection.receiver.rates import RateLimiter
from flywheel.collection.segments import closed_segments
from flywheel.collection.writer import SegmentWriter
from flywheel.errors import DatabaseError, RetryLaterError, ServiceError
from flywheel.pool.pool import BenchmarkPool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

logger = logging.getLogger(__name__)

Signal = Literal["routing", "execution", "evaluation", "feedback", "traces", "events"]
SPANS: tuple[Signal, ...] = ("traces", "events")


class RateError(RetryLaterError):
    """Raised when a key sends more than ``receiver.items_per_s``. Wait ``wait_s`` seconds."""

    def __init__(self, wait_s: float, rate: float) -> None:
        super().__init__(f"this key sends more than {rate:,.0f} items a second; send it again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Receiver:
    """The receiver of a pool; a context manager that has written all it took when it ends."""

    def __init__(self, pool: BenchmarkPool, *, clock: Callable[[], datetime] | None = None) -> None:
        settings = pool.settings
        self.limits = settings.receiver
        self.clock = clock or (lambda: datetime.now(UTC))
        self.counters = Counters()
        self.keys = KeyRing(pool, cache_s=self.limits.key_cache_s, outage_s=self.limits.key_outage_s)
        self.rates = RateLimiter(items_per_s=self.limits.items_per_s, burst=self.limits.burst_items)
        self.requests = IdempotentRequests(pool, kept=timedelta(hours=self.limits.idempotency_hours))
        self._in_flight = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._logs, self._spans = (
            GroupCommitter(
                SegmentWriter(folder, clock=self.clock, durability="machine", max_age_s=age_s),
                folder,
                min_free_bytes=self.limits.min_free_bytes,
                max_waiting_bytes=self.limits.max_waiting_bytes,
            )
            for folder, age_s in (
                (settings.segments_dir, self.limits.segment_age_s),
                (settings.spans_dir, min(self.limits.segment_age_s, self.limits.trace_settle_s)),
            )
        )
        self._assembler = Assembler(
            settings.spans_dir, settings.segments_dir, self.limits, clock=self.clock, counters=self.counters
        )
        self._forgetting = threading.Thread(target=self._forget_requests, name="forget-requests", daemon=True)
        self.counters.waiting_bytes.set_function(lambda: self._logs.waiting_bytes + self._spans.waiting_bytes)
        for of, folder in (("logs", settings.dead_letters_dir), ("spans", settings.spans_dir / DEAD_LETTERS)):
            self.counters.dead_letters.labels(of).set_function(partial(count_files, folder))

    def __enter__(self) -> Self:
        self._logs.start()
        self._spans.start()
        self._assembler.start()
        self._forgetting.start()
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self._stopped.set()
        self._logs.stop()
        self._spans.stop()
        self._assembler.stop()

    def holder_of(self, key: str) -> Holder:
        """Whose key it is; may ask PostgreSQL.

        Raises:
            UnknownKeyError: nobody's.
            DatabaseError: PostgreSQL cannot be used, and memory does not know the key.
        """
        return self.keys.remembered(key) or self.keys.find(key)

    def check_rate(self, holder: Holder) -> None:
        """See that the key may send now.

        Raises:
            RateError: it has to wait.
        """
        wait_s = self.rates.wait_s(holder.key_id)
        if wait_s > 0:
            raise RateError(wait_s, self.limits.items_per_s)

    @contextmanager
    def room_for(self, size: int) -> "Iterator[None]":
        """Hold memory for a request's body while it is worked on.

        Raises:
            BacklogError: the requests under way hold all there is.
        """
        with self._lock:
            if self._in_flight and self._in_flight + size > self.limits.max_waiting_bytes:
                raise BacklogError(f"requests of {self._in_flight:,} bytes are under way; send it again in a moment")
            self._in_flight += size
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= size

    def store(self, holder: Holder, signal: Signal, admitted: Admitted) -> "Future[None]":
        """Hand admitted lines to the disk. Done when they are synced; what was refused is counted at once.

        Raises:
            BacklogError: too much waits for the disk.
            DiskError: the receiver is being stopped.
        """
        self.rates.take(holder.key_id, len(admitted.lines) + len(admitted.refused))
        for refused in admitted.refused:
            self.counters.rejected.labels(signal, refused.reason).inc()
        if not admitted.lines:
            nothing: Future[None] = Future()
            nothing.set_result(None)
            return nothing
        return self._committer(signal).submit(admitted.lines)

    def acknowledge(self, signal: Signal, lines: Sequence[bytes], *, seconds: float) -> None:
        """Count what was stored and is answered now."""
        self.counters.accepted.labels(signal).inc(len(lines))
        self.counters.latency.labels(signal).observe(seconds)

    def check_ready(self) -> None:
        """See that something can be taken.

        Raises:
            DiskError: the disk has no room.
            ServiceError: a thread of the receiver has ended; start the service again. Or no trace can be assembled.
        """
        self._assembler.check()
        for committer in (self._logs, self._spans):
            if not committer.works:
                raise ServiceError("the receiver's writing thread has ended; its log says why, start the service again")
            committer.check_room()

    def _committer(self, signal: Signal) -> GroupCommitter:
        return self._spans if signal in SPANS else self._logs

    def _forget_requests(self) -> None:
        while not self._stopped.wait(3600.0):
            try:
                self.requests.forget_old(now=self.clock())
            except (
                Exception
            ) as error:  # whatever it is: an hour later is early enough, and a thread that ended is never
                logger.warning(
                    "old requests were not forgotten: %s", error, exc_info=not isinstance(error, DatabaseError)
                )


def count_files(folder: Path) -> float:
    """How many dead letters a folder has; 0 where it is not."""
    return float(len(closed_segments(folder)))
