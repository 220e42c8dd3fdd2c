"""An agent with its limits: whoever asks it waits for a slot, counts as load, and cannot ask too much at once."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from flywheel.arbiter.agents.background import REQUESTS, in_thread
from flywheel.arbiter.agents.openai_compatible import OpenAICompatibleAgent
from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import (
    Agent,
    Answer,
    Piece,
    Pieces,
    Progress,
    SingleTaskAgent,
    StreamingAgent,
    ignore_progress,
    send_whole,
)
from flywheel.arbiter.profiles import AgentProfile
from flywheel.errors import AgentError
from flywheel.tasks.source import AgentTask

T = TypeVar("T")


class Calls:
    """What an agent has begun in the background for one call; given up, it is cancelled, also if it begins later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: list[Future[Any]] = []
        self._given_up = False

    def add(self, future: Future[T]) -> Future[T]:
        """The future, which is cancelled with the call."""
        with self._lock:
            self._futures.append(future)
            given_up = self._given_up
        if given_up:
            future.cancel()
        return future

    def give_up(self) -> None:
        """Cancel what goes on, and whatever begins from now on. What has ended stays as it is."""
        with self._lock:
            self._given_up = True
            futures = tuple(self._futures)
        for future in futures:
            future.cancel()


class RunningAgent:
    """Asks the agent of a profile, at most ``max_concurrent`` calls at once in this process.

    A call is one task of an agent that is asked for single tasks, and a whole batch of one that answers batches. For
    several threads and event loops at once.
    """

    def __init__(self, agent: Agent | SingleTaskAgent, profile: AgentProfile, slots: Slots) -> None:
        """The agent of a profile; ``slots`` are those of the process."""
        self.agent = agent
        self._id = profile.id
        self._limit = profile.max_concurrent
        self._slots = slots

    def answer(self, tasks: Sequence[AgentTask], *, on_progress: Progress = ignore_progress) -> list[Answer]:
        """One answer per task, in their order; waits for slots. Interrupted, it gives up what is under way.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if isinstance(self.agent, SingleTaskAgent):
            return _gathered([REQUESTS.start(self._ask(self.agent, task)) for task in tasks], on_progress)
        with self._slots.hold(self._id, limit=self._limit, tasks=len(tasks)):
            return self.agent.answer(tasks, on_progress=on_progress)

    async def answer_async(self, task: AgentTask) -> Answer:
        """The answer to one task, for callers in an event loop. Cancelled, it gives up and hands its slot on.

        An agent that answers batches works in a thread, which nobody can stop: it keeps its slot until it has ended.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if isinstance(self.agent, SingleTaskAgent):
            return await REQUESTS.run(self._ask(self.agent, task))
        place = self._slots.enter(self._id, limit=self._limit)
        await place.wait_async()
        try:
            call = in_thread(partial(self.agent.answer, [task]))
        except RuntimeError:  # no more threads
            place.leave()
            raise
        call.add_done_callback(lambda _: place.leave())
        [answer] = await asyncio.wrap_future(call)
        return answer

    def answer_in_slot(self, task: AgentTask, *, to: Pieces, calls: Calls) -> Answer:
        """The answer to one task in a slot that the caller holds; blocks. See ``Calls`` for how it is given up.

        Its pieces are passed on, on their way where the agent can do that.

        Raises:
            AgentError: the agent cannot answer, or gives more or fewer answers than one.
            CancelledError: it was given up.
        """
        relay = _Relay(to)
        if isinstance(self.agent, StreamingAgent):
            return relay.answer_of(in_thread(partial(self.agent.stream, task, to=relay)))
        if isinstance(self.agent, SingleTaskAgent):
            asking = self._ask_in_slot(self.agent, task, relay if to.wanted else None)
            answer = relay.answer_of(calls.add(REQUESTS.start(asking)))
            if isinstance(self.agent, OpenAICompatibleAgent):
                return answer
        else:
            answers = self.agent.answer([task])
            if len(answers) != 1:
                raise AgentError(f"the agent gave {len(answers)} answers to one task")
            [answer] = answers
        send_whole(answer, to)
        return answer

    async def _ask_in_slot(self, agent: SingleTaskAgent, task: AgentTask, to: Pieces | None = None) -> Answer:
        if not isinstance(agent, OpenAICompatibleAgent):
            return await agent.ask(task)
        try:
            return await agent.ask(task, to=to)
        finally:  # also where it was given up, which may have been one failure too many
            self._slots.unavailable(self._id, agent.rest_s, agent.rests_because)

    async def _ask(self, agent: SingleTaskAgent, task: AgentTask) -> Answer:
        async with self._slots.hold_async(self._id, limit=self._limit):
            return await self._ask_in_slot(agent, task)


class _Relay:
    """Takes pieces from who writes an answer to the thread that waits for it.

    What takes them may be slow, and holds up neither a loop of requests nor a model that others wait for.
    """

    def __init__(self, to: Pieces) -> None:
        self._to = to
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()

    @property
    def wanted(self) -> bool:
        """Whether anybody takes pieces."""
        return self._to.wanted

    @property
    def is_open(self) -> bool:
        """Whether the answer is waited for still."""
        return self._to.is_open

    def send(self, piece: Piece) -> None:
        """Pass a piece on."""
        self._pieces.put(piece)

    def answer_of(self, call: Future[Answer]) -> Answer:
        """What the call answers; what comes until then is passed on."""
        call.add_done_callback(lambda _: self._pieces.put(None))
        while (piece := self._pieces.get()) is not None:
            self._to.send(piece)
        return call.result()


def _gathered(calls: Sequence[Future[Answer]], on_progress: Progress) -> list[Answer]:
    """What the calls answered; where one raises, or the caller is interrupted, the others are cancelled."""
    waiting = set(calls)
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for call in done:
                call.result()
            on_progress(len(calls) - len(waiting), len(calls))
        return [call.result() for call in calls]
    finally:
        for call in waiting:
            call.cancel()


def limited(agent: Agent, profile: AgentProfile, slots: Slots) -> RunningAgent:
    """The agent with its limits, where it has none yet."""
    return agent if isinstance(agent, RunningAgent) else RunningAgent(agent, profile, slots)
