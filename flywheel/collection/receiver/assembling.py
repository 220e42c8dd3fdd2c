"""Spans become logs when their trace is whole: what waits is on disk, and each step can be killed and done again.

Spans are acknowledged into segments of a folder of their own (``spans``), one line a span. One assembler a folder works
at a time, whichever receiver holds the lock. Each round reads the closed segments and decides which traces are
complete: the root has come and nothing else for ``trace_settle_s``, or nothing has come for ``trace_wait_s``. It then
writes one file, the *state*: the spans that still wait, the traces that are finished, and the logs of those that are
complete now. Its appearance under its name is the moment the round counts. Only then are the files it replaces removed
and its logs written to the pool's segments, under a name that is a digest of them: a round that is killed is finished
by the next one, and no log is written twice. A trace that cannot be assembled is set aside and costs no other.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.collection.importers.otlp_records import logs_of_late_items, logs_of_trace, task_of
from flywheel.collection.importers.otlp_spans import Item, encode_item
from flywheel.collection.importers.otlp_trace import is_root
from flywheel.collection.limits import ReceiverSettings
from flywheel.collection.live_segment import recover_segments
from flywheel.collection.receiver.counters import Counters
from flywheel.collection.receiver.span_store import (
    Finished,
    SetAside,
    State,
    TraceKey,
    alone,
    encode,
    load,
    save,
    settle,
    tidy,
)
from flywheel.errors import SegmentError, ServiceError

logger = logging.getLogger(__name__)

SHARE_OF_TIME = 20  # a round that takes a second is followed by at least so many without one


class Round(Struct, frozen=True):
    """What a round did. ``set_aside`` has the reason of each trace or line that nothing could be made of."""

    records: int = 0
    ignored: int = 0
    late: int = 0
    logs: int = 0
    waiting: int = 0
    set_aside: tuple[str, ...] = ()


class Assembler:
    """Runs rounds in a thread of its own while it holds the folder's lock."""

    def __init__(
        self,
        spans: Path,
        segments: Path,
        limits: ReceiverSettings,
        *,
        clock: Callable[[], datetime],
        counters: Counters,
    ) -> None:
        self._spans = spans
        self._segments = segments
        self._limits = limits
        self._clock = clock
        self._counters = counters
        self._ended = threading.Event()
        self._worked_s = time.monotonic()
        self._pause_s = limits.trace_settle_s / 2
        self._thread = threading.Thread(target=self._run, name="assemble-traces", daemon=True)

    def start(self) -> None:
        """Begin; a receiver that does not get the lock tries again each round."""
        self._spans.mkdir(parents=True, exist_ok=True)
        self._worked_s = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs. What waits is on disk for the next receiver."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """See that rounds are run.

        Raises:
            ServiceError: the thread has ended, or no round has ended well for ``trace_wait_s``.
        """
        if not self._thread.is_alive():
            raise ServiceError("the thread that assembles traces has ended; start the service again")
        failing_s = time.monotonic() - self._worked_s
        if failing_s > self._limits.trace_wait_s + self._pause_s:
            raise ServiceError(f"no trace could be assembled for {failing_s:.0f} s; their spans stay and wait")

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            began = time.monotonic()
            try:
                done = assemble(self._spans, self._segments, self._limits, now=self._clock().timestamp())
            except Exception as error:
                # Also what nobody foresaw: a thread that ends tells nobody, one that tries again does, and may succeed.
                self._counters.failed_rounds.labels(type(error).__name__).inc()
                foreseen = isinstance(error, OSError | SegmentError)
                logger.error("traces were not assembled, their spans wait: %s", error, exc_info=not foreseen)
            else:
                self._worked_s = time.monotonic()
                self._count(done)
            self._pause_s = max(self._limits.trace_settle_s / 2, SHARE_OF_TIME * (time.monotonic() - began))

    def _count(self, done: Round | None) -> None:
        if done is None:
            return
        self._counters.waiting_spans.set(done.waiting)
        for outcome in ("records", "ignored", "late"):
            self._counters.traces.labels(outcome).inc(getattr(done, outcome))
        for reason in done.set_aside:
            self._counters.set_aside.labels(reason).inc()


def assemble(spans: Path, segments: Path, limits: ReceiverSettings, *, now: float) -> Round | None:
    """One round; None where another assembler works on the folder.

    A trace that cannot be assembled, for whatever reason, is set aside, and the others go on.

    Raises:
        OSError: a file cannot be written or removed. Nothing is lost; the next round goes on.
        SegmentError: a file cannot be read.
    """
    with alone(spans) as held:
        if not held:
            return None
        recover_segments(spans)
        state = load(spans)
        unreadable = tuple(one.reason for one in state.set_aside)
        tidy(spans, segments, state)
        ready = [key for key, items in state.traces.items() if is_complete(items, limits, now=now)]
        expired = [key for key, done in state.finished.items() if now - done.at > limits.trace_memory_s]
        if not ready and not expired and not state.set_aside and len(state.sources) < 2:
            return Round(waiting=state.waiting, set_aside=unreadable)
        done = finish(state, ready, now=now)
        for key in expired:
            if key not in ready:
                del state.finished[key]
        save(spans, state)
        settle(spans, segments, state)
        return msgspec.structs.replace(done, waiting=state.waiting, set_aside=unreadable + done.set_aside)


def is_complete(items: list[tuple[float, Item]], limits: ReceiverSettings, *, now: float) -> bool:
    """Whether a trace can be used: it has its root and came to rest, or has waited long enough."""
    quiet_s = now - max(at for at, _ in items)
    if quiet_s > limits.trace_wait_s:
        return True
    return quiet_s > limits.trace_settle_s and any(is_root(item) for _, item in items)


def finish(state: State, ready: list[TraceKey], *, now: float) -> Round:
    """Make logs of complete traces, and remember them as finished."""
    outcomes = {"records": 0, "ignored": 0, "late": 0}
    set_aside = []
    for key in ready:
        items = [item for _, item in state.traces.pop(key)]
        before = state.finished.get(key)
        try:
            logs, finished = made_of(key, items, before, now=now)
        except Exception as error:
            logger.error("trace %s cannot be assembled and is set aside", key[1], exc_info=True)
            set_aside.append(SetAside(type(error).__name__, [encode_item(item) for item in items]))
            continue
        outcomes["late" if before else "records" if logs else "ignored"] += 1
        state.finished[key] = finished
        state.logs += logs
    state.set_aside += set_aside
    return Round(**outcomes, logs=len(state.logs), set_aside=tuple(one.reason for one in set_aside))


def made_of(key: TraceKey, items: list[Item], before: Finished | None, *, now: float) -> tuple[list[bytes], Finished]:
    """The logs of a complete trace, and what is remembered of it."""
    task_id, agent_id = (before.task_id, before.agent_id) if before else task_of(items)
    logs = logs_of_late_items(items, task_id=task_id, agent_id=agent_id) if before else logs_of_trace(items)
    return [encode({**log, "tenantId": key[0]}) for log in logs], Finished(now, *key, task_id, agent_id)
