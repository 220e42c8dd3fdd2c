"""Calls that can be given up: at a deadline, or when somebody cancels.

Python cannot stop a thread, so a call runs in one of its own, and giving it up means not waiting for it any more. What
it holds it holds until it really ends: an agent that hangs stays counted as busy, and gets no more tasks than it has
room for.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from flywheel.errors import FlywheelError

T = TypeVar("T")
LOGGER = logging.getLogger(__name__)
CANCELLED = "cancelled by the caller"


class CallTimeoutError(FlywheelError):
    """Raised when a call was given up at its deadline."""


class TaskCancelledError(FlywheelError):
    """Raised when a call was given up because the task was cancelled. The message is the canceller's reason."""


class CancelToken:
    """Says to a running task that nobody wants its result any more. Safe for threads; cancelling twice is once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._waiting: set[threading.Event] = set()

    @property
    def reason(self) -> str | None:
        """Why the task was cancelled; None where it was not."""
        return self._reason

    def cancel(self, reason: str = CANCELLED) -> None:
        """Cancel. The task ends soon, accounted for; what its agent is busy with is given up."""
        with self._lock:
            self._reason = self._reason or reason
            waiting = tuple(self._waiting)
        for event in waiting:
            event.set()

    def raise_if_cancelled(self) -> None:
        """Raise where it was.

        Raises:
            TaskCancelledError: it was.
        """
        if self._reason is not None:
            raise TaskCancelledError(self._reason)

    def wait(self, event: threading.Event, *, seconds: float | None) -> None:
        """Wait until the event is set, which cancelling does too, or for so long."""
        with self._lock:
            self._waiting.add(event)
            if self._reason is not None:
                event.set()
        try:
            event.wait(seconds)
        finally:
            with self._lock:
                self._waiting.discard(event)


def call(work: Callable[[], T], *, seconds: float | None, token: CancelToken, name: str) -> T:
    """The result of the work, or what it raises, if it ends in time.

    Args:
        work: runs in a thread of its own, which does not keep the process alive.
        seconds: how long to wait; None: as long as it takes.
        token: may cancel meanwhile.
        name: of the thread.

    Raises:
        CallTimeoutError: it did not end in time.
        TaskCancelledError: it was cancelled before or meanwhile.
    """
    token.raise_if_cancelled()
    if seconds is not None and seconds <= 0:
        raise CallTimeoutError("no time was left")
    return awaited(in_thread(work, name=name), seconds=seconds, token=token)


def never() -> float | None:
    """For work that gives no sign of life before it ends."""
    return None


def awaited(
    future: "Future[T]",
    *,
    seconds: float | None,
    token: CancelToken,
    at_most_s: float | None = None,
    last_sign_s: Callable[[], float | None] = never,
) -> T:
    """The result of a future, or what it raises, if it ends in time; it goes on otherwise.

    Args:
        future: what is waited for.
        seconds: how long, from the last sign of life on; None: as long as it takes.
        token: may cancel meanwhile.
        at_most_s: how long in all, whatever signs there are; None: no limit.
        last_sign_s: when the work last gave one, by ``time.monotonic``; None: none yet.

    Raises:
        CallTimeoutError: it did not end in time.
        TaskCancelledError: the token was cancelled meanwhile.
    """
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    began_s, sign_s = time.monotonic(), None
    while not future.done():
        left_s = _left_s(began_s, sign_s, seconds=seconds, at_most_s=at_most_s)
        if left_s is not None and left_s <= 0:
            break
        token.wait(ended, seconds=left_s)
        if not future.done():
            token.raise_if_cancelled()
            sign_s = last_sign_s()
    if future.done():
        return future.result()
    raise CallTimeoutError(_what_is_late(sign_s, seconds=seconds, at_most_s=at_most_s))


def _left_s(began_s: float, sign_s: float | None, *, seconds: float | None, at_most_s: float | None) -> float | None:
    """Seconds until a wait is over; None: it never is."""
    ends = [] if at_most_s is None else [began_s + at_most_s]
    ends += [] if seconds is None else [(began_s if sign_s is None else sign_s) + seconds]
    return min(ends) - time.monotonic() if ends else None


def _what_is_late(sign_s: float | None, *, seconds: float | None, at_most_s: float | None) -> str:
    if sign_s is None:
        return f"no answer within {min(limit for limit in (seconds, at_most_s) if limit is not None):.3g} s"
    if seconds is not None and time.monotonic() - sign_s >= seconds:
        return f"no more of the answer within {seconds:.3g} s, and it was not complete"
    return f"the answer was not complete within {at_most_s:.3g} s"


def in_thread(work: Callable[[], T], *, name: str) -> "Future[T]":
    """The work in a thread of its own: fifty at once are fifty threads, however few an executor would have."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            LOGGER.debug("%s ended with an error", name, exc_info=True)
            # What would end a process must not end that of whoever waits.
            ordinary = isinstance(error, Exception)
            future.set_exception(error if ordinary else RuntimeError(f"{type(error).__name__}: {error}"))

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
