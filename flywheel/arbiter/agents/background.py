"""Where agents work: event loops in threads of their own, and threads for what blocks.

Connections, timeouts and cancellation are asyncio's, for callers in threads and in event loops, and no thread waits for
each request.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Starts with its first coroutine and lives as long as the process; a forked child starts one of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns, for a caller in another event loop, with whom it is cancelled."""
        return await asyncio.wrap_future(self.start(work))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            return self._loop


REQUESTS = BackgroundLoop("flywheel-requests")
"""Where the package's own requests and subprocesses run. Nothing in it may block."""
FUNCTIONS = BackgroundLoop("flywheel-functions")
"""Where coroutine functions of a team's own run: one that blocks delays its like, and no request."""


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Begin something that blocks, in a thread of its own that does not keep the process from ending.

    It cannot be cancelled: who gives up waiting leaves it running.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it, SystemExit too
            future.set_exception(error)

    threading.Thread(target=run, name="flywheel-call", daemon=True).start()
    return future
