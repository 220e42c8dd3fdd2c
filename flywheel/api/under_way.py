"""Tasks that run for clients of this process, so that none is lost when the process ends."""

import asyncio
import logging

from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.task import TaskResult

LOGGER = logging.getLogger(__name__)
ENDS = "the service ends"
PATIENCE_S = 10.0
"""How long tasks that are cancelled have to be accounted for when the service ends."""


class UnderWay:
    """The tasks under way, in one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[TaskResult], CancelToken] = {}

    def add(self, work: "asyncio.Task[TaskResult]", token: CancelToken) -> None:
        """Remember a task until it ends."""
        self._tasks[work] = token
        work.add_done_callback(self._ended)

    async def close(self, *, patience_s: float = PATIENCE_S) -> None:
        """Cancel what still runs, and wait until it is logged."""
        for token in self._tasks.values():
            token.cancel(ENDS)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=patience_s)
            if late:
                LOGGER.warning("%d tasks did not end within %g s of being cancelled", len(late), patience_s)

    def _ended(self, work: "asyncio.Task[TaskResult]") -> None:
        del self._tasks[work]
        if not work.cancelled() and (error := work.exception()) is not None:
            LOGGER.info("a task ended without a result: %s", error)
