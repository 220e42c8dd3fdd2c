"""An agent with its limits: whoever asks it waits for a slot, counts as load, and cannot ask too much at once."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from queue import SimpleQueue

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
    ignore_progress,
    send_whole,
)
from flywheel.arbiter.profiles import AgentProfile
from flywheel.tasks.source import AgentTask


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

    def stream(self, task: AgentTask, *, to: Pieces) -> Answer:
        """The answer to one task, its pieces passed on as they come where the agent streams, else at its end.

        When nobody waits any more the request, coroutine or program is given up; a batch cannot be.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if not isinstance(self.agent, SingleTaskAgent):
            [answer] = self.answer([task])
            send_whole(answer, to)
            return answer
        relay = _Relay(to)
        call = REQUESTS.start(self._ask(self.agent, task, relay))
        to.when_closed(call.cancel)
        relay.run(call)
        answer = call.result()
        if not isinstance(self.agent, OpenAICompatibleAgent):
            send_whole(answer, to)
        return answer

    async def answer_async(self, task: AgentTask) -> Answer:
        """The answer to one task, for callers in an event loop. Cancelled, it gives up and hands its slot on.

        An agent that answers batches works in a thread, which nobody can stop: it keeps its slot until it has ended.

        Raises:
            AgentError: the agent cannot answer anything.
        """
        if isinstance(self.agent, SingleTaskAgent):
            return await REQUESTS.run(self._ask(self.agent, task))
        await self._slots.acquire_async(self._id, limit=self._limit)
        try:
            call = in_thread(partial(self.agent.answer, [task]))
        except RuntimeError:  # no more threads
            self._slots.release(self._id)
            raise
        call.add_done_callback(lambda _: self._slots.release(self._id))
        [answer] = await asyncio.wrap_future(call)
        return answer

    async def _ask(self, agent: SingleTaskAgent, task: AgentTask, to: Pieces | None = None) -> Answer:
        async with self._slots.hold_async(self._id, limit=self._limit):
            if not isinstance(agent, OpenAICompatibleAgent):
                return await agent.ask(task)
            answer = await agent.ask(task, to=to)
        self._slots.report.unavailable(self._id, agent.rest_s, agent.rests_because)
        return answer


class _Relay:
    """Takes pieces from the loop of requests to the thread that waits for the answer: what takes them may be slow."""

    def __init__(self, to: Pieces) -> None:
        self._to = to
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()

    @property
    def wanted(self) -> bool:
        """Whether anybody takes pieces."""
        return self._to.wanted

    def send(self, piece: Piece) -> None:
        """Pass a piece on."""
        self._pieces.put(piece)

    def when_closed(self, do: Callable[[], object]) -> None:
        """Have this done when nobody waits any more."""
        self._to.when_closed(do)

    def run(self, call: Future[Answer]) -> None:
        """Pass on what comes until the call has ended."""
        call.add_done_callback(lambda _: self._pieces.put(None))
        while (piece := self._pieces.get()) is not None:
            self._to.send(piece)


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
