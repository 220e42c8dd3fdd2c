"""Concurrency limits: how many calls of an agent run at once in this process, and which wait, first come first served.

Threads and asyncio tasks wait in one line. A waiter is a future that a leaving call fulfils, so nobody polls and a
waiter that gives up, or is cancelled, hands on a slot that it was given in the same moment.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeout
from contextlib import asynccontextmanager, contextmanager

from flywheel.arbiter.routing.strategy import IDLE, Load
from flywheel.errors import AgentError

Report = Callable[[str, Load], None]
"""Called with an agent's id and its load in this process whenever it changes; from any thread, so it must not wait."""


def report_nothing(agent_id: str, load: Load) -> None:
    """For who does not share loads."""


class SlotTimeoutError(AgentError):
    """Raised when no slot of an agent became free in time. The message names its limit."""


class _Lane:
    """One agent's calls. All fields are guarded by the lock of the slots."""

    def __init__(self) -> None:
        self.limit = 1
        self.calls = 0
        self.active = 0
        self.queued = 0
        self.waiting: deque[tuple[Future[None], int]] = deque()

    @property
    def load(self) -> Load:
        return Load(active=self.active, queued=self.queued)


class Slots:
    """The slots of all agents of a process. Share one between everything that asks agents."""

    def __init__(self, report: Report = report_nothing) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    @contextmanager
    def hold(self, agent_id: str, *, limit: int, tasks: int = 1, timeout_s: float | None = None) -> Iterator[None]:
        """Hold a slot of an agent in this thread; waits for one.

        Args:
            agent_id: whose.
            limit: calls of this agent at once; the newest word counts.
            tasks: how many tasks the call is for, all of which count as load.
            timeout_s: longest wait; None: for ever.

        Raises:
            SlotTimeoutError: no slot became free in time.
        """
        slot = self._enter(agent_id, limit, tasks)
        try:
            slot.result(timeout_s)
        except BaseException as error:
            self._give_up(agent_id, slot, tasks)
            if isinstance(error, WaitTimeout):
                raise _crowded(agent_id, limit, timeout_s) from None
            raise
        try:
            yield
        finally:
            self._leave(agent_id, tasks)

    @asynccontextmanager
    async def hold_async(
        self, agent_id: str, *, limit: int, tasks: int = 1, timeout_s: float | None = None
    ) -> AsyncIterator[None]:
        """Hold a slot in an asyncio task; see ``hold``. Cancelled while it waits, it leaves the line."""
        slot = self._enter(agent_id, limit, tasks)
        try:
            await asyncio.wait_for(asyncio.wrap_future(slot), timeout_s)
        except BaseException as error:
            self._give_up(agent_id, slot, tasks)
            if isinstance(error, TimeoutError):
                raise _crowded(agent_id, limit, timeout_s) from None
            raise
        try:
            yield
        finally:
            self._leave(agent_id, tasks)

    def loads(self) -> dict[str, Load]:
        """What the agents of this process are busy with; the idle ones are absent."""
        with self._lock:
            return {agent_id: lane.load for agent_id, lane in self._lanes.items() if lane.load != IDLE}

    def load(self, agent_id: str) -> Load:
        """What one agent is busy with in this process."""
        return self.loads().get(agent_id, IDLE)

    def _enter(self, agent_id: str, limit: int, tasks: int) -> Future[None]:
        slot: Future[None] = Future()
        with self._lock:
            lane = self._lanes.setdefault(agent_id, _Lane())
            lane.limit = limit
            lane.waiting.append((slot, tasks))
            lane.queued += tasks
            self._admit(lane)
            self._report(agent_id, lane.load)
        return slot

    def _leave(self, agent_id: str, tasks: int) -> None:
        with self._lock:
            lane = self._lanes[agent_id]
            lane.calls -= 1
            lane.active -= tasks
            self._admit(lane)
            self._report(agent_id, lane.load)

    def _give_up(self, agent_id: str, slot: Future[None], tasks: int) -> None:
        """Leave the line; who was given a slot in the same moment hands it on."""
        with self._lock:
            lane = self._lanes[agent_id]
            position = next((n for n, (waiting, _) in enumerate(lane.waiting) if waiting is slot), None)
            if position is not None:
                del lane.waiting[position]
                lane.queued -= tasks
                self._report(agent_id, lane.load)
                return
        self._leave(agent_id, tasks)

    @staticmethod
    def _admit(lane: _Lane) -> None:
        while lane.waiting and lane.calls < lane.limit:
            slot, tasks = lane.waiting.popleft()
            lane.calls += 1
            lane.active += tasks
            lane.queued -= tasks
            # A waiter that is cancelled meanwhile finds itself out of the line, and hands the slot on.
            if slot.set_running_or_notify_cancel():
                slot.set_result(None)


def _crowded(agent_id: str, limit: int, timeout_s: float | None) -> SlotTimeoutError:
    return SlotTimeoutError(f"{agent_id} worked on {limit} calls, its limit, for all of {timeout_s:g} s")
