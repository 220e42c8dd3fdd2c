"""Slots: how many calls of an agent run at once in this process, and which wait, first come first served.

The one place where calls are counted and limited. Threads and asyncio tasks wait in one line. A waiter is a future that
a leaving call fulfils, so nobody polls and a waiter that is cancelled hands on a slot that it was given in the same
moment.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import msgspec

from flywheel.arbiter.routing.strategy import IDLE, Load, Loads


class LoadReport(Protocol):
    """Is told of the agents of this process whenever something changes, from any thread; so it must not wait."""

    def load(self, agent_id: str, load: Load) -> None:
        """What the agent is busy with here."""
        ...

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """The agent is not asked for so long; 0: it is."""
        ...

    def others(self) -> Mapping[str, Load]:
        """What agents are busy with in other processes; may ask the database."""
        ...


class Unreported:
    """For who does not share loads."""

    def load(self, agent_id: str, load: Load) -> None:
        """Tell nobody."""

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """Tell nobody."""

    def others(self) -> Mapping[str, Load]:
        """Nobody is known."""
        return {}


class _Lane:
    """One agent's calls. All fields are guarded by the lock of the slots."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.limit = 1
        self.calls = 0
        self.active = 0
        self.queued = 0
        self.waiting: deque[Place] = deque()

    @property
    def load(self) -> Load:
        return Load(active=self.active, queued=self.queued)


class Place:
    """A call's place in the line of an agent, which becomes its slot. Whoever has it leaves it, however the call ends.

    ``slot`` is done when the call may begin.
    """

    def __init__(self, slots: "Slots", lane: _Lane, tasks: int) -> None:
        self.slot: Future[None] = Future()
        self.lane, self.tasks = lane, tasks
        self.left = False
        self._slots = slots

    def wait(self, wait: Callable[[Future[None]], object] = Future.result) -> None:
        """Wait for the slot. Where ``wait`` raises, the place is left."""
        try:
            wait(self.slot)
        except BaseException:
            self.leave()
            raise

    async def wait_async(self) -> None:
        """The same for asyncio. Cancelled while it waits, it leaves."""
        try:
            await asyncio.wrap_future(self.slot)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Give the slot back, or leave the line; who was given a slot in the same moment hands it on. Twice is once."""
        self._slots.leave(self)


class Slots:
    """The slots of all agents of a process. Share one between everything that asks agents.

    ``deciding`` is a lock for who decides by loads: held until the choice has entered, so that the next one sees it.
    """

    def __init__(self, report: LoadReport | None = None) -> None:
        self.report: LoadReport = report or Unreported()
        self.deciding = threading.Lock()
        # Re-entrant: a coroutine that is collected while it waits leaves the line in whichever thread collects it.
        self._lock = threading.RLock()
        self._lanes: dict[str, _Lane] = {}
        self._resting_until: dict[str, float] = {}

    @contextmanager
    def hold(self, agent_id: str, *, limit: int, tasks: int = 1) -> Iterator[None]:
        """Hold a slot of an agent in this thread; waits for one. See ``enter``."""
        place = self.enter(agent_id, limit=limit, tasks=tasks)
        place.wait()
        try:
            yield
        finally:
            place.leave()

    @asynccontextmanager
    async def hold_async(self, agent_id: str, *, limit: int, tasks: int = 1) -> AsyncIterator[None]:
        """Hold a slot in an asyncio task; see ``hold``. Cancelled while it waits, it leaves the line."""
        place = self.enter(agent_id, limit=limit, tasks=tasks)
        await place.wait_async()
        try:
            yield
        finally:
            place.leave()

    def enter(self, agent_id: str, *, limit: int, tasks: int = 1) -> Place:
        """Enter the line of an agent.

        Args:
            agent_id: whose.
            limit: calls of this agent at once; the newest word counts.
            tasks: how many tasks the call is for, all of which count as load.
        """
        with self._lock:
            lane = self._lanes.setdefault(agent_id, _Lane(agent_id))
            place = Place(self, lane, tasks)
            lane.limit = limit
            lane.waiting.append(place)
            lane.queued += tasks
            self._admit(lane)
            self.report.load(agent_id, lane.load)
        return place

    def leave(self, place: Place) -> None:
        """See ``Place.leave``."""
        with self._lock:
            if place.left:
                return
            place.left, lane = True, place.lane
            if place in lane.waiting:
                lane.waiting.remove(place)
                lane.queued -= place.tasks
            else:
                lane.calls -= 1
                lane.active -= place.tasks
                self._admit(lane)
            self.report.load(lane.agent_id, lane.load)

    def unavailable(self, agent_id: str, seconds: float, because: str) -> None:
        """An agent is not asked in this process for so long; 0: it is."""
        with self._lock:
            self._resting_until[agent_id] = time.monotonic() + seconds
        self.report.unavailable(agent_id, seconds, because)

    def loads(self) -> dict[str, Load]:
        """What the agents of this process are busy with; the idle ones are absent."""
        with self._lock:
            return {agent_id: lane.load for agent_id, lane in self._lanes.items() if lane.load != IDLE}

    def all_loads(self) -> Loads:
        """What agents are busy with in all processes that are known of, and whom this one leaves alone.

        That is what routing goes by.
        """
        found = dict(self.report.others())
        for agent_id, here in self.loads().items():
            there = found.get(agent_id, IDLE)
            found[agent_id] = Load(active=here.active + there.active, queued=here.queued + there.queued)
        now = time.monotonic()
        with self._lock:
            resting = [agent_id for agent_id, until in self._resting_until.items() if until > now]
        return found | {
            agent_id: msgspec.structs.replace(found.get(agent_id, IDLE), resting=True) for agent_id in resting
        }

    @staticmethod
    def _admit(lane: _Lane) -> None:
        while lane.waiting and lane.calls < lane.limit:
            place = lane.waiting.popleft()
            lane.calls += 1
            lane.active += place.tasks
            lane.queued -= place.tasks
            # A waiter that is cancelled meanwhile finds itself out of the line, and hands the slot on.
            if place.slot.set_running_or_notify_cancel():
                place.slot.set_result(None)
