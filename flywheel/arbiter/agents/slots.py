"""Concurrency limits: how many calls of an agent run at once in this process, and which wait, first come first served.

Threads and asyncio tasks wait in one line. A waiter is a future that a leaving call fulfils, so nobody polls and a
waiter that is cancelled hands on a slot that it was given in the same moment.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from flywheel.arbiter.routing.strategy import IDLE, Load


class LoadReport(Protocol):
    """Is told of the agents of this process whenever something changes, from any thread; so it must not wait."""

    def load(self, agent_id: str, load: Load) -> None:
        """What the agent is busy with here."""
        ...

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """The agent is not asked for so long; 0: it is."""
        ...


class Unreported:
    """For who does not share loads."""

    def load(self, agent_id: str, load: Load) -> None:
        """Tell nobody."""

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """Tell nobody."""


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

    def __init__(self, report: LoadReport | None = None) -> None:
        self.report: LoadReport = report or Unreported()
        # Re-entrant: a coroutine that is collected while it waits leaves the line in whichever thread collects it.
        self._lock = threading.RLock()
        self._lanes: dict[str, _Lane] = {}

    @contextmanager
    def hold(self, agent_id: str, *, limit: int, tasks: int = 1) -> Iterator[None]:
        """Hold a slot of an agent in this thread; waits for one.

        Args:
            agent_id: whose.
            limit: calls of this agent at once; the newest word counts.
            tasks: how many tasks the call is for, all of which count as load.
        """
        slot = self._enter(agent_id, limit, tasks)
        try:
            slot.result()
        except BaseException:
            self._give_up(agent_id, slot, tasks)
            raise
        try:
            yield
        finally:
            self.release(agent_id, tasks)

    @asynccontextmanager
    async def hold_async(self, agent_id: str, *, limit: int, tasks: int = 1) -> AsyncIterator[None]:
        """Hold a slot in an asyncio task; see ``hold``. Cancelled while it waits, it leaves the line."""
        await self.acquire_async(agent_id, limit=limit, tasks=tasks)
        try:
            yield
        finally:
            self.release(agent_id, tasks)

    async def acquire_async(self, agent_id: str, *, limit: int, tasks: int = 1) -> None:
        """Take a slot that somebody else releases: for work that outlives the asyncio task that began it."""
        slot = self._enter(agent_id, limit, tasks)
        try:
            await asyncio.wrap_future(slot)
        except BaseException:
            self._give_up(agent_id, slot, tasks)
            raise

    def release(self, agent_id: str, tasks: int = 1) -> None:
        """Give back a slot that was acquired for so many tasks."""
        with self._lock:
            lane = self._lanes[agent_id]
            lane.calls -= 1
            lane.active -= tasks
            self._admit(lane)
            self.report.load(agent_id, lane.load)

    def loads(self) -> dict[str, Load]:
        """What the agents of this process are busy with; the idle ones are absent."""
        with self._lock:
            return {agent_id: lane.load for agent_id, lane in self._lanes.items() if lane.load != IDLE}

    def _enter(self, agent_id: str, limit: int, tasks: int) -> Future[None]:
        slot: Future[None] = Future()
        with self._lock:
            lane = self._lanes.setdefault(agent_id, _Lane())
            lane.limit = limit
            lane.waiting.append((slot, tasks))
            lane.queued += tasks
            self._admit(lane)
            self.report.load(agent_id, lane.load)
        return slot

    def _give_up(self, agent_id: str, slot: Future[None], tasks: int) -> None:
        """Leave the line; who was given a slot in the same moment hands it on."""
        with self._lock:
            lane = self._lanes[agent_id]
            position = next((n for n, (waiting, _) in enumerate(lane.waiting) if waiting is slot), None)
            if position is None:
                self.release(agent_id, tasks)
                return
            del lane.waiting[position]
            lane.queued -= tasks
            self.report.load(agent_id, lane.load)

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
