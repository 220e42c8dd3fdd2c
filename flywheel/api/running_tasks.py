"""The tasks that this process runs for clients: bounded, followed by any number of them, outliving their requests."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Request

from flywheel.api.settings import ACCOUNTING_S, ServiceSettings
from flywheel.arbiter.arbiter import Arbiter
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.running.streaming import TextDelta, Watch
from flywheel.arbiter.task import Task, TaskResult
from flywheel.errors import RetryLaterError
from flywheel.records import RoutingDecision

LOGGER = logging.getLogger(__name__)
STOPPED = "the service was stopped"
GONE = "its client went away"

Event = RoutingDecision | TextDelta


class CrowdedError(RetryLaterError):
    """Raised when as many tasks run as may. Send the task again after ``wait_s`` seconds."""


class RunningTask:
    """A task on its way, and all that was heard of it. Of the event loop it was begun in."""

    def __init__(self, arbiter: Arbiter, task: Task, *, followed: bool, irrevocable: bool) -> None:
        self.token = CancelToken()
        self._accepted = asyncio.Event()
        self._events: list[Event] = []
        self._news = asyncio.Event()
        self.ended = asyncio.create_task(self._run(arbiter, task, followed=followed, irrevocable=irrevocable))

    async def _run(self, arbiter: Arbiter, task: Task, *, followed: bool, irrevocable: bool) -> TaskResult:
        try:
            watch = Watch(
                on_text=self._hear if followed else None,
                on_decision=self._hear,
                on_accepted=self._accepted.set,
                irrevocable=irrevocable,
            )
            return await arbiter.aexecute_task(task, token=self.token, watch=watch)
        finally:
            self._news.set()

    def _hear(self, event: Event) -> None:
        self._events.append(event)
        self._news.set()

    async def accepted(self) -> None:
        """Return when the id is known to be this task's.

        Raises:
            FlywheelError: the task cannot be run.
        """
        waiting = asyncio.create_task(self._accepted.wait())
        try:
            await asyncio.wait([self.ended, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._accepted.is_set():
            await asyncio.shield(self.ended)

    async def result(self, *, seconds: float | None = None) -> TaskResult | None:
        """The result; None where it has not come within so many seconds.

        Raises:
            FlywheelError: the task could not be run.
        """
        done, _ = await asyncio.wait([self.ended], timeout=seconds)
        return self.ended.result() if done else None

    async def events(self, *, every_s: float) -> AsyncIterator[Event | None]:
        """What was heard of the task from its beginning on, until it has ended; None where nothing is for so long."""
        told = 0
        while True:
            while told < len(self._events):
                yield self._events[told]
                told += 1
            if self.ended.done():
                return
            self._news.clear()  # nothing was told since it was looked at; whoever else waits is woken by the next
            try:
                async with asyncio.timeout(every_s):
                    await self._news.wait()
            except TimeoutError:
                yield None


def left(running: RunningTask, *, has_name: bool) -> None:
    """The client went away: a task that nobody can ask for any more is cancelled, unless it has ended."""
    if not has_name:
        running.token.cancel(GONE)


@asynccontextmanager
async def leaving(request: Request, do: Callable[[], None]) -> AsyncIterator[None]:
    """Do something where the client goes away within."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        do()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


class RunningTasks:
    """All of them. Nothing is begun once it is drained."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._running: dict[tuple[str, str], RunningTask] = {}
        self._all: set[asyncio.Task[TaskResult]] = set()
        self._of_tenant: Counter[str] = Counter()
        self._tokens: set[CancelToken] = set()
        self._stopped = False

    def start(
        self, arbiter: Arbiter, tenant_id: str, task: Task, *, followed: bool = True, irrevocable: bool = False
    ) -> RunningTask:
        """Begin a task. It goes on whatever becomes of the request that it came with.

        Args:
            arbiter: of the tenant.
            tenant_id: whose task it is.
            task: which.
            followed: whether pieces of its answer are wanted on their way.
            irrevocable: whether these cannot be taken back; see ``Watch``.

        Raises:
            CrowdedError: as many run as may.
        """
        self._refuse_crowd(tenant_id)
        running = RunningTask(arbiter, task, followed=followed, irrevocable=irrevocable)
        key = (tenant_id, task.id)
        self._running.setdefault(key, running)  # whoever sends it again while it runs has heard nothing of it
        self._all.add(running.ended)
        self._tokens.add(running.token)
        self._of_tenant[tenant_id] += 1

        def forget(ended: asyncio.Task[TaskResult]) -> None:
            self._all.discard(ended)
            self._tokens.discard(running.token)
            self._of_tenant -= Counter((tenant_id,))
            if self._running.get(key) is running:
                del self._running[key]
            if not ended.cancelled() and (error := ended.exception()) is not None:
                LOGGER.info("task %s of %s was not run: %s", task.id, tenant_id, error)

        running.ended.add_done_callback(forget)
        return running

    def find(self, tenant_id: str, task_id: str) -> RunningTask | None:
        """The task, if this process runs it."""
        return self._running.get((tenant_id, task_id))

    async def drain(self) -> None:
        """Let running tasks end for a while, then cancel them and wait until they are accounted for."""
        self._stopped = True
        if self._all:
            await asyncio.wait(self._all, timeout=self._settings.drain_s)
        for token in tuple(self._tokens):
            token.cancel(STOPPED)
        if self._all:
            _, left = await asyncio.wait(self._all, timeout=ACCOUNTING_S)
            if left:
                LOGGER.warning("%d cancelled tasks were not accounted for within %g s", len(left), ACCOUNTING_S)

    def _refuse_crowd(self, tenant_id: str) -> None:
        if self._stopped:
            raise CrowdedError("the service is being stopped; send it again in a moment")
        if len(self._all) >= self._settings.max_tasks:
            raise CrowdedError(f"{len(self._all)} tasks run, which is all that may; send it again in a moment")
        if self._of_tenant[tenant_id] >= self._settings.max_tasks_of_tenant:
            raise CrowdedError(
                f"{self._of_tenant[tenant_id]} tasks of yours run, which is all that may; send it again in a moment"
            )
